"""Grants without a user: for jobs, services and companies that decide for their people.

No user sees where they send their secrets, so each requires the one authorization server that may have them (AUTH-31).
"""

from typing import Callable, Optional, Sequence, Union

from ...errors import AuthError
from ...protocol.http.oauth import check_url
from .discovery import AuthorizationServer
from .grant_base import Grant, TokenRequest
from .jwt_signing import SigningKey
from .stores import Store
from .token_endpoint import ClientIdentity, Credentials, client_by_hand

__all__ = ["ClientCredentials", "EnterpriseManaged", "WorkloadIdentity"]

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
#: A text, or a callable that returns the current one: assertions of a platform are short-lived.
Assertion = Union[str, Callable[[], str]]


class _Unattended(Grant):
    """The common part: a client that was registered by hand, at one authorization server."""

    def __init__(self, client_id: str, client_secret: Optional[str], issuer: str, scopes: Union[str, Sequence[str]],
                 store: Optional[Store], dpop: bool) -> None:
        if not issuer:
            raise ValueError("issuer= is needed: the only authorization server that may see these credentials")
        check_url(issuer, "issuer=")
        for name, value in (("client_id", client_id), ("client_secret", client_secret)):
            if not (value is None and name == "client_secret" or isinstance(value, str) and value):
                # Such as an unset variable of the environment; without a secret the request would be unauthenticated.
                raise ValueError(f"{name}= is a text that is not empty")
        super().__init__(issuer=issuer, scopes=scopes, store=store, dpop=dpop)
        self._client_id, self._client_secret = client_id, client_secret

    def accepts(self, credentials: Credentials) -> bool:
        return super().accepts(credentials) and credentials.client.client_id == self._client_id

    def _client(self, issuer_server: AuthorizationServer) -> ClientIdentity:
        return client_by_hand(issuer_server, self._client_id, self._client_secret)


class ClientCredentials(_Unattended):
    """Gets tokens for the program itself, by a secret or by a key (RFC 6749, section 4.4; RFC 7523).

    :param client_id: as the authorization server knows this program.
    :param client_secret: its secret; None for a client with a key.
    :param private_key: its key as PEM, whose public half the server knows (needs the extra ``jwt``); None for a client
        with a secret.
    :param issuer: the authorization server, exactly as it writes itself.
    :param algorithm: of the signature; by default the usual one of the key.
    :param key_id: of the key, if the server needs it.
    :param scopes: to ask for, besides those that the MCP server says it needs.
    :param store: where tokens are kept; by default in memory.
    :param dpop: as for :class:`OAuth`.
    :raises ValueError: not exactly one of secret and key is given, or an option cannot be used.
    :raises AuthError: signing with a key needs packages that are not installed.
    """

    extension = "io.modelcontextprotocol/oauth-client-credentials"

    def __init__(self, client_id: str, client_secret: Optional[str] = None, *, issuer: str,
                 private_key: Union[None, str, bytes] = None, algorithm: Optional[str] = None, key_id: Optional[str] = None,
                 scopes: Union[str, Sequence[str]] = (), store: Optional[Store] = None, dpop: bool = False) -> None:
        if (client_secret is None) == (private_key is None):
            raise ValueError("give client_secret= or private_key=, one of them")
        super().__init__(client_id, client_secret, issuer, scopes, store, dpop)
        if private_key is not None:
            self.signing_key = SigningKey.load(private_key, algorithm, key_id)

    def _client(self, issuer_server: AuthorizationServer) -> ClientIdentity:
        if self.signing_key is not None:
            return ClientIdentity(issuer_server.issuer, self._client_id, method="private_key_jwt")
        return super()._client(issuer_server)

    def obtain(self, request: TokenRequest) -> Credentials:
        """Ask for a token in the program's own name."""
        fields = {"grant_type": "client_credentials", "scope": " ".join(request.scopes) or None}
        return self._request_token(request, self._client(request.issuer_server), fields)


class WorkloadIdentity(_Unattended):
    """Gets tokens for a platform's assertion about this program: a JWT of Kubernetes, of a cloud, of a CI (RFC 7523).

    :param assertion: the JWT, or a callable that returns the current one.
    :param client_id: as the authorization server knows this program.
    :param issuer: the authorization server, exactly as it writes itself.
    :param client_secret: if the server requires one as well.
    :param scopes: to ask for, besides those that the MCP server says it needs.
    :param store: where tokens are kept; by default in memory.
    :param dpop: as for :class:`OAuth`.
    :raises ValueError: an option cannot be used.
    """

    def __init__(self, assertion: Assertion, client_id: str, *, issuer: str, client_secret: Optional[str] = None,
                 scopes: Union[str, Sequence[str]] = (), store: Optional[Store] = None, dpop: bool = False) -> None:
        super().__init__(client_id, client_secret, issuer, scopes, store, dpop)
        self._assertion = assertion

    def obtain(self, request: TokenRequest) -> Credentials:
        """Ask for a token, once: an assertion that was refused is refused again."""
        fields = {"grant_type": _JWT_BEARER, "assertion": _text(self._assertion), "scope": " ".join(request.scopes) or None}
        return self._request_token(request, self._client(request.issuer_server), fields)


class EnterpriseManaged(_Unattended):
    """Gets tokens by a company's identity provider, which decides which of its people may use which server (ID-JAG).

    The user is logged in there already. The user's ID token is exchanged for a grant to one authorization server, and that
    grant for a token.

    :param id_token: of the user, or a callable that returns the current one.
    :param idp_token_endpoint: where the identity provider exchanges it.
    :param idp_client_id: as the identity provider knows this program.
    :param idp_client_secret: if it has one there.
    :param client_id: as the MCP server's authorization server knows this program.
    :param client_secret: its secret there, if it has one.
    :param issuer: that authorization server, exactly as it writes itself.
    :param scopes: to ask for, besides those that the MCP server says it needs.
    :param store: where tokens are kept; by default in memory.
    :param dpop: as for :class:`OAuth`.
    :raises ValueError: an option cannot be used, such as an endpoint that is not of https.
    """

    extension = "io.modelcontextprotocol/enterprise-managed-authorization"

    def __init__(self, id_token: Assertion, *, idp_token_endpoint: str, idp_client_id: str, client_id: str,
                 client_secret: Optional[str] = None, issuer: str, idp_client_secret: Optional[str] = None,
                 scopes: Union[str, Sequence[str]] = (), store: Optional[Store] = None, dpop: bool = False) -> None:
        super().__init__(client_id, client_secret, issuer, scopes, store, dpop)
        self._id_token = id_token
        self._idp = check_url(idp_token_endpoint, "idp_token_endpoint=")
        self._idp_client_id, self._idp_client_secret = idp_client_id, idp_client_secret

    @property
    def given_urls(self) -> Sequence[str]:
        return [*super().given_urls, self._idp]

    def obtain(self, request: TokenRequest) -> Credentials:
        """Ask the identity provider for a grant, and the authorization server for a token."""
        scope = " ".join(request.scopes) or None
        answer = request.web.post_form(self._idp, "the identity provider", {
            "grant_type": _EXCHANGE, "requested_token_type": _ID_JAG, "subject_token": _text(self._id_token),
            "subject_token_type": _ID_TOKEN, "audience": request.issuer_server.issuer, "resource": request.resource.resource,
            "scope": scope, "client_id": self._idp_client_id, "client_secret": self._idp_client_secret})
        grant = answer.document.get("access_token")
        if not answer.accepted or not isinstance(grant, str):
            raise AuthError(f"the identity provider gave no grant for {request.resource.resource}: {answer.explain()}",
                            error=answer.error)
        if answer.document.get("issued_token_type", _ID_JAG) != _ID_JAG:
            raise AuthError("the identity provider gave another kind of token than a grant for another server (id-jag)")
        fields = {"grant_type": _JWT_BEARER, "assertion": grant, "scope": scope}
        return self._request_token(request, self._client(request.issuer_server), fields)


def _text(assertion: Assertion) -> str:
    text: object = assertion
    if not isinstance(assertion, str):
        try:
            text = assertion()
        except Exception as error:  # of any type: it is the caller's code
            reason = f"{type(error).__name__}: {error}"
            raise AuthError(f"the assertion about this program could not be obtained: {reason}") from error
    if not isinstance(text, str) or not text:
        raise AuthError(f"the assertion about this program must be a text, not {type(text).__name__}"
                        f"{'' if text else ' that is empty'}")
    return text
