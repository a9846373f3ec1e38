"""Sends POST, GET and DELETE to one URL, with the headers of the session.

The channel, its reading and the GET stream share one; it keeps the session id and the revision for all of them.
"""

import re
import time
from typing import Callable, Dict, Mapping, Optional
from urllib.parse import urlsplit

from ...errors import HTTPStatusError, ProtocolError, SessionLost, remote_error
from ...net.exchange import Exchange, Reply
from ...net.origin_client import OriginClient
from ...net.settings import HTTPSettings
from ...protocol import jsonrpc
from ...protocol.error_text import shown
from ...protocol.http.headers import POST_HEADERS
from ...rpc.interfaces import Network

__all__ = ["HTTPEndpoint", "network_of"]

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")
#: What servers say with 400 of a session that they do not know, such as those of the TypeScript SDK's examples.
_NO_SESSION = re.compile(r"session|not (?:yet )?initiali[sz]ed", re.IGNORECASE)
#: The statuses that ask for another attempt, by the header Retry-After; the request was not served.
_BUSY = frozenset({429, 503})


class HTTPEndpoint:
    """Sends requests to one URL and keeps the id of the session there; any thread may use it.

    :param line_limit: bytes that one message may have.
    :raises ValueError: the URL is not one of a server, or a header cannot be sent.
    """

    def __init__(self, url: str, settings: HTTPSettings, line_limit: int) -> None:
        self._client = OriginClient(url, settings)
        #: How errors and logs call the server.
        self.name = shown(url)
        self.line_limit = line_limit
        #: The server's name for the session; empty without one.
        self.session_id = ""
        #: Whether a session was lost by a 400, and whether the one after it, which is the present one, has not answered yet: if
        #: that is refused as well, the 400 means no loss.
        self._refused = self._doubted = False
        #: The revision, when requests have to repeat it (HDR-01).
        self.version: Optional[str] = None
        #: Returns headers of each message in addition, on the thread that sends it.
        self.added_headers: Optional[Callable[[], Mapping[str, str]]] = None

    def post(self, exchange: Exchange, data: bytes, initialize: bool = False,
             beside: Optional[Mapping[str, str]] = None) -> Reply:
        """Send a message and return the response.

        :param initialize: whether the message is ``initialize``, which begins a session (SESS-09).
        :param beside: the headers of a message without a session; None for one of the session.
        :raises SessionLost: the server does not know the session any more; it did not serve the message.
        :raises TransportError, AuthError, Stopped: as for :meth:`OriginClient.send_authorized`.
        """
        session = "" if initialize or beside is not None else self.session_id
        if beside is not None:
            headers = {**POST_HEADERS, **beside}
        else:
            headers = POST_HEADERS if initialize else {**POST_HEADERS, **self._session_headers(session)}
        if self.added_headers is not None:
            headers = {**self.added_headers(), **headers}
        reply = self._client.send_authorized(exchange, "POST", None, headers, data)
        reply.session = session
        if initialize and 200 <= reply.status < 300:
            self.session_id = self._given_session_id(reply)
            self._doubted, self._refused = self._refused, False
        elif reply.status == 404 and session:
            reply.close()
            raise self.session_lost(session, unserved=True)
        elif self._doubted and reply.status == 200 and session == self.session_id:
            self._doubted = False
        return reply

    def get(self, exchange: Exchange, last_id: Optional[str]) -> Reply:
        """Ask for an event stream and return the response.

        :param last_id: of the last event that was read, to resume behind it; None for a new stream.
        :raises SessionLost: the server does not know the session any more.
        :raises TransportError, AuthError, Stopped: as for :meth:`OriginClient.send_authorized`.
        """
        session = self.session_id
        headers = {"Accept": "text/event-stream", **self._session_headers(session)}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        reply = self._client.send_authorized(exchange, "GET", None, headers)
        reply.session = session
        if reply.status == 404 and session:
            reply.close()
            raise self.session_lost(session, unserved=False)
        return reply

    def end_session(self, exchange: Exchange, id: str) -> None:
        """Tell the server that a session is over (SESS-10); it may refuse to hear it (SESS-11).

        :raises TransportError, AuthError, Stopped: as for :meth:`OriginClient.send_authorized`.
        """
        self._client.send_authorized(exchange, "DELETE", None, self._session_headers(id)).excerpt()

    def handle_refusal(self, reply: Reply, what: str, id: Optional[int], receive: Callable[[bytes], None]) -> None:
        """Deal with the response to a message that was not accepted.

        :param what: the message, for errors.
        :param id: of the request, whose answer may be in the response all the same (HTTP-42).
        :param receive: takes that answer.
        :raises SessionLost: the server does not know the session any more; it did not serve the message.
        :raises RemoteError: the server said why, in JSON-RPC.
        :raises HTTPStatusError: it did not.
        """
        status, kind, after = reply.status, reply.kind, _retry_after(reply)
        # An error in JSON-RPC is read whole, however long it is (HTTP-42).
        text = reply.read(self.line_limit).decode("utf-8", "replace") if kind == "application/json" else reply.excerpt()
        if kind == "application/json":
            message = jsonrpc.parse(text.encode("utf-8"))
            if isinstance(message, jsonrpc.Failure) and id is not None and jsonrpc.own_id(message.id) == id:
                error = remote_error(message.code, message.message, message.data)
                error.http_status, error.retry_after = status, after
                raise error
            if isinstance(message, jsonrpc.Response) and id is not None and jsonrpc.own_id(message.id) == id:
                receive(text.encode("utf-8"))
                return
            if isinstance(message, jsonrpc.Failure):
                self._check_session(reply, str(message.message))
                refusal = HTTPStatusError(f"{self.name} answered {what!r} with {status}: {str(message.message)[:500]}",
                                          status=status, body=text)
                refusal.retry_after = after
                raise refusal from remote_error(message.code, message.message, message.data)
        self._check_session(reply, text)
        excerpt = " ".join(text.split())[:200]
        refusal = HTTPStatusError(f"{self.name} answered {what!r} with {status}{': ' + excerpt if excerpt else ''}",
                                  status=status, body=text)
        refusal.retry_after = after
        raise refusal

    def _check_session(self, reply: Reply, text: str) -> None:
        """Raise SessionLost for a 400 that says so; 404 would be right (SESS-07), but many servers answer with it."""
        doubted = self._doubted and reply.session == self.session_id
        if reply.status == 400 and says_no_session(reply, text) and not doubted:
            self._refused = True
            raise self.session_lost(reply.session, unserved=True, text=text)

    def close(self) -> None:
        """Close all idle connections."""
        self._client.close()

    def _session_headers(self, session: str) -> Dict[str, str]:
        headers = {}
        if session:
            headers["Mcp-Session-Id"] = session  # SESS-05
        if self.version is not None:
            headers["MCP-Protocol-Version"] = self.version  # HDR-01
        return headers

    def _given_session_id(self, reply: Reply) -> str:
        """Return the session id that a response assigns; empty for none.

        :raises ProtocolError: it has characters that cannot stand in a header (SESS-03).
        """
        session = reply.headers.get("mcp-session-id", "")
        if session and not _SESSION_ID.fullmatch(session):
            reply.close()
            raise ProtocolError(f"{self.name} gave a session id that cannot be sent back in a header")
        return session

    def session_lost(self, session: str, unserved: bool, text: str = "") -> SessionLost:
        """Return the error for a session that the server does not know any more.

        :param unserved: whether it is certain that the message was not served.
        :param text: what the server said.
        """
        said = " ".join(text.split())[:200]
        return SessionLost(f"{self.name} does not know our session any more{': ' + said if said else ''}", session=session,
                           unserved=unserved)


def says_no_session(reply: Reply, text: str) -> bool:
    """Whether a response with status 400 to a message of a session says that the server does not know the session."""
    return bool(reply.session) and _NO_SESSION.search(text) is not None


def _retry_after(reply: Reply) -> Optional[float]:
    """Return the seconds after which a busy server asks to try again: a number, or until a date by the server's own clock."""
    value = reply.headers.get("retry-after", "").strip() if reply.status in _BUSY else ""
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", value):
        return float(value)
    at = _seconds_of(value)
    if at is None:
        return None
    now = _seconds_of(reply.headers.get("date", ""))
    return max(0.0, at - (time.time() if now is None else now))


def _seconds_of(date: str) -> Optional[float]:
    """Return an HTTP date in seconds since 1970; None for what is none."""
    from email.utils import mktime_tz, parsedate_tz  # for busy servers that write one

    parts = parsedate_tz(date)
    try:
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError):
        return None


def network_of(url: str) -> Network:
    """Return what carries the messages to a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return Network("tcp", "http", "1.1", parts.hostname or "", port)
