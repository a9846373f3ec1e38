"""ClientSession: the base of the sessions of both eras, with the options that every session gets.

The client, its subscriptions and the negotiation know this class; the two eras subclass it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...errors import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from ...types.lazy_dataclass import Record, record
from ..call import FeatureSession, Waiting
from ..client_observer import ObservedSession, observed_request
from .server_connection import ConnectionHandler, ServerConnection

if TYPE_CHECKING:
    from ...rpc.cancel import CancelToken
    from ...types import Implementation, InitializeResult, Tool
    from ..cache import Cache
    from ..call import Call
    from ..client_extensions import ClientExtensions
    from ..client_observer import ClientObserver

__all__ = ["MODERN_ERRORS", "ClientSession", "SessionOptions", "SessionPart", "Subscriber"]

#: Errors that only servers without a handshake send (ERA-03); they may come without a request id.
MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})


@record(frozen=True)
class SessionOptions(Record):
    """The options of a client that its sessions need."""

    #: Name and version of this client.
    info: Implementation
    #: How many questions the server may ask in a minute; None for any number.
    questions_per_minute: Optional[int]
    #: The cached results of the client.
    cache: Cache
    #: Reads the list of tools again; takes the keywords of :meth:`Features.request`.
    list_tools: Callable[..., List[Tool]]
    #: They see each request and each question; the client adds to the list.
    observers: List[ClientObserver]
    #: The extensions of the protocol that the client supports; None without any.
    extensions: Optional[ClientExtensions] = None
    #: Result types that extensions add to the protocol's own (STAT-09).
    result_types: Tuple[str, ...] = ()
    #: Returns the W3C trace context of a request (META-08).
    trace_context: Optional[Callable[[], Mapping[str, str]]] = None


class Subscriber:
    """Takes the messages of one subscription, on the reader's thread."""

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification of this subscription."""
        raise NotImplementedError

    def on_ended(self) -> None:
        """Called when the server has ended the subscription."""
        raise NotImplementedError


class SessionPart:
    """What an extension keeps for one session, and hears from its server; on the reader's thread."""

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification, which the client's handlers get as well."""

    def take_progress(self, token: Any, params: Dict[str, Any], size: int) -> bool:
        """Take progress that belongs to no pending request; False if it is not for this part.

        :param token: as the server sent it, of any type.
        :param size: of the message, in bytes.
        """
        return False

    def close(self) -> None:
        """Called when the connection has ended."""


class ClientSession(ConnectionHandler, FeatureSession, ObservedSession):
    """A session with a server, over one connection.

    Constructors of subclasses end with ``connection.session = self``: from then on the reader's thread calls the session.

    :param connection: to the server.
    :param options: those of the client that its sessions need.
    """

    #: Whether a new session with a new process of the server can replace this one.
    restartable = False
    #: The server's answer to ``initialize``, or an equivalent made of ``server/discover``; None until the session is open.
    result: Optional[InitializeResult] = None
    #: The level of log messages that each request asks for; None asks for no messages.
    log_level: Optional[str] = None

    def __init__(self, connection: ServerConnection, options: SessionOptions) -> None:
        self.connection = connection
        self.peer = connection.peer
        self._channel = connection.channel
        self.name = connection.channel.name
        self._handlers = connection.handlers
        self._options = options
        self._observers = options.observers
        #: The parts of extensions, by names of theirs; added from any thread, and kept until the session ends.
        self.parts: Dict[str, SessionPart] = {}

    def _observed(self, call: Call, send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
        """Return the result of a call, seen by the client's observers."""
        return observed_request(self._observers, self, call, send) if self._observers else send(call)

    def now(self) -> float:
        return self.peer.now()

    def listen(self, subscriber: Subscriber, filter: Dict[str, Any], cancel: CancelToken) -> None:
        """Open one stream of changes and return when the server ends it; only with :attr:`change_streams`."""
        raise NotImplementedError

    def take_over(self, lost: "ClientSession", waiting: Waiting) -> None:
        """Take over what was set in *lost*, a session that has ended, or that of another process.

        :param waiting: of the call that needs this one.
        """

    def _opened(self, result: InitializeResult) -> None:
        self._handlers.server_info = result.server_info
        self.result, self.capabilities = result, result.capabilities
