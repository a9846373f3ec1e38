"""The token endpoint: requests, client authentication, and the credentials that come of them.

All grants use it, for tokens, refreshes and revocation; :mod:`.grant_base` stores the credentials that it returns.
"""

import base64
import math
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import quote_plus

from ...errors import AuthError
from .discovery import AuthorizationServer
from .jwt_signing import Proofs, SigningKey, client_assertion
from .web import Answer, Web

__all__ = [
    "ClientIdentity", "Credentials", "METHODS", "SECRET_METHODS", "TokenEndpoint", "choose_method", "client_by_hand",
    "client_unknown", "ends_login",
]

#: Seconds before its expiry from which on a token is not used, since requests take time and clocks differ; at most a tenth
#: of its lifetime, so that short-lived tokens are used as well.
_LEEWAY = 10.0
#: The ways to authenticate by a secret; the third is the first with the client's id in the form as well, where servers of the
#: official Python SDK look for it, while others refuse an id in both places.
_BASIC, _POST, _BASIC_AND_ID = "client_secret_basic", "client_secret_post", "client_secret_basic and client_id"
#: The methods of a client that registers itself, in the order of preference: a program on a user's machine cannot keep a
#: secret, and the official Python SDK's servers, which have both of the others, look for the client's id in the form.
METHODS = ("none", "client_secret_post", "client_secret_basic")
#: Those of a client with a secret that was registered by hand; each server has to know the first (RFC 6749, section 2.3.1).
SECRET_METHODS = ("client_secret_basic", "client_secret_post")
#: Codes of an answer to a client that has sent its secret, or its id, in a way that the server does not read.
_WRONG_CLIENT = frozenset({"invalid_client", "unauthorized_client", "invalid_request"})
#: Codes by which a server says with 200 that a refresh token may be good later.
_FOR_NOW = frozenset({"server_error", "temporarily_unavailable", "slow_down"})


@dataclass
class ClientIdentity:
    """The client's identity at one authorization server, and at no other (AUC-33)."""

    issuer: str
    client_id: str
    secret: Optional[str] = field(default=None, repr=False)
    #: How it authenticates at the token endpoint: "none", "client_secret_basic", "client_secret_post" or "private_key_jwt".
    method: str = "none"
    #: As they were registered; empty for an id that was not registered by us.
    redirect_uris: List[str] = field(default_factory=list)
    #: Epoch seconds at which the secret ends; None for never.
    expires_at: Optional[float] = None
    #: True if no answer of the server named the method, so that it may expect the secret in another way.
    guessed: Optional[bool] = None

    @property
    def expired(self) -> bool:
        """Whether the secret has ended."""
        return self.expires_at is not None and time.time() >= self.expires_at

    def record(self) -> Dict[str, Any]:
        """Return it as JSON."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass
class Credentials:
    """A token for one MCP server, and all that is needed to refresh it."""

    issuer: str
    #: Of the MCP server, as its metadata writes it.
    resource: str
    client: ClientIdentity
    access_token: str = field(repr=False)
    scheme: str = "Bearer"
    refresh_token: Optional[str] = field(default=None, repr=False)
    #: Epoch seconds; None if the server did not say.
    expires_at: Optional[float] = None
    #: That were granted, as far as is known.
    scopes: List[str] = field(default_factory=list)
    #: Whether the server's metadata named the issuer; else its URL was guessed.
    described: bool = True
    #: The private key that the token is bound to, as PEM; None for a bearer's.
    key: Optional[str] = field(default=None, repr=False)
    #: Seconds for which it was good when it was new.
    lifetime: Optional[float] = None

    @property
    def expired(self) -> bool:
        """Whether the token has expired, or nearly."""
        if self.expires_at is None:
            return False
        early = _LEEWAY if self.lifetime is None else min(_LEEWAY, self.lifetime / 10)
        return time.time() >= self.expires_at - early

    def record(self) -> Dict[str, Any]:
        """Return them as JSON, for a store."""
        return {**{name: value for name, value in vars(self).items() if value is not None}, "client": self.client.record()}

    @classmethod
    def read(cls, record: Optional[Mapping[str, Any]]) -> "Optional[Credentials]":
        """Return the credentials of a record; None for no record, or for one of another version."""
        if record is None:
            return None
        try:
            return cls(**{**record, "client": ClientIdentity(**record["client"])})
        except (KeyError, TypeError):
            return None


def choose_method(supported: Sequence[str], has_secret: bool, issuer: str) -> str:
    """Return how to authenticate at a token endpoint (AUC-50).

    :param has_secret: whether the client has one already; else it is about to register.
    :raises AuthError: the server supports no method of this client's.
    """
    wanted = SECRET_METHODS if has_secret else METHODS
    method = next((method for method in wanted if method in supported), None)
    if method is None:
        raise AuthError(f"{issuer} lets clients authenticate by {', '.join(supported)[:200]} only, and this one can do"
                        f" {', '.join(wanted)}")
    return method


def client_by_hand(issuer_server: AuthorizationServer, client_id: str, secret: Optional[str]) -> ClientIdentity:
    """Return the identity of a client that was registered by hand.

    :raises AuthError: the server supports no method of this client's.
    """
    method = choose_method(issuer_server.methods, True, issuer_server.issuer) if secret else "none"
    return ClientIdentity(issuer_server.issuer, client_id, secret, method, guessed=True)


def ends_login(error: AuthError) -> bool:
    """Return whether a refresh that was refused with this error is refused later as well, in whatever words it was."""
    if 200 <= error.status < 300:
        return bool(error.error) and error.error not in _FOR_NOW
    return 400 <= error.status < 500 and error.status not in (408, 429) and error.error != "use_dpop_nonce"


def client_unknown(error: AuthError) -> bool:
    """Return whether the authorization server says by this error that it does not know the client any more."""
    return error.error == "invalid_client" or error.status == 401 and error.error == "unauthorized_client"


class TokenEndpoint:
    """The token endpoint of one authorization server.

    :param proofs: makes the proofs of possession that tokens are bound to; None for bearer tokens.
    :param signing_key: by which a client of "private_key_jwt" authenticates.
    """

    def __init__(self, web: Web, issuer_server: AuthorizationServer, proofs: Optional[Proofs] = None,
                 signing_key: Optional[SigningKey] = None) -> None:
        self._web, self._issuer_server, self._proofs, self._signing_key = web, issuer_server, proofs, signing_key

    def request(self, client: ClientIdentity, resource: str, fields: Mapping[str, Optional[str]], scopes: List[str],
                described: bool = True) -> Credentials:
        """Return new credentials.

        :param fields: of the grant; client authentication and the resource (AUC-13) are added.
        :param scopes: that are asked for; granted, unless the answer says otherwise (RFC 6749, section 5.1).
        :raises AuthError: the server refused, with its code as ``error``; or its answer has no token.
        """
        answer = self._ask(self._issuer_server.token_endpoint, "the token endpoint", client, {**fields, "resource": resource})
        if not answer.accepted:
            raise AuthError(f"{self._issuer_server.issuer} gave no token: {answer.explain()}", error=answer.error,
                            status=answer.status)
        credentials = self._credentials(answer.document, client, resource, scopes)
        credentials.described = described
        return credentials

    def _ask(self, url: str, what: str, client: ClientIdentity, fields: Mapping[str, Optional[str]]) -> Answer:
        """Post a form as a client, and return the answer; where the server does not accept a secret, send it in another way."""
        if client.issuer != self._issuer_server.issuer:
            raise AuthError(f"a client of {client.issuer} is never shown to {self._issuer_server.issuer}")  # AUC-33
        answer: Optional[Answer] = None
        for way in self._ways(client):
            latest = self._ask_as(way, url, what, client, fields)
            if answer is None or latest.error != "invalid_request":  # of servers that refuse an id in both places
                answer = latest
            if latest.error not in _WRONG_CLIENT and (latest.status != 401 or latest.error):
                break
        assert answer is not None
        return answer

    def _ways(self, client: ClientIdentity) -> List[str]:
        """Return the ways in which a client may authenticate, the one to begin with first."""
        ways = [client.method]
        if client.method in (_BASIC, _POST):
            if client.guessed:
                ways += [method for method in (_BASIC, _POST) if method not in ways and method in self._issuer_server.methods]
            if _BASIC in ways:
                ways.append(_BASIC_AND_ID)
        return ways

    def _ask_as(self, way: str, url: str, what: str, client: ClientIdentity, fields: Mapping[str, Optional[str]]) -> Answer:
        for attempt in (1, 2):
            # Inside the loop: neither an assertion nor a proof may be used for two requests.
            headers, own = self._client_authentication(client, way)
            if self._proofs is not None:
                headers["DPoP"] = self._proofs.proof("POST", url)
            answer = self._web.post_form(url, what, {**fields, **own}, headers)
            has_nonce = self._proofs is not None and self._proofs.learn(url, answer.headers)
            if attempt == 2 or not has_nonce or answer.error != "use_dpop_nonce":
                break
        return answer

    def _client_authentication(self, client: ClientIdentity, way: str) -> Tuple[Dict[str, str], Dict[str, str]]:
        """Return the headers and the fields that say who the client is.

        :raises AuthError: its key is not at hand.
        """
        secret = client.secret or ""
        if way in (_BASIC, _BASIC_AND_ID):
            pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}"  # RFC 6749, section 2.3.1
            return ({"Authorization": "Basic " + base64.b64encode(pair.encode("ascii")).decode("ascii")},
                    {"client_id": client.client_id} if way == _BASIC_AND_ID else {})
        if way == _POST:
            return {}, {"client_id": client.client_id, "client_secret": secret}
        if way == "private_key_jwt":
            if self._signing_key is None:
                raise AuthError(f"{client.client_id} authenticates at {self._issuer_server.issuer} by a private key, which is"
                                " not available here; use the same ClientCredentials(private_key=...) as before")
            return {}, {
                "client_id": client.client_id,
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "client_assertion": client_assertion(self._signing_key, client.client_id, self._issuer_server.issuer)}
        return {}, {"client_id": client.client_id}

    def _credentials(self, document: Mapping[str, Any], client: ClientIdentity, resource: str,
                     scopes: List[str]) -> Credentials:
        token, kind = document.get("access_token"), document.get("token_type")
        scheme = "Bearer" if self._proofs is None else "DPoP"
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
            raise AuthError(f"{self._issuer_server.issuer} answered without an access_token that can be sent")
        if not isinstance(kind, str) or kind.lower() != scheme.lower():
            # RFC 9449, section 5: a client that asks for a bound token must notice when it gets a bearer token.
            raise AuthError(f"{self._issuer_server.issuer} gave a token of the type {str(kind)[:50]!r} in place of {scheme}")
        refresh, granted = document.get("refresh_token"), document.get("scope")
        key = None if self._proofs is None else self._proofs.key.pem
        lifetime = _lifetime(document.get("expires_in"))
        return Credentials(
            self._issuer_server.issuer, resource, client, token, scheme,
            refresh if isinstance(refresh, str) and refresh else None, None if lifetime is None else time.time() + lifetime,
            granted.split() if isinstance(granted, str) and granted.strip() else list(scopes), key=key, lifetime=lifetime)

    def refresh(self, old: Credentials) -> Credentials:
        """Return new credentials for old ones; a rotated refresh token replaces the old one (AUC-49).

        :raises AuthError: the server refused, see :func:`ends_login`; or its answer has no token.
        """
        with self._web.uninterrupted():
            new = self.request(old.client, old.resource, {"grant_type": "refresh_token", "refresh_token": old.refresh_token},
                               old.scopes, old.described)
        new.refresh_token = new.refresh_token or old.refresh_token
        return new

    def revoke(self, credentials: Credentials) -> None:
        """Revoke the tokens (RFC 7009), if the server has a revocation endpoint.

        :raises AuthError: the server did not revoke them.
        """
        url = self._issuer_server.revocation_endpoint
        if url is None:
            return
        refused: Optional[AuthError] = None
        for kind in ("refresh_token", "access_token"):
            token = getattr(credentials, kind)
            if token:
                answer = self._ask(url, "the revocation endpoint", credentials.client,
                                   {"token": token, "token_type_hint": kind})
                # RFC 7009, section 2.2.1: a self-contained token cannot be revoked and stays valid until it expires.
                if not answer.accepted and answer.error != "unsupported_token_type" and refused is None:
                    refused = AuthError(f"{self._issuer_server.issuer} did not revoke the {kind}: {answer.explain()}",
                                        error=answer.error, status=answer.status)
        if refused is not None:
            raise refused


def _lifetime(seconds: Any) -> Optional[float]:
    """Return a token's lifetime; None if the server's value is not a time (AUTH-34)."""
    try:
        span = float(seconds)
    except (OverflowError, TypeError, ValueError):
        return None
    if isinstance(seconds, bool) or not math.isfinite(span) or span < 0:
        return None
    return min(span, 10.0 ** 9)
