"""The backend in Redis or Valkey: for several hosts, with the extra ``redis``.

Each log has a counter, a stream, and a channel on which its last number is published. The keys of a group have the same
hash tag, so a cluster keeps them in one slot, as a script needs them.
"""

import contextlib
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, TypeVar

from ..errors import BackendError
from .interface import NUMBERS_SECONDS, Backend, Entry
from .redis_changes import RedisChanges
from .redis_client import RedisClient
from .watch import LogWatch, grouped

__all__ = ["RedisBackend"]

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
#: Logs in one request of the listening thread.
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
        #: Whether the thread that listens has ended, so that connections are closed without it.
        self._ended = False
        self._watch = LogWatch(self._follow, self._forget, self._numbers)
        self._changes = RedisChanges(self._redis, self._report, self._watch.refresh)

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
        """Run a script on the server that has the keys, which may not know it yet."""
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
                    with contextlib.suppress(BackendError):  # the thread that reads this log gets it, and no other
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
