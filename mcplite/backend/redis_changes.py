"""The subscriptions of one process to the channels of Redis on which new entries of logs are told."""

import contextlib
import functools
import secrets
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Type

from ..errors import BackendError, TransportError
from ..rpc.deadline import Deadline
from ..rpc.forks import new_condition, on_fork
from ..rpc.threads import start_thread
from ..rpc.tracing import FaultLog, get_logger
from .redis_client import RedisClient

__all__ = ["RedisChanges"]

_log = get_logger(__name__)
#: Seconds for which the thread waits for a message, and after which it reads the numbers even if none was missed as far as it
#: knows: a message can be lost without a sign, and requests hang on it.
_LISTEN_SECONDS = 5.0
#: Seconds between two attempts to reach the server again, at first and at most.
_RETRY_SECONDS = (0.1, 2.0)


class RedisChanges:
    """Subscribes to channels, and reports what is published there.

    redis-py's subscriptions are for one thread. It is started with the first subscription and ends in :meth:`close`;
    other threads hand it what to subscribe to, and wake it through a channel of its own.

    The nodes of a cluster pass messages on to each other, and lose them while they have no connection. When the node that the
    thread listens to is lost, it goes to another one.

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
        self._changed = new_condition()
        self._wanted: Set[str] = set()
        self._confirmed: Set[str] = set()
        self._started = self._closed = False
        #: Whether the server was reached since the thread last tried.
        self._reachable = False
        #: The node of a cluster that the thread listens to, as redis-py wants it named.
        self._target: Dict[str, Any] = {}
        #: Whether the thread has missed no message as far as it knows.
        self._connected = True
        self._faults = FaultLog(_log)
        self._thread: Optional[threading.Thread] = None
        on_fork(self, RedisChanges._forked)

    def _forked(self, owner: int) -> None:
        self._wanted.clear()
        self._confirmed.clear()
        self._started = False
        self._connected = True
        self._target = {}
        self._own = f"mcplite-wake:{secrets.token_hex(8)}"
        self._thread = None

    def _start(self) -> None:
        run = functools.partial(self._faults.keep_running, self._run, "changes in %s could not be read, which is tried again",
                                self._redis.name)
        try:
            self._thread = start_thread(run, "mcplite-redis-changes")
        except TransportError as error:  # the next wait tries again
            raise BackendError(f"changes in {self._redis.name} cannot be read: {error}") from error

    def add(self, channels: Sequence[str], timeout: float) -> None:
        """Subscribe to channels; returns when the server has confirmed it, so that nothing later is missed.

        :raises BackendError: no confirmation within *timeout* seconds.
        """
        with self._changed:
            self._wanted.update(channels)
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
                except Exception as error:  # whatever redis-py raises: without this thread all waits would be blind
                    why = self._redis.explain(error)  # each time, since it lets the nodes of a cluster be looked for again
                    if self._connected and not self._closed:
                        _log.warning("the backend %s cannot be reached, changes are read when it is back: %s",
                                     self._redis.name, why, exc_info=not isinstance(error, self._errors))
                    self._connected = False
                    if self._redis.cluster:
                        self._abandon(messages)
                        messages = None
                    with self._changed:
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
            self._confirmed.clear()  # by the node before
        node = client.get_random_node()
        messages = client.pubsub(node=node)
        self._target = {"target_nodes": node}
        return messages

    def _abandon(self, messages: Any) -> None:
        if messages is not None:
            with contextlib.suppress(*self._errors):
                messages.close()

    def _wake(self) -> None:
        """Have the thread look at what is wanted; through the node that it listens to, which passes nothing on for it."""
        self._redis.get().publish(self._own, b"", **self._target)

    def _subscribe(self, messages: Any) -> None:
        subscribed = {channel.decode("ascii") for channel in messages.channels}
        with self._changed:
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
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            with contextlib.suppress(*self._errors):  # without a server it ends after its present wait
                self._wake()
            thread.join()
