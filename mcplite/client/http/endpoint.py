"""Sends POST, GET and DELETE to one URL, with the headers of the session.

The channel, its reading and the GET stream share one; it keeps the session id and the revision for all of them.
"""

import re
from typing import Callable, Dict, Mapping, Optional
from urllib.parse import urlsplit

from ...errors import HTTPStatusError, ProtocolError, SessionLost, remote_error
from ...net.exchange import Exchange
from ...net.origin_client import OriginClient
from ...net.reply import Reply
from ...net.settings import HTTPSettings
from ...protocol import jsonrpc
from ...protocol.http.headers import POST_HEADERS
from ...protocol.show import shown
from ...rpc.interfaces import Network

__all__ = ["HTTPEndpoint", "network_of"]

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")


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
        if initialize and reply.status == 200:
            self.session_id = self._given_session_id(reply)
        elif reply.status == 404 and session:
            reply.close()
            raise self._session_lost(session, unserved=True)
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
        if reply.status == 404 and session:
            reply.close()
            raise self._session_lost(session, unserved=False)
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
                refusal = HTTPStatusError(f"{self.name} answered {what!r} with {status}: {str(message.message)[:500]}",
                                          status=status, body=text)
                refusal.retry_after = after
                raise refusal from remote_error(message.code, message.message, message.data)
        excerpt = " ".join(text.split())[:200]
        refusal = HTTPStatusError(f"{self.name} answered {what!r} with {status}{': ' + excerpt if excerpt else ''}",
                                  status=status, body=text)
        refusal.retry_after = after
        raise refusal

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

    def _session_lost(self, session: str, unserved: bool) -> SessionLost:
        return SessionLost(f"{self.name} does not know our session any more", session=session, unserved=unserved)


def _retry_after(reply: Reply) -> Optional[float]:
    value = reply.headers.get("retry-after", "") if reply.status == 503 else ""
    return float(value) if value.isascii() and value.isdigit() and len(value) < 10 else None


def network_of(url: str) -> Network:
    """Return what carries the messages to a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return Network("tcp", "http", "1.1", parts.hostname or "", port)
