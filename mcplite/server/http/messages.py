"""What passes between an HTTP host and the exchange: a request and a response, with no server in sight."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, Tuple

from ...protocol.http.headers import Headers

if TYPE_CHECKING:
    from ..auth.principals import Principal

__all__ = ["HTTPRequest", "HTTPResponse", "UnreadableBody"]


class UnreadableBody(Exception):
    """A request's body is too large, too slow, or not what its headers said.

    :param status: to answer with; the connection is closed then, since what follows cannot be told apart.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _nothing(limit: int) -> bytes:
    return b""


@dataclass
class HTTPRequest:
    """One request, its body not read yet."""

    method: str
    #: Decoded, and relative to where the application is mounted.
    path: str
    headers: Headers
    #: Not shown: somebody may have put a token there.
    query: str = field(default="", repr=False)
    #: Where the application is mounted; empty at the root.
    mount: str = ""
    #: Reads the whole body; raises :class:`UnreadableBody`, also when it has more bytes than it is given.
    read: Callable[[int], bytes] = _nothing
    #: The peer's address, for the log.
    remote: str = ""
    #: Who has sent it, as the host says or, where tokens are asked for, as the token says; None for nobody.
    principal: "Optional[Principal]" = None
    #: The port that it came in at, where that is known.
    port: Optional[int] = None
    #: Tells whether the client has gone, as far as the host can.
    departed: Callable[[], bool] = bool
    #: Whether a handler may run on this thread.
    inline: bool = False
    #: Whether all requests come to this process, so that what one of them left here is there for the next.
    alone: bool = True

    @property
    def owner(self) -> Optional[str]:
        """Whose sessions, streams and waiting calls it may reach: the key of its principal; None for nobody's."""
        return None if self.principal is None else self.principal.key


@dataclass
class HTTPResponse:
    """One response; whoever sends it calls ``close()`` on a body that has one, however the sending ends."""

    status: int
    headers: List[Tuple[str, str]] = field(default_factory=list)
    body: Iterable[bytes] = ()
    #: Whether ``body`` is a stream: its length is not known, and each piece is sent at once.
    streaming: bool = False

    @property
    def content(self) -> bytes:
        """The body of a response that is no stream."""
        return b"".join(self.body)

    def close(self) -> None:
        """Release the body."""
        close: Any = getattr(self.body, "close", None)
        if close is not None:
            close()
