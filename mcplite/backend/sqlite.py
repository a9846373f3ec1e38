"""The backend in one SQLite file: for the processes of one host, with nothing to install.

The file is in WAL mode, so that readers and the one writer do not wait for each other. Only its owner can read it: a file that
others may read or write is refused. So is a file on a network file system, where SQLite's locks and shared memory do not work.
"""

import contextlib
import errno
import os
import sqlite3
import stat
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, TypeVar

from ..errors import BackendError
from ..rpc.deadline import Deadline, undo
from ..rpc.forks import new_awaited_lock
from .interface import NUMBERS_SECONDS, Backend, Entry
from .log_watch import LogWatch, grouped
from .sqlite_wakeup import Wakeup

__all__ = ["SQLiteBackend", "network_file_system"]

_KINDS = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.blobfuse2", "fuse.cephfs", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "smb2", "smb3", "smbfs", "vboxsf",
})
_MOUNTS = "/proc/self/mounts"


def network_file_system(path: str, mounts: str = _MOUNTS) -> Optional[str]:
    """Return the kind of the network file system that a path is on; None on a local one, or where this cannot be told.

    :param path: absolute; the file need not exist.
    :param mounts: the list of mounted file systems, as Linux has it.
    """
    if sys.platform == "win32":
        return "a share" if path.startswith("\\\\") else None
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return None  # not on Linux
    folder = os.path.realpath(os.path.dirname(path)).rstrip("/") + "/"
    longest, kind = "", ""
    for line in lines:
        fields = line.split(" ")
        # Spaces and the like are written as octal numbers.
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\").rstrip("/") + "/"
        if folder.startswith(point) and len(point) >= len(longest):  # a later mount covers an earlier one
            longest, kind = point, fields[2]
    return kind if kind in _KINDS else None


T = TypeVar("T")
_TABLES = """
CREATE TABLE IF NOT EXISTS stored (key TEXT PRIMARY KEY, value BLOB NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS logs (log TEXT PRIMARY KEY, last INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (place INTEGER PRIMARY KEY AUTOINCREMENT, log TEXT NOT NULL, number INTEGER NOT NULL,
                                    value BLOB NOT NULL, until REAL NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS entries_by_log ON entries (log, number);
CREATE INDEX IF NOT EXISTS entries_by_end ON entries (until);
CREATE INDEX IF NOT EXISTS stored_by_end ON stored (until);
"""
#: Seconds for which an operation waits for other processes that write.
_BUSY_SECONDS = 5.0
#: Seconds between two attempts while another process writes, at first and at most.
_RETRY_SECONDS = (0.001, 0.05)
#: Seconds between two searches for expired rows, in each process that writes.
_SWEEP_SECONDS = 5.0
#: Seconds between two looks whether the file is still the one that was opened.
_LOOK_SECONDS = 1.0
#: Seconds after which the numbers of all watched logs are read, whatever has been reported.
_REFRESH_SECONDS = 5.0
#: Parameters of one statement: SQLite before 3.32 takes 999.
_PARAMETERS = 900


class SQLiteBackend(Backend):
    """Keeps values and logs in a SQLite file, which is made with mode 0600 if it is missing.

    :param path: of the file; beside it are SQLite's own files and the sockets by which processes wake each other.
    :param busy_seconds: how long an operation waits while other processes write.
    :param clock: returns seconds since 1970, since other processes read them; for tests.
    :raises BackendError: the file cannot be opened, is no database, is open to other users, another user's or a link, or is on
        a network file system, where SQLite's locks and shared memory do not work.
    """

    def __init__(self, path: str, busy_seconds: float = _BUSY_SECONDS, clock: Callable[[], float] = time.time) -> None:
        self._path = os.path.abspath(path)
        self._busy_seconds = busy_seconds
        self._clock = clock
        #: Guards the connection, which one thread uses at a time; held for one transaction. SQLite has locks of its own.
        self._lock = new_awaited_lock()
        self._connection: Optional[sqlite3.Connection] = None
        #: Connections of the process that this one was forked from: closing them here could disturb it.
        self._foreign: List[sqlite3.Connection] = []
        self._identity: Tuple[int, int] = (0, 0)
        self._looked = 0.0
        self._swept = 0.0
        self._closed = False
        self._watch = LogWatch(self._numbers, forked=self._forked)
        self._wakeup = Wakeup(self._path, self._report_changes)
        #: The place of the newest entry that was reported to the watch, and when all logs were last reported; only the
        #: listening thread uses them.
        self._reported, self._refreshed = -1, 0.0
        self._run("opened", lambda connection: None)

    def __repr__(self) -> str:
        return f"<SQLiteBackend {self._path}>"

    def _forked(self) -> None:
        self._wakeup.let_go()
        if self._connection is not None:
            self._foreign.append(self._connection)
        self._connection, self._reported = None, -1

    # --- values -------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self._run("written", lambda connection: self._store(connection, key, value, seconds))

    def get(self, key: str) -> Optional[bytes]:
        return self._run("read", lambda connection: self._stored(connection, key))

    def take(self, key: str) -> Optional[bytes]:
        def take(connection: sqlite3.Connection) -> Optional[bytes]:
            value = self._stored(connection, key)
            if value is not None:
                connection.execute("DELETE FROM stored WHERE key = ?", (key,))
            return value

        # Read first: if there is nothing to take, there mostly never was such a value, and a write would exclude all other
        # processes.
        return None if self.get(key) is None else self._run("written", take, write=True)

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        def swap(connection: sqlite3.Connection) -> bool:
            if self._stored(connection, key) != old:
                return False
            if new is None:
                connection.execute("DELETE FROM stored WHERE key = ?", (key,))
            else:
                self._store(connection, key, new, seconds)
            return True

        return self._run("written", swap, write=True)

    def _store(self, connection: sqlite3.Connection, key: str, value: bytes, seconds: float) -> None:
        now = self._clock()
        connection.execute("INSERT OR REPLACE INTO stored (key, value, until) VALUES (?, ?, ?)", (key, value, now + seconds))
        self._sweep(connection, now)

    def _stored(self, connection: sqlite3.Connection, key: str) -> Optional[bytes]:
        row = connection.execute("SELECT value FROM stored WHERE key = ? AND until > ?", (key, self._clock())).fetchone()
        return None if row is None else self._bytes(row[0], key)

    def _bytes(self, value: Any, name: str) -> bytes:
        if type(value) is not bytes:
            raise self._odd(name)
        return value

    def _odd(self, name: str) -> BackendError:
        return BackendError(f"remove {name!r} from the backend {self._path}: it holds what mcplite did not write")

    # --- logs ---------------------------------------------------------------------------------------

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        def append(connection: sqlite3.Connection) -> int:
            now = self._clock()
            number, until = self._counted(connection, log)
            if not number:
                connection.execute("DELETE FROM entries WHERE log = ?", (log,))
            number += 1
            connection.execute("INSERT OR REPLACE INTO logs (log, last, until) VALUES (?, ?, ?)",
                               (log, number, max(until, now + seconds + NUMBERS_SECONDS)))
            connection.execute("INSERT INTO entries (log, number, value, until) VALUES (?, ?, ?, ?)",
                               (log, number, value, now + seconds))
            connection.execute("DELETE FROM entries WHERE log = ? AND number <= ?", (log, number - keep))
            self._sweep(connection, now)
            return number

        number = self._run("written", append, write=True)
        self._wakeup.send()
        return number

    def _counted(self, connection: sqlite3.Connection, log: str) -> Tuple[int, float]:
        row = connection.execute("SELECT last, until FROM logs WHERE log = ? AND until > ?", (log, self._clock())).fetchone()
        if row is None:
            return 0, 0.0
        if type(row[0]) is not int or not isinstance(row[1], (int, float)):
            raise self._odd(log)
        return row[0], row[1]

    def since(self, log: str, number: int) -> Optional[List[Entry]]:
        def since(connection: sqlite3.Connection) -> Tuple[int, List[Entry]]:
            rows = connection.execute("SELECT number, value FROM entries WHERE log = ? AND number > ? AND until > ?"
                                      " ORDER BY number", (log, number, self._clock()))
            return self._counted(connection, log)[0], [(at, self._bytes(value, log)) for at, value in rows]

        last, entries = self._run("read", since, read=True)
        return entries if number <= last and len(entries) == last - number else None

    def last(self, log: str) -> int:
        return self._run("read", lambda connection: self._counted(connection, log)[0])

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        self._wakeup.listen()
        return self._watch.wait(logs, timeout)

    def _numbers(self, logs: Sequence[str]) -> Dict[str, int]:
        def numbers(connection: sqlite3.Connection) -> Dict[str, int]:
            found = dict.fromkeys(logs, 0)
            for some in grouped(logs, _PARAMETERS):
                marks = ",".join("?" * len(some))
                found.update(connection.execute(f"SELECT log, last FROM logs WHERE log IN ({marks}) AND until > ?",
                                                (*some, self._clock())))
            # A number of a wrong type is left out here: only the thread that reads this log gets the error.
            return {log: number for log, number in found.items() if type(number) is int}

        return self._run("read", numbers)

    def _report_changes(self) -> None:
        """Report the logs that have grown since the last look; called on the listening thread."""
        def changes(connection: sqlite3.Connection) -> Tuple[int, Dict[str, int]]:
            newest = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone()
            place = 0 if newest is None else newest[0]
            now = time.monotonic()
            if self._reported < 0 or place < self._reported or now - self._refreshed >= _REFRESH_SECONDS:
                self._refreshed = now
                return place, self._all(connection)
            if place == self._reported:
                return place, {}
            return place, dict(connection.execute("SELECT log, MAX(number) FROM entries WHERE place > ? GROUP BY log",
                                                  (self._reported,)))

        reported, changed = self._run("read", changes, read=True)
        if changed:
            self._watch.report(changed)
        self._reported = reported

    def _all(self, connection: sqlite3.Connection) -> Dict[str, int]:
        logs = self._watch.logs
        numbers: Dict[str, int] = {}
        for log in logs:
            with contextlib.suppress(BackendError):  # only the thread that reads this log gets the error
                numbers[log] = self._counted(connection, log)[0]
        return numbers

    # --- the file -------------------------------------------------------------------------------------

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        if now - self._swept < _SWEEP_SECONDS:
            return
        self._swept = now
        for table in ("stored", "entries", "logs"):
            connection.execute(f"DELETE FROM {table} WHERE until <= ?", (now,))

    def _run(self, verb: str, work: Callable[[sqlite3.Connection], T], write: bool = False, read: bool = False) -> T:
        """Return what *work* does with the connection.

        If another process has locked the database, this thread waits without holding the lock of the backend, so that each
        thread has a limit of its own.

        :param verb: what the work does to the file, for the error.
        :param write: in a transaction that excludes other writers.
        :param read: in a transaction that sees one state.
        """
        deadline: Optional[Deadline] = None  # made when another process has locked the file, which is rare
        pause = _RETRY_SECONDS[0]
        while True:
            try:
                with self._lock:
                    connection = self._opened()
                    if not (write or read):
                        return work(connection)
                    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    try:
                        result = work(connection)
                        connection.execute("COMMIT")
                        return result
                    finally:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                if not _is_busy(error):
                    raise self._error(verb, error) from error
                if deadline is None:
                    deadline = Deadline(self._busy_seconds)
                elif deadline.expired:
                    raise BackendError(f"the backend {self._path} cannot be {verb}: another process has kept it locked for"
                                       f" {self._busy_seconds:g} s") from error
            time.sleep(pause)
            pause = min(2 * pause, _RETRY_SECONDS[1])

    def _error(self, verb: str, error: sqlite3.Error) -> BackendError:
        with self._lock:
            self._disconnect()  # the next operation opens the file again
        return BackendError(f"the backend {self._path} cannot be {verb}: {error}")

    def _opened(self) -> sqlite3.Connection:
        """Return the connection; opens the file the first time, in a forked process, and when it was replaced or deleted."""
        if self._closed:
            raise BackendError(f"the backend {self._path} is closed")
        now = time.monotonic()
        if self._connection is not None and now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            if _identity(self._path) != self._identity:
                self._disconnect()
        if self._connection is None:
            self._connection = self._open()
            self._looked = now
        return self._connection

    def _open(self) -> sqlite3.Connection:
        kind = network_file_system(self._path)
        if kind is not None:
            raise BackendError(f"the backend {self._path} is on a network file system ({kind}), where SQLite cannot be shared:"
                               " use a folder of your own on a local disk, or a backend such as redis://")
        self._check_file()
        connection = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        with undo(connection.close):
            self._identity = _identity(self._path)
            connection.execute("PRAGMA journal_mode = WAL")
            # A crash of the system may lose the last transactions, and never damages the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            if connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'stored_by_end'").fetchone()[0] == 0:
                connection.executescript("BEGIN IMMEDIATE;" + _TABLES + "COMMIT;")
        return connection

    def _check_file(self) -> None:
        """Make the file, or see that no other user can read what this server writes, or write what it reads.

        :raises BackendError: it is no regular file, another user's, open to others, or reached through a link.
        """
        try:
            # SQLite gives its own files beside this one the same mode.
            made = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
                           | getattr(os, "O_NONBLOCK", 0), 0o600)
        except OSError as error:
            if error.errno in (errno.ELOOP, getattr(errno, "EMLINK", None)):
                raise BackendError(f"give the true path of the backend {self._path}: this is a link") from error
            raise BackendError(f"the backend {self._path} cannot be opened: {error.strerror or error}") from error
        try:
            state = os.fstat(made)
        finally:
            os.close(made)
        if not stat.S_ISREG(state.st_mode):
            raise BackendError(f"give another path than {self._path} for the backend: this is no regular file")
        if sys.platform == "win32":
            return  # access is not a matter of the mode there
        if state.st_uid != os.geteuid():
            raise BackendError(f"give another path than {self._path} for the backend, or change the owner of this file: it"
                               f" belongs to the user {state.st_uid}, and this process runs as {os.geteuid()}")
        if state.st_mode & 0o077:
            raise BackendError(f"chmod 600 {self._path}: others may read or write this file, which holds what clients"
                               " send and get")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self._wakeup.close()
        self._watch.close()
        with self._lock:
            self._closed = True
            self._disconnect()


def _is_busy(error: sqlite3.Error) -> bool:
    # The text decides: only since Python 3.11 the error has its code as an attribute.
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def _identity(path: str) -> Tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)
