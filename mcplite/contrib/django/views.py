"""The view: middleware and ``request.user`` work, ALLOWED_HOSTS counts, and handlers may use the ORM on any thread."""

import threading
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence

from ...server.app import Server
from ...server.handling.context import Context
from ...server.http.messages import HTTPResponse
from ...server.transports.wsgi import WSGIApp
from ..hosted import METHODS, mounted, principal_of
from .connections import close_around

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

__all__ = ["mcp_view", "request_of"]

#: Where the request of Django is in the environment that handlers see.
_REQUEST = "mcplite.django_request"


def _user_of(request: "HttpRequest") -> Any:
    return getattr(request, "user", None) or request.META.get("REMOTE_USER")


def mcp_view(mcp: Server, *, principal: "Optional[Callable[[HttpRequest], Any]]" = None, allowed_origins: Sequence[str] = (),
             trusted_proxies: Sequence[str] = (), stateless: bool = False) -> "Callable[..., HttpResponseBase]":
    """Return a view of Django that serves an MCP server: ``path("mcp", mcp_view(mcp))``.

    The view is exempt from CSRF protection, since it checks the origin itself, and from ATOMIC_REQUESTS: a handler that
    wants a transaction opens one. Old and broken database connections are closed around each handler, on whatever thread it
    runs. The view needs a WSGI server.

    :param mcp: the server.
    :param principal: called with the request; returns the user as a :class:`Principal`, a name, a user of Django, or None.
        By default ``request.user``, whose primary key is the subject; if the request has no such attribute, ``REMOTE_USER``.
        Not called for a server with ``auth=``, which requires tokens instead.
    :param allowed_origins: the origins whose web pages may use the endpoint, besides the site's own.
    :param trusted_proxies: addresses and networks of reverse proxies, which tell the client's address in ``X-Forwarded-For``;
        see :class:`TrustedProxies`.
    :param stateless: serves every message on its own, without session ids; see :class:`Endpoint`.
    :raises ValueError: an option is not valid.
    """
    from django.db import connections, transaction
    from django.views.decorators.csrf import csrf_exempt

    ask = principal or _user_of
    served = WSGIApp(mcp.runtime, principal=lambda environ: principal_of(ask(environ[_REQUEST])),
                     allowed_origins=allowed_origins, trusted_proxies=trusted_proxies, stateless=stateless)

    def view(request: "HttpRequest", **values: Any) -> "HttpResponseBase":
        return _respond(served, request)

    exempt: Any = csrf_exempt(view)
    for alias in connections:
        exempt = transaction.non_atomic_requests(using=alias)(exempt)
    return exempt  # type: ignore[no-any-return]


def request_of(ctx: Context) -> "HttpRequest":
    """Return the request of Django that a handler serves, with what the middleware has added to it.

    :param ctx: of the handler.
    :raises RuntimeError: the handler is not served by :func:`mcp_view`, but on stdio for example.
    """
    environ = None if ctx.http is None else ctx.http.environ
    if environ is None or _REQUEST not in environ:
        raise RuntimeError("there is no request of Django: the handler was not called through mcp_view()")
    return environ[_REQUEST]


def _respond(served: WSGIApp, request: "HttpRequest") -> "HttpResponseBase":
    from django.http import HttpResponse, HttpResponseNotAllowed

    if request.method not in METHODS:
        return HttpResponseNotAllowed(METHODS)
    request.get_host()  # raises an error here, if the host is not one of ALLOWED_HOSTS
    environ = {**request.META, _REQUEST: request}
    environ["SCRIPT_NAME"], environ["PATH_INFO"] = mounted(environ)
    if request.META.get("CONTENT_LENGTH"):
        environ["wsgi.input"] = request  # this can be read even if a middleware has read the body already
    http = served.make_request(environ)
    http.around, http.host_checked = close_around(threading.get_ident()), True
    response = served.respond(http)
    if response.streaming:
        return _stream(response)
    sent = HttpResponse(response.content, status=response.status)
    return _with_headers(sent, response)


def _stream(response: HTTPResponse) -> "HttpResponseBase":
    from django.conf import settings
    from django.db import close_old_connections
    from django.http import StreamingHttpResponse

    def pieces() -> Iterator[bytes]:
        try:
            close_old_connections()  # those that the middleware has used; the stream would keep them until its end
            yield from response.body
        finally:
            response.close()

    sent = _with_headers(StreamingHttpResponse(pieces()), response)
    sent.status_code = response.status
    sent._resource_closers.append(response.close)  # also if no piece is sent
    if any("gzip" in name.lower() for name in settings.MIDDLEWARE):
        # This header keeps GZipMiddleware from compressing: it would hold back each event until there is a block of data.
        sent.headers["Content-Encoding"] = "identity"
    return sent


def _with_headers(sent: "HttpResponseBase", response: HTTPResponse) -> "HttpResponseBase":
    del sent.headers["Content-Type"]
    for name, value in response.headers:
        sent.headers[name] = value
    return sent
