"""The backend in Redis or Valkey: for several hosts, with the extra ``redis``.

Each log has a counter, a stream, and a channel on which its last number is published; one connection of the process subscribes
to the channels of the logs that it waits for. The keys of a group have the same hash tag, so a cluster keeps them in one slot,
as a script needs them. redis-py's client, of one Redis or of a cluster, is made at the first use.
"""

import contextlib
import secrets
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Type, TypeVar
from urllib.parse import urlsplit, urlunsplit

from ..errors import BackendError, RegistrationError, TransportError
from ..rpc.deadline import Deadline
from ..rpc.forks import renew
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger
from .interface import NUMBERS_SECONDS, Backend, Entry, take_option, without_password
from .log_watch import LogWatch, grouped

__all__ = ["RedisBackend", "RedisChanges", "RedisClient"]

_CLUSTER = "+cluster"
#: The first redis-py whose client of a cluster repeats an operation only if it is told to.
_CLUSTER_VERSION = 6


class RedisClient:
    """The client of redis-py that a backend uses, and the errors that it raises.

    The client of a cluster connects when it is created. So it is created at the first operation, again in a forked process,
    and again from the URL after none of the nodes that it knew could be reached.

    :param url: as redis-py reads it, or with ``+cluster`` behind the scheme and commas between several hosts.
    :param timeout: seconds for which an operation waits for a server.
    :raises RegistrationError: redis-py is not installed or too old, or the URL cannot be read.
    """

    def __init__(self, url: str, timeout: float) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.exceptions import MovedError, RedisClusterException
            from redis.retry import Retry
        except ImportError as error:
            raise RegistrationError("a backend in Redis needs redis-py: pip install 'mcplite[redis]'") from error
        self.name = without_password(url)
        self.errors: Tuple[Type[Exception], ...] = (redis.RedisError, RedisClusterException, OSError)
        self._moved, self._unreachable = MovedError, RedisClusterException
        # An operation is not repeated, since it might take place twice. redis-py checks an idle connection before it uses it
        # again.
        self._options: Dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout,
                                         "retry": Retry(NoBackoff(), 0)}
        self.cluster = url.partition(":")[0].endswith(_CLUSTER)
        if self.cluster and int(redis.VERSION[0]) < _CLUSTER_VERSION:
            raise RegistrationError(f"the backend {self.name} is a cluster, which needs redis-py {_CLUSTER_VERSION} or newer;"
                                    f" {redis.__version__} is installed")
        try:
            plain, self.prefix = take_option(url, "prefix", "mcplite")
            self._url, self._others = self._one_host(plain) if self.cluster else (plain, [])
            redis.ConnectionPool.from_url(self._url)
        except ValueError as error:
            if self.name.endswith("..."):  # the error may quote a part of the password
                raise RegistrationError(f"the backend {self.name} cannot be read: in its user and its password write / as %2F,"
                                        " ? as %3F, # as %23, [ as %5B and ] as %5D") from None
            raise RegistrationError(f"the backend {self.name}: {error}") from error
        #: Guards the creation of the client. It is also held while the client connects to a cluster, so that all threads wait
        #: for one attempt.
        self._lock = threading.Lock()
        self._client: Optional[Any] = None
        if not self.cluster:
            self._client = redis.Redis.from_url(self._url, **self._options)

    def _one_host(self, url: str) -> Tuple[str, List[Tuple[str, int]]]:
        """Return the URL of a cluster with its first host, as redis-py reads it, and the other hosts.

        :raises ValueError: a host cannot be read, or the database is another one than 0.
        """
        parts = urlsplit(url)
        user, at, hosts = parts.netloc.rpartition("@")
        if parts.path.strip("/") not in ("", "0"):
            raise ValueError("a cluster has the database 0 alone")
        urls = [urlsplit(f"//{host}") for host in hosts.split(",")]
        found = [(one.hostname or "localhost", one.port or 6379) for one in urls]
        plain = parts._replace(scheme=parts.scheme[:-len(_CLUSTER)], netloc=user + at + urls[0].netloc, path="/0")
        return urlunsplit(plain), found[1:]

    def let_go(self) -> None:
        """Drop the client of a cluster in a forked process; that of a single Redis notices a fork itself."""
        renew(self)
        if self.cluster:
            self._client = None  # its locks may be held by threads that do not exist here

    def get(self) -> Any:
        """Return the client; for a cluster, the first call creates it and connects it.

        :raises Exception: one of :attr:`errors`: no node of the cluster can be reached, or the server is no cluster.
        """
        client = self._client
        if client is None:
            with self._lock:
                client = self._client = self._client or self._connect()
        return client

    def _connect(self) -> Any:
        from redis import cluster

        node: Any = cluster.ClusterNode
        # Without require_full_coverage, operations on slots that are served work while other slots are not served.
        return cluster.RedisCluster.from_url(self._url, startup_nodes=[node(*address) for address in self._others],
                                     require_full_coverage=False, **self._options)

    def explain(self, error: Exception) -> str:
        """Return the text of one of the errors; if no known node was reached, the next operation asks those of the URL."""
        if self.cluster and isinstance(error, self._unreachable):
            self._client = None
        if not self.cluster and isinstance(error, self._moved):
            return f"it is a node of a cluster, whose URL begins with redis{_CLUSTER}:// ({error})"
        return str(error)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        client = self._client
        if client is not None:
            if self.cluster:
                client.disconnect_connection_pools()  # close() of this client leaves them to the garbage collection
            client.close()


_log = get_logger(__name__)
#: Seconds for which the thread waits for a message. After so many seconds it also reads the numbers of all watched logs: a
#: message can be lost without a sign, and requests may wait for it.
_LISTEN_SECONDS = 5.0
#: Seconds between two attempts to reach the server again, at first and at most.
_RETRY_SECONDS = (0.1, 2.0)


class RedisChanges:
    """Subscribes to channels, and reports what is published there.

    A subscription object of redis-py is for one thread. That thread is started with the first subscription and ends in
    :meth:`close`. Other threads give it the channels to subscribe to, and wake it through a channel of its own.

    The nodes of a cluster pass messages on to each other, and lose them while they have no connection. If the node that the
    thread listens to is lost, the thread listens to another one.

    :param client: of Redis.
    :param report: called on the thread with a channel and the text that was published.
    :param refresh: called on the thread after messages may have been missed, and every few seconds; it must not add or remove
        channels. It may raise BackendError.
    """

    def __init__(self, client: RedisClient, report: Callable[[str, bytes], object], refresh: Callable[[], object]) -> None:
        self._redis = client
        self._errors: Tuple[Type[Exception], ...] = (*client.errors, BackendError)
        self._report = report
        self._refresh = refresh
        self._own = f"mcplite-wake:{secrets.token_hex(8)}"
        #: Guards the fields below; threads wait on it for the server's confirmation. Held for set operations only.
        self._changed = threading.Condition()
        self._wanted: Set[str] = set()
        self._confirmed: Set[str] = set()
        #: Whether the thread has to compare the wanted channels with those that it is subscribed to. It does not compare them
        #: at each message, since there may be many.
        self._altered = True
        self._started = self._closed = False
        #: Whether the server was reached since the thread last tried.
        self._reachable = False
        #: The node of a cluster that the thread listens to, as a keyword of redis-py; empty without a cluster.
        self._target: Dict[str, Any] = {}
        #: Whether the thread has missed no message as far as it knows.
        self._connected = True
        self._loop: Optional[Loop] = None

    def let_go(self) -> None:
        """Begin without a thread and without channels in a forked process."""
        renew(self)
        self._wanted.clear()
        self._confirmed.clear()
        self._altered = True
        self._started = False
        self._connected = True
        self._target = {}
        self._own = f"mcplite-wake:{secrets.token_hex(8)}"
        self._loop = None

    def _start(self) -> None:
        loop = Loop(f"listener of {self._redis.name}", self._run)
        try:
            loop.start()
            self._loop = loop
        except TransportError as error:  # the next wait tries again
            raise BackendError(f"changes in {self._redis.name} cannot be read: {error}") from error

    def add(self, channels: Sequence[str], timeout: float) -> None:
        """Subscribe to channels; returns when the server has confirmed it, so that nothing later is missed.

        :raises BackendError: no confirmation within *timeout* seconds.
        """
        with self._changed:
            self._wanted.update(channels)
            self._altered = True
            awake = not self._started
            if not self._started and not self._closed:
                self._start()
                self._started = True
        if not awake:
            self._wake()
            with self._changed:
                self._reachable = True  # the thread need not pause longer after an outage
                self._changed.notify_all()
        deadline = Deadline(timeout)
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._confirmed.issuperset(channels), deadline.remaining()):
                raise BackendError(f"the backend {self._redis.name} cannot be read: it has not confirmed a subscription within"
                                   f" {timeout:g} s")

    def remove(self, channels: Sequence[str]) -> None:
        """Unsubscribe from channels, with the next message that comes."""
        with self._changed:
            self._wanted.difference_update(channels)
            self._altered = True

    def _run(self) -> None:
        messages: Any = None
        pause, looked = _RETRY_SECONDS[0], time.monotonic()
        try:
            while not self._closed:
                try:
                    if messages is None:
                        messages = self._open()
                    self._subscribe(messages)
                    message = messages.get_message(timeout=_LISTEN_SECONDS)
                    if message is not None:
                        self._receive(message, messages)
                    if not self._connected or time.monotonic() - looked >= _LISTEN_SECONDS:
                        self._refresh()
                        self._connected, pause, looked = True, _RETRY_SECONDS[0], time.monotonic()
                except Exception as error:  # of any class: without this thread no wait would learn of new entries
                    why = self._redis.explain(error)  # after each error: so a cluster's nodes are looked up again
                    if self._connected and not self._closed:
                        _log.warning("the backend %s cannot be reached, changes are read when it is back: %s",
                                     self._redis.name, why, exc_info=not isinstance(error, self._errors))
                    self._connected = False
                    if self._redis.cluster:
                        self._abandon(messages)
                        messages = None
                    with self._changed:
                        self._altered = True
                        self._changed.wait_for(lambda: self._closed or self._reachable, pause)
                        self._reachable = False
                    pause = min(2 * pause, _RETRY_SECONDS[1])
        finally:
            self._connected = False
            self._abandon(messages)

    def _open(self) -> Any:
        client = self._redis.get()
        if not self._redis.cluster:
            return client.pubsub()
        with self._changed:
            self._confirmed.clear()  # confirmed by the former node
        node = client.get_random_node()
        messages = client.pubsub(node=node)
        self._target = {"target_nodes": node}
        return messages

    def _abandon(self, messages: Any) -> None:
        if messages is not None:
            with contextlib.suppress(*self._errors):
                messages.close()

    def _wake(self) -> None:
        """Have the thread look at the wanted channels, by a message to the very node of a cluster that it listens to."""
        self._redis.get().publish(self._own, b"", **self._target)

    def _subscribe(self, messages: Any) -> None:
        with self._changed:
            if not self._altered:
                return
            self._altered = False
            subscribed = {channel.decode("ascii") for channel in messages.channels}
            wanted = {self._own, *self._wanted}
            new: List[str] = [channel for channel in wanted if channel not in subscribed]
            old: List[str] = [channel for channel in subscribed if channel not in wanted]
            self._confirmed.difference_update(old)  # a thread that wants one of them again waits for a new confirmation
        if new:
            messages.subscribe(*new)
        if old:
            messages.unsubscribe(*old)

    def _receive(self, message: Any, messages: Any) -> None:
        channel = message["channel"].decode("ascii")
        if message["type"] == "subscribe":
            with self._changed:
                if channel in self._wanted and message["channel"] not in messages.pending_unsubscribe_channels:
                    self._confirmed.add(channel)
                    self._changed.notify_all()
        elif message["type"] == "message" and channel != self._own:
            self._report(channel, message["data"])

    def close(self) -> None:
        """End the thread. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            loop = self._loop
        if loop is not None and not loop.runs_here:
            with contextlib.suppress(*self._errors):  # if the server is away, the thread ends after its present wait
                self._wake()
            loop.join(Deadline(None))


T = TypeVar("T")

#: KEYS: counter, stream. ARGV: value, the entry's and the counter's milliseconds, entries to keep, channel.
_APPEND = """
local number = redis.call('INCR', KEYS[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
if number == 1 then redis.call('DEL', KEYS[2]) end
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[4], number .. '-0', 'v', ARGV[1])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
redis.call('PUBLISH', ARGV[5], number)
return number
"""
#: KEYS: the value's. ARGV: "1" and the old value, or "0"; "1" and the new value, or "0"; milliseconds.
_SWAP = """
local old = redis.call('GET', KEYS[1])
if ARGV[1] == '1' then
    if old ~= ARGV[2] then return 0 end
elseif old then return 0 end
if ARGV[3] == '1' then redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5]) else redis.call('DEL', KEYS[1]) end
return 1
"""
#: KEYS: counter, stream. ARGV: the id of the first entry. Both answers are of one moment.
_SINCE = """
return {redis.call('GET', KEYS[1]), redis.call('XRANGE', KEYS[2], ARGV[1], '+')}
"""
#: Seconds for which an operation waits for the server.
_SECONDS = 5.0
#: How many logs one request asks for their last numbers.
_AT_ONCE = 500


class RedisBackend(Backend):
    """Keeps values and logs in Redis 6.2 or newer, or in Valkey.

    :param url: as redis-py reads it: ``redis://[user:password@]host:port/db``, ``rediss://`` for TLS, ``unix://path``;
        ``redis+cluster://host:port,host:port`` names some nodes of a cluster, ``rediss+cluster://`` with TLS;
        ``prefix=name`` in its query is another way to say *prefix*.
    :param prefix: begins each key; by default "mcplite".
    :param timeout: seconds for which an operation waits for the server.
    :raises RegistrationError: redis-py is not installed or too old, or the URL cannot be read.
    """

    def __init__(self, url: str, prefix: Optional[str] = None, timeout: float = _SECONDS) -> None:
        self._redis = RedisClient(url, timeout)
        self._prefix = self._redis.prefix if prefix is None else prefix
        self._timeout = timeout
        self._closed = False
        #: Whether :meth:`close` has ended the listening thread. From then on each operation that still runs closes the
        #: connections at its end.
        self._ended = False
        self._watch = LogWatch(self._follow, self._forget, self._numbers, self._forked)
        self._changes = RedisChanges(self._redis, self._report, self._watch.refresh)

    def _forked(self) -> None:
        self._redis.let_go()
        self._changes.let_go()

    def __repr__(self) -> str:
        return f"<RedisBackend {self._redis.name}>"

    def _key(self, kind: str, name: str) -> str:
        group, slash, rest = name.partition("/")
        return f"{self._prefix}:{kind}:{{{group}}}{slash}{rest}"

    def _run(self, verb: str, work: Callable[[], T]) -> T:
        if self._closed:
            raise self._closed_error()
        try:
            return work()
        except Exception as error:
            if self._closed:
                # redis-py raises errors of many kinds on a connection that another thread closes.
                raise self._closed_error() from error
            if not isinstance(error, self._redis.errors):
                raise
            raise BackendError(f"the backend {self._redis.name} cannot be {verb}: {self._redis.explain(error)}") from error
        finally:
            if self._ended:
                self._redis.close()  # this operation may have connected after another thread closed

    def _call(self, script: str, keys: List[str], arguments: List[Any]) -> Any:
        """Run a script on the server that has the keys; if the server does not know the script yet, it is loaded."""
        return self._redis.get().register_script(script)(keys=keys, args=arguments)

    def _closed_error(self) -> BackendError:
        return BackendError(f"the backend {self._redis.name} is closed")

    # --- values -------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self._run("written", lambda: self._redis.get().set(self._key("value", key), value, px=_milliseconds(seconds)))

    def get(self, key: str) -> Optional[bytes]:
        value: Optional[bytes] = self._run("read", lambda: self._redis.get().get(self._key("value", key)))
        return value

    def take(self, key: str) -> Optional[bytes]:
        value: Optional[bytes] = self._run("written", lambda: self._redis.get().getdel(self._key("value", key)))
        return value

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        arguments: List[Any] = [int(old is not None), old or b"", int(new is not None), new or b"", _milliseconds(seconds)]
        return self._run("written", lambda: bool(self._call(_SWAP, [self._key("value", key)], arguments)))

    # --- logs ---------------------------------------------------------------------------------------

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        keys = [self._key("number", log), self._key("log", log)]
        arguments: List[Any] = [value, _milliseconds(seconds), _milliseconds(seconds + NUMBERS_SECONDS), keep,
                                self._channel(log)]
        return self._run("written", lambda: int(self._call(_APPEND, keys, arguments)))

    def since(self, log: str, number: int) -> Optional[List[Entry]]:
        keys = [self._key("number", log), self._key("log", log)]
        count, found = self._run("read", lambda: self._call(_SINCE, keys, [f"{number + 1}-0"]))
        last = self._number(log, count)
        try:
            entries = [(int(at.partition(b"-")[0]), fields[1]) for at, fields in found]
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise self._odd(log) from error
        return entries if number <= last and len(entries) == last - number else None

    def last(self, log: str) -> int:
        return self._number(log, self._run("read", lambda: self._redis.get().get(self._key("number", log))))

    def _number(self, log: str, value: Any) -> int:
        """Return the number of a log as it is stored; 0 if there is none."""
        try:
            return int(value or 0)
        except (TypeError, ValueError) as error:
            raise self._odd(log) from error

    def _odd(self, log: str) -> BackendError:
        return BackendError(f"remove the log {log!r} from the backend {self._redis.name}: it holds what mcplite did not write")

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        return self._watch.wait(logs, timeout)

    # --- notifications of new entries ---------------------------------------------------------------

    def _channel(self, log: str) -> str:
        return self._key("news", log)

    def _follow(self, logs: Sequence[str]) -> Dict[str, int]:
        self._run("read", lambda: self._changes.add([self._channel(log) for log in logs], self._timeout))
        return self._numbers(logs)

    def _numbers(self, logs: Sequence[str]) -> Dict[str, int]:
        def read() -> Dict[str, int]:
            numbers: Dict[str, int] = {}
            for some in grouped(logs, _AT_ONCE):
                pipeline = self._redis.get().pipeline(transaction=False)
                for log in some:
                    pipeline.get(self._key("number", log))
                for log, count in zip(some, pipeline.execute()):
                    with contextlib.suppress(BackendError):  # only the thread that reads this log gets the error
                        numbers[log] = self._number(log, count)
            return numbers

        return self._run("read", read)

    def _forget(self, logs: Sequence[str]) -> None:
        self._changes.remove([self._channel(log) for log in logs])

    def _report(self, channel: str, number: bytes) -> None:
        name = channel[len(self._prefix) + len(":news:"):]
        self._watch.announce(name.replace("{", "", 1).replace("}", "", 1), number)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._watch.close()
            self._changes.close()
            self._ended = True
            self._redis.close()


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
