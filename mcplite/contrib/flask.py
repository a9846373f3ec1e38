"""An MCP server on a Flask application or blueprint: its hooks run, and handlers use ``current_app``, ``g`` and ``request``."""

import re
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence, Union

from ..protocol.http.oauth import PROTECTED_RESOURCE
from ..server.app import Server
from ..server.handling.http_request import Around
from ..server.http.messages import HTTPResponse
from ..server.transports.wsgi import WSGIApp
from .hosted import METHODS, mounted, principal_of

if TYPE_CHECKING:
    from flask import Blueprint, Flask, Request, Response

__all__ = ["mount_mcp"]


def mount_mcp(app: "Union[Flask, Blueprint]", mcp: Server, path: str = "/mcp", *,
              principal: Optional[Callable[[], Any]] = None, allowed_hosts: Optional[Sequence[str]] = None,
              allowed_origins: Sequence[str] = (), trusted_proxies: Sequence[str] = (),
              stateless: bool = False) -> "Callable[..., Response]":
    """Serve an MCP server at a path of a Flask application, as a view of it.

    The hooks of the application run around each HTTP request, and can refuse it. A handler without a ``Context`` parameter
    runs in the context of its request, as a view does. Any other handler runs on a worker thread, in a context of its own
    for the same request: the ``g`` of this context begins with the values that the hooks have put into ``g``, and the teardown
    functions run at the end of the handler.

    :param app: a Flask application, or a blueprint.
    :param mcp: the server.
    :param path: of the endpoint, below the path of a blueprint. Its words make the name for ``url_for``, such as ``mcp``.
    :param principal: called without arguments in the context of each request; returns the user as a :class:`Principal`, a
        name, a user of Flask-Login (``lambda: current_user``), or None. By default the environment's ``REMOTE_USER``. Not
        called for a server with ``auth=``, which requires tokens instead.
    :param allowed_hosts: the accepted host names; by default the application's ``TRUSTED_HOSTS``, and without those the
        loopback names.
    :param allowed_origins: the origins whose web pages may use the endpoint.
    :param trusted_proxies: addresses and networks of reverse proxies, which tell the client's address in ``X-Forwarded-For``;
        see :class:`TrustedProxies`.
    :param stateless: serves every message on its own, without session ids; see :class:`Endpoint`.
    :returns: the view, for Flask-WTF's ``csrf.exempt``.
    :raises ValueError: an option is not valid.
    """
    if not path.startswith("/"):
        raise ValueError(f"the path {path!r} must begin with a slash")
    ask = principal
    served = WSGIApp(mcp.runtime, principal=None if ask is None else lambda environ: principal_of(ask()),
                     allowed_hosts=allowed_hosts, allowed_origins=allowed_origins, trusted_proxies=trusted_proxies,
                     stateless=stateless)

    def view(**values: Any) -> "Response":
        return _respond(served, check_host=allowed_hosts is None)

    name = "_".join(re.findall(r"\w+", path)) or "mcp"
    view.__name__ = f"mcp_view_of_{name}"
    at = path.rstrip("/")
    app.add_url_rule(at or "/", name, view, methods=METHODS, provide_automatic_options=False)
    if served.publishes():
        app.add_url_rule(at + PROTECTED_RESOURCE, f"{name}_metadata", view, methods=METHODS, provide_automatic_options=False)
        _add_at_root(app, at, f"{name}_metadata_at_root", view)
    return view


def _add_at_root(app: "Union[Flask, Blueprint]", path: str, name: str, view: "Callable[..., Response]") -> None:
    """Add the metadata at the well-known path of the whole application (RFC 9728, section 3.1), also for a blueprint."""
    def add(application: Any, prefix: str, name: str) -> None:
        application.add_url_rule(PROTECTED_RESOURCE + prefix + path, name, view, methods=METHODS,
                                 provide_automatic_options=False)

    if hasattr(app, "record"):
        app.record(lambda state: add(state.app, state.url_prefix or "", f"{state.name}_{name}".replace(".", "_")))
    else:
        add(app, "", name)


def _respond(served: WSGIApp, check_host: bool) -> "Response":
    import flask

    request = flask.request
    script, path = mounted(request.environ)
    environ = {**request.environ, "SCRIPT_NAME": script, "PATH_INFO": path, "wsgi.input": _Body(request)}
    http = served.make_request(environ)
    if check_host and request.trusted_hosts is not None:
        request.host  # raises an error here, if the application does not trust the host
        http.host_checked = True
    http.around = _in_context(threading.get_ident())
    response = served.respond(http)
    return _flask_response(response)


def _flask_response(response: HTTPResponse) -> "Response":
    import flask

    if not response.streaming:
        sent = flask.Response(response.content, response.status, response.headers)
        if response.status == 204:
            del sent.headers["Content-Type"]
        return sent

    def pieces() -> Iterator[bytes]:
        yield from response.body

    # With the context of the request, resources that the hooks have opened stay open until the stream has ended.
    sent = flask.Response(flask.stream_with_context(pieces()), response.status, response.headers)
    sent.call_on_close(response.close)
    return sent


def _in_context(thread: int) -> Around:
    """Return a function that runs a handler in the context of the present request.

    :param thread: the thread of the request, where that context is the current one.
    """

    def around(run: Callable[[], Any]) -> Any:
        if threading.get_ident() == thread:
            return run()
        import flask

        # This thread has the context variables of the request. But the context of the request ends with the response, and
        # belongs to the thread of the request, so the handler gets a copy.
        shared = {name: flask.g.get(name) for name in flask.g}

        def handle() -> Any:
            for name, value in shared.items():
                setattr(flask.g, name, value)
            try:
                return run()
            finally:
                for name, value in shared.items():
                    if flask.g.get(name) is value:
                        flask.g.pop(name)  # it belongs to the request, whose own teardown functions close it

        with flask.current_app.app_context():
            return flask.copy_current_request_context(handle)()

    return around


class _Body:
    """The body of a request, which can be read even if a hook has read it already."""

    def __init__(self, request: "Request") -> None:
        self._request = request
        self._rest: Optional[bytes] = None

    def read(self, size: int) -> bytes:
        """Return up to *size* bytes of the body; b"" at its end."""
        if self._rest is None:
            request = self._request
            if request.content_length is None:
                data: bytes = request.environ["wsgi.input"].read(size)
                if data:
                    return data  # not kept, since its length is not known
            self._rest = request.get_data()  # kept, so that handlers and later hooks can read it, too
        data, self._rest = self._rest[:size], self._rest[size:]
        return data
