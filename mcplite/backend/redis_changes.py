"""The subscriptions of one process to the channels of Redis on which new entries of logs are told."""

import contextlib
import secrets
import threading
from typing import Any, Callable, List, Sequence, Set, Tuple, Type

from ..errors import BackendError
from ..rpc.deadline import Deadline
from ..rpc.forks import new_condition, on_fork
from ..rpc.tracing import get_logger

__all__ = ["RedisChanges"]

_log = get_logger(__name__)
#: Seconds for which the thread waits for a message before it checks its connection.
_LISTEN_SECONDS = 5.0
#: Seconds between two attempts to reach the server again, at first and at most.
_RETRY_SECONDS = (0.1, 2.0)


class RedisChanges:
    """Subscribes to channels, and reports what is published there.

    redis-py's subscriptions are for one thread. It is started with the first subscription and ends in :meth:`close`;
    other threads hand it what to subscribe to, and wake it through a channel of its own.

    :param name: of the backend, for errors and logs.
    :param client: of redis-py.
    :param errors: what that raises.
    :param report: called on the thread with a channel and the text that was published.
    :param refresh: called on the thread after messages may have been missed. It may raise BackendError.
    """

    def __init__(self, name: str, client: Any, errors: Tuple[Type[Exception], ...], report: Callable[[str, bytes], object],
                 refresh: Callable[[], object]) -> None:
        self._name = name
        self._client = client
        self._errors: Tuple[Type[Exception], ...] = (*errors, BackendError)
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
        self._thread = threading.Thread(target=self._run, name="mcplite-redis-changes", daemon=True)
        on_fork(self, RedisChanges._forked)

    def _forked(self, owner: int) -> None:
        self._wanted.clear()
        self._confirmed.clear()
        self._started = False
        self._own = f"mcplite-wake:{secrets.token_hex(8)}"
        self._thread = threading.Thread(target=self._run, name="mcplite-redis-changes", daemon=True)

    def add(self, channels: Sequence[str], timeout: float) -> None:
        """Subscribe to channels; returns when the server has confirmed it, so that nothing later is missed.

        :raises BackendError: no confirmation within *timeout* seconds.
        """
        with self._changed:
            self._wanted.update(channels)
            awake = not self._started
            if not self._started and not self._closed:
                self._started = True
                self._thread.start()
        if not awake:
            self._client.publish(self._own, b"")
            if threading.current_thread() is not self._thread:
                with self._changed:
                    self._reachable = True  # the thread need not pause longer after an outage
                    self._changed.notify_all()
        deadline = Deadline(timeout)
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._confirmed.issuperset(channels), deadline.remaining()):
                raise BackendError(f"the backend {self._name} cannot be read: it has not confirmed a subscription within"
                                   f" {timeout:g} s")

    def remove(self, channels: Sequence[str]) -> None:
        """Unsubscribe from channels, with the next message that comes."""
        with self._changed:
            self._wanted.difference_update(channels)
            self._confirmed.difference_update(channels)

    def _run(self) -> None:
        messages = self._client.pubsub()
        pause, connected = _RETRY_SECONDS[0], True
        while not self._closed:
            try:
                self._subscribe(messages)
                message = messages.get_message(timeout=_LISTEN_SECONDS)
                if not connected:
                    self._refresh()
                    connected, pause = True, _RETRY_SECONDS[0]
                if message is not None:
                    self._receive(message)
            except self._errors as error:
                if connected and not self._closed:
                    _log.warning("the backend %s cannot be reached, changes are read when it is back: %s", self._name, error)
                connected = False
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._reachable, pause)
                    self._reachable = False
                pause = min(2 * pause, _RETRY_SECONDS[1])
        with contextlib.suppress(*self._errors):
            messages.close()

    def _subscribe(self, messages: Any) -> None:
        with self._changed:
            wanted = {self._own, *self._wanted}
        subscribed = {channel.decode("ascii") for channel in messages.channels}
        new: List[str] = [channel for channel in wanted if channel not in subscribed]
        old: List[str] = [channel for channel in subscribed if channel not in wanted]
        if new:
            messages.subscribe(*new)
        if old:
            messages.unsubscribe(*old)

    def _receive(self, message: Any) -> None:
        channel = message["channel"].decode("ascii")
        if message["type"] == "subscribe":
            with self._changed:
                if channel in self._wanted:
                    self._confirmed.add(channel)
                    self._changed.notify_all()
        elif message["type"] == "message" and channel != self._own:
            self._report(channel, message["data"])

    def close(self) -> None:
        """End the thread. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            started = self._started
        if started and self._thread is not threading.current_thread():
            with contextlib.suppress(*self._errors):  # without a server it ends after its present wait
                self._client.publish(self._own, b"")
            self._thread.join()
