"""From an MCP server to the authorization server that it trusts, by the metadata of both.

Every revision has its own way, and each is a part of one order (AUC-05): the metadata of the protected resource, named in
the challenge or at its well-known places; then the authorization server's, by RFC 8414 or OpenID; and, for servers of
2025 that have no metadata of their own, the authorization server at the root of their host.
"""

import logging
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence
from urllib.parse import urlsplit

from ...errors import AuthError
from ...protocol.http.challenges import Challenge
from ...protocol.http.wellknown import base_of, canonical, check_url, covers, issuer_metadata_urls, resource_metadata_urls
from ...protocol.show import shown
from .web import Web

__all__ = ["OFFLINE_ACCESS", "AuthorizationServer", "ProtectedResource", "choose_issuer", "find_resource", "find_server"]

_log = logging.getLogger(__name__)
#: The scope by which a client asks for a refresh token, where there is such a scope (AUC-47).
OFFLINE_ACCESS = "offline_access"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")
_RESOURCE = "the metadata of the MCP server"
_SERVER = "the metadata of the authorization server"


@dataclass
class ProtectedResource:
    """What an MCP server says about who may use it (RFC 9728)."""

    #: As it is written there; sent along with every request for a token (AUC-13).
    resource: str
    #: Authorization servers, as they are written there.
    issuers: List[str]
    scopes: Optional[List[str]] = None
    #: False for a server that has no such metadata: it is its own authorization server, by the rules of its time (AUM-11).
    described: bool = True


@dataclass
class AuthorizationServer:
    """What an authorization server says about itself (RFC 8414)."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: Optional[str] = None
    registration_endpoint: Optional[str] = None
    revocation_endpoint: Optional[str] = None
    #: How clients may say who they are at the token endpoint; RFC 8414 has a default.
    methods: List[str] = field(default_factory=lambda: ["client_secret_basic"])
    scopes: Sequence[str] = ()
    #: Whether it says that it can S256; None when it has no metadata at all.
    pkce: Optional[bool] = None
    #: Whether each of its answers names it (RFC 9207).
    names_itself: bool = False
    #: Whether a client's id may be the URL of a document about it.
    takes_documents: bool = False


def find_resource(web: Web, url: str, challenge: Optional[Challenge], headers: Mapping[str, str]) -> ProtectedResource:
    """Return the metadata of the MCP server at *url*.

    :param challenge: what it answered, which may name the place.
    :param headers: for requests to it, such as the protocol's version (AUM-03).
    :raises AuthError: the metadata is of another server, or names no authorization server.
    """
    named = None if challenge is None else challenge.get("resource_metadata")
    places = resource_metadata_urls(url)
    for place in dict.fromkeys([named, *places] if named else places):
        document = web.get(_checked(place, _RESOURCE), _RESOURCE, headers)
        if document is not None:
            return _resource(document, url, place)
    base = base_of(url)
    return ProtectedResource(canonical(url), [base], described=False)


def _resource(document: Dict[str, Any], url: str, place: str) -> ProtectedResource:
    resource = document.get("resource")
    if not isinstance(resource, str) or not covers(resource, url):
        # AUC-06: a token for it would be somebody else's to use.
        raise AuthError(f"{_RESOURCE} at {shown(place)[:200]} is about {str(resource)[:200].partition('?')[0]!r} and not about"
                        f" {shown(canonical(url))}, so no token is asked for. The server's operator has to set the URL that"
                        " clients use as its resource")
    issuers = _texts(document.get("authorization_servers"))
    if not issuers:
        raise AuthError(f"{_RESOURCE} at {shown(place)[:200]} names no authorization server")
    return ProtectedResource(resource, issuers, _texts(document.get("scopes_supported")))


def choose_issuer(resource: ProtectedResource, wanted: Optional[str], known: Optional[str]) -> str:
    """Return the authorization server to use, as it is written in the metadata.

    :param wanted: the only one that the caller trusts.
    :param known: the one that was used before.
    :raises AuthError: the caller's is not among those that the server names (AUC-34, AUTH-31).
    """
    if wanted is not None:
        if resource.described and wanted not in resource.issuers:
            raise AuthError(f"{shown(resource.resource)} wants a token of {' or '.join(resource.issuers)[:400]}, but"
                            f" issuer={wanted!r} was given; what is meant for one authorization server is never sent to another")
        if not resource.described and wanted.rstrip("/") != resource.issuers[0]:
            raise AuthError(f"{shown(resource.resource)} says of no authorization server that it trusts it, so that it may be its"
                            f" own, {resource.issuers[0]}; but issuer={wanted!r} was given")
        return wanted
    return known if known is not None and known in resource.issuers else resource.issuers[0]


def find_server(web: Web, issuer: str, described: bool, headers: Mapping[str, str]) -> AuthorizationServer:
    """Return the metadata of an authorization server.

    :param described: False when only its place was guessed: then it need not have any (AUM-04).
    :raises AuthError: there is none that speaks for this issuer (AUC-09), or its endpoints may not be used.
    """
    _checked(issuer, "the authorization server")
    foreign: List[str] = []
    # AUM-02: what is only guessed is asked in the one way that servers of that time know.
    places = issuer_metadata_urls(issuer) if described else issuer_metadata_urls(issuer)[:1]
    base = issuer.rstrip("/")
    for place in places:
        document = web.get(place, _SERVER, headers)
        if document is None:
            continue
        named = document.get("issuer")
        if named == issuer or (not described and isinstance(named, str) and named.rstrip("/") == base):
            return _server(document, str(named), described)
        foreign.append(f"{place} speaks for {str(named)[:200]!r}")
    if foreign:
        raise AuthError(f"no metadata was found that speaks for the authorization server {issuer[:200]!r}: {'; '.join(foreign)}")
    if described:
        raise AuthError(f"the authorization server {issuer[:200]} has no metadata; asked: {', '.join(places)[:600]}")
    _log.info("%s describes neither itself nor an authorization server; its default endpoints are used", issuer)
    return AuthorizationServer(issuer, f"{base}/token", f"{base}/authorize", f"{base}/register", methods=[
        "none", "client_secret_basic", "client_secret_post"])


def _server(document: Dict[str, Any], issuer: str, described: bool) -> AuthorizationServer:
    endpoints: Dict[str, Any] = {}
    for name in _ENDPOINTS:
        url = document.get(name)
        if url is not None:
            endpoints[name] = _checked(url, f"the {name} of {issuer[:200]}")
            if urlsplit(url).fragment:
                raise AuthError(f"the {name} of {issuer[:200]} has a fragment, which no endpoint may have")
    if "token_endpoint" not in endpoints:
        raise AuthError(f"{_SERVER} {issuer[:200]} names no token_endpoint")
    server = AuthorizationServer(issuer, **endpoints)
    methods = _texts(document.get("token_endpoint_auth_methods_supported"))
    if methods:
        server.methods = methods
    server.scopes = _texts(document.get("scopes_supported")) or ()
    server.pkce = "S256" in (_texts(document.get("code_challenge_methods_supported")) or ())
    if not described and "code_challenge_methods_supported" not in document:
        server.pkce = None  # PKCE was asked of those servers before they could say so (AUC-12 is of late 2025)
    server.names_itself = document.get("authorization_response_iss_parameter_supported") is True
    server.takes_documents = document.get("client_id_metadata_document_supported") is True
    return server


def _texts(value: Any) -> Optional[List[str]]:
    """Return the texts of a list; None when there are none."""
    return [item for item in value if isinstance(item, str) and item] or None if isinstance(value, list) else None


def _checked(url: Any, what: str) -> str:
    try:
        return check_url(url, what)
    except ValueError as error:
        raise AuthError(str(error)) from error
