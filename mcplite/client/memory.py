"""The transport to a Server object in this process."""

from typing import Any

from ..rpc.channels import Channel, MemoryChannel

__all__ = ["memory_channel"]


def memory_channel(server: Any) -> Channel:
    """Return a channel to *server*, which is anything with ``serve_channel(channel)``.

    The conversation runs on threads of the server's; it ends with the channel.
    """
    name = str(getattr(server, "name", server))
    ours, theirs = MemoryChannel.pair(("the client", f"the server {name!r} in this process"))
    server.serve_channel(theirs)
    return ours
