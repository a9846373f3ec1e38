"""serve: a server over HTTP on background threads, for programs and tests that do something else meanwhile.

The front door offers it. A module of its own beside :class:`~.app.Server`, whose ``run()`` blocks.
"""

from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Type

from .app import Server

if TYPE_CHECKING:
    from .http.endpoint import Route
    from .transports.connection import Connection
    from .transports.httpd import HTTPServer

__all__ = ["serve"]


def serve(server: Server, *, host: str = "127.0.0.1", port: int = 0, path: str = "/mcp",
          allowed_hosts: Optional[Sequence[str]] = None, allowed_origins: Sequence[str] = (),
          trusted_proxies: Sequence[str] = (), stateless: bool = False,
          routes: "Optional[Mapping[str, Route]]" = None, legacy_sse: bool = False,
          handler: "Optional[Type[Connection]]" = None) -> "HTTPServer":
    """Serve over HTTP on background threads, from now on, and return the HTTP server.

    The end of a ``with`` block or its ``close()`` ends it; ``serve_forever()`` blocks until Ctrl-C, and ``url`` has the port.
    The parameters are explained at :class:`HTTPServer`.

    :param server: whose tools, resources and prompts are served.
    :param host: the address to listen at.
    :param port: 0 picks a free port.
    :param path: of the endpoint.
    :param allowed_hosts: the accepted host names; needed for other than loopback addresses.
    :param allowed_origins: the origins whose web pages may use the endpoint.
    :param trusted_proxies: the reverse proxies that tell the client's address.
    :param stateless: serves every message on its own, without session ids.
    :param routes: handlers of other paths.
    :param legacy_sse: also serves the oldest revision's HTTP+SSE, at ``/sse`` and ``/messages``.
    :param handler: the class of the connections, for a ``log_message`` or a ``do_GET`` of your own.
    :raises OSError, TransportError: the server cannot listen at the address, or the system has no thread for it.
    :raises ValueError: an option is not valid.
    """
    from .transports.httpd import HTTPServer

    served = HTTPServer(server.runtime, host=host, port=port, path=path, allowed_hosts=allowed_hosts,
                        allowed_origins=allowed_origins, trusted_proxies=trusted_proxies, stateless=stateless,
                        routes=routes, legacy_sse=legacy_sse, handler=handler)
    return served.start()
