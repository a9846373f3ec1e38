"""The token endpoint: requests, client authentication, and the credentials that come of them.

All grants use it, for tokens, refreshes and revocation; :mod:`.access` stores the credentials that it returns.
"""

import base64
import math
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple
from urllib.parse import quote_plus

from ...errors import AuthError
from .discovery import AuthorizationServer
from .keys import Proofs, SigningKey, client_assertion
from .web import Answer, Web

__all__ = ["ClientIdentity", "Credentials", "TokenEndpoint"]

#: Seconds before its expiry from which on a token is not used, since requests take time and clocks differ; at most a tenth
#: of its lifetime, so that short-lived tokens are used as well.
_LEEWAY = 10.0


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


class TokenEndpoint:
    """The token endpoint of one authorization server.

    :param proofs: makes the proofs of possession that tokens are bound to; None for bearer tokens.
    :param signing_key: by which a client of "private_key_jwt" authenticates.
    """

    def __init__(self, web: Web, server: AuthorizationServer, proofs: Optional[Proofs] = None,
                 signing_key: Optional[SigningKey] = None) -> None:
        self._web, self._server, self._proofs, self._signing_key = web, server, proofs, signing_key

    def request(self, client: ClientIdentity, resource: str, fields: Mapping[str, Optional[str]], scopes: List[str],
                described: bool = True) -> Credentials:
        """Return new credentials.

        :param fields: of the grant; client authentication and the resource (AUC-13) are added.
        :param scopes: that are asked for; granted, unless the answer says otherwise (RFC 6749, section 5.1).
        :raises AuthError: the server refused, with its code as ``error``; or its answer has no token.
        """
        answer = self._ask(client, {**fields, "resource": resource})
        if answer.status != 200 or answer.error:
            raise AuthError(f"{self._server.issuer} gave no token: {answer.explain()}", error=answer.error)
        credentials = self._credentials(answer.document, client, resource, scopes)
        credentials.described = described
        return credentials

    def _ask(self, client: ClientIdentity, fields: Mapping[str, Optional[str]]) -> Answer:
        url = self._server.token_endpoint
        for attempt in (1, 2):
            # Inside the loop: neither an assertion nor a proof may be used for two requests.
            headers, own = self._client_authentication(client)
            if self._proofs is not None:
                headers["DPoP"] = self._proofs.proof("POST", url)
            answer = self._web.post_form(url, "the token endpoint", {**fields, **own}, headers)
            new_nonce = self._proofs is not None and self._proofs.learn(url, answer.headers, headers["DPoP"])
            if attempt == 2 or not new_nonce or answer.error != "use_dpop_nonce":
                break
        return answer

    def _client_authentication(self, client: ClientIdentity) -> Tuple[Dict[str, str], Dict[str, str]]:
        """Return the headers and the fields that say who the client is.

        :raises AuthError: it is of another authorization server, or its key is not at hand.
        """
        if client.issuer != self._server.issuer:
            raise AuthError(f"a client of {client.issuer} is never shown to {self._server.issuer}")  # AUC-33
        secret = client.secret or ""
        if client.method == "client_secret_basic":
            pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}"  # RFC 6749, section 2.3.1
            return {"Authorization": "Basic " + base64.b64encode(pair.encode("ascii")).decode("ascii")}, {}
        if client.method == "client_secret_post":
            return {}, {"client_id": client.client_id, "client_secret": secret}
        if client.method == "private_key_jwt":
            if self._signing_key is None:
                raise AuthError(f"{client.client_id} authenticates at {self._server.issuer} by a private key, which is not"
                                " available here; use the same ClientCredentials(private_key=...) as before")
            return {}, {
                "client_id": client.client_id,
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "client_assertion": client_assertion(self._signing_key, client.client_id, self._server.issuer)}
        return {}, {"client_id": client.client_id}

    def _credentials(self, document: Mapping[str, Any], client: ClientIdentity, resource: str,
                     scopes: List[str]) -> Credentials:
        token, kind = document.get("access_token"), document.get("token_type")
        scheme = "Bearer" if self._proofs is None else "DPoP"
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
            raise AuthError(f"{self._server.issuer} answered without an access_token that can be sent")
        if not isinstance(kind, str) or kind.lower() != scheme.lower():
            # RFC 9449, section 5: a client that asks for a bound token must notice when it gets a bearer token.
            raise AuthError(f"{self._server.issuer} gave a token of the type {str(kind)[:50]!r} in place of {scheme}")
        refresh, granted = document.get("refresh_token"), document.get("scope")
        key = None if self._proofs is None else self._proofs.key.pem
        lifetime = _lifetime(document.get("expires_in"))
        return Credentials(
            self._server.issuer, resource, client, token, scheme, refresh if isinstance(refresh, str) and refresh else None,
            None if lifetime is None else time.time() + lifetime,
            granted.split() if isinstance(granted, str) and granted.strip() else list(scopes), key=key, lifetime=lifetime)

    def refresh(self, old: Credentials) -> Credentials:
        """Return new credentials for old ones; a rotated refresh token replaces the old one (AUC-49).

        :raises AuthError: the server refused; ``error`` is ``invalid_grant`` if the refresh token is no longer valid.
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
        url = self._server.revocation_endpoint
        if url is None:
            return
        refused: Optional[AuthError] = None
        for kind in ("refresh_token", "access_token"):
            token = getattr(credentials, kind)
            if token:
                headers, own = self._client_authentication(credentials.client)
                answer = self._web.post_form(url, "the revocation endpoint", {"token": token, "token_type_hint": kind, **own},
                                             headers)
                # RFC 7009, section 2.2.1: a self-contained token cannot be revoked and stays valid until it expires.
                if answer.status != 200 and answer.error != "unsupported_token_type" and refused is None:
                    refused = AuthError(f"{self._server.issuer} did not revoke the {kind}: {answer.explain()}",
                                        error=answer.error)
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
