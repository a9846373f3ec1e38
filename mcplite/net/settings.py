"""How HTTP requests travel: headers, trust, proxies, credentials and TLS; and the seam of tokens.

``connect()`` makes :class:`HTTPSettings` once; the channels, the clients of origins and the token sources pass them on as one
value. :class:`TLS` sets up our own connections as ``requests`` and ``urllib3`` do it: the same certificates, versions and
ciphers. Both libraries are imported with the first connection of ``https``.

An :class:`~.origin_client.OriginClient` gets tokens from a :class:`TokenSource`, which also deals with refusals.
``mcplite.auth.login`` implements it: ``OAuth`` and similar classes are each a :class:`TokenProvider`, and ``ServerTokens`` in
``grant_base`` is the source. :class:`Bearer` is for a token that the caller has obtained; it is no TokenSource.
"""

import os
import socket
import warnings
from base64 import b64encode
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import unquote, urlsplit

from ..protocol.error_text import shown
from ..protocol.http.headers import check_header
from ..protocol.http.oauth import is_loopback
from .exchange import Exchange, Reply

if TYPE_CHECKING:
    import ssl

    import requests

__all__ = [
    "Bearer", "Cert", "Guard", "HTTPSettings", "Proxy", "Recovery", "TLS", "TokenProvider", "TokenSource", "Verify",
    "basic", "http_proxy", "merged_settings", "proxy_for",
]

#: Which certificates are trusted, as ``requests`` takes it; None is what the environment says.
Verify = Union[None, bool, str, "os.PathLike[str]"]
#: A certificate of the client's own, as ``requests`` takes it: one file, or certificate and key.
Cert = Union[None, str, Tuple[str, str]]
#: Called with the host and the port of each new connection. It returns the addresses to connect to, tried in order, or raises
#: OSError. Certificates are still checked against the host.
Guard = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True)
class HTTPSettings:
    """How requests travel to one server."""

    #: Sent with every request; their values may be secrets.
    headers: Optional[Mapping[str, str]] = field(default=None, repr=False)
    #: Sends each request, over connections of its own; the caller closes it.
    session: "Optional[requests.Session]" = None
    #: False, or a file or folder of certificates; None for what the environment says.
    verify: Verify = None
    cert: Cert = None
    #: By scheme, as for ``requests``; None for those of the environment.
    proxies: Optional[Mapping[str, str]] = field(default=None, repr=False)
    #: A bearer token, a :class:`~mcplite.net.settings.TokenProvider`, or what ``requests`` takes: a pair, or a callable that
    #: is given the request.
    auth: Any = field(default=None, repr=False)

    def without_credentials(self, verify: Verify) -> "HTTPSettings":
        """Return what may be used for other servers as well: trust and proxies alone.

        :param verify: in place of these settings' own.
        """
        return HTTPSettings(verify=verify, proxies=self.proxies)


@dataclass(frozen=True)
class TLS:
    """Which certificates are trusted, and which one is shown.

    :param verify: the setting, merged with that of the environment; a false value trusts each server.
    """

    verify: Verify
    cert: Cert

    def begin(self, sock: socket.socket, host: str) -> "ssl.SSLSocket":
        """Begin TLS on a new connection, within the timeout of its socket, and return the socket to use from then on.

        :param host: what the certificate must be for.
        :raises OSError: the certificate of either side is refused, or a file of certificates cannot be read.
        """
        context = self._create_context()
        if not self.verify:
            from urllib3.exceptions import InsecureRequestWarning

            warnings.warn(f"the certificate of {host} is not checked", InsecureRequestWarning, stacklevel=2)
        return context.wrap_socket(sock, server_hostname=host)

    def _create_context(self) -> "ssl.SSLContext":
        # A new context for each connection, as in urllib3, so that it reads files that were renewed meanwhile.
        import ssl

        from requests.adapters import HTTPAdapter

        files = SimpleNamespace(cert_reqs="CERT_NONE", ca_certs=None, ca_cert_dir=None, cert_file=None, key_file=None)
        HTTPAdapter().cert_verify(files, "https://", self.verify, self.cert)  # type: ignore[no-untyped-call]
        if files.cert_reqs == "CERT_REQUIRED":
            context = ssl.create_default_context(cafile=files.ca_certs, capath=files.ca_cert_dir)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
        context.hostname_checks_common_name = False
        context.post_handshake_auth = True  # a server may ask for a certificate once it knows the path
        if files.cert_file:
            context.load_cert_chain(files.cert_file, files.key_file, _refuse_to_ask)
        context.set_alpn_protocols(["http/1.1"])
        return context


def _refuse_to_ask() -> str:
    # Without this function, OpenSSL would ask for the password of the key on the terminal.
    raise OSError("Client private key is encrypted, password is required")


def merged_settings(url: str, settings: HTTPSettings, stays_here: bool, session: "requests.Session") -> Dict[str, Any]:
    """Return certificates and proxies, merged with the session's and the environment's; as ``requests`` passes them around.

    :param stays_here: whether requests to this machine must not leave it for a proxy of the environment.
    """
    proxies = dict(settings.proxies or {})
    merged: Dict[str, Any] = dict(session.merge_environment_settings(
        url, dict(proxies), True, settings.verify, settings.cert))  # type: ignore[arg-type]
    if stays_here and is_loopback(urlsplit(url).hostname or ""):
        merged["proxies"] = {**session.proxies, **proxies}  # AUTH-35, AUTH-39: on this machine a request needs no TLS
    return merged


def proxy_for(url: str, merged: Mapping[str, Any]) -> Optional[str]:
    """Return the proxy that requests to a URL go through; None for none."""
    from requests.utils import select_proxy

    return select_proxy(url, merged["proxies"]) or None


def basic(name: Any, password: Any) -> str:
    """Return the value of ``Authorization`` for a name and a password (RFC 7617).

    :raises UnicodeEncodeError: they have characters outside of Latin-1.
    """
    pair = b":".join(part if isinstance(part, bytes) else str(part).encode("latin-1") for part in (name, password))
    return "Basic " + b64encode(pair).decode("ascii")


class Proxy:
    """A proxy that our own connections go through, over HTTP without TLS.

    :param url: ``http://host:port``, with a user name and a password before the host if the proxy wants them.
    :raises ValueError: it is no such URL.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port or 80
        except ValueError:
            port = 0
        if not parts.hostname or not port:
            raise ValueError(f"write the proxy as 'http://host:port', not {shown(url)[:200]!r} (proxies=, or HTTP_PROXY,"
                             " HTTPS_PROXY and ALL_PROXY of the environment)")
        self.host, self.port = parts.hostname, port
        #: How errors name it.
        self.name = f"http://{parts.netloc.rpartition('@')[2]}"
        #: The field that identifies us to it, as a line; empty without a user name.
        self.authorization = ""
        if parts.username:
            self.authorization = f"Proxy-Authorization: {basic(unquote(parts.username), unquote(parts.password or ''))}\r\n"

    def refusal(self) -> str:
        """Return the text of the error for the status 407."""
        how = "it does not accept the user name and password in its URL" if self.authorization else \
            f"give its user name and password in its URL, as in http://user:password@{self.name[7:]}"
        return f"the proxy {self.name} wants to know who asks (407): {how}"


def http_proxy(url: str) -> Optional[Proxy]:
    """Return the proxy of a URL; None if it is of another kind: one that is reached by SOCKS or TLS.

    :raises ValueError: it cannot be read.
    """
    scheme, found, _ = url.partition("://")
    if found and scheme.lower() != "http":
        return None
    return Proxy(url if found else f"http://{url}")


class TokenProvider:
    """Obtains tokens for any number of servers: what ``auth=`` may be."""

    #: The protocol extension that a client with these tokens declares; None if obtaining them needs none.
    extension: Optional[str] = None

    def tokens_for(self, url: str, settings: HTTPSettings) -> "TokenSource":
        """Return the token source of one server.

        :param settings: how authorization servers are reached.
        :raises ValueError: a token would travel in the clear to that URL.
        """
        raise NotImplementedError


class TokenSource:
    """The tokens for one server; any thread may use it."""

    def authorization_headers(self, method: str, url: str, exchange: Exchange) -> Tuple[Optional[str], Dict[str, str]]:
        """Return the token for a request, and the headers that carry it.

        :raises AuthError: the token has expired and could not be replaced.
        :raises Stopped: the caller no longer waits.
        """
        raise NotImplementedError

    def on_response(self, url: str, headers: Mapping[str, str], accepted: bool) -> None:
        """Note what a response says for the next request.

        :param accepted: whether the request carried a token, and was not refused for it.
        """
        raise NotImplementedError

    def new_recovery(self) -> "Recovery":
        """Return the object that deals with the refusals of one new request."""
        raise NotImplementedError


class Recovery:
    """Deals with the refusals (401 or 403) of one request, and remembers what was tried."""

    def recover(self, reply: Reply, headers: Mapping[str, str], exchange: Exchange) -> bool:
        """Obtain the token or the scopes that a refusal asks for; return whether the request is to be sent again.

        :param headers: of the request.
        :raises AuthError: the server asks for a token or scopes that cannot be obtained.
        :raises Stopped: the caller no longer waits.
        """
        raise NotImplementedError


class Bearer:
    """Puts a token into each request; for ``connect(..., auth=)``, and for ``requests`` as well.

    :param token: the token, or a callable that returns the one to use now.
    :raises ValueError: the token cannot stand in a header.
    """

    def __init__(self, token: Union[str, Callable[[], str]]) -> None:
        if isinstance(token, str):
            _check(token)
        self._token = token

    def __call__(self, request: Any) -> Any:
        """Put the token into a request that is about to be sent.

        :raises ValueError: the token cannot stand in a header.
        """
        request.headers["Authorization"] = self.credentials()
        return request

    def credentials(self) -> str:
        """Return the value of the field ``Authorization``.

        :raises ValueError: the token cannot stand in a header.
        """
        token = self._token
        if not isinstance(token, str):
            token = token()
            _check(token)
        return f"Bearer {token}"

    def __repr__(self) -> str:
        return "<Bearer>"


def _check(token: str) -> None:
    try:
        check_header("Authorization", token)
        token.encode("ascii")
        if not token.strip():
            raise ValueError
    except (AttributeError, TypeError, ValueError):
        # Without the original error, which quotes the value: it is a secret even if it is malformed.
        raise ValueError("the bearer token is empty, or has characters that cannot stand in a header") from None
    if " " in token.strip():
        raise ValueError("the bearer token has a blank in it: give the token alone, without 'Bearer' before it")
