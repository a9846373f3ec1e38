"""Every exception that mcplite raises on purpose, as one tree.

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
    ├── TransportError                         the peer could not be reached
    │   ├── ConnectionClosed(stderr_tail)      the other side is gone, or we closed
    │   │   └── SessionLost
    │   ├── HTTPStatusError(status, body)
    │   └── AuthError(challenge, error)
    ├── RequestTimeout                         the deadline passed (also a TimeoutError)
    ├── Cancelled(reason)                      a token or the peer cancelled the call
    ├── InputNeeded(requests, state)           the server asks questions first, and rounds=False was given
    ├── NotSupported                           the peer lacks the capability; nothing was sent
    ├── ToolError(message, content)            a tool's own failure: an ``isError`` result
    ├── BackendError                           data that a server's processes share could not be read or written
    └── RegistrationError                      a registered tool, resource or prompt cannot be served (also a ValueError)

Errors that a peer sent carry JSON-RPC codes; local errors never do, so that a
timeout cannot be taken for an answer of the peer (ERR-08).
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, TypeVar

__all__ = [
    "PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INTERNAL_ERROR",
    "RESOURCE_NOT_FOUND", "URL_ELICITATION_REQUIRED", "HEADER_MISMATCH", "MISSING_CAPABILITY",
    "UNSUPPORTED_VERSION", "SERVER_BUSY", "RATE_LIMITED", "USER_REJECTED",
    "MCPError", "RemoteError", "MethodNotFound", "InvalidParams", "ResourceNotFound", "InternalError",
    "UnsupportedVersion", "MissingCapability", "HeaderMismatch", "UrlElicitationRequired",
    "ProtocolError", "TransportError", "ConnectionClosed", "SessionLost", "HTTPStatusError",
    "AuthError",
    "RequestTimeout", "Cancelled", "InputNeeded", "NotSupported", "ToolError", "BackendError", "RegistrationError",
    "remote_error",
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
#: A code of mcplite's own, outside the range that JSON-RPC reserves (ERR-07).
SERVER_BUSY = -31001
#: A code of mcplite's own for a sender that has sent too many requests; ``data`` has the seconds after which it may try
#: again, as ``{"retryAfter": 3.5}``. The request was not begun.
RATE_LIMITED = -31002


class MCPError(Exception):
    """The base class: ``except MCPError`` catches everything that mcplite raises on purpose."""

    #: The id of the task that the call had become, which ``client.task(id)`` continues with; None if there was no task.
    task_id: Optional[str] = None
    #: Whether it ended a question that a handler asked its client: it is logged without a traceback.
    asked = False

    def __reduce__(self) -> Tuple[Any, ...]:
        # By default an exception is unpickled by a call of its class with the message alone. A class with further required
        # parameters refuses that, and a multiprocessing.Pool that should pass the error on would wait for ever.
        return _restore, (type(self), self.args), dict(self.__dict__)


def _restore(kind: Type[MCPError], args: Tuple[Any, ...]) -> MCPError:
    """Return a new error of a class, for a copy or from a pickle, with its ``args`` alone; ``__init__`` is not called."""
    error = kind.__new__(kind)
    error.args = args
    return error


ErrorType = TypeVar("ErrorType", bound=BaseException)


def copied(error: ErrorType) -> ErrorType:
    """Return a copy of an error: each thread raises a copy of its own, since raising an error changes it."""
    import copy  # with the first such error

    return copy.copy(error)


def text_of(message: Any) -> str:
    """Return the text of an error message that may be of any type: JSON-RPC has nothing but text there (RPC-10)."""
    if isinstance(message, str):
        return message
    if message is None:
        return ""
    if isinstance(message, (bytes, bytearray)):
        return bytes(message).decode("utf-8", "replace")
    try:
        if isinstance(message, (dict, list, tuple)):
            import json  # for the few such messages

            return json.dumps(message, ensure_ascii=False, default=str)
        return str(message)
    except Exception:
        return type(message).__name__  # str() failed: the failure that the message is about has to be reported all the same


class RemoteError(MCPError):
    """The peer answered with a JSON-RPC error; raise it in a handler to send one.

    :param code: the JSON-RPC error code.
    :param message: one concise sentence; a value that is no text, such as a lazy translation, is converted to text.
    :param data: any JSON value that travels in ``error.data``; None leaves it out.
    """

    default_code = INTERNAL_ERROR
    #: Whether the peer sent it; False for one that a handler raised.
    received = False
    #: The status of the HTTP response that carried it, if the status is one of an error; None if it is not, or without HTTP.
    http_status: Optional[int] = None
    #: After how many seconds the server asks to try again: from a response with status 429 or 503, or from the data of
    #: ``RATE_LIMITED``. None if it does not ask.
    retry_after: Optional[float] = None

    def __init__(self, message: str = "", *, code: Optional[int] = None, data: Any = None) -> None:
        message = text_of(message)
        super().__init__(message)
        self.code = int(code) if isinstance(code, int) and not isinstance(code, bool) else self.default_code
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
    """The resource does not exist (RSRC-15, RSRC-16, RSRC-18); the revision decides its code on the wire."""

    default_code = RESOURCE_NOT_FOUND

    @property
    def uri(self) -> Optional[str]:
        """The URI that was not found; None if the peer did not name it."""
        return self.data.get("uri") if isinstance(self.data, dict) else None


class InternalError(RemoteError):
    """The peer failed for a reason that it does not tell."""


class UnsupportedVersion(RemoteError):
    """The two sides share no protocol revision; ``supported`` lists the peer's."""

    default_code = UNSUPPORTED_VERSION

    @property
    def supported(self) -> List[str]:
        """The revisions that the peer speaks; empty if it did not name any."""
        named = self.data.get("supported") if isinstance(self.data, dict) else None
        return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


#: The keywords of ``connect()`` by which a client declares a capability, or a part of one.
CAPABILITY_KEYWORDS = {
    "elicitation": "an elicitation_handler=", "elicitation.form": "an elicitation_handler=",
    "elicitation.url": "a url_elicitation_handler=", "sampling": "a sampling_handler=",
    "sampling.tools": "a sampling_handler= and options=ClientOptions(sampling_tools=True)", "roots": "roots=",
}


class MissingCapability(RemoteError):
    """The client did not declare a capability that this request needs; ``required`` names it."""

    default_code = MISSING_CAPABILITY

    @property
    def required(self) -> Dict[str, Any]:
        """The missing capabilities, as on the wire."""
        named = self.data.get("requiredCapabilities") if isinstance(self.data, dict) else None
        return named if isinstance(named, dict) else {}

    def __str__(self) -> str:
        names = [f"{name}.{part}" if part else name for name, parts in self.required.items()
                 for part in (isinstance(parts, dict) and parts or ("",))]
        keywords = [CAPABILITY_KEYWORDS[name] for name in names if name in CAPABILITY_KEYWORDS]
        # Only a client receives this error.
        advice = f"; give connect() {' and '.join(keywords)}" if self.received and keywords else ""
        return super().__str__() + advice


class HeaderMismatch(RemoteError):
    """An HTTP header and the body disagree."""

    default_code = HEADER_MISMATCH


class UrlElicitationRequired(RemoteError):
    """The request needs the user to visit URLs first (URLE-11 to URLE-14).

    A handler raises it with the pages in *data*: ``UrlElicitationRequired("Sign in first", data={"elicitations": [{"mode":
    "url", "elicitationId": "sign-in", "url": "https://notes.example/sign-in", "message": "Sign in"}]})``.

    :param message: a text for the user.
    :param code: of the error.
    :param data: the pages, as the protocol lists them.
    :raises TypeError: the pages come in place of the message.
    """

    default_code = URL_ELICITATION_REQUIRED

    def __init__(self, message: str = "", *, code: Optional[int] = None, data: Any = None) -> None:
        if isinstance(message, (dict, list, tuple)):
            raise TypeError("give UrlElicitationRequired a text first, and the pages as data={'elicitations': [{'mode': 'url',"
                            f" 'elicitationId': ..., 'url': ..., 'message': ...}}]}}, not {type(message).__name__}")
        super().__init__(message, code=code, data=data)

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
    """Return the exception for an error object from the wire; values of a wrong type are kept, not refused (RPC-10)."""
    number = code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR
    text = message if isinstance(message, str) else repr(message)
    error = _BY_CODE.get(number, RemoteError)(text, code=number, data=data)
    error.received = True
    if number == RATE_LIMITED and isinstance(data, dict):
        after = data.get("retryAfter")
        if isinstance(after, (int, float)) and 0 <= after < 1e9:
            error.retry_after = float(after)
    return error


class ProtocolError(MCPError):
    """The peer broke the protocol's rules; ``raw`` is what it sent, as far as it helps.

    :param message: what was wrong, and in which message.
    :param raw: the offending value or bytes, cut to a readable size.
    """

    def __init__(self, message: str, raw: Any = None) -> None:
        super().__init__(message)
        self.raw = raw


class TransportError(MCPError):
    """The peer could not be reached, or the connection failed."""

    #: Whether an idle connection was closed without a response, so that a request that may run twice can be sent again.
    stale = False
    #: The status of the HTTP response that the error comes from; 0 if none came.
    status = 0
    #: Whether it is certain that nothing of the message was sent, for example because there was no connection.
    unsent = False
    #: Whether another attempt may succeed.
    temporary = True

    def of_second_attempt(self, first: "TransportError") -> "TransportError":
        """Return the error of a request that was sent twice: its text also says how the *first* attempt failed.

        An error of a subclass is returned unchanged.
        """
        if type(self) is not TransportError:
            return self
        error = TransportError(f"{self}; this was the second attempt: before, {first}")
        error.status, error.temporary = self.status, self.temporary
        return error


def nested_call(name: str) -> TransportError:
    """Return the error for a call on a thread that is in the middle of a read or write of another call on the same connection.

    :param name: of the other side.
    """
    return TransportError(f"set a flag and call afterwards, or call on another thread: a signal handler, or another function"
                          f" that Python calls at any moment, has interrupted a call to {name} on this thread and uses its"
                          " connection, which that call is just reading or writing")


class ConnectionClosed(TransportError):
    """The connection is over: the peer left, its process ended, or this side closed it.

    :param message: which peer, and how it ended.
    :param stderr_tail: the last output of a child process to stderr; empty for other connections.
    :param returncode: the exit status of the child; None if there is no child, it still runs, or its status is not known.
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
    """The server does not know the client's session, for example after a restart (SESS-09).

    Most calls never raise it: the client opens a new session, and repeats the calls that are safe to repeat.

    :param session: the id of the lost session.
    :param unserved: whether it is certain that the call was not served.
    """

    #: The end of each message: what the author of the server may have to do.
    _HINT = ("; the server has restarted or has ended the session, or is it one of several workers? An mcplite server shares"
             " its sessions among them with backend= or the variable MCPLITE_BACKEND")

    def __init__(self, message: str, *, session: str = "", unserved: bool = False) -> None:
        super().__init__(message if message.endswith(self._HINT) else message + self._HINT)
        self.session = session
        self.unserved = unserved


class HTTPStatusError(TransportError):
    """An HTTP response with an error status and without a JSON-RPC message.

    :param status: the HTTP status.
    :param body: the start of the body, as text.
    """

    #: After how many seconds the server asks to try again, from a response with status 429 or 503; None if it does not ask.
    retry_after: Optional[float] = None

    def __init__(self, message: str, *, status: int, body: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.temporary = status in (429, 502, 503, 504)


class AuthError(TransportError):
    """The server requires authorization, and no token was given, accepted or obtained.

    :param challenge: the server's ``WWW-Authenticate``; empty if it sent none.
    :param error: the OAuth error code, such as ``access_denied`` or ``invalid_grant``; empty if there was none.
    :param status: of the authorization server's answer, such as 503; 0 if there was none.
    """

    temporary = False

    def __init__(self, message: str, *, challenge: str = "", error: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.challenge = challenge
        self.error = error
        self.status = status


class RequestTimeout(MCPError, TimeoutError):
    """No answer before the deadline; the request was cancelled at the peer (TIME-02)."""


class Cancelled(MCPError):
    """The call was cancelled, by this side's token or by the peer.

    :param reason: the given reason; None without one.
    """

    def __init__(self, reason: Optional[str] = None) -> None:
        super().__init__(reason or "cancelled")
        self.reason = reason


class InputNeeded(MCPError):
    """The server needs answers to continue the call, and the caller answers them itself (``rounds=False``).

    Repeat the call with ``input_responses={key: answer}`` and ``request_state=error.state``, from any process. If the call
    has become a task, there is a ``task_id`` instead of a state: ``client.task(error.task_id).answer({key: answer})``.

    :param requests: the questions by key, each with a ``method`` and ``params``, as on the wire.
    :param state: the ``requestState`` to send back unchanged; None without one.
    """

    def __init__(self, message: str = "", *, requests: Optional[Dict[str, Any]] = None, state: Optional[str] = None) -> None:
        super().__init__(message)
        self.requests = requests or {}
        self.state = state


class NotSupported(MCPError):
    """The peer did not declare the capability that the call needs; nothing was sent (LIFE-15)."""


class ToolError(MCPError):
    """A tool failed in a way that the model should read.

    In a tool's function it becomes a result with ``isError``; at the client ``CallToolResult.raise_for_error()``
    raises it.

    :param message: the text for the model; a value that is no text is converted to text.
    :param content: further content items; the message comes first.
    """

    def __init__(self, message: str = "", content: Sequence[Any] = ()) -> None:
        message = text_of(message)
        super().__init__(message)
        self.message = message
        self.content = list(content)


class BackendError(MCPError):
    """Data that a server's processes share could not be read or written: the store cannot be reached, is full, or refuses."""


class RegistrationError(MCPError, ValueError):
    """A tool, resource or prompt cannot be registered; the text names the parameter, the reason and the fix."""
