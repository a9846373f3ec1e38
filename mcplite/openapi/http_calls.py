"""Sends the requests of calls to an API over HTTP: to one origin, within a time, and ended when the call is cancelled.

The requests go through :class:`~mcplite.net.origin_client.OriginClient`, by the ``requests.Session`` of the user if there is
one. :class:`APICalls` has the parts that :mod:`.wsgi_calls` uses as well: headers, redirects and limits.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Union
from urllib.parse import urljoin, urlsplit

from ..errors import MCPError, RegistrationError, ToolError
from ..net.exchange import Exchange, Reply, Stopped
from ..net.origin_client import OriginClient
from ..net.settings import HTTPSettings
from ..protocol.error_text import shown
from ..protocol.http.headers import DEFAULT_PORTS, check_header
from ..rpc.deadline import Deadline
from ..server.handling.context import Context
from .request_building import APIRequest
from .responses import APIResponse

if TYPE_CHECKING:
    import requests

__all__ = ["APICalls", "HTTPCalls", "Headers", "fetch", "is_same_origin"]

#: Headers of each request, or a function of the context of a call that returns them.
Headers = Union[None, Mapping[str, str], Callable[[Context], Mapping[str, str]]]
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
#: Seconds for loading one file of a document.
_DOCUMENT_SECONDS = 60.0


def is_same_origin(one: str, other: str) -> bool:
    """Whether two URLs have the same scheme, host and port."""
    try:
        origins = [(parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme))
                   for parts in (urlsplit(one), urlsplit(other))]
    except ValueError:
        return False
    return origins[0] == origins[1]


class APICalls:
    """Sends the requests of one API.

    :param base_url: which the paths follow.
    :param headers: of each request.
    :param limit: bytes of a response.
    """

    def __init__(self, base_url: str, headers: Headers, limit: int) -> None:
        self.base_url = base_url.rstrip("/")
        self._headers = headers
        self.limit = limit

    def send(self, request: APIRequest, context: Optional[Context], base_url: Optional[str] = None) -> APIResponse:
        """Send a request and return its response, whatever its status.

        Redirects are followed within the origin, if they keep the method.

        :param context: of the call; None outside of one.
        :param base_url: in place of that of all requests, on the same origin.
        :raises ToolError: there is no response.
        :raises Cancelled: the call was cancelled.
        """
        url = (self.base_url if base_url is None else base_url.rstrip("/")) + request.target
        headers = self._headers_of(context)
        request.cookies[:0] = [headers.pop(name) for name in list(headers) if name.lower() == "cookie"]
        headers.update(request.all_headers())
        for _ in range(_MOST_REDIRECTS):
            response = self.send_once(request.method, url, headers, request.body, context)
            location = response.headers.get("location")
            if response.status not in _REDIRECTS or not location:
                return response
            try:
                target = urljoin(url, location)
            except ValueError:  # it is no URL
                return response
            if not is_same_origin(target, self.base_url) or request.method != "GET" and response.status < 307:
                return response
            url = target
        raise ToolError(f"{shown(self.base_url)} redirects in a circle")

    def _headers_of(self, context: Optional[Context]) -> Dict[str, str]:
        given = self._headers
        if callable(given):
            given = {} if context is None else given(context)
        found = dict(given or {})
        for name, value in found.items():
            try:
                check_header(name, value)
            except (TypeError, ValueError):
                # Without the original error, which quotes the value: it may be a secret.
                raise ToolError(f"headers= has a value for {name!r} that cannot be sent") from None
        return found

    def send_once(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes], context: Optional[Context]
                  ) -> APIResponse:
        """Send a request and return its response; a redirect is not followed.

        :raises ToolError: there is no response.
        :raises Cancelled: the call was cancelled.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close idle connections; the next request opens them again."""

    def too_large(self) -> ToolError:
        """Return the error for a response with more than the limit."""
        return ToolError(f"{shown(self.base_url)} answered with more than {self.limit} bytes (response_bytes=); ask for less")


class HTTPCalls(APICalls):
    """Sends the requests of one API over HTTP.

    :param session: sends them; None for connections of our own.
    :param timeout: seconds for one request, until its response is whole.
    :raises RegistrationError: the base URL is not that of a server.
    """

    def __init__(self, base_url: str, session: "Optional[requests.Session]", headers: Headers, timeout: float, limit: int
                 ) -> None:
        super().__init__(base_url, headers, limit)
        self._timeout = timeout
        self._session = session
        try:
            self._client = self._create_client()
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"base_url=: {error}") from error

    def _create_client(self) -> OriginClient:
        return OriginClient(self.base_url + "/", HTTPSettings(session=self._session))

    def send_once(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes], context: Optional[Context]
                  ) -> APIResponse:
        deadline = Deadline(self._timeout)

        def next_timeout() -> float:
            left = deadline.remaining()
            if not left:
                raise Stopped
            return left

        exchange = Exchange(next_timeout, deadline.remaining)
        remove = None if context is None else context.on_cancel(exchange.interrupt)
        try:
            if body is None and method in ("POST", "PUT", "PATCH"):
                body = b""  # so that the request says that it has none
            reply = self._client.send_once(exchange, method, url, headers, body)
            try:
                data = self._read(reply)
            finally:
                reply.close()
            return APIResponse(reply.status, reply.headers, data, shown(url))
        except Stopped:
            if context is not None:
                context.check_cancelled()
            raise ToolError(f"{shown(self.base_url)} did not answer within {self._timeout:g} s; it may have done what was"
                            " asked" if method != "GET" else
                            f"{shown(self.base_url)} did not answer within {self._timeout:g} s") from None
        except ToolError:
            raise
        except MCPError as error:
            if context is not None:
                context.check_cancelled()
            raise ToolError(str(error)) from error
        finally:
            if remove is not None:
                remove()

    def _read(self, reply: Reply) -> bytes:
        coding = reply.headers.get("content-encoding", "identity").strip().lower()
        inflate: Any = None
        if coding in ("gzip", "x-gzip", "deflate"):  # although it was not asked for
            inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        elif coding not in ("identity", ""):
            raise ToolError(f"{shown(self.base_url)} answered with a body that is compressed by {coding[:40]!r}, which was not"
                            " asked for")
        found: List[bytes] = []
        size = 0
        while True:
            # Behind one compressed part there may be another one.
            packed = inflate.unused_data if inflate is not None else b""
            piece = packed or reply.read1()
            if not piece:
                if inflate is not None and found and not inflate.eof:
                    raise self._broken("it ends too early")
                return b"".join(found)
            if inflate is not None:
                if inflate.eof:
                    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
                try:
                    piece = inflate.decompress(piece, self.limit + 1 - size)
                except zlib.error as error:
                    raise self._broken(error) from error
                if inflate.unconsumed_tail:
                    raise self.too_large()
            found.append(piece)
            size += len(piece)
            if size > self.limit:
                raise self.too_large()

    def _broken(self, why: object) -> ToolError:
        return ToolError(f"{shown(self.base_url)} answered with a compressed body that is broken: {why}")

    def close(self) -> None:
        # A closed client sends nothing more, so another one takes its place, which opens nothing before its first request.
        client, self._client = self._client, self._create_client()
        client.close()


def fetch(url: str, session: "Optional[requests.Session]", limit: int) -> bytes:
    """Return the body of a URL: an OpenAPI document, or a part of one.

    :raises RegistrationError: there is no such document.
    """
    parts = urlsplit(url)
    try:
        calls = HTTPCalls(f"{parts.scheme}://{parts.netloc}", session,
                          {"Accept": "application/json, application/yaml, */*;q=0.5"}, _DOCUMENT_SECONDS, limit)
        try:
            request = APIRequest("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
            response = calls.send(request, None)
        finally:
            calls.close()
    except ToolError as error:
        raise RegistrationError(f"the OpenAPI document cannot be loaded: {error}") from error
    if response.status != 200:
        raise RegistrationError(f"the OpenAPI document cannot be loaded: {shown(url)} answered {response.status_line}"
                                + (f", to {shown(response.headers['location'])}: use that URL if you trust it"
                                   if response.headers.get("location") else ""))
    return response.body
