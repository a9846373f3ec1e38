"""Users who log in with a name and a password: where they are looked up, a file of them, and the limit of their attempts.

A subclass of :class:`Users` asks a database or a directory. :class:`PasswordFile` needs neither. Its lines are
``name:scrypt$n$r$p$salt$hash``, or ``name:scrypt$n$r$p$salt$hash:scope scope``; a line that begins with ``#`` is a comment.
``python -m mcplite users`` writes it.

Two things keep passwords from being guessed. Each check costs as much for a name that does not exist as for one that does, so
that its time does not show which names exist. And :class:`PasswordLimit` counts attempts in the backend, for all workers
together: by address, by name and address, and by name.
"""

import hashlib
import hmac
import json
import os
import stat
import threading
import time
import unicodedata
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from ...backend.interface import Backend
from ...errors import BackendError
from ...protocol.error_text import quoted
from ...protocol.opaque import base64url_decode, base64url_encode
from ...rpc.deadline import undo
from ...rpc.tracing import get_logger
from ...server.principals import all_scopes, checked_scopes

__all__ = ["PasswordFile", "PasswordLimit", "TooManyAttempts", "User", "Users", "allowed_scopes", "change_user",
           "check_password", "hash_password", "remove_user", "user_from", "user_members"]

_log = get_logger(__name__)


@dataclass(frozen=True)
class User:
    """A user who has logged in.

    :param subject: a stable identifier, the ``subject`` of the principal.
    :param name: the name that is shown to people; by default the subject.
    :param email: empty if it is not known.
    :param groups: the groups or roles that a directory or a provider names.
    :param scopes: the scopes that this user may grant; None for all that the server has.
    :param claims: other facts, for handlers; JSON values, not shown by ``repr``.
    :param version: a text that changes, for example, with the password; a change ends the logins of browsers. Empty for none.
    :raises ValueError: the subject is empty.
    """

    subject: str
    name: str = ""
    email: str = ""
    groups: Tuple[str, ...] = ()
    scopes: Optional[FrozenSet[str]] = None
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    version: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.subject, str) or not self.subject:
            raise ValueError("a user needs a subject: a string that is not empty, and stays when the name changes")

    @property
    def shown_name(self) -> str:
        """The name that pages show."""
        return self.name or self.subject


def allowed_scopes(scopes: Iterable[str], user: Optional[User], implies: Mapping[str, Iterable[str]]) -> List[str]:
    """Return those of some scopes that a user may grant, also by a scope that includes them; all if no user is known."""
    if user is None or user.scopes is None:
        return list(scopes)
    allowed = all_scopes(user.scopes, implies)
    return [scope for scope in scopes if scope in allowed]


def user_members(user: User) -> Dict[str, Any]:
    """Return what is stored of a user, as JSON values."""
    return {"subject": user.subject, "name": user.name, "email": user.email, "groups": list(user.groups),
            "scopes": None if user.scopes is None else sorted(user.scopes), "claims": dict(user.claims),
            "version": user.version}


def user_from(members: Mapping[str, Any]) -> User:
    """Return the user that was stored by :func:`user_members`."""
    scopes = members.get("scopes")
    return User(members["subject"], members.get("name", ""), members.get("email", ""), tuple(members.get("groups", ())),
                None if scopes is None else frozenset(scopes), dict(members.get("claims", {})), members.get("version", ""))


class Users:
    """Looks up users and checks their passwords; the base of users of your own.

    Both methods are called from any thread, several at once. An ``OSError`` means that users cannot be looked up at present:
    the login page says so with status 503. A refresh of a token is refused then, but the grant does not end.
    """

    def check(self, name: str, password: str) -> Optional[User]:
        """Return the user with this name and password; None if there is none.

        The check shall cost as much for an unknown name as for a known one, as :func:`check_password` does it.
        """
        raise NotImplementedError

    def find(self, subject: str) -> Optional[User]:
        """Return a user by the subject, with the present scopes; None if there is none any more.

        Called at each refresh of a token, and for the pages of a browser that has logged in. If it returns None at a refresh,
        the grant ends.
        """
        raise NotImplementedError


# --- passwords ------------------------------------------------------------------------------------------------

#: The cost of new hashes: 16 MiB of memory, and five passes (OWASP's table of equal strength for scrypt).
_N, _R, _P = 1 << 14, 8, 5
#: The most that the parameters of a line may cost: the bytes of one check, and its passes.
_MOST_MEMORY, _MOST_PASSES = 256 << 20, 16
#: The bytes of a salt and of a hash, and those of a password.
_SALT, _HASH, _LONGEST_PASSWORD = 16, 32, 1024
#: Characters of a name.
_LONGEST_NAME = 128
#: The most checks that run at once, and the most seconds that a further check waits.
_MOST_CHECKS, _TURN_SECONDS = 4, 10.0


class _PasswordHash(NamedTuple):
    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    def of(self, password: str) -> bytes:
        """Return the digest of a password by these parameters."""
        data = unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
        # OpenSSL counts some bytes besides those of the formula.
        return hashlib.scrypt(data, salt=self.salt, n=self.n, r=self.r, p=self.p, dklen=len(self.digest),
                              maxmem=128 * self.r * (self.n + self.p + 2) + (1 << 20))

    def fits(self, password: str) -> bool:
        """Return whether this is the hash of a password; the work is equal for all passwords of all lengths."""
        short = len(password.encode("utf-8", "surrogatepass")) <= _LONGEST_PASSWORD
        return hmac.compare_digest(self.of(password if short else "-"), self.digest) and short

    def __str__(self) -> str:
        return f"scrypt${self.n}${self.r}${self.p}${base64url_encode(self.salt)}${base64url_encode(self.digest)}"


#: Used in place of the hash of a user who does not exist.
_UNKNOWN = _PasswordHash(_N, _R, _P, bytes(_SALT), bytes(_HASH))


def hash_password(password: str) -> str:
    """Return a password's salted hash, as it stands in a password file: ``scrypt$n$r$p$salt$hash``.

    :param password: of at most 1024 bytes in UTF-8.
    :raises ValueError: it is empty or longer.
    """
    size = len(password.encode("utf-8", "surrogatepass"))
    if not 0 < size <= _LONGEST_PASSWORD:
        raise ValueError(f"a password has 1 to {_LONGEST_PASSWORD} bytes, not {size}")
    empty = _PasswordHash(_N, _R, _P, os.urandom(_SALT), bytes(_HASH))
    return str(empty._replace(digest=empty.of(password)))


def _parse_hash(text: str) -> _PasswordHash:
    """Return the hash that a text of a line describes.

    :raises ValueError: the text is no valid hash, or its check would cost too much; the error does not quote the text.
    """
    kind, *parts = text.split("$")
    if kind != "scrypt" or len(parts) != 5:
        raise ValueError("behind the name must be scrypt$n$r$p$salt$hash; set the password again")
    try:
        n, r, p = (int(number) for number in parts[:3])
        salt, digest = (base64url_decode(part) for part in parts[3:])
    except ValueError:
        raise ValueError("n, r and p of its hash must be numbers, salt and hash base64url; set the password again") from None
    if n < 2 or n & (n - 1) or r < 1 or p < 1 or 128 * r * (n + p) > _MOST_MEMORY or p > _MOST_PASSES:
        raise ValueError(f"n of its hash must be a power of 2, its check must take at most {_MOST_MEMORY >> 20} MiB,"
                         f" and p must be at most {_MOST_PASSES}")
    if len(salt) < 8 or not 16 <= len(digest) <= 64:
        raise ValueError("its salt must have at least 8 bytes, and its hash 16 to 64; set the password again")
    return _PasswordHash(n, r, p, salt, digest)


def check_password(password: str, hash: Optional[str]) -> bool:
    """Return whether a hash, as :func:`hash_password` returns it, is of a password.

    :param hash: None for a user who does not exist: then False is returned, after as much work.
    :raises ValueError: the hash is malformed; the text quotes nothing of it.
    """
    known = _UNKNOWN if hash is None else _parse_hash(hash)
    return known.fits(password) and hash is not None


# --- the file ---------------------------------------------------------------------------------------------------

class _FileUser(NamedTuple):
    user: User
    hash: _PasswordHash


def _checked_name(name: str) -> str:
    """Return a name in the form that is stored and compared (NFC).

    :raises ValueError: it cannot stand in a line.
    """
    normal = unicodedata.normalize("NFC", name)
    if not 0 < len(normal) <= _LONGEST_NAME:
        raise ValueError(f"a name has 1 to {_LONGEST_NAME} characters, not {len(normal)}")
    if ":" in normal or normal.startswith("#") or normal != normal.strip() or not normal.isprintable():
        raise ValueError(f"{quoted(name)} cannot be a name: it has no colon, no control characters, no blank at its ends, and"
                         " no # at its beginning")
    return normal


def _parse_line(line: str) -> Optional[_FileUser]:
    """Return the entry of a line; None for a comment and a blank line.

    :raises ValueError: it is malformed; the text quotes no part of a hash.
    """
    if not line.strip() or line.startswith("#"):
        return None
    name, colon, rest = line.partition(":")
    if not colon:
        raise ValueError("there is no colon; a line is name:scrypt$n$r$p$salt$hash, or that with :scopes")
    name = _checked_name(name)
    hash, colon, scopes = rest.rstrip().partition(":")
    version = hashlib.sha256(hash.encode("utf-8")).hexdigest()[:16]
    granted = frozenset(checked_scopes(scopes, "its scopes")) if colon else None
    return _FileUser(User(name, scopes=granted, version=version), _parse_hash(hash))


def _read(path: str) -> Tuple[Tuple[int, ...], List[str]]:
    """Return the version of a file, and its lines.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not UTF-8, or users other than its owner may write into it.
    """
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        data = file.read()
    if os.name == "posix" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"other users than its owner can write into {path}, and add users to it; run: chmod go-w {path}")
    try:
        return _version(status), data.decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: it is not UTF-8; write the file in that encoding") from None


def _version(status: os.stat_result) -> Tuple[int, ...]:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _parse(path: str, lines: Iterable[str], wrong: Callable[[str], object]) -> Dict[str, _FileUser]:
    """Return the entries of a file by their names.

    :param wrong: called with a text that says what is wrong with a line; if it returns, the line is left out.
    """
    entries: Dict[str, _FileUser] = {}
    for number, line in enumerate(lines, 1):
        try:
            entry = _parse_line(line)
            if entry is None:
                continue
            if entry.user.subject in entries:
                raise ValueError(f"the name {quoted(entry.user.subject)} stands in an earlier line, too; remove one of them")
            entries[entry.user.subject] = entry
        except ValueError as error:
            wrong(f"{path}, line {number}: {error}")
    return entries


class PasswordFile(Users):
    """The users of a file, with their hashed passwords and the scopes that each may grant.

    ``python -m mcplite users add users.txt ann`` adds a user. If the file has changed, it is read again; then a malformed line
    is only logged, and its user cannot log in.

    :param path: of the file, in UTF-8.
    :raises ValueError: it cannot be read, or a line is malformed; the text names the line.
    """

    def __init__(self, path: "Union[str, os.PathLike[str]]") -> None:
        self.path = os.fspath(path)
        #: Bounds the memory and the processors that checks take at once; held during a check.
        self._turns = threading.BoundedSemaphore(_MOST_CHECKS)
        self._process = os.getpid()
        try:
            version, lines = _read(self.path)
        except OSError as error:
            add = f"; python -m mcplite users add {self.path} NAME makes it" if isinstance(error, FileNotFoundError) else ""
            raise ValueError(f"the file of users, {self.path}, cannot be read: {error.strerror}{add}") from None
        #: Version and entries, replaced together by one assignment.
        self._known = version, _parse(self.path, lines, _refuse)
        if not self._known[1]:
            _log.warning("%s has no users, so that no login succeeds; python -m mcplite users add %s NAME adds one",
                         self.path, self.path)

    def __repr__(self) -> str:
        return f"<PasswordFile {self.path!r}, {len(self._known[1])} users>"

    def check(self, name: str, password: str) -> Optional[User]:
        """Return the user with this name and password; None if there is none.

        :raises OSError: the file cannot be read, or too many checks run at once.
        """
        entries = self._entries()
        entry = entries.get(unicodedata.normalize("NFC", name[:_LONGEST_NAME + 1]))
        # For an unknown name the password is compared with the hash of another user, so that the work is equal. The result is
        # not used.
        hash = entry.hash if entry else next((known.hash for known in entries.values()), _UNKNOWN)
        if self._process != os.getpid():  # a forked process: threads of the parent process may hold the semaphore
            self._turns, self._process = threading.BoundedSemaphore(_MOST_CHECKS), os.getpid()
        turns = self._turns
        if not turns.acquire(timeout=_TURN_SECONDS):
            raise TimeoutError("too many passwords are checked at once")
        try:
            same = hash.fits(password)
        finally:
            turns.release()
        return entry.user if entry and same else None

    def find(self, subject: str) -> Optional[User]:
        """Return the user with this name; None if there is none any more.

        :raises OSError: the file cannot be read.
        """
        entry = self._entries().get(subject)
        return None if entry is None else entry.user

    def users(self) -> List[User]:
        """Return all users, in the order of the file.

        :raises OSError: the file cannot be read.
        """
        return [entry.user for entry in self._entries().values()]

    def _entries(self) -> Dict[str, _FileUser]:
        version, entries = self._known
        if _version(os.stat(self.path)) != version:
            try:
                version, lines = _read(self.path)
            except ValueError as error:
                raise OSError(str(error)) from None
            entries = _parse(self.path, lines, _report)
            self._known = version, entries
        return entries


def _refuse(problem: str) -> None:
    raise ValueError(problem)


def _report(problem: str) -> None:
    _log.error("%s; this line is left out", problem)


def change_user(path: str, name: str, password: Optional[str], scopes: Optional[Iterable[str]] = None, *,
                new: bool) -> None:
    """Add a user to a password file, or change one.

    A new file can be read by its owner alone. All other lines stay as they are.

    :param password: None to keep the present one.
    :param scopes: that the user may grant. None: a new user may grant all, and another user keeps the present ones.
    :param new: whether the user must not exist yet; otherwise the user must exist.
    :raises ValueError: the user exists or not, or the name, the password or a scope is not valid.
    :raises OSError: the file cannot be read or written, or another command writes it.
    """
    name = _checked_name(name)
    hash = None if password is None else hash_password(password)
    granted = None if scopes is None else " ".join(checked_scopes(scopes, "the scopes"))

    def change(lines: List[str]) -> None:
        at = _place(path, lines, name)
        if new and at is not None:
            raise ValueError(f"{path} has a user {quoted(name)}; change the password with 'users change'")
        if at is None:
            if not new or hash is None:
                raise ValueError(f"{path} has no user {quoted(name)}; add one with 'users add'")
            lines.append(":".join([name, hash] + ([] if granted is None else [granted])))
            return
        _, old, *rest = lines[at].split(":", 2)
        lines[at] = ":".join([name, old if hash is None else hash] + (rest if granted is None else [granted]))

    _rewrite(path, change, make=new)


def remove_user(path: str, name: str) -> None:
    """Remove a user from a password file.

    :raises ValueError: there is no such user.
    :raises OSError: the file cannot be read or written, or another command writes it.
    """
    def change(lines: List[str]) -> None:
        at = _place(path, lines, unicodedata.normalize("NFC", name))
        if at is None:
            raise ValueError(f"{path} has no user {quoted(name)}")
        del lines[at]

    _rewrite(path, change, make=False)


def _place(path: str, lines: List[str], name: str) -> Optional[int]:
    # Only the name is compared, so that a malformed line can be repaired.
    found = [at for at, line in enumerate(lines) if unicodedata.normalize("NFC", line.partition(":")[0]) == name]
    if len(found) > 1:
        raise ValueError(f"{path}: the name {quoted(name)} stands in the lines {', '.join(str(at + 1) for at in found)};"
                         " remove all but one of them")
    return found[0] if found else None


def _rewrite(path: str, change: Callable[[List[str]], None], make: bool) -> None:
    """Change the lines of a file; another process reads the old file or the new one.

    The new file is also the lock between commands that write at once.
    """
    from ..login.file_store import flush, replace

    path = os.path.realpath(path)
    fresh = path + ".new"
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    except FileExistsError:
        raise OSError(f"another command writes {path}; if none runs, remove {fresh}") from None
    with undo(lambda: os.unlink(fresh)), open(descriptor, "w", encoding="utf-8", newline="\n") as file:
        lines: List[str] = []
        try:
            lines = _read(path)[1]
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, stat.S_IMODE(os.stat(path).st_mode))  # a server of another group may read it
        except FileNotFoundError:
            if not make:
                raise
        change(lines)
        file.write("".join(f"{line}\n" for line in lines).lstrip("\n"))
        file.flush()
        os.fsync(descriptor)
    with undo(lambda: os.unlink(fresh)):
        replace(fresh, path)
    flush(os.path.dirname(path))


# --- the limit of attempts --------------------------------------------------------------------------------------

class TooManyAttempts(Exception):
    """A password is not checked, since too many were tried.

    :param seconds: until the next attempt is accepted.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many passwords were tried; wait {seconds:.0f} s")
        self.seconds = seconds


#: The counters of an attempt, in the order in which it is counted: how many attempts may come at once, and the seconds after
#: which each further one may come. If the counter of the address refuses an attempt, the name does not count it, so that one
#: address cannot lock out a user.
_RATES = {"address": (30, 4.0), "name and address": (6, 30.0), "name": (60, 30.0)}
#: For this many seconds after a name has logged in at an address, the counter of the name is not used for attempts at that
#: address. So attempts from many other addresses, which use up that counter, do not lock out the user.
_KNOWN_SECONDS = 30 * 86_400.0
#: How often counting is tried while other processes count for an equal key.
_TRIES = 50


class PasswordLimit:
    """Checks passwords, at a rate that makes guessing them useless; all workers with one backend count together.

    An attempt is counted before it is checked, so that attempts at once do not exceed the limit. If the password was right, the
    attempt is taken back. For each counter one time is stored: when all attempts so far are paid off (the generic cell rate
    algorithm). Names and addresses are stored as digests.

    :param backend: where attempts are counted.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, backend: Backend, clock: Callable[[], float] = time.time) -> None:
        self._backend = backend
        self._clock = clock

    def check(self, users: Users, name: str, password: str, address: str) -> Optional[User]:
        """Return the user with this name and password; None if there is none.

        :param address: whose attempt it is: the ``sender`` of the request.
        :raises TooManyAttempts: the password was not checked.
        :raises BackendError: attempts cannot be counted.
        :raises OSError: the users cannot be looked up.
        """
        name = unicodedata.normalize("NFC", name)
        counted = {"address": [address], "name and address": [name, address], "name": [name]}
        keys = {kind: _key(kind, values) for kind, values in counted.items()}
        known = _key("known", [name, address])
        if self._backend.get(known) is not None:
            del keys["name"]
        for kind, key in keys.items():
            self._count(key, *_RATES[kind])
        found = users.check(name, password)
        if found is not None:
            self._backend.put(known, b"1", _KNOWN_SECONDS)
            self._backend.take(keys.pop("name and address"))
            for kind, key in keys.items():
                self._take_back(key, _RATES[kind][1])
        return found

    def _count(self, key: str, most: int, seconds: float) -> None:
        for _ in range(_TRIES):
            now = self._clock()
            old = self._backend.get(key)
            paid_off = max(now, _time(old))
            wait = paid_off - now - (most - 1) * seconds
            if wait > 0:
                raise TooManyAttempts(wait)
            if self._backend.swap(key, old, repr(paid_off + seconds).encode("ascii"), paid_off + seconds - now):
                return
        raise TooManyAttempts(seconds)

    def _take_back(self, key: str, seconds: float) -> None:
        for _ in range(_TRIES):
            old = self._backend.get(key)
            left = _time(old) - seconds - self._clock()
            new = repr(_time(old) - seconds).encode("ascii") if left > 0 else None
            if old is None or self._backend.swap(key, old, new, max(left, 1.0)):
                return


def _key(kind: str, values: List[str]) -> str:
    data = json.dumps([kind, *values]).encode("ascii")
    return f"password-attempts/{hashlib.sha256(data).hexdigest()}"


def _time(value: Optional[bytes]) -> float:
    if value is None:
        return 0.0
    try:
        return float(value)
    except ValueError:
        raise BackendError("the backend holds a count of passwords that mcplite did not write") from None
