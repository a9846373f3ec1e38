"""How one client's HTTP requests travel: over ``requests``, but with deadlines that hold and reads that can be ended.

A timeout of ``requests`` is one for each read, so that a server which drips bytes is waited for without
end, and a read that waits cannot be ended from another thread. Here each read and each write asks its
:class:`Exchange` first whether anybody still waits (TIME-01).
"""

import copy
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urljoin, urlsplit

from ..errors import AuthError, ProtocolError, TransportError
from ..protocol.http.challenges import find, parse
from ..protocol.http.headers import check_header
from ..protocol.http.wellknown import covers, is_loopback
from ..protocol.show import shown
from .adapter import Direct, make_adapter
from .bearer import Bearer
from .exchange import Exchange, Stopped

if TYPE_CHECKING:
    import requests

    from ..client.oauth.access import Access

__all__ = ["Exchange", "Link", "Reply", "Stopped"]

_REDIRECTS = 5
#: For each of the addresses that a name has.
_CONNECT_SECONDS = 10.0
_PIECE = 65_536
#: How much of an error's body is read and shown.
_SHOWN = 2000
_PORTS = {"http": 80, "https": 443}


class Reply:
    """One response, its body not read yet.

    :param raw: urllib3's response.
    """

    def __init__(self, raw: Any, exchange: Exchange, url: str) -> None:
        self._raw = raw
        self._exchange = exchange
        self._url = shown(url)
        self.status: int = raw.status
        self.headers: Mapping[str, str] = raw.headers
        #: The token that the request was sent with, if it was an :class:`Access` that gave one.
        self.token: Optional[str] = None
        #: The address that it came from; None when there is a proxy in between.
        self.address: Optional[str] = None
        exchange.answered = True
        # Past urllib3, whose reads wait until they have all that was asked for.
        self._body: Any = getattr(raw, "_fp", None) or raw
        self._over = False

    @property
    def kind(self) -> str:
        """The media type, without parameters and in lower case."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def read1(self) -> bytes:
        """Return what has come, at least one byte; nothing at the end of the body.

        :raises TransportError: the connection broke in the middle.
        :raises Stopped: nobody waits any more.
        """
        try:
            data: bytes = self._body.read1(_PIECE)
        except (Stopped, AuthError):  # of the exchange
            raise
        except Exception as error:  # of http.client, of the socket, of TLS: whatever it is, the body has no end
            self.close()
            if self._exchange.cut:
                raise Stopped from error
            raise TransportError(f"the connection to {self._url} broke in the middle of an answer: {_text(error)}") from error
        if not data:
            self._check_whole()
        return data

    def _check_whole(self) -> None:
        missing = getattr(self._body, "length", None)
        if self._exchange.cut:
            self.close()
            raise Stopped
        if missing:
            self.close()
            raise TransportError(f"the connection to {self._url} broke in the middle of an answer: {missing} bytes are missing")
        self.release()

    def read(self, limit: int) -> bytes:
        """Return the whole body.

        :raises ProtocolError: it has more than *limit* bytes, or is compressed although that was not asked for.
        :raises TransportError, Stopped: as for :meth:`read1`.
        """
        self.check_plain()
        pieces: List[bytes] = []
        size = 0
        while True:
            data = self.read1()
            if not data:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.append(data)
            size += len(data)
            if size > limit:
                self.close()
                raise ProtocolError(f"{self._url} answered with more than {limit} bytes (line_limit=)")

    def check_plain(self) -> None:
        """Refuse a compressed body, whose size nobody knows before it is too late (SEC-10)."""
        coding = self.headers.get("Content-Encoding", "identity").lower()
        if coding not in ("identity", ""):
            self.close()
            raise ProtocolError(f"{self._url} answered with a body that is compressed ({coding[:40]}), although"
                                " 'Accept-Encoding: identity' was sent")

    def excerpt(self) -> str:
        """Return the beginning of the body as text, for an error, and end the response."""
        data = b""
        try:
            while len(data) < _SHOWN:
                piece = self.read1()
                if not piece:
                    break
                data += piece
        except (TransportError, Stopped):
            return data[:_SHOWN].decode("utf-8", "replace")  # what there is has to do
        finally:
            self.close()
        return data[:_SHOWN].decode("utf-8", "replace")

    def release(self) -> None:
        """Give the connection back, whose response has been read to its end."""
        if not self._over:
            self._over = True
            self._exchange.hold(None)
            # http.client takes a response with a length for unread until it is closed.
            self._body.close()
            release = getattr(self._raw, "release_conn", None)
            if release is not None:
                release()

    def close(self) -> None:
        """End the response; its connection is closed if the body was not read to its end. Idempotent."""
        if not self._over:
            self._over = True
            self._raw.close()


class Link:
    """The way to one origin.

    :param url: of the endpoint.
    :param headers: sent with every request.
    :param session: whose headers, cookies, authentication, proxies and adapters are used; it stays the caller's.
    :param verify: False, or a file or folder of certificates, as for ``requests``.
    :param cert: a client's certificate, as for ``requests``.
    :param proxies: by scheme, as for ``requests``; by default those of the environment.
    :param auth: a bearer token, an :class:`OAuth` or another grant, or what ``requests`` takes: a pair, or anything that is
        called with the request.
    :param guard: that of :func:`make_adapter`, for connections that go through no proxy.
    :raises ValueError: the URL is none, or a header cannot be sent.
    """

    def __init__(self, url: str, *, headers: Optional[Mapping[str, str]] = None,
                 session: "Optional[requests.Session]" = None, verify: Any = None, cert: Any = None,
                 proxies: Optional[Dict[str, str]] = None, auth: Any = None,
                 guard: Optional[Callable[[str, int], Sequence[str]]] = None) -> None:
        import requests
        from requests.adapters import HTTPAdapter
        from requests.auth import HTTPBasicAuth
        from requests.utils import select_proxy

        self.origin = _origin(url)
        for name, value in (headers or {}).items():
            check_header(name, value)
        self._session = session if session is not None else requests.Session()
        self._own = session is None
        self._settings: Dict[str, Any] = dict(self._session.merge_environment_settings(url, proxies or {}, True, verify, cert))
        if is_loopback(self.origin[1]) and (guard is not None or hasattr(auth, "access")):
            # What needs no TLS on this machine must not leave it for a proxy of the environment (AUTH-35, AUTH-39).
            self._settings["proxies"] = {**self._session.proxies, **(proxies or {})}
        self._proxied = bool(select_proxy(url, self._settings["proxies"]))
        if self._proxied:
            guard = None
        #: Which exchange the current thread is in, for connections that it opens.
        self._adapter, self._current = make_adapter(guard)
        adapter = self._session.get_adapter(url)
        # A session's adapter may be there for a purpose; the standard one only lacks what ours has.
        self._theirs = adapter if type(adapter) is not HTTPAdapter else None
        # Never those of ~/.netrc, which were given for something else (SEC-66).
        auth = self._session.auth if auth is None else auth
        if isinstance(auth, type) or not (auth is None or isinstance(auth, (str, tuple)) or callable(auth)
                                          or hasattr(auth, "access")):
            raise TypeError("auth= is a token as a string, a pair, OAuth() or another way to get tokens, or what requests takes,"
                            f" not {type(auth).__name__}")
        access = getattr(auth, "access", None)
        #: Gives tokens and deals with refusals, where that takes more than a header.
        self._access: "Optional[Access]" = None
        self._auth: Any = None
        if isinstance(auth, str):
            self._auth = Bearer(auth)
        elif access is not None:
            self._access = access(url, verify=self._settings["verify"], proxies=proxies)
        else:
            self._auth = HTTPBasicAuth(*auth) if isinstance(auth, tuple) else auth
        merged = {**self._session.headers, "Accept-Encoding": "identity", "User-Agent": _user_agent(), **(headers or {})}
        self._base = requests.PreparedRequest()
        self._base.prepare("POST", url, headers={name: value for name, value in merged.items() if value is not None})
        self._headers: Any = self._base.headers
        self._direct = Direct(self._adapter, self._current, self._settings)
        #: As requests writes it, without the fragment.
        self.url = str(self._base.url)

    def send(self, exchange: Exchange, method: str, url: Optional[str], headers: Mapping[str, str],
             body: Optional[bytes] = None, connect_seconds: Optional[float] = None) -> Reply:
        """Send one request and return its response, as soon as its headers have come.

        What the server refuses for lack of a token is sent again with one, where ``auth`` can get it.

        :param exchange: says how long; another thread can interrupt it.
        :param url: by default the endpoint's.
        :raises TransportError: the server cannot be reached, or redirects elsewhere.
        :raises AuthError: it answered with 401, or wants scopes that the token lacks, and no other token could be had.
        :raises Stopped: nobody waits any more.
        """
        attempt = None if self._access is None else self._access.attempt()
        while True:
            reply = self.fetch(exchange, method, url, headers, body, connect_seconds)
            if reply.status not in (401, 403) or attempt is None or not attempt.answers(reply, headers, exchange):
                break
        refused = _refusal(reply, shown(self.url), self._auth is not None or "Authorization" in self._headers)
        if refused is not None:
            reply.close()
            raise refused
        return reply

    def fetch(self, exchange: Exchange, method: str, url: Optional[str], headers: Mapping[str, str],
              body: Optional[bytes] = None, connect_seconds: Optional[float] = None) -> Reply:
        """Send one request and return its response, whatever its status.

        Redirects are followed within the origin, by those who keep the method (SAFE, SESS-04).

        :raises TransportError, Stopped: as for :meth:`send`.
        """
        at = first = self.url if url is None else url
        for _ in range(_REDIRECTS):
            reply = self._send_once(exchange, method, at, headers, body, connect_seconds)
            if reply.status not in (301, 302, 303, 307, 308) or "Location" not in reply.headers:
                return reply
            at = self._redirected(reply, method, at)
            if self._access is not None and not covers(first, at):
                # AUTH-39: what is beside the server may be somebody else's.
                raise TransportError(f"{shown(first)} redirects to {shown(at)[:200]!r}, which its token is not for; use that URL if"
                                     " it is the server's")
        raise TransportError(f"{shown(self.url)} redirects in circles")

    def _redirected(self, reply: Reply, method: str, at: str) -> str:
        reply.close()
        try:
            target = urljoin(at, reply.headers["Location"])
            shown(target)
        except ValueError as error:
            raise TransportError(f"{shown(at)} redirects to what is no URL: {error}") from error
        if reply.status in (301, 302, 303) and method != "GET":
            raise TransportError(f"{shown(at)} answered {method} with a redirect ({reply.status}) to {shown(target)[:200]!r}, which"
                                 " would make a GET of it; use that URL if it is the server's")
        if not self._is_ours(target):
            raise TransportError(f"{shown(at)} redirects to another origin, {shown(target)[:200]!r}; credentials do not go there, so"
                                 " use that URL if you trust it")
        return target

    def _send_once(self, exchange: Exchange, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes],
                   connect_seconds: Optional[float]) -> Reply:
        request = self._prepared(method, url, headers, body)
        token: Optional[str] = None
        if self._access is not None:
            exchange.notes_address = True
            token, own = self._access.credentials(method, url, exchange)
            request.headers.update(own)
        # The exchange bounds reads and writes; connecting is the one step that it cannot.
        left = exchange.left_in_all()
        connect = connect_seconds or (_CONNECT_SECONDS if left is None else min(left, _CONNECT_SECONDS))
        self._current.exchange = exchange
        try:
            if self._theirs is None and not any(self._session.hooks.values()) and not any(request.hooks.values()):
                raw = self._direct.send(request, request.headers, body, connect)
            else:
                raw = self._with_hooks(request, connect)
        except Stopped:
            raise
        except (self._direct.error, OSError, ValueError) as error:  # those of requests are OSErrors
            if exchange.cut:
                raise Stopped from error
            raise TransportError(f"cannot reach {shown(url)}: {_explain(error)}") from error
        finally:
            self._current.exchange = None
        if not self._own and "Set-Cookie" in raw.headers:  # a session of our own keeps none (SEC-66)
            from requests import cookies

            jar: Any = cookies
            jar.extract_cookies_to_jar(self._session.cookies, request, raw)
        reply = Reply(raw, exchange, url)
        reply.token = token
        if not self._proxied:
            reply.address = exchange.address
        if self._access is not None:
            self._access.heard(url, reply.headers, token is not None and reply.status != 401)
        return reply

    def _prepared(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes]) -> Any:
        request: Any = copy.copy(self._base)
        request.method, request.url = method, url
        request.headers = self._headers.copy()
        request.headers.update(headers)
        if body is not None:
            request.body = body
            request.headers["Content-Length"] = str(len(body))
        if len(self._session.cookies):
            request.prepare_cookies(self._session.cookies)
        if self._auth is not None:
            request.hooks = {name: list(hooks) for name, hooks in request.hooks.items()}
            request = self._auth(request) or request
        return request

    def _with_hooks(self, request: Any, connect: Optional[float]) -> Any:
        """Send by the whole of ``requests``: for authentication that answers challenges, and for adapters of others."""
        from requests import hooks

        adapter: Any = self._theirs or self._adapter
        dispatch: Any = getattr(hooks, "dispatch_hook")
        response = adapter.send(request, timeout=(connect, None), **self._settings)
        return dispatch("response", {**self._session.hooks, **request.hooks}, response, **self._settings).raw

    def resolve(self, reference: str) -> str:
        """Return the URL that *reference* means, seen from the endpoint.

        :raises ProtocolError: it is on another origin (LSSE-03, SEC-20).
        """
        target = urljoin(self.url, reference)
        if not self._is_ours(target):
            raise ProtocolError(f"{shown(self.url)} names an endpoint on another origin: {shown(target)[:200]!r}")
        return target

    def _is_ours(self, url: str) -> bool:
        try:
            return _origin(url) == self.origin
        except ValueError:
            return False

    def close(self) -> None:
        """Close all connections that rest."""
        self._direct.close()
        self._adapter.close()
        if self._own:
            self._session.close()


def _refusal(reply: Reply, name: str, given: bool) -> Optional[AuthError]:
    """Return the error for a response that refuses for lack of a token, or of one that allows enough; else None.

    :param given: whether the caller has given something to authenticate with.
    """
    header = reply.headers.get("WWW-Authenticate") or ""
    if reply.status == 401:
        hint = ("it does not accept the token that it was given" if reply.token is not None else
                "it does not accept what it was given" if given else "give connect() auth= or a header")
        return AuthError(f"{name} wants authorization (401): {hint}", challenge=header,
                         error="" if reply.token is None else "invalid_token")
    challenge = find(parse(header), "dpop", "bearer") if reply.status == 403 and header else None
    if challenge is None or challenge.get("error") != "insufficient_scope":
        return None
    wanted = " ".join(challenge.scopes or ["it does not say which"])
    return AuthError(f"{name} refuses (403): what it was given lacks scopes ({wanted})", challenge=header,
                     error="insufficient_scope")


def _origin(url: str) -> Tuple[str, str, Optional[int]]:
    """Return scheme, host and port.

    :raises ValueError: it is no URL of http or https.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{shown(url)[:200]!r} is no URL of a server; write 'https://host/path'")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def _user_agent() -> str:
    from ..version import __version__

    return f"{__name__.partition('.')[0]}/{__version__}"


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
    text = _text(error)
    if "certificate verify failed" in text.lower():
        text += " (a certificate authority of your own: verify='/path/to/ca.pem')"
    return text


def _text(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:300]


