"""The token endpoint and its neighbours, on Authlib's grants: tokens, registration, revocation and introspection.

Authlib implements the rules of OAuth for these requests: which parameters they have, how clients authenticate, what PKCE
compares, how errors look. This module and :mod:`.grant_store` add what Authlib does not have: the ``resource`` that a token is
for (RFC 8707), refresh tokens that are used once and whose reuse ends the grant, PKCE with S256 only, and clients that sign
their requests.

This module imports Authlib, so it is imported only when an endpoint with an :class:`Issuer` begins.
"""

import contextlib
import json
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

try:
    from authlib.oauth2.rfc6749 import AuthorizationServer, JsonRequest, OAuth2Error, OAuth2Request
    from authlib.oauth2.rfc6749.errors import InvalidClientError, InvalidGrantError, InvalidRequestError, InvalidScopeError
    from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
    from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
    from authlib.oauth2.rfc7009 import RevocationEndpoint
    from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
    from authlib.oauth2.rfc7591.errors import InvalidClientMetadataError
    from authlib.oauth2.rfc7636 import CodeChallenge
    from authlib.oauth2.rfc7662 import IntrospectionEndpoint
except ImportError as error:
    raise ImportError("a server that issues its own tokens needs Authlib: pip install 'mcplite[issuer]'") from error

from ...rpc.tracing import get_logger
from ...server.handling.http_request import HTTPRequest
from ...server.http.messages import HTTPResponse
from .account import BadForm, read_form
from .client_registry import METHODS, ClientRegistry, InvalidMetadata, OAuthClient, TooManyClients, checked_metadata, web_host
from .grant_store import GrantStore, UserGrant, digest
from .users import User, allowed_scopes

__all__ = ["OAuthServer"]

_log = get_logger(__name__)
#: Bytes of a registration.
_MOST_BYTES = 65_536
#: Algorithms of requests that are signed with a private key.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
#: The most seconds for which a signed request is valid, and the seconds that clocks may differ.
_LONGEST_ASSERTION, _LEEWAY = 600.0, 60.0
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class _Request(OAuth2Request):  # type: ignore[misc]
    """A form for Authlib."""

    def __init__(self, request: HTTPRequest, form: Dict[str, str]) -> None:
        # Authlib refuses a URL without https. Whether the connection may be without it was decided by the URL of the issuer.
        super().__init__(request.method, "https://issuer.invalid/", headers=request.headers)
        self.payload = BasicOAuth2Payload(form)
        self.http = request

    @property
    def form(self) -> Dict[str, str]:
        return self.payload.data  # type: ignore[no-any-return]

    @property
    def args(self) -> Dict[str, str]:
        return {}


class _Metadata(JsonRequest):  # type: ignore[misc]
    """The JSON of a registration for Authlib."""

    def __init__(self, request: HTTPRequest, document: Any) -> None:
        super().__init__(request.method, "https://issuer.invalid/", request.headers)
        self.payload = document
        self.http = request


class _TemporarilyUnavailable(OAuth2Error):  # type: ignore[misc]
    error = "temporarily_unavailable"
    status_code = 503

    def get_headers(self) -> List[Tuple[str, str]]:
        return [*super().get_headers(), ("Retry-After", "2")]


class _TooMany(OAuth2Error):  # type: ignore[misc]
    error = "temporarily_unavailable"
    status_code = 429

    def get_headers(self) -> List[Tuple[str, str]]:
        return [*super().get_headers(), ("Retry-After", "600")]


class _InvalidTarget(OAuth2Error):  # type: ignore[misc]
    error = "invalid_target"  # RFC 8707, section 2


class _ConsentRequired(OAuth2Error):  # type: ignore[misc]
    error = "consent_required"  # OpenID Connect Core, 3.1.2.6


class _Code:
    """The record of a code, with the methods that Authlib calls."""

    def __init__(self, code: str, record: Dict[str, Any], presented: Optional[str]) -> None:
        self.code, self.record = code, record
        self.code_challenge, self.code_challenge_method = record["challenge"], "S256"
        self._presented = presented

    def get_redirect_uri(self) -> Optional[str]:
        # OAuth 2.1 has no redirect_uri here: PKCE binds the code to its request. If a client sends one, it must fit.
        return None if self._presented is None else str(self.record["redirect_uri"])

    def get_scope(self) -> str:
        return " ".join(self.record["scopes"])


class _HeldGrant:
    """The grant of a token, with the methods that Authlib calls."""

    def __init__(self, grant: UserGrant, token: str) -> None:
        self.grant, self.token = grant, token
        #: The user as stored; authenticate_user() replaces this with the user as known now.
        self.user = grant.user

    def check_client(self, client: OAuthClient) -> bool:
        return client.id == self.grant.client_id

    def get_scope(self) -> str:
        return " ".join(self.grant.scopes)

    def is_expired(self) -> bool:
        return False

    def is_revoked(self) -> bool:
        return False


class _CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = list(METHODS)

    def query_authorization_code(self, code: str, client: OAuthClient) -> Optional[_Code]:
        record = self.server.store.find_code(code)
        if record is None or record["client_id"] != client.id:
            return None
        self.server.check_resource(self.request, record["resource"])
        return _Code(code, record, self.request.payload.redirect_uri)

    def authenticate_user(self, authorization_code: _Code) -> Any:
        return authorization_code.record["user"]

    def delete_authorization_code(self, authorization_code: _Code) -> None:
        """Do nothing: :meth:`OAuthServer.save_token` marks the code as used."""


class _RefreshGrant(RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = list(METHODS)
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Optional[_HeldGrant]:
        grant = self.server.store.find_refresh(refresh_token)
        if grant is None:
            return None
        self.server.check_resource(self.request, grant.resource)
        # If a tool needs more scopes, the first SDK for TypeScript refreshes its token, and gives up if the new token has no
        # more scopes. It handles this error like a failure of the server, and asks the user. Other clients ask at once.
        if self.server.store.misses_scopes(grant):
            raise _ConsentRequired("a tool needs scopes that the user has not granted; send the user to /authorize for them")
        return _HeldGrant(grant, refresh_token)

    def authenticate_user(self, refresh_token: _HeldGrant) -> User:
        refresh_token.user = self.server.user_now(refresh_token.grant)
        return refresh_token.user

    def revoke_old_credential(self, refresh_token: _HeldGrant) -> None:
        """Do nothing: :meth:`OAuthServer.save_token` has replaced the old tokens."""


class _Registration(ClientRegistrationEndpoint):  # type: ignore[misc]
    def authenticate_token(self, request: _Metadata) -> bool:
        return bool(self.server.clients.open)

    def extract_client_metadata(self, request: _Metadata) -> Dict[str, Any]:
        try:
            return checked_metadata(request.payload)
        except InvalidMetadata as error:
            wrong = InvalidClientMetadataError(str(error))
            wrong.error = error.code
            raise wrong from error

    def generate_client_info(self, request: _Metadata) -> Dict[str, Any]:
        return {}

    def save_client(self, client_info: Dict[str, Any], client_metadata: Dict[str, Any], request: _Metadata) -> Dict[str, Any]:
        try:
            info: Dict[str, Any] = self.server.clients.register(client_metadata, request.http.sender)[1]
        except TooManyClients:
            raise _TooMany("too many clients were registered; try again later") from None
        return info

    def generate_client_registration_info(self, client: Dict[str, Any], request: _Metadata) -> Dict[str, Any]:
        return client


class _Revocation(RevocationEndpoint):  # type: ignore[misc]
    CLIENT_AUTH_METHODS = list(METHODS)

    def query_token(self, token_string: str, token_type_hint: Optional[str]) -> Optional[_HeldGrant]:
        store: GrantStore = self.server.store
        access = store.find_access(token_string)
        grant = access[0] if access is not None else store.find_refresh(token_string)
        return None if grant is None else _HeldGrant(grant, token_string)

    def revoke_token(self, token: _HeldGrant, request: Any) -> None:
        self.server.store.revoke(token.token)


class _Introspection(IntrospectionEndpoint):  # type: ignore[misc]
    CLIENT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]

    def query_token(self, token_string: str, token_type_hint: Optional[str]) -> Optional[_HeldGrant]:
        found = self.server.store.find_access(token_string)
        return None if found is None else _HeldGrant(found[0], token_string)

    def check_permission(self, token: _HeldGrant, client: OAuthClient, request: Any) -> bool:
        # A resource server may ask about the tokens that are for it. A client may ask about none.
        return client.id == token.grant.resource

    def introspect_token(self, token: _HeldGrant) -> Dict[str, Any]:
        grant, expires, scopes = self.server.store.find_access(token.token) or (token.grant, 0.0, [])
        return {"active": expires > 0, "iss": self.server.issuer, "sub": grant.user.subject, "aud": grant.resource,
                "client_id": grant.client_id, "scope": " ".join(scopes), "exp": int(expires), "iat": int(grant.used),
                "token_type": "Bearer", "username": grant.user.name or grant.user.subject}


class OAuthServer(AuthorizationServer):  # type: ignore[misc]
    """Answers the requests of clients; those of browsers are in :mod:`.authorization_flow`.

    :param issuer: the URL of the issuer.
    :param store: keeps the grants.
    :param clients: the clients that may ask for tokens.
    :param resource_servers: for the URL of each other server that accepts tokens, the secret with which it asks about them.
    :param find_user: returns the user of a grant as known now, or None; raises ``OSError`` if users cannot be looked up.
    :param implies: which scopes a scope includes.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, issuer: str, store: GrantStore, clients: ClientRegistry, resource_servers: Mapping[str, str],
                 find_user: Callable[[UserGrant], Optional[User]], implies: Mapping[str, Iterable[str]],
                 clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.issuer, self.store, self.clients = issuer, store, clients
        self._find_user, self._implies, self._clock = find_user, implies, clock
        self._resource_servers = {url: OAuthClient(url, {
            "redirect_uris": [], "grant_types": [], "token_endpoint_auth_method": "client_secret_basic"}, digest(secret))
            for url, secret in resource_servers.items()}

        self.register_grant(_CodeGrant, [CodeChallenge(required=True)])
        self.register_grant(_RefreshGrant)
        for endpoint in (_Registration, _Revocation, _Introspection):
            self.register_endpoint(endpoint)
        self.register_client_auth_method("private_key_jwt", self._authenticate_by_key)

    # --- requests -------------------------------------------------------------------------------------------

    def token(self, request: HTTPRequest) -> HTTPResponse:
        """Answer a request for tokens (RFC 6749, section 3.2)."""
        return self._answered(request, lambda form: self.create_token_response(_Request(request, form)))

    def revoke(self, request: HTTPRequest) -> HTTPResponse:
        """Answer a request to end a token (RFC 7009)."""
        return self._answered(request, lambda form: self.create_endpoint_response("revocation", _Request(request, form)))

    def introspect(self, request: HTTPRequest) -> HTTPResponse:
        """Answer another resource server's question about a token (RFC 7662)."""
        return self._answered(request, lambda form: self.create_endpoint_response("introspection", _Request(request, form)))

    def register(self, request: HTTPRequest) -> HTTPResponse:
        """Register a client (RFC 7591)."""
        try:
            document = json.loads(request.read(_MOST_BYTES))
        except (ValueError, RecursionError):
            document = None
        found: HTTPResponse = self.create_endpoint_response("client_registration", _Metadata(request, document))
        return found

    def _answered(self, request: HTTPRequest, answer: Callable[[Dict[str, str]], Any]) -> HTTPResponse:
        try:
            found: HTTPResponse = answer(read_form(request))
        except BadForm as error:
            found = self.handle_error_response(None, InvalidRequestError(str(error)))
        return found

    # --- what Authlib asks ------------------------------------------------------------------------------------

    def create_oauth2_request(self, request: _Request) -> _Request:
        return request

    def create_json_request(self, request: _Metadata) -> _Metadata:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> HTTPResponse:
        content = json.dumps(body).encode("ascii") if isinstance(body, dict) else str(body).encode("utf-8")
        known = dict(headers)
        known.update({"Content-Type": "application/json", "Cache-Control": "no-store"})
        return HTTPResponse(status, list(known.items()), [content])

    def send_signal(self, name: str, *arguments: Any, **more: Any) -> None:
        """Do nothing: no code of this server uses the signals of Authlib."""

    def query_client(self, client_id: str) -> Optional[OAuthClient]:
        known = self._resource_servers.get(client_id)
        if known is not None:
            return known
        try:
            return self.clients.find(client_id)
        except (InvalidMetadata, TooManyClients):
            return None

    def check_resource(self, request: _Request, resource: str) -> None:
        """Check that a request for tokens names no other resource than the user has allowed (RFC 8707)."""
        named = request.payload.data.get("resource")
        if named is not None and named.rstrip("/") != resource.rstrip("/"):
            raise _InvalidTarget("the grant is for another resource")

    def user_now(self, grant: UserGrant) -> User:
        """Return the user of a grant as known now; if there is none any more, end the grant.

        :raises OAuth2Error: there is no user, or users cannot be looked up.
        """
        try:
            user = self._find_user(grant)
        except OSError as error:
            _log.warning("users cannot be looked up: %s", error)
            raise _TemporarilyUnavailable("the user cannot be looked up at present") from error
        if user is None:
            self.store.end(grant.id)
            raise InvalidGrantError("the login has ended; log in again")
        return user

    def generate_token(self, *arguments: Any, **more: Any) -> Dict[str, Any]:
        """Return a response without tokens; :meth:`save_token` makes the tokens, stores them and adds them."""
        return {"token_type": "Bearer"}

    def save_token(self, token: Dict[str, Any], request: _Request) -> None:
        client: OAuthClient = request.client
        if request.authorization_code is not None:
            code: _Code = request.authorization_code
            record = code.record
            grant = self.store.add(user_of(record), client.id, client.info.name, client.domain, tuple(record["scopes"]),
                                   record["resource"], record.get("upstream_grant", ""), web_host(record["redirect_uri"]))
            scopes = grant.scopes
            issued: Optional[Tuple[str, str]] = self.store.issue(grant, scopes, client.check_grant_type("refresh_token"))
            # The code is marked as used after the grant was stored, so that a second use finds the grant and ends it.
            if not self.store.use_code(code.code, record, grant.id):
                self.store.end(grant.id)
                raise InvalidGrantError("the code was used before")
        else:
            held: _HeldGrant = request.refresh_token
            asked = (request.payload.scope or held.get_scope()).split()
            scopes = tuple(allowed_scopes(asked, held.user, self._implies))
            if asked and not scopes:
                raise InvalidScopeError("the user may not grant these scopes any more")
            issued = self.store.rotate(held.grant, held.token, scopes, held.user)
        if issued is None:
            raise InvalidGrantError("the refresh token was used before")
        self.clients.keep(client)
        token.update({"access_token": issued[0], "expires_in": int(self.store.access_seconds), "scope": " ".join(scopes)})
        if issued[1]:
            token["refresh_token"] = issued[1]

    # --- clients that sign --------------------------------------------------------------------------------------

    def _authenticate_by_key(self, query_client: Any, request: _Request) -> Optional[OAuthClient]:
        """Return the client that has signed a request for tokens (RFC 7523, section 2.2); None if it is not signed."""
        form = request.form
        if form.get("client_assertion_type") != _ASSERTION or "client_assertion" not in form:
            return None
        import jwt

        assertion = form["client_assertion"]
        try:
            id = jwt.decode(assertion, options={"verify_signature": False}).get("sub")
            header = jwt.get_unverified_header(assertion)
            client = self.query_client(id) if isinstance(id, str) and form.get("client_id", id) == id else None
            if client is None or client.metadata["token_endpoint_auth_method"] != "private_key_jwt":
                raise InvalidClientError(description="there is no such client that signs its requests")
            claims = self._verified(jwt, assertion, header, self.clients.keys_of(client), client.id)
        except (jwt.PyJWTError, InvalidMetadata, ValueError) as error:
            raise InvalidClientError(description="the client assertion is not valid") from error
        # Each assertion can be used once. Its signed part is remembered until it expires, and not its signature: that can be
        # written in several ways.
        self._count(client.id, "assertions")
        if not self.store.backend.swap(f"assertion-{digest(assertion.rpartition('.')[0])}/used", None, b"1",
                                       max(1.0, claims["exp"] + _LEEWAY - self._clock())):
            raise InvalidClientError(description="the client assertion was used before")
        return client

    def _count(self, address: str, what: str) -> None:
        try:
            self.clients.count(address, what)
        except TooManyClients as error:
            raise _TooMany("too many requests; try again later") from error

    def _verified(self, jwt: Any, assertion: str, header: Mapping[str, Any], keys: List[Dict[str, Any]], id: str
                  ) -> Dict[str, Any]:
        named = [key for key in keys if header.get("kid") in (None, key.get("kid"))]
        for key in named[:10]:
            with contextlib.suppress(jwt.PyJWTError):
                known = jwt.PyJWK(key)
                if key.get("kty") == "oct":
                    continue
                claims: Dict[str, Any] = jwt.decode(
                    assertion, known.key, algorithms=_ALGORITHMS, audience=[self.issuer, f"{self.issuer}/token"], issuer=id,
                    leeway=_LEEWAY, options={"require": ["exp", "iss", "sub", "aud"]})
                if claims["exp"] - self._clock() <= _LONGEST_ASSERTION + _LEEWAY and claims["sub"] == id:
                    return claims
        raise InvalidClientError(description="the client assertion is not valid")


def user_of(record: Mapping[str, Any]) -> User:
    """Return the user that a code was issued for."""
    from .users import user_from

    return user_from(record["user"])
