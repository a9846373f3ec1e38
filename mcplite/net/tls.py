"""TLS on our own connections, set up as ``requests`` and ``urllib3`` do it: the same certificates, versions and ciphers.

:mod:`.routes` makes one for an origin of ``https``, and :mod:`.direct` begins TLS with it. Both libraries are imported with the
first connection.
"""

import socket
import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

from .settings import Cert, Verify

if TYPE_CHECKING:
    import ssl

__all__ = ["TLS"]


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
