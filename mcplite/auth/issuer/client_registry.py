"""The clients of an issuer: given by the operator, registered by themselves (RFC 7591), or known by a document at their id.

A client can say anything about itself, so three things protect its users. Redirect URIs are compared as texts, except for the
port of a loopback address (RFC 8252, section 7.3). A registration without a grant expires after a day, and each address may
register only some clients per hour, so that a flood does not fill the store. A metadata document is fetched from public
addresses only, and the client id in it must be the URL that it came from; the host of that URL is the only proven fact about a
client.
"""

import hmac
import json
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from ...errors import AuthError
from ...protocol.error_text import quoted
from ...protocol.http.oauth import check_url, is_loopback
from ...rpc.tracing import get_logger
from .grant_store import GrantStore, digest
from .pages import ClientInfo

__all__ = ["ClientRegistry", "InvalidMetadata", "METHODS", "OAuthClient", "TooManyClients", "checked_metadata", "web_host"]

_log = get_logger(__name__)
#: How clients authenticate at the token endpoint.
METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
_GRANTS = ("authorization_code", "refresh_token")
#: Seconds for which a registration is kept before its first grant, and after its last use.
_UNUSED_SECONDS, _USED_SECONDS = 86_400.0, 400 * 86_400.0
#: Seconds for which a metadata document is used without fetching it again; for which it is used while fetching it fails; and
#: after a failure, until the next attempt.
_DOCUMENT_SECONDS, _STALE_SECONDS, _FAILURE_SECONDS = 600.0, 86_400.0, 20.0
#: For each kind of action: the seconds of a period, and how often it may be done in a period by one address or one client, and
#: by all together. A login and an assertion are kept for no longer than two periods, so that their number at any time is
#: bounded, too.
_MOST = {"registrations": (3600, 60, 5000), "documents": (3600, 60, 5000), "logins": (900, 300, 5000),
         "assertions": (900, 2000, 20_000)}
#: Hexadecimal digits of the digest of an address that choose its counter. So there are 4096 counters of a kind, however many
#: addresses a flood has; addresses with equal digits share a counter.
_ADDRESS_DIGITS = 3
_MOST_URIS, _LONGEST_URI, _LONGEST_NAME, _LONGEST_DOCUMENT = 20, 2000, 200, 32_768
#: Schemes that run what they name, or that no program on the user's machine owns.
_REFUSED_SCHEMES = frozenset({"about", "blob", "chrome", "data", "file", "filesystem", "ftp", "javascript", "mailto", "tel",
                              "vbscript", "view-source", "ws", "wss"})
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[!#-;=?-\[\]_a-z~%A-Z]+")
_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]|localhost))(?::[0-9]{1,5})?((?:/[^?]*)?(?:\?.*)?)")


class InvalidMetadata(ValueError):
    """The metadata of a client cannot be used; ``code`` is an error code of RFC 7591, section 3.2.2."""

    def __init__(self, text: str, code: str = "invalid_client_metadata") -> None:
        super().__init__(text)
        self.code = code


class TooManyClients(Exception):
    """An address, or all addresses together, have done something too often; it can be tried again after ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many; try again in {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True)
class OAuthClient:
    """One client, with the methods that Authlib calls.

    :param id: its client id.
    :param metadata: as :func:`checked_metadata` returns it.
    :param secret: the digest of its secret; empty if it has none.
    :param domain: the host of its metadata document; empty if it has none.
    """

    id: str
    metadata: Mapping[str, Any]
    secret: str = ""
    domain: str = ""

    @property
    def info(self) -> ClientInfo:
        """What pages show of the client."""
        return ClientInfo(self.id, self.metadata.get("client_name", ""), self.domain)

    def get_client_id(self) -> str:
        return self.id

    def get_default_redirect_uri(self) -> Optional[str]:
        uris = self.metadata["redirect_uris"]
        return uris[0] if len(uris) == 1 else None

    def get_allowed_scope(self, scope: Optional[str]) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Whether a redirect URI is registered. URIs are compared as texts, except for the port on loopback."""
        if not is_redirect_uri(redirect_uri):
            return False
        uris = self.metadata["redirect_uris"]
        return redirect_uri in uris or _any_port(redirect_uri) is not None and any(
            _any_port(redirect_uri) == _any_port(uri) for uri in uris)

    def check_client_secret(self, client_secret: str) -> bool:
        return bool(self.secret) and hmac.compare_digest(digest(client_secret), self.secret)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        registered = self.metadata["token_endpoint_auth_method"]
        # A client with a secret may send it in both ways: libraries change between them.
        return method == registered or {method, registered} == {"client_secret_basic", "client_secret_post"}

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.metadata["grant_types"]


def is_redirect_uri(uri: Any) -> bool:
    """Whether a text can be a redirect URI: https, http on loopback, or a scheme of a program on the user's machine."""
    if not isinstance(uri, str) or len(uri) > _LONGEST_URI or not _URI.fullmatch(uri) or "#" in uri:
        return False
    scheme = uri.partition(":")[0].lower()
    if scheme not in ("http", "https"):
        return scheme not in _REFUSED_SCHEMES
    try:
        parts = urlsplit(check_url(uri, "the redirect URI"))
        return bool(parts.hostname) and "@" not in parts.netloc and (scheme == "https" or is_loopback(parts.hostname or ""))
    except ValueError:
        return False


def web_host(uri: str) -> str:
    """Return the host and the port of a redirect URI on the web, which only its client controls; empty for any other URI.

    A code that is sent to loopback, or to a scheme of a program, can reach any program on the user's machine (RFC 8252, section
    8.6).
    """
    parts = urlsplit(uri)
    return parts.netloc.lower() if parts.scheme.lower() == "https" and not is_loopback(parts.hostname or "") else ""


def _any_port(uri: str) -> Optional[Tuple[str, str]]:
    found = _LOOPBACK.fullmatch(uri)
    return None if found is None else (found[1], found[2])


def checked_metadata(document: Any, methods: Iterable[str] = METHODS) -> Dict[str, Any]:
    """Return the members of a client's metadata that are used (RFC 7591, section 2).

    :param methods: the ways to authenticate that are accepted.
    :raises InvalidMetadata: the metadata cannot be used.
    """
    if not isinstance(document, dict) or len(json.dumps(document)) > _LONGEST_DOCUMENT:
        raise InvalidMetadata(f"the metadata of a client is a JSON object of at most {_LONGEST_DOCUMENT} bytes")
    uris = document.get("redirect_uris")
    if not isinstance(uris, list) or not uris or len(uris) > _MOST_URIS:
        raise InvalidMetadata(f"redirect_uris must be a list of 1 to {_MOST_URIS} URIs", "invalid_redirect_uri")
    for uri in uris:
        if not is_redirect_uri(uri):
            raise InvalidMetadata(f"{quoted(str(uri), 200)} cannot be a redirect URI: give one with https, with http on"
                                  " loopback, or with a scheme of the client's own, without a fragment", "invalid_redirect_uri")
    accepted = tuple(methods)
    method = document.get("token_endpoint_auth_method")
    method = ("client_secret_basic" if "client_secret_basic" in accepted else "none") if method is None else method
    if method not in accepted:
        raise InvalidMetadata(f"token_endpoint_auth_method must be one of {', '.join(accepted)}")
    types = document.get("grant_types", list(_GRANTS[:1]))
    if not isinstance(types, list) or "authorization_code" not in types:
        raise InvalidMetadata("grant_types must have 'authorization_code', which is how clients log in here")
    if "code" not in (document.get("response_types") or ["code"]):
        raise InvalidMetadata("response_types must have 'code'")
    found: Dict[str, Any] = {"redirect_uris": list(uris), "token_endpoint_auth_method": method,
                             "grant_types": [kind for kind in _GRANTS if kind in types], "response_types": ["code"]}
    for name in ("client_name", "client_uri", "logo_uri", "scope", "software_id", "software_version"):
        value = document.get(name)
        if isinstance(value, str) and value:
            found[name] = value[:_LONGEST_NAME]
    if method == "private_key_jwt":
        keys, url = document.get("jwks"), document.get("jwks_uri")
        listed = isinstance(keys, dict) and isinstance(keys.get("keys"), list) and bool(keys["keys"])
        if listed == isinstance(url, str):
            raise InvalidMetadata("private_key_jwt needs either jwks or jwks_uri")
        found.update({"jwks": keys} if url is None else {"jwks_uri": url})
    return found


class ClientRegistry:
    """The clients of one issuer; any thread of any process may use it.

    :param store: keeps the registered ones.
    :param issuer: the URL of the issuer.
    :param given: the metadata of clients that the operator knows, with ``client_id`` and perhaps ``client_secret``.
    :param open: whether clients may register themselves.
    :param clock: returns seconds since 1970.
    :raises ValueError: a given client cannot be used.
    """

    def __init__(self, store: GrantStore, issuer: str, given: Iterable[Mapping[str, Any]] = (), open: bool = True,
                 clock: Callable[[], float] = time.time) -> None:
        self._store, self._issuer, self._clock = store, issuer, clock
        self.open = open
        self._given: Dict[str, OAuthClient] = {}
        for one in given:
            id, secret = one.get("client_id"), one.get("client_secret", "")
            if not isinstance(id, str) or not id or not isinstance(secret, str):
                raise ValueError("clients= needs the client_id of each client, and client_secret if it has one")
            method = one.get("token_endpoint_auth_method", "client_secret_basic" if secret else "none")
            self._given[id] = OAuthClient(id, checked_metadata({
                "grant_types": list(_GRANTS), **one, "token_endpoint_auth_method": method}), digest(secret) if secret else "")

    # --- looking up -----------------------------------------------------------------------------------------

    def find(self, id: str, address: str = "") -> Optional[OAuthClient]:
        """Return a client; None if there is none.

        :param address: of the request, for which fetches are counted. It is empty at the token endpoint: there an old document
            is used if it cannot be fetched again.
        :raises InvalidMetadata: the document of the client cannot be fetched or used.
        :raises TooManyClients: too many documents were fetched.
        """
        known = self._given.get(id)
        if known is not None:
            return known
        if id.startswith(("https://", "http://")):
            return self._find_document(id, address)
        data = self._store.backend.get(f"client-{digest(id)}/record")
        if data is None:
            return None
        members = json.loads(data)
        return OAuthClient(id, members["metadata"], members["secret"])

    def keep(self, client: OAuthClient) -> None:
        """Keep a registered client for longer, because a user has given it a grant."""
        if client.id not in self._given and not client.domain:
            self._put(client, _USED_SECONDS)

    def _put(self, client: OAuthClient, seconds: float) -> None:
        record = json.dumps({"metadata": dict(client.metadata), "secret": client.secret})
        self._store.backend.put(f"client-{digest(client.id)}/record", record.encode("ascii"), seconds)

    def _find_document(self, id: str, address: str) -> OAuthClient:
        parts = urlsplit(id)
        home = is_loopback(urlsplit(self._issuer).hostname or "")
        if not is_redirect_uri(id) or parts.path in ("", "/") or "@" in parts.netloc or (
                parts.scheme != "https" and not home) or re.search(r"/\.{1,2}(/|\Z)", parts.path):
            raise InvalidMetadata("a client id that is a URL has https and a path, and no fragment, user or '..'")
        key = f"client-{digest(id)}/document"
        data = self._store.backend.get(key)
        found: Dict[str, Any] = {} if data is None else json.loads(data)
        if found.get("until", 0.0) <= self._clock():
            found = self._renewed(id, found, address)
            self._store.backend.put(key, json.dumps(found).encode("ascii"),
                                    max(_FAILURE_SECONDS, found["fetched"] + _STALE_SECONDS - self._clock()))
        # If the document cannot be fetched again, the token endpoint (no address) uses the old one, so that users stay logged
        # in. No login begins with it.
        if "error" in found and (address or not found["metadata"]):
            raise InvalidMetadata(found["error"])
        return OAuthClient(id, found["metadata"], "", parts.netloc)

    def _renewed(self, id: str, known: Mapping[str, Any], address: str) -> Dict[str, Any]:
        """Fetch a document and return its record; if that fails, return the record of the known document, with the error."""
        now = self._clock()
        last = {"metadata": known.get("metadata"), "fetched": known.get("fetched", 0.0), "until": now + _FAILURE_SECONDS}
        try:
            self.count(address, "documents")
            return {"metadata": self._fetched(id), "fetched": now, "until": now + _DOCUMENT_SECONDS}
        except TooManyClients:
            if address or not last["metadata"]:
                raise
            return {**last, "error": "too many documents were fetched"}
        except InvalidMetadata as error:
            return {**last, "error": str(error)}

    def _fetched(self, id: str) -> Dict[str, Any]:
        document = self._get(id, "the metadata document of the client")
        if document.get("client_id") != id:
            raise InvalidMetadata("the metadata document of the client has another client_id than its URL")
        return checked_metadata(document, ("none", "private_key_jwt"))

    def _get(self, url: str, what: str) -> Dict[str, Any]:
        """Fetch a JSON object whose URL a client names, only from public addresses unless this issuer is on loopback."""
        from ..login.web import Web

        home = is_loopback(urlsplit(self._issuer).hostname or "")
        try:
            with Web(self._issuer, address="127.0.0.1" if home else "8.8.8.8") as web:
                document = web.get(url, what)
        except AuthError as error:
            _log.info("%s cannot be fetched: %s", what, error)
            raise InvalidMetadata(f"{what} cannot be fetched") from error
        if document is None:
            raise InvalidMetadata(f"there is nothing at the URL of {what}")
        return document

    def keys_of(self, client: OAuthClient) -> List[Dict[str, Any]]:
        """Return the public keys of a client that signs its requests for tokens.

        :raises InvalidMetadata: the keys cannot be fetched.
        """
        url = client.metadata.get("jwks_uri")
        keys = client.metadata.get("jwks") if url is None else self._get(check_url(url, "jwks_uri"), "the keys of the client")
        found = (keys or {}).get("keys")
        return [key for key in found if isinstance(key, dict)] if isinstance(found, list) else []

    # --- registration -----------------------------------------------------------------------------------------

    def register(self, metadata: Dict[str, Any], address: str) -> Tuple[OAuthClient, Dict[str, Any]]:
        """Store a new client; return it, and the members of the response besides its metadata.

        :param metadata: as :func:`checked_metadata` returns it.
        :raises TooManyClients: too many were registered in this hour.
        """
        self.count(address, "registrations")
        secret = secrets.token_urlsafe(32) if metadata["token_endpoint_auth_method"].startswith("client_secret") else ""
        client = OAuthClient(secrets.token_urlsafe(18), metadata, digest(secret) if secret else "")
        self._put(client, _UNUSED_SECONDS)
        info: Dict[str, Any] = {"client_id": client.id, "client_id_issued_at": int(self._clock())}
        return client, {**info, "client_secret": secret, "client_secret_expires_at": 0} if secret else info

    def count(self, address: str, what: str) -> None:
        """Count one more action in this period, for an address and for all together.

        :param address: or the id of a client; if it is empty, the action counts for all together only.
        :param what: "registrations", "documents", "logins" or "assertions".
        :raises TooManyClients: there are too many.
        """
        seconds, of_address, of_all = _MOST[what]
        period, passed = divmod(self._clock(), seconds)
        each = [(digest(address)[:_ADDRESS_DIGITS], of_address)] if address else []
        for name, most in (*each, ("all", of_all)):
            log = f"{what}-{period:.0f}-{name}/count"
            if self._store.backend.append(log, b"", seconds, 1) > most:
                _log.warning("%s are refused for %.0f s, since there were too many", what, seconds - passed)
                raise TooManyClients(seconds - passed)
