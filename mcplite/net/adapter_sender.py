"""Sends through ``requests`` over our own connections: proxies, and authentication that is made for ``requests``.

An :class:`~.origin_client.OriginClient` sends by it where :mod:`.connections` cannot and no session was given.
"""

import copy
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from ..protocol.http.wellknown import is_loopback
from .exchange import Exchange
from .response import Body, Reply
from .settings import Guard, HTTPSettings, Verify

if TYPE_CHECKING:
    import requests

__all__ = ["AdapterSender", "keep_no_cookies", "merged_settings", "proxy_for"]

_PIECE_BYTES = 65_536


def merged_settings(url: str, settings: HTTPSettings, host: str, stays_here: bool,
                    session: "requests.Session") -> Dict[str, Any]:
    """Return certificates and proxies, merged with the session's and the environment's; as ``requests`` passes them around.

    :param stays_here: whether requests to this machine must not leave it for a proxy of the environment.
    """
    proxies = dict(settings.proxies or {})
    merged: Dict[str, Any] = dict(session.merge_environment_settings(
        url, dict(proxies), True, settings.verify, settings.cert))  # type: ignore[arg-type]
    if stays_here and is_loopback(host):
        merged["proxies"] = {**session.proxies, **proxies}  # AUTH-35, AUTH-39: it needs no TLS as long as it stays here
    return merged


def proxy_for(url: str, merged: Mapping[str, Any]) -> Optional[str]:
    """Return the proxy that requests to a URL go through; None for none."""
    from requests.utils import select_proxy

    proxy: Optional[str] = select_proxy(url, merged["proxies"])
    return proxy


class AdapterSender:
    """Sends requests to one origin through a session of its own; any thread may use it.

    :param session: keeps no cookies (SEC-66), and is closed with the sender.
    :param merged: as :func:`merged_settings` returns it.
    :param headers: of all requests, besides the session's.
    :param auth: called with each request; None for nothing.
    :param guard: checks the addresses of connections that go through no proxy.
    """

    def __init__(self, url: str, session: "requests.Session", merged: Mapping[str, Any], headers: Mapping[str, str], auth: Any,
                 guard: Optional[Guard]) -> None:
        from requests import PreparedRequest

        from .adapter import Adapter

        self._session = session
        self._merged = merged
        self._auth = auth
        self.proxied = proxy_for(url, merged) is not None
        self.verify: Verify = merged["verify"]
        # The standard one has no deadlines, and its reads cannot be ended from another thread.
        self._adapter = Adapter(None if self.proxied else guard)
        for prefix in ("http://", "https://"):
            session.mount(prefix, self._adapter)
        # Redirects are the caller's.
        session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]
        keep_no_cookies(session)
        base = PreparedRequest()
        base.prepare("POST", url, headers={name: value for name, value in {**session.headers, **headers}.items()
                                           if value is not None})
        #: The request that all others are copies of.
        self._base = base
        self.headers: Any = base.headers
        #: As ``requests`` writes it, without the fragment.
        self.url = str(base.url)

    def send(self, exchange: Exchange, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes],
             connect_seconds: float) -> Reply:
        """Send a request and return its response, as soon as its head has come.

        :param connect_seconds: for each address.
        :raises OSError, ValueError: the server cannot be reached, or the request cannot be sent.
        :raises Stopped: the caller no longer waits.
        """
        request = self._prepared(method, url, headers, body)
        thread = self._adapter.thread
        thread.exchange = exchange
        try:
            raw = self._session.send(request, allow_redirects=False, timeout=(connect_seconds, None), **self._merged).raw
        except self._adapter.error as error:
            raise ConnectionError(str(error)) from error
        finally:
            thread.exchange = None
        headers_by_name = {name.lower(): raw.headers[name] for name in raw.headers}
        return Reply(raw.status, headers_by_name, _AdapterBody(raw), exchange, url)

    def _prepared(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes]) -> Any:
        request: Any = copy.copy(self._base)
        request.method, request.url = method, url
        request.headers = self.headers.copy()
        request.headers.update(headers)
        if body is not None:
            request.body = body
            request.headers["Content-Length"] = str(len(body))
        else:
            request.headers.pop("Content-Length", None)  # that of a POST without content
        request.hooks = {name: list(hooks) for name, hooks in request.hooks.items()}
        if self._auth is not None:
            request = self._auth(request) or request
        request.prepare_hooks(self._session.hooks)
        return request

    def close(self) -> None:
        """Close all idle connections."""
        self._adapter.close()
        self._session.close()


def keep_no_cookies(session: "requests.Session") -> None:
    """Let a session keep no cookies of servers."""
    from http.cookiejar import DefaultCookiePolicy

    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))


class _AdapterBody(Body):
    """The body of a response of ``requests``.

    :param raw: urllib3's response.
    """

    __slots__ = ("_raw", "_file")

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        # Past urllib3, whose reads block until they have all that was asked for.
        self._file: Any = getattr(raw, "_fp", None) or raw

    @property
    def missing(self) -> Optional[int]:
        length: Optional[int] = getattr(self._file, "length", None)
        return length

    def read1(self) -> bytes:
        data: bytes = self._file.read1(_PIECE_BYTES)
        return data

    def release(self) -> None:
        reader = getattr(self._file, "reader", None)
        if reader is not None and not reader.reusable:
            self._raw.close()
            return
        # http.client takes a response with a length for unread until it is closed.
        self._file.close()
        release = getattr(self._raw, "release_conn", None)
        if release is not None:
            release()

    def close(self) -> None:
        self._raw.close()
