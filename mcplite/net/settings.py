"""How HTTP requests travel: headers, trust, proxies, credentials and TLS.

``connect()`` makes :class:`HTTPSettings` once; the channels, the clients of origins and the token sources hand them down
whole. :class:`TLS` sets up our own connections as ``requests`` and ``urllib3`` do it: the same certificates, versions and
ciphers. Both libraries are imported with the first connection of ``https``.
"""

import os
import socket
import warnings
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Tuple, Union

if TYPE_CHECKING:
    import ssl

    import requests

__all__ = ["Cert", "Guard", "HTTPSettings", "TLS", "Verify"]

#: Which certificates are trusted, as ``requests`` takes it; None is what the environment says.
Verify = Union[None, bool, str, "os.PathLike[str]"]
#: A certificate of the client's own, as ``requests`` takes it: one file, or certificate and key.
Cert = Union[None, str, Tuple[str, str]]
#: Called with the host and the port of each new connection. It returns the addresses to connect to, tried in order, or
#: raises OSError. Certificates are held against the host all the same.
Guard = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True)
class HTTPSettings:
    """How requests travel to one server."""

    #: Sent with every request; their values may be secrets.
    headers: Optional[Mapping[str, str]] = field(default=None, repr=False)
    #: Sends each request, over connections of its own; it stays the caller's to close.
    session: "Optional[requests.Session]" = None
    #: False, or a file or folder of certificates; None for what the environment says.
    verify: Verify = None
    cert: Cert = None
    #: By scheme, as for ``requests``; None for those of the environment.
    proxies: Optional[Mapping[str, str]] = field(default=None, repr=False)
    #: A bearer token, a :class:`~mcplite.net.tokens.TokenProvider`, or what ``requests`` takes: a pair, or a callable that
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

    :param verify: merged with what the environment says; false values trust each server.
    """

    verify: Verify
    cert: Cert

    def begin(self, sock: socket.socket, host: str) -> "ssl.SSLSocket":
        """Begin TLS on a new connection, within the timeout of its socket, and return the socket to use from then on.

        :param host: what the certificate must be for.
        :raises OSError: a certificate is refused, of either side, or its file cannot be read.
        """
        context = self._create_context()
        if not self.verify:
            from urllib3.exceptions import InsecureRequestWarning

            warnings.warn(f"the certificate of {host} is not checked", InsecureRequestWarning, stacklevel=2)
        return context.wrap_socket(sock, server_hostname=host)

    def _create_context(self) -> "ssl.SSLContext":
        # A new one for each connection, as in urllib3, so that it has files that were renewed meanwhile.
        import ssl

        from requests.adapters import HTTPAdapter
        from urllib3.util.ssl_ import create_urllib3_context

        files = SimpleNamespace(cert_reqs="CERT_NONE", ca_certs=None, ca_cert_dir=None, cert_file=None, key_file=None)
        HTTPAdapter().cert_verify(files, "https://", self.verify, self.cert)  # type: ignore[no-untyped-call]
        verifies = files.cert_reqs == "CERT_REQUIRED"
        context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE)
        # urllib3 1.26 compares the name itself, and leaves the version to OpenSSL.
        context.check_hostname = verifies
        context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
        if verifies:
            context.load_verify_locations(files.ca_certs, files.ca_cert_dir)
        if files.cert_file:
            context.load_cert_chain(files.cert_file, files.key_file, _refuse_to_ask)
        context.set_alpn_protocols(["http/1.1"])
        return context


def _refuse_to_ask() -> str:
    # OpenSSL would ask on the terminal for it.
    raise OSError("Client private key is encrypted, password is required")
