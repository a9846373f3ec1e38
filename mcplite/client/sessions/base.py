"""What the sessions of both eras share: their interface, and what the client gives each of them."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...rpc.cancel import CancelToken
from ...types import Implementation, InitializeResult, Tool
from ..features.cache import Cache
from ..features.methods import FeatureSession
from .connection import ConnectionHandler, ServerConnection

__all__ = ["ClientSession", "SessionOptions", "Subscriber"]


@dataclass(frozen=True)
class SessionOptions:
    """What a client gives to each session that it opens."""

    #: Who this client is.
    info: Implementation
    #: How many questions the server may ask in a minute; None for any number.
    questions_per_minute: Optional[int]
    #: The results that the server allowed to keep.
    cache: Cache
    #: Reads the list of tools again; takes the keywords of :meth:`Features.request`.
    list_tools: Callable[..., List[Tool]]
    #: Declared with each request, with their settings.
    extensions: Optional[Dict[str, Any]] = None
    #: Result types that extensions add to the protocol's own (STAT-09).
    result_types: Tuple[str, ...] = ()
    #: Returns the W3C trace context of a request (META-08).
    trace_context: Optional[Callable[[], Mapping[str, str]]] = None


class Subscriber:
    """Gets what the server sends on one subscription, on the reader's thread."""

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification of this subscription."""
        raise NotImplementedError

    def on_ended(self) -> None:
        """Called when the server has ended the subscription."""
        raise NotImplementedError


class ClientSession(ConnectionHandler, FeatureSession):
    """A session with a server, over one connection.

    Constructors of subclasses end with ``connection.session = self``: from then on the reader's thread calls the session.

    :param connection: to the server.
    :param options: what the client gives to its sessions.
    """

    #: Whether changes come only on streams that are asked for, one for each subscription; else they come unasked.
    change_streams = False
    #: The server's answer to the handshake, or what it said of itself; None until the session is open.
    result: Optional[InitializeResult] = None
    #: The level of log messages that each request asks for; None for none.
    log_level: Optional[str] = None

    def __init__(self, connection: ServerConnection, options: SessionOptions) -> None:
        self.connection = connection
        self.peer = connection.peer
        self._channel = connection.channel
        self._handlers = connection.handlers
        self._options = options

    @property
    def name(self) -> str:
        return self._channel.name

    @property
    def restartable(self) -> bool:
        """Whether another session can take its place, over another connection to the same server."""
        return False

    def listen(self, subscriber: Subscriber, filter: Dict[str, Any], cancel: CancelToken) -> None:
        """Keep one stream of changes open until the server ends it; only where there are :attr:`change_streams`."""
        raise NotImplementedError

    def take_over(self, lost: "ClientSession") -> None:
        """Continue with what *lost* was told, a session whose server has ended."""

    def _opened(self, result: InitializeResult) -> None:
        self._handlers.server_info = result.server_info
        self.result, self.capabilities = result, result.capabilities
