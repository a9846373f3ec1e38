"""Connections that are accepted and wait for a place among those that are served.

A module of its own beside :mod:`.httpd`: a client that has all places gets no further one at once, and what it asks on one
more connection is read as soon as another of its connections ends or is idle.
"""

import sys
from typing import List, Optional, Set, Tuple

from ..limits import Limits
from ..shares import Shares
from .connection import Connection

__all__ = ["WaitingConnections", "most_connections"]

#: Connections that wait; each takes three KiB.
_MOST_WAITING = 1024
#: select() takes 512 sockets on Windows; a few are the server's own.
_MOST_ON_WINDOWS = 500


def most_connections(limits: Limits) -> Tuple[int, int]:
    """Return how many connections are served at once, and how many may wait, with the descriptors of this process.

    A quarter of the descriptors is left to handlers.
    """
    most = limits.connections
    if sys.platform == "win32":
        return min(most, _MOST_ON_WINDOWS), _MOST_WAITING
    import resource

    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return most, _MOST_WAITING
    return min(most, max(descriptors // 2, 1)), min(_MOST_WAITING, max(descriptors // 4, 1))


class WaitingConnections:
    """The connections that wait. No thread reads or watches them.

    :param most: at once; for one more the oldest of the sender with the most goes.
    :param seconds: that one may wait.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._shares: Shares[Connection] = Shares(most)
        self._seconds = seconds
        #: The sender for whose request there was no room when :meth:`next` was last called. What is silent needs none.
        self.crowded: Set[str] = set()

    def __len__(self) -> int:
        return len(self._shares)

    def add(self, connection: Connection) -> List[Connection]:
        """Let a connection wait; return those that the caller refuses in return."""
        return self._shares.add(connection, connection.sender) or []

    def next(self, silent: bool) -> Optional[Connection]:
        """Return the one that has waited longest of those that have sent something; it stays.

        :param silent: whether one that has sent nothing will do if there is no other.
        """
        waiting = self._shares.items()
        found = next((connection for connection in waiting if connection.has_input), None)
        self.crowded.clear()
        if found is not None:
            self.crowded.add(found.sender)
            return found
        return waiting[0] if silent and waiting else None

    def remove(self, connection: Connection) -> bool:
        """Note that a connection does not wait any more; False if it did not."""
        return self._shares.remove(connection)

    def expired(self) -> List[Connection]:
        """Remove those that have waited for too long, and return them."""
        return [connection for connection in self._shares.idle(self._seconds, self._seconds)
                if self._shares.remove(connection)]

    def clear(self) -> List[Connection]:
        """Remove all, and return them."""
        return self._shares.clear()
