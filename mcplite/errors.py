"""Every exception that mcplite raises, as one tree.

::

    MCPError
    ├── RemoteError(code, message, data)       the peer answered with an error
    │   ├── MethodNotFound                     -32601
    │   ├── InvalidParams                      -32602
    │   │   └── ResourceNotFound(uri)          -32602 or -32002, by revision
    │   ├── InternalError                      -32603
    │   ├── UnsupportedVersion(supported)      -32022, or -32602 in a handshake
    │   ├── MissingCapability(required)        -32021
    │   ├── HeaderMismatch                     -32020
    │   └── UrlElicitationRequired(urls)       -32042
    ├── ProtocolError(message, raw)            the peer broke the rules
    ├── TransportError                         could not talk
    │   ├── ConnectionClosed(stderr_tail)      the other side is gone, or we closed
    │   │   └── SessionLost
    │   ├── HTTPStatusError(status, body)
    │   └── AuthError(challenge, error)
    ├── RequestTimeout                         the deadline passed (also a TimeoutError)
    ├── Cancelled(reason)                      somebody cancelled the call
    ├── InputNeeded(requests, state)           the server asks something first, and rounds=False was said
    ├── NotSupported                           the peer did not declare it; nothing was sent
    ├── ToolError(message, content)            a tool's own failure: an ``isError`` result
    └── RegistrationError                      what was registered cannot be served (also a ValueError)

Errors that a peer sent carry JSON-RPC codes; errors that arose here never do,
so that a timeout cannot be taken for the peer's word (ERR-08).
"""

from typing import Any, Dict, List, Optional, Sequence, Type

__all__ = [
    "PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INTERNAL_ERROR",
    "RESOURCE_NOT_FOUND", "URL_ELICITATION_REQUIRED", "HEADER_MISMATCH", "MISSING_CAPABILITY",
    "UNSUPPORTED_VERSION", "SERVER_BUSY", "USER_REJECTED",
    "MCPError", "RemoteError", "MethodNotFound", "InvalidParams", "ResourceNotFound", "InternalError",
    "UnsupportedVersion", "MissingCapability", "HeaderMismatch", "UrlElicitationRequired",
    "ProtocolError", "TransportError", "ConnectionClosed", "SessionLost", "HTTPStatusError",
    "AuthError",
    "RequestTimeout", "Cancelled", "InputNeeded", "NotSupported", "ToolError", "RegistrationError", "remote_error",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
URL_ELICITATION_REQUIRED = -32042
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
USER_REJECTED = -1
#: Ours: outside the range that JSON-RPC reserves, as ERR-07 asks of new codes.
SERVER_BUSY = -31001


class MCPError(Exception):
    """The root: ``except MCPError`` catches everything that mcplite raises on purpose."""


class RemoteError(MCPError):
    """The peer answered with a JSON-RPC error; raise it in a handler to send one.

    :param code: the JSON-RPC error code.
    :param message: one concise sentence.
    :param data: any JSON value that travels in ``error.data``; None leaves it out.
    """

    default_code = INTERNAL_ERROR
    #: Whether it came from the other side, in contrast to one that a handler raises on purpose.
    received = False
    #: The status of the HTTP response that brought it, when that was no ordinary answer.
    http_status: Optional[int] = None

    def __init__(self, message: str = "", *, code: Optional[int] = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = self.default_code if code is None else code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} (code {self.code})"


class MethodNotFound(RemoteError):
    """The peer does not have this method, or not under the declared capabilities (RPC-16, RPC-18)."""

    default_code = METHOD_NOT_FOUND


class InvalidParams(RemoteError):
    """The peer refused the parameters."""

    default_code = INVALID_PARAMS


class ResourceNotFound(InvalidParams):
    """There is no such resource (RSRC-15, RSRC-16, RSRC-18); the code on the wire is the revision's."""

    default_code = RESOURCE_NOT_FOUND

    @property
    def uri(self) -> Optional[str]:
        """The URI that was not found, when the peer named it."""
        return self.data.get("uri") if isinstance(self.data, dict) else None


class InternalError(RemoteError):
    """The peer failed in a way that it does not explain."""


class UnsupportedVersion(RemoteError):
    """The two sides share no protocol revision; ``supported`` lists the peer's."""

    default_code = UNSUPPORTED_VERSION

    @property
    def supported(self) -> List[str]:
        """The revisions that the peer said it speaks; empty when it did not say."""
        named = self.data.get("supported") if isinstance(self.data, dict) else None
        return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


class MissingCapability(RemoteError):
    """The client did not declare what this request needs; ``required`` names it."""

    default_code = MISSING_CAPABILITY

    @property
    def required(self) -> Dict[str, Any]:
        """The capabilities that would have been needed, as the protocol spells them."""
        named = self.data.get("requiredCapabilities") if isinstance(self.data, dict) else None
        return named if isinstance(named, dict) else {}


class HeaderMismatch(RemoteError):
    """An HTTP header and the body disagree."""

    default_code = HEADER_MISMATCH


class UrlElicitationRequired(RemoteError):
    """The request needs the user to visit URLs first (URLE-11 to URLE-14)."""

    default_code = URL_ELICITATION_REQUIRED

    @property
    def urls(self) -> List[Dict[str, Any]]:
        """The URL elicitations that the server listed, each with ``url``, ``message``, ``elicitationId``."""
        named = self.data.get("elicitations") if isinstance(self.data, dict) else None
        return [item for item in named if isinstance(item, dict)] if isinstance(named, list) else []


_BY_CODE: Dict[int, Type[RemoteError]] = {
    METHOD_NOT_FOUND: MethodNotFound,
    INVALID_PARAMS: InvalidParams,
    INTERNAL_ERROR: InternalError,
    RESOURCE_NOT_FOUND: ResourceNotFound,
    UNSUPPORTED_VERSION: UnsupportedVersion,
    MISSING_CAPABILITY: MissingCapability,
    HEADER_MISMATCH: HeaderMismatch,
    URL_ELICITATION_REQUIRED: UrlElicitationRequired,
}


def remote_error(code: Any, message: Any, data: Any = None) -> RemoteError:
    """Return the exception for an error object from the wire; odd values are kept, not refused (RPC-10)."""
    number = code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR
    text = message if isinstance(message, str) else repr(message)
    error = _BY_CODE.get(number, RemoteError)(text, code=number, data=data)
    error.received = True
    return error


class ProtocolError(MCPError):
    """The peer broke the protocol's rules; ``raw`` is what it sent, as far as it helps.

    :param message: what was wrong and with which message.
    :param raw: the offending value or bytes, cut to a readable size by the raiser.
    """

    def __init__(self, message: str, raw: Any = None) -> None:
        super().__init__(message)
        self.raw = raw


class TransportError(MCPError):
    """Could not talk to the peer at all."""

    #: Whether a connection that had rested was closed without an answer: what may run twice can be sent again.
    stale = False


class ConnectionClosed(TransportError):
    """The connection is over: the peer left, its process ended, or this side closed it.

    :param message: which peer, and how it ended.
    :param stderr_tail: the last that a child process wrote to stderr; empty otherwise.
    :param returncode: the child's exit status; None when there is no child or it still runs.
    """

    def __init__(self, message: str, *, stderr_tail: str = "", returncode: Optional[int] = None) -> None:
        super().__init__(message)
        self.stderr_tail = stderr_tail
        self.returncode = returncode

    def __str__(self) -> str:
        text = super().__str__()
        tail = self.stderr_tail.strip()
        return f"{text}\n--- last lines of its stderr ---\n{tail}" if tail else text


class SessionLost(ConnectionClosed):
    """The server does not know our session (any more), as after a restart (SESS-09).

    Most calls never meet it: a new session is opened and what is safe to send again is sent again.

    :param unserved: whether it is certain that the call was not served.
    """

    def __init__(self, message: str, *, session: str = "", unserved: bool = False) -> None:
        super().__init__(message)
        self.session = session
        self.unserved = unserved


class HTTPStatusError(TransportError):
    """An HTTP answer that carries no JSON-RPC message."""

    def __init__(self, message: str, *, status: int, body: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class AuthError(TransportError):
    """The server wants authorization that was not given, or that could not be had.

    :param challenge: the server's ``WWW-Authenticate``, when it said one.
    :param error: the code of OAuth, such as ``access_denied`` or ``invalid_grant``, when there was one.
    """

    def __init__(self, message: str, *, challenge: str = "", error: str = "") -> None:
        super().__init__(message)
        self.challenge = challenge
        self.error = error


class RequestTimeout(MCPError, TimeoutError):
    """No answer before the deadline; the peer was told to stop (TIME-02)."""


class Cancelled(MCPError):
    """The call was cancelled, by this side's token or by the peer; ``reason`` says why, if anybody did."""

    def __init__(self, reason: Optional[str] = None) -> None:
        super().__init__(reason or "cancelled")
        self.reason = reason


class InputNeeded(MCPError):
    """The server needs answers before it goes on, and the caller wanted to give them itself (``rounds=False``).

    Send the same call again with ``input_responses={key: answer}`` and ``request_state=error.state``, from
    whichever process.

    :param requests: what it asks, by key: each with a ``method`` and ``params``, as on the wire.
    :param state: to send along, unchanged; None when there is none.
    """

    def __init__(self, message: str = "", *, requests: Optional[Dict[str, Any]] = None, state: Optional[str] = None) -> None:
        super().__init__(message)
        self.requests = requests or {}
        self.state = state


class NotSupported(MCPError):
    """The peer did not declare the capability that this needs, so nothing was sent (LIFE-15)."""


class ToolError(MCPError):
    """A tool failed in a way that the model should read.

    Raised in a tool it becomes a result with ``isError``; ``CallToolResult.raise_for_error()``
    raises it at the caller.

    :param message: the text for the model.
    :param content: further content items; the message comes first.
    """

    def __init__(self, message: str = "", content: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.content = list(content)


class RegistrationError(MCPError, ValueError):
    """A tool, resource or prompt that cannot be served; the text names the parameter, the reason and the fix."""
