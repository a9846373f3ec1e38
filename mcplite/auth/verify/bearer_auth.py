"""Authenticates requests by bearer tokens (OAuth 2.1).

A verifier returns the principal of a token. :class:`BearerAuth` checks the audience, the issuer and the expiry, so
that no verifier can forget them (AUTH-03, AUTH-05). :class:`StaticTokens` is the verifier of tokens that are agreed on in
advance, for a personal tool, a test or a small team.
"""

import hashlib
import hmac
import json
import re
import time
import traceback
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union
from urllib.parse import quote, urlsplit

from ...protocol.http.headers import Headers
from ...protocol.http.oauth import PROTECTED_RESOURCE, base_of, canonical, check_url
from ...protocol.uris import decoded_path, url_path
from ...rpc.tracing import get_logger
from ...server.handling.http_request import HTTPRequest
from ...server.http.access import Authorization, Authorizer, Refused
from ...server.http.messages import HTTPResponse
from ...server.principals import ISSUED_HERE, Principal, Verifier, all_scopes, checked_scopes

if TYPE_CHECKING:
    from .dpop import DPoP

__all__ = ["BearerAuth", "Refused", "StaticTokens", "Verifier", "bearer_token", "is_token", "of_any_origin", "only"]

_log = get_logger(__name__)
_Route = Callable[[HTTPRequest], HTTPResponse]
#: A token after "Bearer" (RFC 6750, section 2.1), with the spaces before it.
_TOKEN = re.compile(r" +([A-Za-z0-9\-._~+/]+=*)")
#: Characters of an ``Authorization`` header. Our own HTTP server's limit for a header line is only a little higher.
_MAX_HEADER_CHARACTERS = 8000
#: Shorter pieces of a token are not masked in logs: they are of no use to an attacker.
_SHORTEST_MASKED = 12


def bearer_token(headers: Headers) -> Optional[str]:
    """Return the bearer token in the ``Authorization`` headers of a request; None if there is none (AUTH-02).

    :raises Refused: there are several headers, or a malformed token.
    """
    values = headers.all("authorization")
    if not values:
        return None
    if len(values) > 1:
        raise Refused(400, "invalid_request", "there are several Authorization headers")
    value = values[0]
    if value[:6].lower() != "bearer" or value[6:7] not in ("", " "):
        return None
    match = _TOKEN.fullmatch(value, 6) if len(value) <= _MAX_HEADER_CHARACTERS else None
    if match is None:
        raise Refused(400, "invalid_request", "the Authorization header must be 'Bearer' and one token")
    return match.group(1)


def bound_token(headers: Headers) -> Optional[str]:
    """Return the token of the scheme DPoP in the only ``Authorization`` header of a request; None if there is none.

    :raises Refused: the token is malformed.
    """
    value = headers.get("authorization") or ""
    if value[:4].lower() != "dpop" or value[4:5] not in ("", " "):
        return None
    match = _TOKEN.fullmatch(value, 4) if len(value) <= _MAX_HEADER_CHARACTERS else None
    if match is None:
        raise Refused(400, "invalid_request", "the Authorization header must be 'DPoP' and one token")
    return match.group(1)


def is_token(text: str) -> bool:
    """Whether a text can be sent as a bearer token."""
    return _TOKEN.fullmatch(" " + text) is not None and len(text) < _MAX_HEADER_CHARACTERS - 10


class BearerAuth(Authorizer):
    """Authenticates callers over HTTP by bearer tokens (OAuth 2.1).

    :param verify: called with a token; returns its :class:`Principal`, or None if the token is not valid. See
        :class:`StaticTokens`, :class:`JWTVerifier` and :class:`Introspection`. It is called for each request, on that
        request's thread, and must limit its own time. If it raises, the request is refused: an ``OSError`` is answered
        with 503, anything else with 500.
    :param issuer: the issuer identifier of the authorization server that issues the tokens, or several. Default: the
        ``issuer`` of the verifier, if it has one. With it, clients discover where to get a token; without it, they must
        have been given one.
    :param resource: the public URL of the endpoint, such as ``https://mcp.example.com/mcp``. Required with *issuer*,
        unless the server only answers to loopback names; it is then taken from the request.
    :param audience: accepted audiences besides the resource, one identifier or several.
    :param scopes: required by every request.
    :param implies: which scopes a scope includes, such as ``{"admin": ["read", "write"]}`` (AUS-21).
    :param scopes_supported: the scopes that clients may request at first. Default: the scopes of all requests and of
        everything that is registered.
    :param realm: named in challenges.
    :param documentation: the URL of a page for the developers of clients.
    :param repeat_granted: whether a challenge for more scopes also names the scopes that the token already has and this
        server knows. None, the default, follows the client's revision: clients up to November 2025 may lose scopes that
        are not repeated; from July 2026 on clients keep them, and only the scopes that the request needs are named.
    :param dpop: also accepts tokens that are bound to a key, or only these; see :class:`DPoP`. Without it such tokens of
        :class:`JWTVerifier` and :class:`Introspection` are refused. A verifier of your own passes the token's ``cnf`` on in the
        claims of its principal.
    :param clock: returns seconds since 1970.
    :raises ValueError: an option is not valid.
    """

    def __init__(self, verify: Verifier, *, issuer: Union[None, str, Iterable[str]] = None, resource: Optional[str] = None,
                 audience: Union[None, str, Iterable[str]] = None, scopes: Union[str, Iterable[str]] = (),
                 implies: Optional[Mapping[str, Iterable[str]]] = None,
                 scopes_supported: Union[None, str, Iterable[str]] = None, realm: Optional[str] = None,
                 documentation: Optional[str] = None, repeat_granted: Optional[bool] = None, dpop: "Optional[DPoP]" = None,
                 clock: Callable[[], float] = time.time) -> None:
        if not callable(verify):
            raise ValueError(f"a verifier is called with a token and returns a Principal or None; {type(verify).__name__}"
                             " cannot be called (to list the tokens themselves, use StaticTokens(...))")
        self._verify = verify
        self.issuers = _texts(getattr(verify, "issuer", None) if issuer is None else issuer, "issuer")
        for one in self.issuers:
            parts = urlsplit(check_url(one, "issuer="))
            if parts.query or parts.fragment:
                raise ValueError(f"issuer= is {one[:200]!r}; an issuer identifier has no query and no fragment")
        self.resource = resource
        if resource is not None and "#" in check_url(resource, "resource="):
            raise ValueError(f"resource= is {resource[:200]!r}; the URL of an endpoint has no fragment")
        self._audiences = _texts(audience, "audience")
        self.scopes = checked_scopes(scopes, "scopes=")
        checked_scopes(implies or (), "implies=")
        self.implies: Dict[str, Tuple[str, ...]] = {
            scope: checked_scopes(included, f"implies[{scope!r}]") for scope, included in (implies or {}).items()}
        self.scopes_supported = None if scopes_supported is None else checked_scopes(scopes_supported, "scopes_supported=")
        self.realm = realm
        self.documentation = documentation
        self.repeat_granted = repeat_granted
        self._clock = clock
        self.dpop = dpop
        if dpop is not None:
            for_bound = getattr(verify, "for_bound_tokens", None)
            #: A copy that also identifies the holders of tokens bound to a key. It does not check their proofs.
            self._of_bound = copy(self)
            self._of_bound._verify = verify if for_bound is None else for_bound()
            self._verify = self._verify_bearer

    def __repr__(self) -> str:
        verify = getattr(self, "_of_bound", self)._verify
        return f"<BearerAuth of {type(verify).__name__}, issuers {list(self.issuers)}, resource {self.resource!r}>"

    # --- the authorizer of an endpoint ------------------------------------------------------------------------

    def routes(self, endpoint: Authorization) -> Dict[str, Callable[[HTTPRequest], HTTPResponse]]:
        """Return the handlers of the protected resource metadata (RFC 9728, AUS-07); without an issuer there is none.

        The metadata is public, and a client in a web page, such as the Inspector, reads it before it knows anything else. So
        pages of any origin may read it. The ``Host`` is checked as everywhere, and the endpoint itself keeps its origins.
        """
        if not self.issuers and self.dpop is None:
            return {}
        if self.resource is None and not endpoint.origins.loopback_only:
            raise ValueError("clients must be told which URL their tokens are for; give BearerAuth(...,"
                             " resource='https://mcp.example.com/mcp')")

        def serve(request: HTTPRequest) -> HTTPResponse:
            return self._serve_metadata(request, endpoint)

        if not self.issuers:
            return {}
        ours = urlsplit(self.resource or "").path.rstrip("/")
        return {PROTECTED_RESOURCE + decoded_path(path): of_any_origin(serve, "GET") for path in ("", endpoint.path, ours)}

    def authenticate(self, request: HTTPRequest, endpoint: Authorization) -> Principal:
        token = request.headers.read_once(bearer_token)
        if token is None:
            if self.dpop is not None:
                return self._authenticate_by_proof(request, endpoint, self.dpop)
            raise Refused(401, "", "this server requires an access token; send 'Authorization: Bearer ...'")
        return self.identify(token, endpoint.url_of(request))

    def _authenticate_by_proof(self, request: HTTPRequest, endpoint: Authorization, dpop: "DPoP") -> Principal:
        from .dpop import bound_key

        token = bound_token(request.headers)
        resource = endpoint.url_of(request)
        if token is None:
            raise Refused(401, "", "this server requires an access token; send 'Authorization: DPoP ...' and a proof")
        if resource is None:
            raise Refused(401, "invalid_dpop_proof", "this server does not know its URL under this host and port")
        principal = self._of_bound.identify(token, resource)
        key = bound_key(principal)
        if key is None:
            raise _invalid("the token is not bound to a key; send it as 'Authorization: Bearer ...'")
        # HTTP+SSE serves other paths beside that of the endpoint.
        url = resource[:-len(endpoint.path)] + request.path if endpoint.path and resource.endswith(endpoint.path) else resource
        dpop.check(request.headers.all("dpop"), request.method, url, endpoint.backend, token=token, key=key)
        return principal

    def _verify_bearer(self, token: str) -> Optional[Principal]:
        assert self.dpop is not None
        if self.dpop.required:
            raise _invalid("this server requires tokens that are bound to a key (DPoP)")
        principal = self._of_bound._verify(token)
        if isinstance(principal, Principal) and "cnf" in principal.claims:
            raise _invalid("the token is bound to a key; send it as 'Authorization: DPoP ...', with a proof")
        return principal

    def challenge(self, endpoint: Authorization, resource: Optional[str], error: str, description: Optional[str],
                  scopes: Iterable[str]) -> str:
        metadata = _metadata_url(resource, endpoint.path) if resource is not None and self.issuers else None
        if self.dpop is None:
            return self.bearer_challenge(error, description, scopes, self.realm, metadata)
        from .dpop import PROOF_ERRORS

        named = list(scopes)
        bound = self.bearer_challenge(error, description, named, self.realm, metadata, "DPoP", self.dpop.algorithms)
        if self.dpop.required or error in PROOF_ERRORS:
            return bound
        return f"{self.bearer_challenge(error, description, named, self.realm, metadata)}, {bound}"

    def _serve_metadata(self, request: HTTPRequest, endpoint: Authorization) -> HTTPResponse:
        resource = endpoint.url_of(request)
        if resource is None:
            return HTTPResponse(404, [("Content-Type", "text/plain")],
                                [b"this server does not know its URL under this host and port\n"])
        scopes = endpoint.scopes() if self.scopes_supported is None else self.scopes_supported
        document: Dict[str, Any] = {
            "resource": resource, "authorization_servers": list(self.issuers), "bearer_methods_supported": ["header"],
            "dpop_signing_alg_values_supported": self.dpop and list(self.dpop.algorithms),
            "dpop_bound_access_tokens_required": True if self.dpop and self.dpop.required else None,
            "scopes_supported": list(dict.fromkeys(scopes)) or None,
            "resource_name": endpoint.info.title or endpoint.info.name, "resource_documentation": self.documentation}
        content = json.dumps({name: value for name, value in document.items() if value is not None})
        return HTTPResponse(200, [("Content-Type", "application/json")], [content.encode("ascii")])

    # --- tokens -------------------------------------------------------------------------------------------------

    def identify(self, token: str, resource: Optional[str]) -> Principal:
        """Return the principal of a token, with the scopes that its scopes include.

        :param resource: the URL of the endpoint; None if it is not known.
        :raises Refused: the token is not accepted; the text tells the sender nothing that they do not know.
        """
        principal = self._verified(token)
        self._check_audience(principal, resource)
        if self.issuers and principal.issuer and principal.issuer not in self.issuers:
            _log.info("a token of the issuer %.200r was refused; known are %s", principal.issuer, list(self.issuers))
            raise _invalid("the token was issued by another authorization server")
        if principal.expires_at is not None and principal.expires_at <= self._clock():
            raise _invalid("the token has expired")
        scopes = all_scopes(principal.scopes, self.implies) if self.implies else principal.scopes
        if scopes == principal.scopes:
            return principal
        return replace(principal, scopes=scopes)

    def _verified(self, token: str) -> Principal:
        try:
            found: Any = self._verify(token)
        except Refused:
            raise  # raised by _verify_bearer()
        except Exception as error:
            # A failing verifier admits no request (AUTH-17), and its error can quote the token (AUTH-19).
            if isinstance(error, OSError):
                _log.warning("a token could not be verified: %s",
                              _masked(token, f"{type(error).__name__}: {error}"))
                raise Refused(503, "", "the token cannot be verified at present; try again later") from None
            _log.error("a token could not be verified:\n%s", _masked(token, traceback.format_exc()))
            raise Refused(500, "", "Internal error") from None
        if found is None:
            raise _invalid("the token is not valid")
        if not isinstance(found, Principal):
            _log.error("the verifier %s returned %s instead of a Principal or None", type(self._verify).__name__,
                                 type(found).__name__)
            raise Refused(500, "", "Internal error")
        return found

    def _check_audience(self, principal: Principal, resource: Optional[str]) -> None:
        if principal.audience is ISSUED_HERE:
            return
        if not principal.audience:
            _log.warning("a token without an audience was refused, since it may be meant for any"
                          " server; have the authorization server issue tokens for %s, or use ISSUED_HERE as the audience of"
                          " tokens that this server issues itself", resource or self._audiences or "this server")
            raise _invalid("the token has no audience")
        if any(one == resource or one in self._audiences for one in principal.audience):
            return
        ours = None if resource is None else canonical(resource)
        if ours is not None and any(_canonical(one) == ours for one in principal.audience):
            return
        if ours is None and not self._audiences:
            _log.warning("a token for %.300s was refused, since this server does not know its own"
                          " URL; give BearerAuth(..., resource='https://...') or audience=", list(principal.audience))
        else:
            _log.info("a token for %.300s was refused; this server is %s", list(principal.audience),
                          [*self._audiences, *filter(None, [resource])])
        raise _invalid("the token is for another server")


def only(methods: str, answer: _Route) -> _Route:
    """Return a route that answers these methods only; any other gets status 405."""
    def route(request: HTTPRequest) -> HTTPResponse:
        if request.method not in methods.split(", "):
            return HTTPResponse(405, [("Content-Type", "text/plain"), ("Allow", methods), ("Connection", "close")])
        return answer(request)

    return route


def of_any_origin(answer: _Route, method: str) -> _Route:
    """Return a route that pages of any origin may use: it reads no cookies, so it does not act for the user of the browser."""
    def route(request: HTTPRequest) -> HTTPResponse:
        if request.method == "OPTIONS":
            return HTTPResponse(204, [("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Methods", method),
                                      ("Access-Control-Allow-Headers", "Content-Type, Authorization, MCP-Protocol-Version"),
                                      ("Access-Control-Max-Age", "86400")])
        response = only(f"{method}, HEAD, OPTIONS" if method == "GET" else f"{method}, OPTIONS", answer)(request)
        response.headers.append(("Access-Control-Allow-Origin", "*"))
        return response

    route.any_origin = frozenset({method, "HEAD", "OPTIONS"})  # type: ignore[attr-defined]
    return route


def _metadata_url(resource: str, at: str) -> str:
    """Return the public URL of the metadata, at a path that this server really serves.

    :param at: the path of the endpoint within its host.
    """
    base, path = base_of(resource), url_path(urlsplit(resource).path.rstrip("/"))
    if path == at or not path.endswith(at):
        return base + PROTECTED_RESOURCE + path
    # Mounted, or behind a proxy that strips a prefix: only paths below the prefix are sure to arrive here.
    return base + path[:len(path) - len(at)] + PROTECTED_RESOURCE + at


def _invalid(description: str) -> Refused:
    return Refused(401, "invalid_token", description)


def _texts(given: Union[None, str, Iterable[str]], what: str) -> Tuple[str, ...]:
    texts = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(text, str) and text for text in texts) or given is not None and not texts:
        raise ValueError(f"{what}= must be a string, or several, and not empty")
    return texts


def _canonical(audience: str) -> str:
    try:
        return canonical(audience) if "#" not in audience else ""
    except ValueError:
        return ""  # an identifier that is not a URL


def _masked(token: str, text: str) -> str:
    """Return *text* with the token masked: as it was sent, as it is quoted in a URL, and in pieces."""
    for piece in [token, quote(token, safe=""), *re.split(r"[^A-Za-z0-9_\-]", token)]:
        if len(piece) >= _SHORTEST_MASKED:
            text = text.replace(piece, "***")
    return text


#: Characters of a token; a shorter one can be guessed.
_SHORTEST = 16
_ADVICE = "create one with python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class StaticTokens:
    """Verifies tokens by comparing them with a list.

    :param tokens: a mapping from each token to its holder, a name or a :class:`Principal`. Or one token, or several; their
        holders get the names "token 1", "token 2", ... A principal without an audience gets ``ISSUED_HERE``.
    :param scopes: of the tokens whose holder is not given as a :class:`Principal`.
    :raises ValueError: there is no token, or one is too short, given twice, or cannot be sent in a header; the text does
        not quote it.
    """

    def __init__(self, tokens: Union[str, Iterable[str], Mapping[str, Union[str, Principal]]], *,
                 scopes: Union[str, Iterable[str]] = ()) -> None:
        known: Mapping[str, Union[str, Principal]]
        if isinstance(tokens, Mapping):
            known = tokens
        else:
            several = [tokens] if isinstance(tokens, str) else list(tokens)
            known = {token: f"token {number}" for number, token in enumerate(several, 1)}
            if len(known) < len(several):
                raise ValueError("a token is given twice")
        if not known:
            raise ValueError(f"no token is given, so that every request would be refused; {_ADVICE}")
        #: Digests only; the tokens themselves are not kept.
        self._known: List[Tuple[bytes, Principal]] = []
        for number, (token, holder) in enumerate(known.items(), 1):
            _check(token, number)
            principal = Principal(holder, scopes=scopes) if isinstance(holder, str) else holder
            if not isinstance(principal, Principal):
                raise ValueError(f"token number {number} is for {type(holder).__name__}; give a name or a Principal")
            if not principal.audience:
                principal = replace(principal, audience=ISSUED_HERE)
            self._known.append((_digest(token), principal))

    def __repr__(self) -> str:
        return f"<StaticTokens of {', '.join(repr(principal.subject) for _, principal in self._known)}>"

    def __call__(self, token: str) -> Optional[Principal]:
        """Return the principal of a token; None if it is not known. Takes the same time for every token."""
        digest, found = _digest(token), None
        for known, principal in self._known:
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def _check(token: object, number: int) -> None:
    if not isinstance(token, str) or not is_token(token):
        raise ValueError(f"token number {number} cannot be sent in a header; it may have letters, digits and -._~+/ only;"
                         f" {_ADVICE}")
    if len(token) < _SHORTEST:
        raise ValueError(f"token number {number} has {len(token)} characters, which can be guessed; it needs at least"
                         f" {_SHORTEST}; {_ADVICE}")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
