"""The backend in PostgreSQL: for several hosts that have a database already, with the extra ``postgres``.

Each operation is one statement, so it takes one round trip and is atomic. New entries are announced with ``NOTIFY``.
"""

import contextlib
import os
import selectors
import socket
import threading
import time
from typing import Any, Dict, Generator, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Type, TypeVar

from ..errors import BackendError, RegistrationError, TransportError
from ..rpc.deadline import Deadline
from ..rpc.forks import release_socket
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger
from .interface import NUMBERS_SECONDS, Backend, Entry, without_password
from .log_watch import LogWatch

__all__ = ["PostgresBackend"]

T = TypeVar("T")
_log = get_logger(__name__)

_TABLES = """
CREATE TABLE IF NOT EXISTS mcplite_stored (key text PRIMARY KEY, value bytea NOT NULL, until timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS mcplite_logs (log text PRIMARY KEY, last bigint NOT NULL, until timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS mcplite_entries (log text NOT NULL, number bigint NOT NULL, value bytea NOT NULL,
                                            until timestamptz NOT NULL, PRIMARY KEY (log, number));
CREATE INDEX IF NOT EXISTS mcplite_stored_until ON mcplite_stored (until);
CREATE INDEX IF NOT EXISTS mcplite_entries_until ON mcplite_entries (until);
CREATE INDEX IF NOT EXISTS mcplite_logs_until ON mcplite_logs (until);
"""
#: Whether all of these tables and indexes exist. To create them again would change nothing, but would wait for the writes of
#: other processes, and those for it: a process that starts under load would end in a deadlock with them.
_ARE_MADE = """SELECT count(*) = 6 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = current_schema() AND relname IN ('mcplite_stored', 'mcplite_logs', 'mcplite_entries', 'mcplite_stored_until',
                                                 'mcplite_entries_until', 'mcplite_logs_until')"""
_LATER = "now() + make_interval(secs => %(seconds)s)"
_PUT = f"""INSERT INTO mcplite_stored (key, value, until) VALUES (%(key)s, %(new)s, {_LATER})
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until"""
_GET = "SELECT value FROM mcplite_stored WHERE key = %(key)s AND until > now()"
_TAKE = "DELETE FROM mcplite_stored WHERE key = %(key)s RETURNING CASE WHEN until > now() THEN value END"
_SWAP_NEW = _PUT + " WHERE mcplite_stored.until <= now() RETURNING 1"
_SWAP = f"""UPDATE mcplite_stored SET value = %(new)s, until = {_LATER}
WHERE key = %(key)s AND value = %(old)s AND until > now() RETURNING 1"""
_SWAP_AWAY = "DELETE FROM mcplite_stored WHERE key = %(key)s AND value = %(old)s AND until > now() RETURNING 1"
#: If the numbers of a log begin at 1 again, expired entries with the same numbers are replaced.
_APPEND = f"""WITH counted AS (
    INSERT INTO mcplite_logs AS logs (log, last, until)
    VALUES (%(log)s, 1, {_LATER} + make_interval(secs => %(numbers)s))
    ON CONFLICT (log) DO UPDATE SET last = CASE WHEN logs.until > now() THEN logs.last + 1 ELSE 1 END,
                                    until = greatest(logs.until, excluded.until)
    RETURNING last
), added AS (
    INSERT INTO mcplite_entries (log, number, value, until) SELECT %(log)s, last, %(value)s, {_LATER} FROM counted
    ON CONFLICT (log, number) DO UPDATE SET value = excluded.value, until = excluded.until
), dropped AS (
    DELETE FROM mcplite_entries WHERE log = %(log)s AND number <= (SELECT last FROM counted) - %(keep)s
)
SELECT last, pg_notify('mcplite', %(log)s || ' ' || last) FROM counted"""
_LAST = "SELECT last FROM mcplite_logs WHERE log = %(log)s AND until > now()"
_SINCE = f"""SELECT coalesce(({_LAST}), 0), NULL::bytea
UNION ALL SELECT number, value FROM mcplite_entries WHERE log = %(log)s AND number > %(number)s AND until > now()"""
_NUMBERS = "SELECT log, last FROM mcplite_logs WHERE log = ANY(%(logs)s) AND until > now()"
#: Rows that another process removes at the same time are left to it: waiting for each other could end in a deadlock.
_SWEEP = """DELETE FROM {0} WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {0} WHERE until <= now() LIMIT 10000 FOR UPDATE SKIP LOCKED))"""
#: Identifies the making of the tables among the advisory locks of the database.
_MAKING = 0x6D63706C
#: Seconds for which an operation waits for the server.
_SECONDS = 5.0
#: Seconds between two searches for expired rows, in each process that writes.
_SWEEP_SECONDS = 5.0
#: Seconds for which the listening thread waits for a notification. After so many seconds it also reads the numbers of all
#: watched logs: psycopg before 3.2.4 drops notifications that come during a statement.
_LISTEN_SECONDS = 5.0
#: Seconds between two attempts to reach the server again, at first and at most.
_RETRY_SECONDS = (0.1, 2.0)


class PostgresBackend(Backend):
    """Keeps values and logs in three tables of a PostgreSQL database, which are made if they are missing.

    :param url: as libpq reads it: ``postgresql://user:password@host:port/database``.
    :param connections: how many connections a process opens at most, besides the one that listens.
    :param timeout: seconds for which an operation waits for the server or for a free connection.
    :raises RegistrationError: psycopg is not installed.
    """

    def __init__(self, url: str, connections: int = 10, timeout: float = _SECONDS) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise RegistrationError("a backend in PostgreSQL needs psycopg: pip install 'mcplite[postgres]'") from error
        self._url = url
        self._name = without_password(url)
        self._timeout = timeout
        self._kind = _limited_connection(psycopg)
        self._errors: Tuple[Type[Exception], ...] = (psycopg.Error, OSError)
        self._listening_errors: Tuple[Type[Exception], ...] = (*self._errors, BackendError)
        self._free = threading.BoundedSemaphore(connections)
        self._most = connections
        #: Guards the idle connections, the start of the listening thread and ``_socket``; held for short work only.
        self._lock = threading.Lock()
        self._idle: List[Any] = []
        #: Connections of the process that this one was forked from: closing them would end them for both.
        self._foreign: List[Any] = []
        self._made = False
        self._swept = time.monotonic()
        self._loop: Optional[Loop] = None
        self._listening: Any = None
        #: The socket of the listening connection, with a descriptor of our own: the descriptor of the connection may be closed
        #: at any moment, also by libpq, and its number may then belong to another socket.
        self._socket: Optional[socket.socket] = None
        #: Set when the thread listens, or cannot at present.
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._watch = LogWatch(self._numbers, forked=self._forked)

    def __repr__(self) -> str:
        return f"<PostgresBackend {self._name}>"

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self._foreign.extend([*self._idle, self._listening])
        self._idle.clear()
        self._free = threading.BoundedSemaphore(self._most)
        if self._socket is not None:
            release_socket(self._socket)
        self._loop, self._listening, self._socket = None, None, None
        self._ready, self._ended = threading.Event(), threading.Event()

    # --- values -------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self._run("written", _PUT, key=key, new=value, seconds=seconds)
        self._sweep()

    def get(self, key: str) -> Optional[bytes]:
        return _first(self._run("read", _GET, key=key))

    def take(self, key: str) -> Optional[bytes]:
        return _first(self._run("written", _TAKE, key=key))

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        if old is None and new is None:
            return self.get(key) is None
        statement = _SWAP_NEW if old is None else _SWAP_AWAY if new is None else _SWAP
        swapped = bool(self._run("written", statement, key=key, old=old, new=new, seconds=seconds))
        self._sweep()  # also here: some values are only swapped, such as those that are used once
        return swapped

    # --- logs ---------------------------------------------------------------------------------------

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        rows = self._run("written", _APPEND, log=log, value=value, seconds=seconds, keep=keep, numbers=NUMBERS_SECONDS)
        self._sweep()
        number: int = rows[0][0]
        return number

    def since(self, log: str, number: int) -> Optional[List[Entry]]:
        rows = self._run("read", _SINCE, log=log, number=number)
        last = next(count for count, value in rows if value is None)
        entries = sorted((at, bytes(value)) for at, value in rows if value is not None)
        return entries if number <= last and len(entries) == last - number else None

    def last(self, log: str) -> int:
        rows = self._run("read", _LAST, log=log)
        return rows[0][0] if rows else 0

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        self._listen()
        return self._watch.wait(logs, timeout)

    # --- connections --------------------------------------------------------------------------------

    def _run(self, verb: str, statement: str, **params: Any) -> List[Any]:
        with self._connection(verb) as connection:
            cursor = connection.execute(statement, params)
            return [] if cursor.description is None else cursor.fetchall()

    @contextlib.contextmanager
    def _connection(self, verb: str) -> Iterator[Any]:
        """Yield a connection for one operation; if it fails, the connection is not used again.

        :param verb: what is done to the store, for the error.
        """
        if not self._free.acquire(timeout=self._timeout):
            raise BackendError(f"the backend {self._name} cannot be {verb}: all {self._most} connections were in use for"
                               f" {self._timeout:g} s")
        try:
            connection = self._idle_connection()
            try:
                connection = connection or self._open()
                yield connection
            except self._errors as error:
                if connection is not None:
                    connection.close()
                raise BackendError(f"the backend {self._name} cannot be {verb}: {_one_line(error)}") from error
            with self._lock:
                self._idle.append(connection)
        finally:
            self._free.release()

    def _idle_connection(self) -> Any:
        while True:
            with self._lock:
                if self._ended.is_set():
                    raise BackendError(f"the backend {self._name} is closed")
                connection = self._idle.pop() if self._idle else None
            if connection is None or not _has_input(connection):
                return connection
            connection.close()  # the server has closed it: nothing else comes unasked

    def _open(self) -> Any:
        # libpq takes no limit below two seconds for connecting.
        connection: Any = self._kind.connect(self._url, autocommit=True, connect_timeout=max(2, round(self._timeout)),
                                             application_name="mcplite", tcp_user_timeout=round(self._timeout * 1000))
        connection.limit = self._timeout
        if not self._made:
            if not connection.execute(_ARE_MADE).fetchone()[0]:
                with connection.transaction():
                    # Two processes that made a table at the same time would disturb each other, so only the one with this lock
                    # does it.
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MAKING])
                    if not connection.execute(_ARE_MADE).fetchone()[0]:
                        connection.execute(_TABLES)
            self._made = True
        connection.execute(f"SET statement_timeout = {round(self._timeout * 1000)}")
        return connection

    def _sweep(self) -> None:
        now = time.monotonic()
        if now - self._swept >= _SWEEP_SECONDS:
            self._swept = now
            for table in ("mcplite_stored", "mcplite_entries", "mcplite_logs"):
                self._run("written", _SWEEP.format(table))

    # --- notifications of new entries ---------------------------------------------------------------

    def _numbers(self, logs: Sequence[str]) -> Dict[str, int]:
        return {**dict.fromkeys(logs, 0), **dict(self._run("read", _NUMBERS, logs=list(logs)))}

    def _listen(self) -> None:
        if self._ready.is_set():
            return
        with self._lock:
            if self._ended.is_set():
                return
            if self._loop is None:
                ended, ready = self._ended, self._ready
                loop = Loop(f"listener of {self._name}", lambda: self._run_listener(ended, ready), ended.wait)
                # The listener ends in close(). It waits on a connection of its own, for five seconds at a time.
                try:
                    loop.start()
                    self._loop = loop
                except TransportError as error:  # the next wait tries again
                    raise BackendError(f"changes in {self._name} cannot be read: {error}") from error
        self._ready.wait(self._timeout)

    def _run_listener(self, ended: threading.Event, ready: threading.Event) -> None:
        pause, connected = _RETRY_SECONDS[0], True
        while not ended.is_set():
            connection: Any = None
            try:
                connection = self._listening = self._open()
                with self._lock:
                    self._socket = socket.socket(fileno=os.dup(connection.fileno()))
                connection.execute("LISTEN mcplite")
                connection.limit = _LISTEN_SECONDS + self._timeout
                ready.set()
                looked = float("-inf")
                while not ended.is_set():
                    if time.monotonic() - looked >= _LISTEN_SECONDS:
                        connection.execute("")  # raises an error if the connection has ended
                        self._watch.refresh()
                        connected, pause, looked = True, _RETRY_SECONDS[0], time.monotonic()
                    for notification in connection.notifies(timeout=_LISTEN_SECONDS, stop_after=1):
                        log, _, number = notification.payload.rpartition(" ")
                        self._watch.announce(log, number)
            except self._listening_errors as error:
                if connected and not ended.is_set():
                    _log.warning("the backend %s cannot be reached, changes are read when it is back: %s", self._name,
                                 _one_line(error))
                connected = False
                ready.set()
                ended.wait(pause)
                pause = min(2 * pause, _RETRY_SECONDS[1])
            finally:
                ready.set()
                self._listening = None
                with self._lock:
                    sock, self._socket = self._socket, None
                    if sock is not None:
                        sock.close()
                if connection is not None:
                    connection.close()

    def close(self) -> None:
        self._ended.set()
        self._watch.close()
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it is not connected any more
                    self._socket.shutdown(socket.SHUT_RDWR)  # ends the thread's wait
        if self._loop is not None:
            self._loop.join(Deadline(None))
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


#: select() takes no descriptors above 1023, which a server with many streams has.
_Selector: Any = getattr(selectors, "PollSelector", selectors.SelectSelector)


def _has_input(connection: Any) -> bool:
    with _Selector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _first(rows: List[Any]) -> Optional[bytes]:
    return None if not rows or rows[0][0] is None else bytes(rows[0][0])


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _limited_connection(psycopg: Any) -> Any:
    """Return the class of connections on which no operation waits longer than their ``limit``, in seconds.

    libpq has a limit for the time of a statement, which the server enforces, and one for data that is not acknowledged. If the
    server process hangs, neither of them ends the operation.
    """
    class LimitedConnection(psycopg.Connection):  # type: ignore[misc]
        limit = _SECONDS

        def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *args, **options)

        def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
            until = time.monotonic() + self.limit
            try:
                wanted = next(gen)
                while True:
                    # psycopg sends 0 several times a second while the socket is not ready.
                    ready = yield wanted
                    if not ready and time.monotonic() >= until:
                        raise psycopg.OperationalError(f"no answer within {self.limit:g} s")
                    wanted = gen.send(ready)
            except StopIteration as end:
                result: T = end.value
                return result

    return LimitedConnection
