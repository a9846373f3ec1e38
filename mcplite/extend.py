"""What extends the library: transports of your own, and stores that several processes share."""

from .backend.from_url import open_backend
from .backend.interface import Backend
from .protocol.framing import LineBuffer
from .rpc.channels import StreamChannel
from .rpc.interfaces import Channel
from .server.http.event_store import EventStore
from .server.runtime.states import StoredState

__all__ = ["Backend", "Channel", "EventStore", "LineBuffer", "StoredState", "StreamChannel", "open_backend"]
