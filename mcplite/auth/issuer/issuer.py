"""A server that issues its own tokens: an authorization server (OAuth 2.1) at the URL of the MCP server.

:class:`Issuer` extends :class:`~..verify.bearer_auth.BearerAuth`: it accepts only tokens that it has issued, and it answers the
requests of clients and browsers for tokens, on every host that serves the endpoint. Its parts are :mod:`.authorization_flow`
for browsers, :mod:`.oauth_server` for clients, :mod:`.grant_store` for the stored logins and grants, and the modules of pages,
users and upstreams.

All paths are below the URL of the issuer. Three of them, ``/authorize``, ``/token`` and ``/register``, have the names that
clients of the oldest revision with authorization use if they find no metadata.
"""

import functools
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import urlsplit

from ...backend.interface import Backend
from ...errors import BackendError
from ...protocol.http.oauth import ISSUER_METADATA, base_of, check_url
from ...protocol.uris import decoded_path
from ...rpc.tracing import get_logger
from ...server.handling.http_request import HTTPRequest
from ...server.http.access import Authorization
from ...server.http.messages import HTTPResponse
from ...server.principals import Principal
from ..verify.bearer_auth import BearerAuth, bearer_token, of_any_origin, only
from .users import Users

if TYPE_CHECKING:
    from .grant_store import UserGrant
    from .pages import Pages
    from .upstream import UpstreamLogin
    from .upstream_grants import UpstreamGrants
    from .users import User

__all__ = ["Issuer"]

_log = get_logger(__name__)
_Route = Callable[[HTTPRequest], HTTPResponse]


class Issuer(BearerAuth):
    """Issues tokens to clients whose users log in here, and accepts them: ``Server(auth=Issuer(url, users=...))``.

    Users are our own, or log in at a provider where they have an account. Needs ``mcplite[issuer]``.

    :param url: the public URL of this server without the path of the endpoint, such as ``https://notes.example``; it is the
        issuer identifier. Browsers and clients reach all pages below it. It may have a path, if a host or a proxy removes this
        path from requests, or if the path of the endpoint begins with it.
    :param users: the users who log in with a name and a password, such as :class:`PasswordFile`.
    :param upstream: the provider where users log in instead; see :func:`upstream`.
    :param scopes: required by every request; a client that names no scope gets these.
    :param descriptions: what scopes allow, for the people who are asked, such as ``{"notes:read": "Read your notes"}``.
    :param implies: which scopes a scope includes.
    :param clients: clients that are known beforehand: the metadata of RFC 7591 with ``client_id``, and perhaps
        ``client_secret``.
    :param registration: whether clients may register themselves.
    :param resource_servers: other servers that accept tokens of this one: for the URL of each, the secret with which it asks
        about tokens (RFC 7662). The URL is its user name as well.
    :param backend: where logins and grants are kept, as a URL such as ``sqlite:///logins.db``. Default: the backend of the
        server, or the memory of this process; then the end of the process logs all users out.
    :param state_keys: secrets that all processes share, for a backend that other programs reach, and to encrypt the tokens of
        an upstream. Default: the variable MCPLITE_STATE_KEYS.
    :param pages: with templates and texts of your own.
    :param access_seconds: seconds for which an access token is valid.
    :param refresh_seconds: seconds for which a login lasts after its last use.
    :param clock: returns seconds since 1970.
    :raises ValueError: an option is not valid.
    """

    def __init__(self, url: str, *, users: Optional[Users] = None, upstream: "Optional[UpstreamLogin]" = None,
                 scopes: Union[str, Iterable[str]] = (), descriptions: Optional[Mapping[str, str]] = None,
                 implies: Optional[Mapping[str, Iterable[str]]] = None, clients: Iterable[Mapping[str, Any]] = (),
                 registration: bool = True, resource_servers: Optional[Mapping[str, str]] = None,
                 backend: Union[None, str, Backend] = None, state_keys: Sequence[Union[str, bytes]] = (),
                 pages: "Optional[Pages]" = None, access_seconds: float = 3600.0, refresh_seconds: float = 30 * 86_400.0,
                 clock: Callable[[], float] = time.time) -> None:
        parts = urlsplit(check_url(url, "the URL of Issuer(...)"))
        if parts.query or parts.fragment:
            raise ValueError(f"the URL of Issuer(...) is {url[:200]!r}; leave out the query and the fragment")
        if (users is None) == (upstream is None):
            raise ValueError("Issuer(...) needs users=, such as PasswordFile('users.txt'), or upstream=, such as"
                             " upstream('github', ...), and not both")
        for name, seconds in (("access_seconds", access_seconds), ("refresh_seconds", refresh_seconds)):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e9:
                raise ValueError(f"{name}= must be a positive number of seconds, not {seconds!r}")
        self.url = url.rstrip("/")
        super().__init__(self._verify_token, issuer=self.url, scopes=scopes, implies=implies, clock=clock)
        self._descriptions = dict(descriptions or {})
        self._users, self._login = users, upstream
        self._given, self._registration = [dict(one) for one in clients], registration
        self._resource_servers = dict(resource_servers or {})
        for other in self._resource_servers:
            check_url(other, "resource_servers=")
        self._pages = pages
        self._access_seconds, self._refresh_seconds, self._clock = float(access_seconds), float(refresh_seconds), clock
        self._given_backend, self._given_keys = backend, state_keys
        #: The logins at the provider; None for users of our own.
        self._upstream: "Optional[UpstreamGrants]" = None

    def __repr__(self) -> str:
        return f"<Issuer {self.url!r}, {'its own users' if self._users is not None else self._login!r}>"

    # --- what it is made of, when an endpoint begins -------------------------------------------------------------------

    def _begin(self, endpoint: Authorization) -> None:
        """Make the parts of this issuer, for the first endpoint; so a wrong option raises when the server starts."""
        from .authorization_flow import AuthorizationFlow
        from .client_registry import ClientRegistry
        from .grant_store import GrantStore
        from .oauth_server import OAuthServer
        from .pages import Pages
        from .upstream_grants import Encryption, UpstreamGrants

        keys = endpoint.state_keys(self._given_keys)
        store = GrantStore(_OwnKeys(self._open_backend(endpoint, keys), self.url), self._access_seconds,
                           self._refresh_seconds, self._ended, self._clock)
        clients = ClientRegistry(store, self.url, self._given, self._registration, self._clock)
        if self._login is not None:
            if store.backend.shared and not keys:
                raise ValueError("the tokens of an upstream are encrypted in what other processes reach: give Issuer(...,"
                                 " state_keys=[...]) or MCPLITE_STATE_KEYS, secrets that all processes share; make one with"
                                 " python -c 'import secrets; print(secrets.token_hex(32))'")
            self._upstream = UpstreamGrants([self._login], store.backend, Encryption(keys), self._refresh_seconds,
                                            self._clock)
        pages = Pages() if self._pages is None else self._pages
        pages.server = endpoint.info.title or endpoint.info.name
        self._store, self._endpoint = store, endpoint
        self.resource = (base_of(self.url) if self._prefix_at(endpoint) else self.url) + endpoint.path
        self._server = OAuthServer(self.url, store, clients, self._resource_servers, self._user_now, self.implies,
                                   self._clock)
        self._flow = AuthorizationFlow(self.url, store, clients, self._users, self._login, self._upstream, pages,
                                       self._scopes_now, [self.resource, *self._resource_servers], self.implies,
                                       self._clock)

    def close(self) -> None:
        """Close the backend, if it was opened by its URL. Close the server that uses this issuer first."""
        if self.resource is not None and isinstance(self._given_backend, str):  # it was used by an endpoint
            self._store.backend.close()

    def _open_backend(self, endpoint: Authorization, keys: Sequence[bytes]) -> Backend:
        from ...backend.from_url import open_backend, open_shared_backend

        given = self._given_backend
        if given is None:
            return endpoint.backend
        if isinstance(given, str) and given.startswith("sqlite:") and not keys:
            return open_backend(given)  # a file that its owner alone can read and write
        return open_shared_backend(given, keys) or open_backend(given)

    # --- the authorizer of an endpoint ----------------------------------------------------------------------------------

    def routes(self, endpoint: Authorization) -> Dict[str, _Route]:
        if self.resource is None:
            self._begin(endpoint)
        prefix, at = urlsplit(self.url).path, self._prefix_at(endpoint)
        routes: Dict[str, _Route] = super().routes(endpoint)
        for path in ISSUER_METADATA:
            for full in dict.fromkeys([path, path + prefix, path + endpoint.path, at + path]):
                routes[full] = of_any_origin(self._serve_metadata_of_issuer, "GET")
        browsers: Dict[str, Tuple[str, Any]] = {
            "/authorize": ("GET, POST", self._flow.authorize), "/login": ("GET, POST", self._flow.login),
            "/consent": ("GET, POST", self._flow.consent), "/callback": ("GET", self._flow.callback),
            "/grants": ("GET, HEAD, POST", self._flow.account)}
        clients = {"/token": self._server.token, "/register": self._server.register, "/revoke": self._server.revoke}
        for at in dict.fromkeys(["", at]):  # clients that find no metadata ask at the root of the host
            routes.update({at + path: only(methods, self._checked(answer)) for path, (methods, answer) in browsers.items()})
            routes.update({at + path: of_any_origin(self._checked(answer), "POST") for path, answer in clients.items()})
            routes[f"{at}/introspect"] = only("POST", self._checked(self._server.introspect))
        return routes

    def _checked(self, answer: _Route) -> _Route:
        """Return a route that answers with status 500 if the server runs in several processes that share no backend."""
        shared = self._store.backend.shared

        def route(request: HTTPRequest) -> HTTPResponse:
            if shared or request.single_process:
                return answer(request)
            _log.error("give Issuer(..., backend='sqlite:///logins.db'), or Server(..., backend=...): this server runs in"
                       " several processes, which cannot finish each other's logins without one")
            return HTTPResponse(500, [("Content-Type", "text/plain")], [b"The processes of this server share no logins; its log"
                                                                        b" says what is missing.\n"])

        return route

    def _prefix_at(self, endpoint: Authorization) -> str:
        """Return the path of the issuer's URL if requests arrive with it; empty if a host or a proxy removes it from requests.

        Requests arrive with it if the path of the endpoint begins with it.
        """
        prefix = decoded_path(urlsplit(self.url).path)
        return prefix if prefix and f"{decoded_path(endpoint.path)}/".startswith(f"{prefix}/") else ""

    def _scopes_now(self) -> Tuple[Dict[str, str], List[str]]:
        """Return all scopes with their descriptions; and the scopes that every request needs, for a client that names none."""
        known = dict.fromkeys([*self._endpoint.scopes(), *self.implies], "")
        return {scope: self._descriptions.get(scope, "") for scope in known}, list(self.scopes)

    def _serve_metadata_of_issuer(self, request: HTTPRequest) -> HTTPResponse:
        """Answer with the metadata of the authorization server (RFC 8414)."""
        methods = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
        document: Dict[str, Any] = {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
            "revocation_endpoint": f"{self.url}/revoke", "introspection_endpoint": f"{self.url}/introspect",
            "response_types_supported": ["code"], "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": methods, "revocation_endpoint_auth_methods_supported": methods,
            "introspection_endpoint_auth_methods_supported": methods[1:3],
            "token_endpoint_auth_signing_alg_values_supported": ["RS256", "PS256", "ES256", "EdDSA"],
            "code_challenge_methods_supported": ["S256"], "scopes_supported": list(self._scopes_now()[0]),
            "authorization_response_iss_parameter_supported": True, "client_id_metadata_document_supported": True}
        if self._registration:
            document["registration_endpoint"] = f"{self.url}/register"
        return HTTPResponse(200, [("Content-Type", "application/json"), ("Cache-Control", "public, max-age=300")],
                            [json.dumps(document).encode("ascii")])

    # --- tokens ---------------------------------------------------------------------------------------------------------

    def _verify_token(self, token: str) -> Optional[Principal]:
        found = self._store.find_access(token)
        if found is None:
            return None
        grant, expires, scopes = found
        user = grant.user
        claims = {**user.claims, "name": user.name, "email": user.email, "groups": list(user.groups)}
        tokens = None
        if grant.upstream:
            tokens = functools.partial(self._upstream_token, grant)
        return Principal(user.subject, audience=grant.resource, issuer=self.url, client_id=grant.client_id, scopes=scopes,
                         expires_at=expires, claims={name: value for name, value in claims.items() if value},
                         upstream_tokens=tokens)

    def note_missing_scopes(self, request: HTTPRequest) -> None:
        try:
            found = self._store.find_access(request.headers.read_once(bearer_token) or "")
            if found is not None:
                self._store.note_missing_scopes(found[0], found[1])
        except BackendError as error:  # the refusal goes out all the same
            _log.warning("a call without the scopes that it needs was not noted: %s", error)

    def _upstream_token(self, grant: "UserGrant", provider: str) -> str:
        from .upstream_providers import UpstreamError

        assert self._upstream is not None
        try:
            return self._upstream.token(grant.upstream, provider)
        except UpstreamError as error:
            if error.error == "invalid_grant":  # the login at the provider has ended, so the grant ends, too
                self._store.end(grant.id)
            raise

    def _user_now(self, grant: "UserGrant") -> "Optional[User]":
        """Return the user of a grant, as the password file or the provider knows them now; None if the user is gone."""
        if self._users is not None:
            return self._users.find(grant.user.subject)
        from .upstream_providers import UpstreamError

        assert self._upstream is not None
        try:
            return self._upstream.renewed(grant.upstream)
        except UpstreamError as error:
            if error.error in ("invalid_grant", "access_denied"):
                return None
            raise OSError(str(error)) from error

    def _ended(self, grant: "UserGrant") -> None:
        if self._upstream is not None and grant.upstream:
            self._upstream.forget(grant.upstream)


class _OwnKeys(Backend):
    """A backend that several issuers may use: the keys of each begin with the digest of its URL."""

    def __init__(self, backend: Backend, url: str) -> None:
        self._backend, self.shared = backend, backend.shared
        self._prefix = f"issuer-{hashlib.sha256(url.encode()).hexdigest()[:16]}-"

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self._backend.put(self._prefix + key, value, seconds)

    def get(self, key: str) -> Optional[bytes]:
        return self._backend.get(self._prefix + key)

    def take(self, key: str) -> Optional[bytes]:
        return self._backend.take(self._prefix + key)

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        return self._backend.swap(self._prefix + key, old, new, seconds)

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        return self._backend.append(self._prefix + log, value, seconds, keep)

    def close(self) -> None:
        self._backend.close()
