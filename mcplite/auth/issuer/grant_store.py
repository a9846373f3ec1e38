"""What an issuer keeps over a backend: logins that are under way, codes, and grants with their tokens.

A grant is what one user has allowed one client. All of it is one record, so that each change is one step::

    transaction (15 minutes) --consent--> code (a minute, once) --token--> grant --refresh--> grant
                                             | used again                    | an old refresh token, revocation, its user
                                             v                               v
                                         the grant ends                   no grant

Tokens are ``<grant>.<secret>``. Only digests of tokens are stored, so that a copy of the store gives no access. A refresh token
can be used once. If it is used again, either that use or the first one is a thief's, so the grant ends (OAuth 2.1, 4.3.1).
"""

import hashlib
import hmac
import json
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from ...backend.interface import Backend
from .account import UserGrants
from .pages import ClientInfo, GrantInfo
from .users import User, user_from, user_members

__all__ = ["GrantStore", "UserGrant", "digest"]

#: Seconds that a login may take, and for which a code is remembered, so that a second use is noticed.
_TRANSACTION_SECONDS, _USED_SECONDS = 900.0, 3600.0
#: Seconds for which the store remembers that a call lacked scopes. It does not remember a call in this many seconds before its
#: token expires.
_MISSING_SECONDS, _LAST_SECONDS = 10.0, 120.0
#: The most access tokens of one grant that are valid at once, used refresh tokens that are known, and grants of one user.
_MOST_TOKENS, _MOST_FORMER, _MOST_GRANTS = 20, 50, 200
#: How often a change is tried while others change the same record.
_TRIES = 50
_TOKEN = re.compile(r"([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def digest(text: str) -> str:
    """Return the digest by which a secret, or a foreign text, is stored."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class UserGrant:
    """What a user has allowed a client."""

    id: str
    user: User
    #: The client's id, and the texts that pages show of the client.
    client_id: str
    client_name: str
    client_domain: str
    scopes: Tuple[str, ...]
    #: The URL that its tokens are for.
    resource: str
    #: When the user agreed, and when a token was issued last; seconds since 1970.
    since: float
    used: float
    #: The digest of the current refresh token, empty if there is none; and the digests of the latest ones before it.
    refresh: str = ""
    former: List[str] = field(default_factory=list)
    #: For the digest of each access token: when the token expires, in seconds since 1970, and its scopes.
    tokens: Dict[str, Tuple[float, List[str]]] = field(default_factory=dict)
    #: The name of the login at an upstream provider; empty for a user of our own.
    upstream: str = ""
    #: The host on the web that the code went to; empty for a program on the user's machine.
    redirect_host: str = ""

    def dump(self) -> bytes:
        return json.dumps({**self.__dict__, "user": user_members(self.user)}, separators=(",", ":")).encode("ascii")

    @classmethod
    def load(cls, data: bytes) -> "UserGrant":
        members = json.loads(data)
        return cls(**{**members, "user": user_from(members["user"]), "scopes": tuple(members["scopes"])})


class GrantStore(UserGrants):
    """The grants of one issuer; any thread of any process may use it.

    :param backend: keeps everything.
    :param access_seconds: seconds for which an access token is valid.
    :param refresh_seconds: seconds for which a grant with a refresh token is kept after its last use.
    :param on_end: called with each grant that has ended.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, backend: Backend, access_seconds: float, refresh_seconds: float,
                 on_end: Callable[[UserGrant], object] = lambda grant: None, clock: Callable[[], float] = time.time) -> None:
        self.backend = backend
        self.access_seconds, self.refresh_seconds = access_seconds, refresh_seconds
        self._on_end, self._clock = on_end, clock

    # --- transactions -----------------------------------------------------------------------------------------

    def begin(self, transaction: Dict[str, Any]) -> str:
        """Store a login that is under way; return its id."""
        id = secrets.token_urlsafe(24)
        transaction["until"] = self._clock() + _TRANSACTION_SECONDS
        self.change(id, transaction)
        return id

    def transaction(self, id: str) -> Optional[Dict[str, Any]]:
        """Return a login that is under way; None if there is none, or it has taken too long."""
        return _loaded(self.backend.get(f"transaction-{id}/record")) if _NAME.fullmatch(id) else None

    def change(self, id: str, transaction: Dict[str, Any]) -> None:
        """Store the new state of a login; its time limit stays as it is, so that it cannot be kept for longer."""
        left = transaction["until"] - self._clock()
        if left > 0:
            self.backend.put(f"transaction-{id}/record", json.dumps(transaction).encode("ascii"), left)

    def finish(self, id: str) -> Optional[Dict[str, Any]]:
        """Return a login and remove it; if several requests ask for it, only one gets it."""
        return _loaded(self.backend.take(f"transaction-{id}/record")) if _NAME.fullmatch(id) else None

    # --- codes ------------------------------------------------------------------------------------------------

    def issue_code(self, record: Mapping[str, Any], seconds: float) -> str:
        """Return a code for what a user has allowed."""
        code = secrets.token_urlsafe(32)
        known = {**record, "until": self._clock() + seconds, "grant": ""}
        self.backend.put(f"code-{digest(code)}/record", json.dumps(known).encode("ascii"), _USED_SECONDS)
        return code

    def find_code(self, code: str) -> Optional[Dict[str, Any]]:
        """Return what a code stands for; None if it is unknown or too old, or was used: then the grant of that use ends."""
        record = _loaded(self.backend.get(f"code-{digest(code)}/record"))
        if record is None:
            return None
        if record["grant"]:
            self.end(record["grant"])
            return None
        return record if record["until"] > self._clock() else None

    def use_code(self, code: str, record: Dict[str, Any], grant: str) -> bool:
        """Note that a code was used for a grant; return whether this was its first use.

        If a code is used twice at once, both uses fail: the grant of the first use ends.
        """
        key = f"code-{digest(code)}/record"
        if self.backend.swap(key, json.dumps(record).encode("ascii"), json.dumps({**record, "grant": grant}).encode("ascii"),
                             _USED_SECONDS):
            return True
        self.find_code(code)
        return False

    # --- grants -----------------------------------------------------------------------------------------------

    def add(self, user: User, client_id: str, client_name: str, client_domain: str, scopes: Tuple[str, ...], resource: str,
            upstream: str = "", redirect_host: str = "") -> UserGrant:
        """Return a new grant; :meth:`issue` stores it."""
        now = self._clock()
        return UserGrant(secrets.token_urlsafe(16), user, client_id, client_name, client_domain, scopes, resource, now, now,
                     upstream=upstream, redirect_host=redirect_host)

    def issue(self, grant: UserGrant, scopes: Tuple[str, ...], refreshable: bool) -> Tuple[str, str]:
        """Store a new grant, and return its first access token and refresh token; the second is empty if there is none."""
        tokens = self._renew(grant, scopes, refreshable)
        self.backend.put(f"grant-{grant.id}/record", grant.dump(), self._seconds(grant))
        self._note(grant.user.subject, grant.id)
        return tokens

    def rotate(self, grant: UserGrant, token: str, scopes: Tuple[str, ...], user: User) -> Optional[Tuple[str, str]]:
        """Return a new access token and refresh token for a refresh token; None if that is not possible.

        If the refresh token was used meanwhile, the grant ends. It stays if other changes of the grant came first too often.

        :param user: as the password file or the provider knows the user now.
        """
        used = digest(token)
        for _ in range(_TRIES):
            data = self.backend.get(f"grant-{grant.id}/record")
            now = None if data is None else UserGrant.load(data)
            if now is None or now.refresh != used:
                self.end(grant.id)
                return None
            now.user = user
            now.former = [*now.former, now.refresh][-_MOST_FORMER:]
            tokens = self._renew(now, scopes, True)
            if self.backend.swap(f"grant-{grant.id}/record", data, now.dump(), self._seconds(now)):
                self._note(now.user.subject, now.id)  # the list lasts as long as its grants
                return tokens
        return None

    def _renew(self, grant: UserGrant, scopes: Tuple[str, ...], refreshable: bool) -> Tuple[str, str]:
        now = self._clock()
        access, refresh = (f"{grant.id}.{secrets.token_urlsafe(32)}" for _ in range(2))
        valid = [(key, value) for key, value in grant.tokens.items() if value[0] > now][-_MOST_TOKENS + 1:]
        grant.tokens = {**dict(valid), digest(access): (now + self.access_seconds, list(scopes))}
        grant.refresh = digest(refresh) if refreshable else ""
        grant.used = now
        return access, refresh if refreshable else ""

    def _seconds(self, grant: UserGrant) -> float:
        lasts = self.refresh_seconds if grant.refresh else self.access_seconds
        return max(grant.used + lasts - self._clock(), 0.001)  # the end of an access token is no use

    def find(self, id: str) -> Optional[UserGrant]:
        """Return a grant; None if it has ended."""
        data = self.backend.get(f"grant-{id}/record") if _NAME.fullmatch(id) else None
        return None if data is None else UserGrant.load(data)

    def find_access(self, token: str) -> Optional[Tuple[UserGrant, float, List[str]]]:
        """Return the grant of an access token, when the token expires, and its scopes; None if the token is not valid."""
        grant = self._grant_of(token)
        known = None if grant is None else grant.tokens.get(digest(token))
        return None if grant is None or known is None or known[0] <= self._clock() else (grant, known[0], known[1])

    def find_refresh(self, token: str) -> Optional[UserGrant]:
        """Return the grant of a refresh token; None if the token is not valid. If it was used before, its grant ends."""
        grant = self._grant_of(token)
        if grant is None:
            return None
        given = digest(token)
        if hmac.compare_digest(given, grant.refresh):
            return grant
        if given in grant.former:
            self.end(grant.id)
        return None

    def _grant_of(self, token: str) -> Optional[UserGrant]:
        found = _TOKEN.fullmatch(token)
        return None if found is None else self.find(found[1])

    def note_missing_scopes(self, grant: UserGrant, expires: float) -> None:
        """Note that a call with an access token of a grant was refused for lack of scopes.

        :param expires: when the token expires. Shortly before that nothing is noted: a client then refreshes the token anyway.
        """
        if expires - self._clock() > _LAST_SECONDS:
            self.backend.put(f"grant-{grant.id}/missing-scopes", b"1", _MISSING_SECONDS)

    def misses_scopes(self, grant: UserGrant) -> bool:
        """Return whether :meth:`note_missing_scopes` was called a moment ago, and remove the note."""
        return self.backend.take(f"grant-{grant.id}/missing-scopes") is not None

    def revoke(self, token: str) -> None:
        """End an access token; or end the grant of a refresh token, with all its tokens (RFC 7009, section 2.1)."""
        grant, given = self._grant_of(token), digest(token)
        if grant is None:
            return
        if given == grant.refresh or given in grant.former:
            self.end(grant.id)
            return
        for _ in range(_TRIES):
            data = self.backend.get(f"grant-{grant.id}/record")
            if data is None:
                return
            now = UserGrant.load(data)
            now.tokens.pop(given, None)
            if self.backend.swap(f"grant-{grant.id}/record", data, now.dump(), self._seconds(now)):
                return

    def end(self, id: str) -> bool:
        """End a grant and all of its tokens; return whether there was one."""
        data = self.backend.take(f"grant-{id}/record") if _NAME.fullmatch(id) else None
        if data is None:
            return False
        self._on_end(UserGrant.load(data))
        return True

    # --- the grants of a user ---------------------------------------------------------------------------------

    def grants_of(self, subject: str) -> List[GrantInfo]:
        return [GrantInfo(grant.id, ClientInfo(grant.client_id, grant.client_name, grant.client_domain), grant.scopes,
                          grant.since, grant.used) for grant in self._grants_of(subject)]

    def _grants_of(self, subject: str) -> Iterator[UserGrant]:
        known = _loaded(self.backend.get(f"user-{digest(subject)}/grants")) or {"grants": []}
        for id in reversed(known["grants"]):
            grant = self.find(id)
            if grant is not None and grant.user.subject == subject:
                yield grant

    def allows(self, subject: str, client_id: str, redirect_host: str, resource: str, scopes: Iterable[str]) -> bool:
        """Whether a client still has a grant of a user for at least these scopes, for one redirect host and one resource."""
        wanted = set(scopes)
        return any(grant.client_id == client_id and grant.redirect_host == redirect_host and grant.resource == resource
                   and wanted.issubset(grant.scopes) for grant in self._grants_of(subject))

    def end_grant(self, subject: str, id: str) -> bool:
        grant = self.find(id)
        return grant is not None and grant.user.subject == subject and self.end(id)

    def _note(self, subject: str, id: str) -> None:
        key = f"user-{digest(subject)}/grants"
        for _ in range(_TRIES):
            data = self.backend.get(key)
            known = (_loaded(data) or {"grants": []})["grants"]
            if id not in known:
                live = [one for one in known if self.find(one) is not None] if len(known) >= _MOST_GRANTS else known
                for one in live[:-_MOST_GRANTS + 1]:
                    self.end(one)
                known = [*live[-_MOST_GRANTS + 1:], id]
            if self.backend.swap(key, data, json.dumps({"grants": known}).encode("ascii"), 2 * self.refresh_seconds):
                return


def _loaded(data: Optional[bytes]) -> Any:
    return None if data is None else json.loads(data)
