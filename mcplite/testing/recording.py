"""A transport that records every message that passes.

Connects a test to a server object in this process, and records the messages.
"""

import json
import threading
from typing import Any, Dict, List, NamedTuple, Optional

from ..rpc.channels import MemoryChannel
from ..rpc.interfaces import Channel

__all__ = ["Recorded", "Recording", "record"]


class Recorded(NamedTuple):
    """One message: its direction, "->" for sent and "<-" for received, and its content."""

    direction: str
    message: Any


class Recording(Channel):
    """A transport that passes each message on to another one and keeps a record of it.

    :param channel: the transport to record.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.name = channel.name
        self.interruptible = channel.interruptible
        #: Guards ``_messages``; held for list work only.
        self._lock = threading.Lock()
        self._messages: List[Recorded] = []

    @property
    def messages(self) -> List[Recorded]:
        """The messages so far, in order; those that are not JSON are kept as bytes."""
        with self._lock:
            return list(self._messages)

    def sent(self, method: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return the messages that this side has sent, all or those of one method.

        :param method: by default all.
        """
        return [item.message for item in self.messages
                if item.direction == "->" and (method is None or item.message.get("method") == method)]

    @property
    def buffered(self) -> bool:
        return self._channel.buffered

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        data = self._channel.read(timeout)
        if data is not None:
            self._note("<-", data)
        return data

    def consume(self) -> None:
        self._channel.consume()

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._note("->", data)
        self._channel.write(data, timeout)

    def wake(self) -> None:
        self._channel.wake()

    def close(self) -> None:
        self._channel.close()

    def _note(self, direction: str, data: bytes) -> None:
        try:
            message: Any = json.loads(data)
        except (ValueError, RecursionError):
            message = data
        with self._lock:
            self._messages.append(Recorded(direction, message))


def record(server: Any) -> Recording:
    """Return a recording transport to a Server object in this process; pass it to ``connect``.

    :param server: anything with ``serve_channel(channel)``.
    """
    ours, theirs = MemoryChannel.pair(("the client", f"the server {getattr(server, 'name', server)!r}"))
    server.serve_channel(theirs)
    return Recording(ours)
