"""The endpoint as a WSGI application, for gunicorn, waitress, mod_wsgi, Flask and Django.

The WSGI host owns the connections and their threads. Each response occupies one thread, event streams included, of which
two are open in a process by default: ``gunicorn -k gthread --threads 32``, ``waitress-serve --threads 32``.
"""

import atexit
import functools
import io
import threading
from http import HTTPStatus
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ...protocol.http.headers import Headers
from ...protocol.http.oauth import ISSUER_METADATA, PROTECTED_RESOURCE
from ...protocol.uris import decoded_path
from ...rpc.forks import catch_up_with_fork, on_fork
from ..eviction import sender_at
from ..handling.http_request import HTTPRequest, never_disconnected
from ..http import make_endpoint
from ..http.access import TrustedProxies
from ..http.endpoint import Route
from ..http.messages import HTTPResponse, UnreadableBody
from ..limits import Limits
from ..principals import ISSUED_HERE, Principal
from ..runtime.runtime import Runtime
from ..state.response_bodies import OpenStreams

__all__ = ["WSGIApp", "mount_wsgi"]

Environ = Dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
_REASONS = {status.value: status.phrase for status in HTTPStatus}
#: Headers about the connection, which a WSGI application must not send (PEP 3333).
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


#: Streams that all applications of a process hold open together, but for those whose ``Limits.streams`` is set: hosts have four
#: threads or more, and do not tell how many (PEP 3333).
_MOST_HELD = 2
#: Bounds those streams; made with the first application.
_held: List[OpenStreams] = []


def _streams_of(limits: Limits) -> OpenStreams:
    if limits.streams_are_set:
        return OpenStreams(limits.streams, in_turns=True)
    if not _held:
        _held.append(OpenStreams(_MOST_HELD, in_turns=True))
    return _held[0]


def _user(environ: Environ) -> Optional[str]:
    return environ.get("REMOTE_USER") or None


class WSGIApp:
    """A WSGI application that serves an MCP server.

    :param runtime: of the server.
    :param path: of the endpoint, below the path where the application is mounted.
    :param principal: called with the WSGI environment; returns the user that the host has authenticated: a
        :class:`Principal`, whose scopes count, a name, or None. A session belongs to the user that opened it. By default
        ``REMOTE_USER``. Not called for a server with ``auth=``, which requires tokens instead.
    :param allowed_hosts: the accepted host names; by default the loopback names. See :class:`OriginPolicy`.
    :param allowed_origins: the origins whose web pages may use the endpoint.
    :param trusted_proxies: addresses and networks of reverse proxies, which tell the client's address in ``X-Forwarded-For``;
        see :class:`TrustedProxies`.
    :param stateless: serves every message on its own, without session ids; see :class:`Endpoint`.
    :param routes: public handlers of other paths, by path; see :class:`Endpoint`.
    :param legacy_sse: also serves the oldest revision's HTTP+SSE, at ``sse`` and ``messages`` beside the endpoint.
    :raises ValueError: an option is not valid.

    A handler without a context runs on the thread of its request. Any other handler runs on a worker, and so does one that took
    long the last time. Workers start with the first request for them, so a host may load the application before it forks.
    Without ``fleet`` or ``stateless`` all requests of one client must reach the same process.
    """

    def __init__(self, runtime: Runtime, *, path: str = "",
                 principal: Optional[Callable[[Environ], Union[None, str, Principal]]] = None,
                 allowed_hosts: Optional[Sequence[str]] = None, allowed_origins: Sequence[str] = (),
                 trusted_proxies: Sequence[str] = (), stateless: bool = False,
                 routes: Optional[Mapping[str, Route]] = None, legacy_sse: bool = False) -> None:
        self._runtime = runtime
        self._make_endpoint = functools.partial(
            make_endpoint, runtime, path=path, allowed_hosts=allowed_hosts, allowed_origins=allowed_origins,
            stateless=stateless, routes=routes, legacy_sse=legacy_sse,
            held=_streams_of(runtime.limits))
        self._principal = principal or _user
        self._proxies = TrustedProxies(trusted_proxies) if trusted_proxies else None
        #: Guards ``_used``, for the first request.
        self._lock = threading.Lock()
        self._used = False
        self.endpoint = self._make_endpoint()
        on_fork(self, WSGIApp._let_go)

    def _let_go(self, owner: int) -> None:
        # In a forked process: the sessions belong to the parent process, whose threads do not exist here.
        self.endpoint.let_go()
        self.endpoint = self._make_endpoint()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request (PEP 3333)."""
        request = self.make_request(environ)
        response = self.respond(request)
        content: Iterable[bytes] = response.body
        if not response.streaming:
            content = [] if request.method == "HEAD" else [response.content]
        try:
            start_response(f"{response.status} {_REASONS.get(response.status, 'Status')}", response.headers)
        except BaseException:
            response.close()  # the host closes only a body that it has received
            raise
        return content

    def respond(self, request: HTTPRequest) -> HTTPResponse:
        """Return the response, with the headers that a WSGI application may send; the caller closes it in any case.

        :param request: from :meth:`make_request`.
        """
        catch_up_with_fork()
        if not self._used:
            self._on_first_use()
        response = self.endpoint.handle(request)
        headers = [(name, value) for name, value in response.headers if name.lower() not in _HOP_BY_HOP]
        if not response.streaming:
            data = response.content
            response.body = [data]
            if response.status != 204:
                headers.append(("Content-Length", str(len(data))))
            if response.status == 202 and not data:
                headers.append(("Content-Type", "text/plain"))  # some hosts require it even without a body (REL-41)
        response.headers = headers
        return response

    def _on_first_use(self) -> None:
        with self._lock:
            if not self._used:
                self._used = True
                atexit.register(self.close)  # a host does not tell when it stops, but a lifespan must be left

    def make_request(self, environ: Environ) -> HTTPRequest:
        """Return the request of a WSGI environment, with the principal that the host has authenticated."""
        address, headers = environ.get("REMOTE_ADDR", ""), Headers(_headers(environ))
        if self._proxies is not None:
            address = self._proxies.client(address, headers)
        return HTTPRequest(
            environ["REQUEST_METHOD"], _text(environ.get("PATH_INFO", "")), headers,
            environ.get("QUERY_STRING", ""), mount=_text(environ.get("SCRIPT_NAME", "")),
            read=functools.partial(_read_body, environ), remote=address, network=sender_at(address),
            principal=self._principal_of(environ), disconnected=_disconnected(environ),
            single_process=not environ.get("wsgi.multiprocess"), inline=True,
            port=_port(environ.get("SERVER_PORT", "")), environ=environ)

    def _principal_of(self, environ: Environ) -> Optional[Principal]:
        found: Any = None if self._runtime.auth is not None else self._principal(environ)
        if found is None or isinstance(found, Principal):
            return found
        if not isinstance(found, str):
            raise TypeError(f"principal= returned {type(found).__name__}; it must return a Principal, a name, or None")
        return Principal(found, audience=ISSUED_HERE)

    def publishes(self, known: str = PROTECTED_RESOURCE) -> bool:
        """Whether metadata is served here at a well-known path."""
        return known in self.endpoint.authorization.routes

    def close(self, grace: Optional[float] = None) -> None:
        """End every session and leave the lifespan; called at the end of the process, or before. Idempotent.

        :param grace: seconds for handlers that are still running; by default the server's ``Limits.grace``.
        """
        atexit.unregister(self.close)
        self.endpoint.close(grace)


def _text(value: str) -> str:
    # WSGI passes bytes decoded as Latin-1.
    return value if value.isascii() else value.encode("latin-1").decode("utf-8", "replace")


def _port(value: str) -> Optional[int]:
    return int(value) if value.isascii() and value.isdigit() else None


def _headers(environ: Environ) -> List[Tuple[str, str]]:
    # uWSGI behind nginx has type and length under both of their names.
    pairs = [(key[5:].replace("_", "-"), value) for key, value in environ.items()
             if key.startswith("HTTP_") and key not in ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH")]
    for key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(key):
            pairs.append((key.replace("_", "-"), environ[key]))
    return pairs


def _read_body(environ: Environ, limit: int) -> bytes:
    """Return the whole body of a request, from ``wsgi.input``.

    :raises UnreadableBody: it has more than *limit* bytes, or fewer than its headers say.
    """
    source, length = environ["wsgi.input"], environ.get("CONTENT_LENGTH")
    if length:
        if not (length.isascii() and length.isdigit()) or len(length) > 15:
            raise UnreadableBody(400, f"not a Content-Length: {length[:40]!r}")
        size = int(length)
        if size > limit:
            raise UnreadableBody(413, "send less in one message, or raise Limits.message_bytes of the server: the body has"
                                      f" {size} bytes, and the limit is {limit}")
        data = _read_pieces(source, size)
        if len(data) < size:
            raise UnreadableBody(400, "the body ended early")
        return data
    if "HTTP_TRANSFER_ENCODING" not in environ:
        return b""
    if not environ.get("wsgi.input_terminated"):
        raise UnreadableBody(411, "this server requires a Content-Length")
    data = _read_pieces(source, limit + 1)
    if len(data) > limit:
        raise UnreadableBody(413, "send less in one message, or raise Limits.message_bytes of the server: the body has more"
                                  f" than {limit} bytes")
    return data


def _read_pieces(source: Any, size: int) -> bytes:
    """Return *size* bytes of a body, or fewer at its end."""
    first = _read_piece(source, size)
    if not first or len(first) == size:
        return first
    whole = io.BytesIO()  # which returns its bytes without another copy
    received = whole.write(first)
    while received < size:
        piece = _read_piece(source, size - received)
        if not piece:
            break
        received += whole.write(piece)
    return whole.getvalue()


def _read_piece(source: Any, size: int) -> bytes:
    """Return the next bytes of a body; b"" at its end.

    :raises UnreadableBody: the connection broke, or the host refuses what the client sent, by an exception of its own.
    """
    try:
        return source.read(size)  # type: ignore[no-any-return]
    except MemoryError:
        raise
    except Exception as error:
        raise UnreadableBody(400, f"the body could not be read: {str(error)[:200] or type(error).__name__}") from error


def _disconnected(environ: Environ) -> Callable[[], bool]:
    """Return a function that tells whether the client has disconnected, on hosts that support it."""
    of_waitress: Optional[Callable[[], bool]] = environ.get("waitress.client_disconnected")
    if of_waitress is not None:
        return of_waitress
    sock = environ.get("gunicorn.socket")
    return never_disconnected if sock is None else lambda: _closed(sock)


def _closed(sock: Any) -> bool:
    from .client_socket import at_end  # for hosts that tell the socket

    try:
        return at_end(sock)
    except (OSError, ValueError):
        return True


def mount_wsgi(outer: Application, apps: Mapping[str, Application]) -> Application:
    """Return a WSGI application that passes requests below certain paths to other applications.

    :param outer: gets all other requests: a Flask application's ``wsgi_app``, ``get_wsgi_application()`` of Django.
    :param apps: applications by path, such as ``{"/mcp": mcp.wsgi()}``; the longest matching path wins. A framework does not
        do for them what it does for its own views (login, cookies, CSRF protection). The metadata of an MCP server that
        requires tokens, or issues them, is served at the well-known paths, outside of its own path. Paths are compared
        without escapes, so that ``/my docs`` and ``/my%20docs`` are one.
    :raises ValueError: a path does not begin with a slash.
    """
    # WSGI passes bytes decoded as Latin-1.
    mounts = sorted(((decoded_path(at.rstrip("/")).encode("utf-8").decode("latin-1"), app) for at, app in apps.items()),
                    key=lambda item: -len(item[0]))
    for at, _ in mounts:
        if not at.startswith("/"):
            raise ValueError(f"the path {at!r} must begin with a slash; for the root, use the application without mount_wsgi()")

    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        for at, app in mounts:
            within = path[len(at):] if path == at or path.startswith(at + "/") else None
            if path.startswith("/.well-known/") and isinstance(app, WSGIApp):
                # The URL of metadata is a well-known path at the root, followed by the path of what it describes (RFC 9728,
                # section 3.1; RFC 8414, section 3.1).
                for known in (PROTECTED_RESOURCE, *ISSUER_METADATA):
                    if (path == known + at or path.startswith(f"{known}{at}/")) and app.publishes(known):
                        within = known + path[len(known + at):]
            if within is not None:
                inner = {**environ, "SCRIPT_NAME": environ.get("SCRIPT_NAME", "") + at, "PATH_INFO": within}
                return app(inner, start_response)
        return outer(environ, start_response)

    return application
