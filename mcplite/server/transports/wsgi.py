"""The WSGI host: the same exchange as a callable, for gunicorn, waitress, mod_wsgi, Flask and Django.

The host owns connections and their threads. One thread is busy for as long as a response takes, event
streams too, so the host needs threads: ``gunicorn -k gthread --threads 32``, ``waitress-serve --threads 32``.
"""

import atexit
import os
import select
import socket
import threading
from http import HTTPStatus
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from ...protocol.http.headers import Headers
from ...protocol.http.wellknown import PROTECTED_RESOURCE
from ..auth.principals import ISSUED_HERE, Principal
from ..http import make_endpoint
from ..http.endpoint import Exchange
from ..http.messages import HTTPRequest, UnreadableBody
from ..runtime.runtime import Runtime

__all__ = ["WSGIApp", "mount"]

Environ = Dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
_REASONS = {status.value: status.phrase for status in HTTPStatus}
#: What a WSGI application may not say about the connection, which is the host's (PEP 3333).
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


def _user(environ: Environ) -> Optional[str]:
    return environ.get("REMOTE_USER") or None


class WSGIApp:
    """A WSGI application that serves an MCP server.

    :param runtime: of the server.
    :param path: of the endpoint below where the application is mounted.
    :param principal: tells from the environment who the host says has sent the request: a :class:`Principal`, whose scopes
        count, a name, or None for nobody; sessions belong to who opened them. By default ``REMOTE_USER``. A server with
        ``auth=`` asks for tokens and does not ask the host.
    :param options: those of :func:`make_endpoint`.
    :raises ValueError: an option is not written right.

    Worker threads are made with the first request, in whichever process that is, so that a host may load the
    application before it forks. Without ``fleet`` or ``stateless`` all requests of one client must reach one
    process.
    """

    def __init__(self, runtime: Runtime, *, path: str = "", principal: Callable[[Environ], Union[None, str, Principal]] = _user,
                 **options: Any) -> None:
        self._runtime = runtime
        self._path = path
        self._options = options
        self._principal = principal
        #: Guards the two fields below, for the first request in a process.
        self._lock = threading.Lock()
        #: The process that the exchange is for; None until the first request.
        self._pid: Optional[int] = None
        self.exchange = self._exchange()

    def _exchange(self) -> Exchange:
        return make_endpoint(self._runtime, path=self._path, **self._options)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request (PEP 3333)."""
        if self._pid != os.getpid():
            self._settle()
        request = self._request(environ)
        response = self.exchange.handle(request)
        headers = [(name, value) for name, value in response.headers if name.lower() not in _HOP_BY_HOP]
        content: Iterable[bytes] = response.body
        if not response.streaming:
            data = response.content
            if response.status != 204:
                headers.append(("Content-Length", str(len(data))))
            content = [] if request.method == "HEAD" else [data]
            if response.status == 202 and not data:
                headers.append(("Content-Type", "text/plain"))  # hosts may insist on one, also without a body (REL-41)
        try:
            start_response(f"{response.status} {_REASONS.get(response.status, 'Status')}", headers)
        except BaseException:
            response.close()  # the host closes only what it has got
            raise
        return content

    def _settle(self) -> None:
        """Note that this process serves."""
        with self._lock:
            if self._pid == os.getpid():
                return
            if self._pid is None:
                atexit.register(self.close)  # hosts do not say when they are done, and a lifespan wants its end
            else:
                # Forked after the first request: sessions are those of the parent, whose threads did not come along.
                self._runtime.forked()
                self.exchange = self._exchange()
            self._pid = os.getpid()

    def _request(self, environ: Environ) -> HTTPRequest:
        return HTTPRequest(
            environ["REQUEST_METHOD"], _text(environ.get("PATH_INFO", "")), Headers(_headers(environ)),
            environ.get("QUERY_STRING", ""), mount=_text(environ.get("SCRIPT_NAME", "")), read=_Body(environ).read,
            remote=environ.get("REMOTE_ADDR", ""), principal=self._known(environ), departed=_departed(environ),
            alone=not environ.get("wsgi.multiprocess"), port=_port(environ.get("SERVER_PORT", "")))

    def _known(self, environ: Environ) -> Optional[Principal]:
        said: Any = None if self._runtime.auth is not None else self._principal(environ)
        if said is None or isinstance(said, Principal):
            return said
        if not isinstance(said, str):
            raise TypeError(f"principal= returned {type(said).__name__}; it returns a Principal, a name, or None for nobody")
        return Principal(said, audience=ISSUED_HERE)

    @property
    def publishes(self) -> bool:
        """Whether clients find out here where to get a token."""
        return self.exchange.guard.publishes

    def close(self, grace: Optional[float] = None) -> None:
        """End every session and the lifespan; called at the end of the process, or before. Idempotent.

        :param grace: seconds for handlers that still run; by default the server's ``Limits.grace``.
        """
        atexit.unregister(self.close)
        if self._pid in (None, os.getpid()):
            self.exchange.close(grace)


def _text(value: str) -> str:
    # WSGI gives bytes in the guise of Latin-1.
    return value if value.isascii() else value.encode("latin-1").decode("utf-8", "replace")


def _port(value: str) -> Optional[int]:
    return int(value) if value.isascii() and value.isdigit() else None


def _headers(environ: Environ) -> List[Tuple[str, str]]:
    pairs = [(key[5:].replace("_", "-"), value) for key, value in environ.items() if key.startswith("HTTP_")]
    for key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(key):
            pairs.append((key.replace("_", "-"), environ[key]))
    return pairs


class _Body:
    """The body of one request, which the host has not read yet, or has in a file."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    def read(self, limit: int) -> bytes:
        """Return the whole body.

        :raises UnreadableBody: it has more than *limit* bytes, or fewer than its headers say.
        """
        source = self._environ["wsgi.input"]
        length = self._environ.get("CONTENT_LENGTH")
        if length:
            if not (length.isascii() and length.isdigit()) or len(length) > 15:
                raise UnreadableBody(400, f"no Content-Length: {length[:40]!r}")
            size = int(length)
            if size > limit:
                raise UnreadableBody(413, f"the body has {size} bytes; {limit} are read at most")
            return self._exactly(source, size)
        if "HTTP_TRANSFER_ENCODING" not in self._environ:
            return b""
        if not self._environ.get("wsgi.input_terminated"):
            raise UnreadableBody(411, "this server needs a Content-Length")
        return self._terminated(source, limit)

    def _exactly(self, source: Any, size: int) -> bytes:
        data = b""
        try:
            while len(data) < size:
                piece = source.read(size - len(data))
                if not piece:
                    break
                data = data + piece if data else piece
        except OSError as error:
            raise UnreadableBody(400, f"the body could not be read: {error}") from error
        if len(data) < size:
            raise UnreadableBody(400, "the body ended early")
        return data

    def _terminated(self, source: Any, limit: int) -> bytes:
        data = bytearray()
        try:
            while len(data) <= limit:
                piece = source.read(min(65_536, limit + 1 - len(data)))
                if not piece:
                    return bytes(data)
                data += piece
        except OSError as error:
            raise UnreadableBody(400, f"the body could not be read: {error}") from error
        raise UnreadableBody(413, f"the body has more than {limit} bytes")


def _departed(environ: Environ) -> Callable[[], bool]:
    """Return what tells whether the client has gone, on the hosts that let us know."""
    asked: Optional[Callable[[], bool]] = environ.get("waitress.client_disconnected")
    if asked is not None:
        return asked
    sock = environ.get("gunicorn.socket")
    return bool if sock is None else lambda: _closed(sock)


def _closed(sock: Any) -> bool:
    try:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0)) and not sock.recv(1, socket.MSG_PEEK)
    except (OSError, ValueError):
        return True


def mount(outer: Application, apps: Mapping[str, Application]) -> Application:
    """Return a WSGI application that hands what is below a path to another application.

    :param outer: gets all other requests: a Flask application's ``wsgi_app``, ``get_wsgi_application()`` of Django.
    :param apps: applications by path, such as ``{"/mcp": mcp.wsgi()}``; the longest path that fits wins. What a
        framework does for its own views (login, cookies, tokens against forgery) is not done for them. The description of
        an MCP server that asks for tokens is served where clients look for it, beside the paths of *outer*.
    :raises ValueError: a path does not begin with a slash.
    """
    mounts = sorted(((at.rstrip("/"), app) for at, app in apps.items()), key=lambda item: -len(item[0]))
    for at, _ in mounts:
        if not at.startswith("/"):
            raise ValueError(f"the path {at!r} must begin with a slash; for the root itself, give one application alone")

    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        for at, app in mounts:
            within = path[len(at):] if path == at or path.startswith(at + "/") else None
            # Clients look for it at the root, with the path of the endpoint behind it (RFC 9728, section 3.1).
            described = PROTECTED_RESOURCE + at
            if (path == described or path.startswith(described + "/")) and getattr(app, "publishes", False):
                within = PROTECTED_RESOURCE + path[len(described):]
            if within is not None:
                inner = {**environ, "SCRIPT_NAME": environ.get("SCRIPT_NAME", "") + at, "PATH_INFO": within}
                return app(inner, start_response)
        return outer(environ, start_response)

    return application
