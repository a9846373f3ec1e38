"""What extends the library: extensions of the protocol, transports, and stores that several processes share."""

from .backend.from_url import open_backend
from .backend.interface import Backend
from .protocol.framing import LineBuffer
from .rpc.channels import StreamChannel
from .rpc.extension import Extension, ListenKind
from .rpc.interfaces import Channel
from .server.runtime.extension_host import ServerHost

__all__ = ["Backend", "Channel", "Extension", "LineBuffer", "ListenKind", "ServerHost", "StreamChannel",
           "open_backend"]
