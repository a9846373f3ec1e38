"""Mutual TLS as authentication: the certificate of a client names the principal of its requests.

The package's own HTTP server asks for certificates and verifies them (``client_ca=``, :mod:`mcplite.server.transports.tls`), so
this module reads only certificates that are verified. A certificate belongs to a connection, and no header or token can take
its place.
"""

import ssl
import time
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, Union

from ...rpc.tracing import get_logger
from ...server.handling.http_request import HTTPRequest
from ...server.http.access import Authorization, Authorizer, Refused
from ...server.principals import ISSUED_HERE, Principal, checked_scopes

__all__ = ["ClientCertificate", "distinguished_name"]

_log = get_logger(__name__)
#: The names of attributes in a text (RFC 4514, section 3); other attributes keep the names that OpenSSL gives them.
_SHORT = {"commonName": "CN", "localityName": "L", "stateOrProvinceName": "ST", "organizationName": "O",
          "organizationalUnitName": "OU", "countryName": "C", "streetAddress": "STREET", "domainComponent": "DC",
          "userId": "UID"}
#: The characters that have a meaning within a value (RFC 4514, section 2.4).
_SPECIAL = frozenset('",+;<>\\')


def distinguished_name(name: Iterable[Iterable[Tuple[str, str]]]) -> str:
    """Return the name of a subject or an issuer as a text (RFC 4514), such as ``CN=ada,O=Example``.

    :param name: in the form of :meth:`ssl.SSLSocket.getpeercert`, which has the most general part first.
    """
    parts = ["+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in part) for part in name]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    def escapes(at: int, one: str) -> bool:
        return one in _SPECIAL or at == 0 and one in "# " or at == len(value) - 1 and one == " "

    return "".join(f"\\{one}" if escapes(at, one) else "\\00" if one == "\0" else one for at, one in enumerate(value))


class ClientCertificate(Authorizer):
    """Takes the principal of a request from the client's certificate: ``Server(auth=ClientCertificate())``.

    It is for the package's own HTTP server with ``client_ca=``. A request without a certificate, or with a certificate that
    names no principal, is refused with 403.

    :param principal: called with the certificate of each request, in the form of :meth:`ssl.SSLSocket.getpeercert`, on the
        thread of the request; returns a :class:`mcplite.Principal`, the subject alone, or None to refuse. By default the
        subject of the principal is the subject of the certificate as a text, such as ``CN=ada,O=Example``, and its issuer is
        the issuer of the certificate.
    :param scopes: required by every request; only a :class:`mcplite.Principal` that *principal* returns can have them.
    :raises ValueError: an option is not valid.
    """

    def __init__(self, principal: Optional[Callable[[Dict[str, Any]], Union[None, str, Principal]]] = None, *,
                 scopes: Union[str, Iterable[str]] = ()) -> None:
        if principal is not None and not callable(principal):
            raise ValueError(f"principal= must be a function that takes a certificate, not {type(principal).__name__}")
        self._principal = principal
        self.scopes = checked_scopes(scopes, "scopes=")

    def __repr__(self) -> str:
        return "<ClientCertificate>"

    def authenticate(self, request: HTTPRequest, endpoint: Authorization) -> Principal:
        certificate = request.client_certificate
        if certificate is None:
            _log.error("a request without a certificate was refused: give the own HTTP server client_ca=, since the server has"
                       " auth=ClientCertificate()")
            raise Refused(403, "", "this server requires a client certificate")
        found = distinguished_name(certificate.get("subject", ())) if self._principal is None else self._principal(certificate)
        if isinstance(found, str) and found:
            found = Principal(found, audience=ISSUED_HERE, issuer=distinguished_name(certificate.get("issuer", ())),
                              expires_at=_end_of(certificate))
        if not isinstance(found, Principal):
            if found:
                raise TypeError(f"principal= of ClientCertificate returned {type(found).__name__}; it must return a Principal,"
                                " a subject, or None")
            _log.info("the certificate of %.500s names no principal", certificate.get("subject"))
            raise Refused(403, "", "the client's certificate names no user of this server")
        if found.expires_at is not None and found.expires_at <= time.time():
            raise Refused(403, "", "the client's certificate has expired")
        return found

    def challenge(self, endpoint: Authorization, resource: Optional[str], error: str, description: Optional[str],
                  scopes: Iterable[str]) -> str:
        return ""  # a certificate is asked for by TLS, and no header can bring one


def _end_of(certificate: Mapping[str, Any]) -> Optional[float]:
    end = certificate.get("notAfter")
    return None if end is None else float(ssl.cert_time_to_seconds(end))
