"""An HTTP client for one origin, whose deadlines hold for the whole exchange and whose reads another thread can end.

:func:`create_sender` chooses once how the requests of a client travel. Our own connections take a fraction of the time, and for
``http`` do not even import ``requests``. A session of ``requests`` on a thread is used in four cases: the user gives a session,
the authentication is made for ``requests``, the proxy is not reached over plain HTTP, or a library has replaced parts of
``requests`` and is to see each request.

A timeout of ``requests`` bounds each single read. So a server that sends single bytes slowly could keep the caller without end,
and another thread could not end a blocked read. Here each read and each write asks its :class:`Exchange` first how long it may
block (TIME-01). The client's channels and its OAuth requests are built on it.
"""

import os
import sys
import time
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import urljoin, urlsplit

from ..errors import AuthError, ProtocolError, TransportError
from ..protocol.error_text import missing_library, shown
from ..protocol.http.headers import DEFAULT_PORTS, check_header
from ..protocol.http.http1 import BadResponse
from ..protocol.http.oauth import covers, find_challenge, parse_challenges
from ..version import __version__
from .connection_pool import DirectSender, is_plain, written_by_requests
from .exchange import Exchange, Reply, Stopped
from .settings import (
    TLS,
    Bearer,
    Guard,
    HTTPSettings,
    TokenProvider,
    TokenSource,
    basic,
    http_proxy,
    merged_settings,
    proxy_for,
)

if TYPE_CHECKING:
    from .session_sender import SessionSender

__all__ = ["OriginClient", "requests_is_patched"]

Sender = Union[DirectSender, "SessionSender"]
#: Module, class and methods by which a request travels through ``requests``.
_PARTS: Sequence[Tuple[str, str, Sequence[str]]] = (
    ("requests.sessions", "Session", ("request", "send", "get_adapter", "prepare_request")),
    ("requests.adapters", "HTTPAdapter", ("send", "build_response")),
    ("urllib3.connectionpool", "HTTPConnectionPool", ("urlopen", "_get_conn", "_new_conn")),
)


def create_sender(url: str, settings: HTTPSettings, headers: Mapping[str, str], auth: Any, stays_here: bool,
                  guard: Optional[Guard]) -> Sender:
    """Return the sender for one origin.

    :param headers: of all requests.
    :param auth: what ``requests`` calls with each request; None if the caller adds its own credentials.
    :param stays_here: whether requests to this machine must not leave it for a proxy of the environment.
    :param guard: checks the addresses of connections that go through no proxy.
    :raises ValueError: a header cannot be sent.
    """
    secure, verify, cert, proxy = url.startswith("https:"), settings.verify, settings.cert, None
    ours = settings.session is None and auth is None and not requests_is_patched()
    if ours and not is_plain(url):
        url, authorization = written_by_requests(url)
        secure = url.startswith("https:")
        if authorization:
            headers = {**{name: value for name, value in headers.items() if name.lower() != "authorization"},
                       "Authorization": authorization}
    if ours and (secure or settings.proxies or _environment_has_proxies()):
        try:
            import requests
        except ModuleNotFoundError as error:
            raise missing_library(error) or error from None

        with requests.Session() as session:
            merged = merged_settings(url, settings, stays_here, session)
        verify, cert = merged["verify"], merged["cert"]
        through = proxy_for(url, merged)
        proxy = None if through is None else http_proxy(through)
        # A proxy that is reached by SOCKS or TLS is left to requests. If there is a proxy, a guard checks no addresses.
        ours = (proxy is None) is (through is None)
    if ours:
        return DirectSender(url, _defaults(headers), guard, TLS(verify, cert) if secure else None, proxy)
    try:
        from .session_sender import SessionSender
    except ModuleNotFoundError as error:
        raise missing_library(error) or error from None

    return SessionSender(url, settings, headers, auth, stays_here, guard)


def _defaults(headers: Mapping[str, str]) -> Dict[str, str]:
    """Return the headers, with defaults for those that ``requests`` adds to each request."""
    given = {name.lower() for name in headers}
    defaults = {"Accept": "*/*", "Connection": "keep-alive"}
    return {**{name: value for name, value in defaults.items() if name.lower() not in given}, **headers}


def _environment_has_proxies() -> bool:
    """Return whether the environment names a proxy for any URL; ``requests`` then says for which."""
    if sys.platform == "darwin" or os.name == "nt":  # the settings of these systems may name a proxy as well
        from urllib.request import getproxies

        return bool(getproxies())
    return any(value and name.lower().endswith("_proxy") and name.lower() != "no_proxy" for name, value in os.environ.items())


def requests_is_patched() -> bool:
    """Return whether a library has replaced parts of ``requests`` for the whole process, as tests and tracing do.

    Nothing is imported for it: no library can have replaced parts of a module that is not loaded.
    """
    package = sys.modules.get("requests")
    if package is None:
        return False
    for module_name, class_name, methods in _PARTS:
        module = sys.modules.get(module_name)
        if module is None:
            continue
        # The class that programs use, which may be replaced as a whole.
        owner: Any = getattr(package, class_name, None) or getattr(module, class_name, None)
        if not all(_is_own(getattr(owner, method, None), module) for method in methods):
            return True
    pools: Any = sys.modules.get("urllib3.connectionpool")
    return pools is not None and pools.HTTPConnectionPool.ConnectionCls.__module__ != "urllib3.connection"


def _is_own(method: Any, module: Any) -> bool:
    # A wrapper may have the name and the module of what it wraps, but not its globals.
    return type(method) is FunctionType and method.__globals__ is module.__dict__


_MOST_REDIRECTS = 5
#: Seconds to connect to each address of a name.
_CONNECT_SECONDS = 10.0
#: Seconds by which an attempt to connect may end before the deadline that bounds it, as clocks and timers differ.
_LATE_SECONDS = 0.02


class OriginClient:
    """An HTTP client for one origin; any thread may use it.

    :param url: of the endpoint.
    :param guard: checks the addresses of connections that go through no proxy.
    :raises ValueError: the URL is not one of a server, or a header cannot be sent.
    :raises TypeError: the settings' ``auth`` is of no kind that can be used.
    """

    def __init__(self, url: str, settings: HTTPSettings = HTTPSettings(), guard: Optional[Guard] = None) -> None:
        self.origin = _origin(url)
        headers = settings.headers or {}
        for name, value in headers.items():
            check_header(name, value)
            if value[:1].isspace():
                raise ValueError(f"the value of the header {name!r} begins with a blank, and cannot be sent")
        # Never those of ~/.netrc, which were given for something else (SEC-66).
        auth = settings.auth
        in_session = None if settings.session is None else settings.session.auth
        if auth is None and isinstance(in_session, TokenProvider):
            settings = replace(settings, auth=in_session)
            auth = in_session
        #: Returns the value of ``Authorization`` for each request; None unless ``auth`` is a token, or a name and a password.
        self._credentials: Optional[Callable[[], str]] = None
        foreign = None if isinstance(auth, TokenProvider) else self._take_credentials(auth)
        self._sender: Sender = create_sender(
            url, settings,
            {"Accept-Encoding": "identity", "User-Agent": f"{__name__.partition('.')[0]}/{__version__}", **headers},
            foreign, guard is not None or isinstance(auth, TokenProvider), guard)
        #: Gives tokens and deals with refusals, if ``auth`` is a token provider.
        self._tokens: Optional[TokenSource] = None
        if isinstance(auth, TokenProvider):
            verify = settings.verify if isinstance(self._sender, DirectSender) else self._sender.verify
            self._tokens = auth.tokens_for(url, settings.without_credentials(verify))
        self._authenticates = (self._credentials is not None or foreign is not None or in_session is not None
                               or "authorization" in self._sender.headers)
        #: As it is sent, without the fragment.
        self.url = self._sender.url

    def _take_credentials(self, auth: Any) -> Any:
        """Keep credentials that become one header; return those that only ``requests`` can use, or None.

        :raises TypeError: it is of no kind that can be used.
        """
        if isinstance(auth, str):
            auth = Bearer(auth)
        if type(auth) is Bearer:
            self._credentials = auth.credentials
            return None
        if isinstance(auth, tuple):
            value = basic(*auth)
            self._credentials = lambda: value
            return None
        if auth is None or callable(auth) and not isinstance(auth, type):
            return auth
        raise TypeError("auth= is a token as a string, a pair, OAuth() or another way to get tokens, or what requests takes,"
                        f" not {type(auth).__name__}")

    def send_authorized(self, exchange: Exchange, method: str, url: Optional[str], headers: Mapping[str, str],
                        body: Optional[bytes] = None, connect_seconds: Optional[float] = None) -> Reply:
        """Send one request and return its response, as soon as its headers have come.

        A request that is refused for lack of a token is sent again with one, where ``auth`` can obtain it.

        :param exchange: bounds the time; another thread can interrupt it.
        :param url: by default the endpoint's.
        :raises TransportError: the server cannot be reached, or redirects elsewhere.
        :raises AuthError: it answered with 401, or asks for scopes that the token lacks, and no other token could be
            obtained.
        :raises Stopped: the caller no longer waits.
        """
        recovery = None if self._tokens is None else self._tokens.new_recovery()
        while True:
            reply = self.send(exchange, method, url, headers, body, connect_seconds)
            if reply.status not in (401, 403):
                return reply
            if recovery is None or not recovery.recover(reply, headers, exchange):
                break
        refusal = _refusal(reply, shown(self.url), self._authenticates)
        if refusal is not None:
            reply.close()
            raise refusal
        return reply

    def send(self, exchange: Exchange, method: str, url: Optional[str], headers: Mapping[str, str],
             body: Optional[bytes] = None, connect_seconds: Optional[float] = None) -> Reply:
        """Send one request and return its response, whatever its status.

        Redirects are followed within the origin, if they keep the method (SAFE, SESS-04).

        :raises TransportError, Stopped: as for :meth:`send_authorized`.
        """
        at = first = self.url if url is None else url
        for _ in range(_MOST_REDIRECTS):
            reply = self.send_once(exchange, method, at, headers, body, connect_seconds)
            if reply.status not in (301, 302, 303, 307, 308) or "location" not in reply.headers:
                return reply
            at = self._redirected(reply, method, at)
            if self._tokens is not None and not covers(first, at):
                # AUTH-39: another path of the same origin may be another server.
                raise _not_followed(reply, f"{shown(first)} redirects to {shown(at)[:200]!r}, which its token is not for; use"
                                    " that URL if it is the server's")
        raise _not_followed(reply, f"{shown(self.url)} redirects in a circle")

    def _redirected(self, reply: Reply, method: str, at: str) -> str:
        """Return the URL that a redirect leads to.

        :raises TransportError: it is not followed: the method would change, or it leads to another origin.
        """
        reply.close()
        try:
            target = urljoin(at, reply.headers["location"])
            shown(target)
        except ValueError as error:
            raise _not_followed(reply, f"{shown(at)} redirects to something that is not a URL: {error}") from error
        if reply.status in (301, 302, 303) and method != "GET":
            raise _not_followed(reply, f"{shown(at)} answered {method} with a redirect ({reply.status}) to"
                                f" {shown(target)[:200]!r}, which would make a GET of it; use that URL if it is the server's")
        if not self._is_same_origin(target):
            raise _not_followed(reply, f"{shown(at)} redirects to another origin, {shown(target)[:200]!r}; credentials do not"
                                " go there, so use that URL if you trust it")
        return target

    def send_once(self, exchange: Exchange, method: str, url: Optional[str], headers: Mapping[str, str],
                  body: Optional[bytes] = None, connect_seconds: Optional[float] = None) -> Reply:
        """Send one request and return its response, whatever its status; a redirect is not followed.

        :raises TransportError, Stopped: as for :meth:`send_authorized`.
        """
        url = self.url if url is None else url
        token: Optional[str] = None
        if self._tokens is not None:
            exchange.records_address = True
            token, token_headers = self._tokens.authorization_headers(method, url, exchange)
            headers = {**headers, **token_headers}
        elif self._credentials is not None:
            headers = {**headers, "Authorization": self._credentials()}
        # The exchange bounds reads and writes, but not the attempt to connect, which has a limit of its own.
        remaining = _check_time(exchange)
        connect = connect_seconds or (_CONNECT_SECONDS if remaining is None else min(remaining, _CONNECT_SECONDS))
        try:
            reply = self._sender.send(exchange, method, url, headers, body, connect)
        except (BadResponse, OSError, ValueError) as error:  # the errors of requests are OSErrors
            if exchange.interrupted:
                raise Stopped from error
            _check_time(exchange, _LATE_SECONDS)
            failure = TransportError(exchange.failure(shown(url), _explain(error)))
            failure.unsent = exchange.unsent
            raise failure from error
        reply.token = token
        if not self._sender.proxied:
            reply.address = exchange.address
        if self._tokens is not None:
            self._tokens.on_response(url, reply.headers, token is not None and reply.status != 401)
        return reply

    def resolve(self, reference: str) -> str:
        """Return the URL that *reference* means, seen from the endpoint.

        :raises ProtocolError: it is on another origin (LSSE-03, SEC-20).
        """
        target = urljoin(self.url, reference)
        if not self._is_same_origin(target):
            raise ProtocolError(f"{shown(self.url)} names an endpoint on another origin: {shown(target)[:200]!r}")
        return target

    def _is_same_origin(self, url: str) -> bool:
        try:
            return _origin(url) == self.origin
        except ValueError:
            return False

    def close(self) -> None:
        """Close all idle connections."""
        self._sender.close()


def _check_time(exchange: Exchange, late: float = 0.0) -> Optional[float]:
    """Return the seconds until the deadline of an exchange; None without one.

    :param late: if no more seconds than these are left, they are waited for, and count as over.
    :raises Stopped: the deadline has passed. The ``next_timeout`` of the exchange may raise another error for it.
    """
    remaining = exchange.remaining()
    if remaining is None or remaining > late:
        return remaining
    time.sleep(max(remaining, 0.0))
    exchange.next_timeout()
    raise Stopped


def _refusal(reply: Reply, name: str, given: bool) -> Optional[AuthError]:
    """Return the error for a response that refuses for lack of a token or of scopes; None for other responses.

    :param given: whether the caller has given something to authenticate with.
    """
    header = reply.headers.get("www-authenticate") or ""
    if reply.status == 401:
        hint = ("it does not accept the token that was sent" if reply.token is not None else
                "it does not accept what was sent" if given else
                "give connect() auth=mcplite.OAuth() to log in, or auth= with a token that you have")
        return AuthError(f"{name} wants authorization (401): {hint}", challenge=header,
                         error="" if reply.token is None else "invalid_token")
    challenge = find_challenge(parse_challenges(header), "dpop", "bearer") if reply.status == 403 and header else None
    if challenge is None or challenge.get("error") != "insufficient_scope":
        return None
    wanted = " ".join(challenge.scopes or ["it does not say which"])
    return AuthError(f"{name} refuses (403): the credentials lack scopes ({wanted})", challenge=header,
                     error="insufficient_scope")


def _origin(url: str) -> Tuple[str, str, Optional[int]]:
    """Return scheme, host and port.

    :raises ValueError: it is not a URL of http or https.
    """
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"{shown(url)[:200]!r} is not a server URL; write 'https://host/path'")
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme]


def _not_followed(reply: Reply, text: str) -> TransportError:
    """Return the error for a redirect that is not followed."""
    error = TransportError(text)
    error.status, error.temporary = reply.status, False
    return error


def _explain(error: BaseException) -> str:
    """Return the innermost reason, which requests and urllib3 wrap in several layers."""
    seen = set()
    cause: Optional[BaseException] = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        error = cause
        reason = getattr(error, "reason", None)
        nested = [argument for argument in error.args if isinstance(argument, BaseException)]
        cause = (reason if isinstance(reason, BaseException) else None) or (nested[0] if nested else None) or error.__cause__
    text = (str(error) or type(error).__name__)[:300]
    if "certificate verify failed" in text.lower():
        text += " (a certificate authority of your own: options=ClientOptions(verify='/path/to/ca.pem'))"
    return text

