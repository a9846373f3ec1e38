"""Connects a test to a server object in this process, and records the messages."""

from typing import Any

from ..rpc.channels import MemoryChannel
from .recording import Recording

__all__ = ["record"]


def record(server: Any) -> Recording:
    """Return a recording transport to a Server object in this process; pass it to ``connect``.

    :param server: anything with ``serve_channel(channel)``.
    """
    ours, theirs = MemoryChannel.pair(("the client", f"the server {getattr(server, 'name', server)!r}"))
    server.serve_channel(theirs)
    return Recording(ours)
