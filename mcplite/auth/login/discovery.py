"""Discovery: from an MCP server to the authorization server that it trusts, by the metadata of both; and the scopes to ask for.

One order serves all revisions (AUC-05): the metadata of the protected resource, named in the challenge or at its well-known
URLs; then the metadata of the authorization server, by RFC 8414 or OpenID; and for servers of early 2025, which have no
metadata of their own, the authorization server at the root of their host.

A server that is never content with the scopes of a token must not have the user log in with every call. So what logins have
brought is remembered for some minutes.
"""

import time
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from ...errors import AuthError
from ...protocol.error_text import Option, OptionText, shown
from ...protocol.http.oauth import (
    Challenge,
    base_of,
    canonical,
    check_url,
    covers,
    issuer_metadata_urls,
    resource_metadata_urls,
)
from ...rpc.tracing import get_logger
from .web import Web

__all__ = [
    "AuthorizationServer", "LoginHistory", "OFFLINE_ACCESS", "ProtectedResource", "choose_issuer", "choose_scopes",
    "find_resource", "find_server", "same_issuer",
]

_log = get_logger(__name__)
#: The scope by which a client asks for a refresh token, if the server has it (AUC-47).
OFFLINE_ACCESS = "offline_access"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")
_RESOURCE = "the metadata of the MCP server"
_SERVER = "the metadata of the authorization server"


@dataclass
class ProtectedResource:
    """The metadata of an MCP server: its authorization servers and scopes (RFC 9728)."""

    #: As the metadata writes it; sent with every request for a token (AUC-13).
    resource: str
    #: Authorization servers, as the metadata writes them.
    issuers: List[str]
    scopes: Optional[List[str]] = None
    #: False for a server that names no authorization server: by the rules of early 2025 it is its own (AUM-11).
    described: bool = True


@dataclass
class AuthorizationServer:
    """The metadata of an authorization server (RFC 8414)."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: Optional[str] = None
    registration_endpoint: Optional[str] = None
    revocation_endpoint: Optional[str] = None
    #: How clients may authenticate at the token endpoint; the default is that of RFC 8414.
    methods: List[str] = field(default_factory=lambda: ["client_secret_basic"])
    scopes: Sequence[str] = ()
    #: Whether it says that it supports PKCE with S256; None when it has no metadata at all.
    pkce: Optional[bool] = None
    #: Whether each of its authorization responses names it (RFC 9207).
    names_issuer: bool = False
    #: Whether a client's id may be the URL of a document about the client.
    accepts_client_documents: bool = False


def find_resource(web: Web, url: str, challenge: Optional[Challenge], headers: Mapping[str, str]) -> ProtectedResource:
    """Return the metadata of the MCP server at *url*.

    :param challenge: of its response, which may name the metadata's URL.
    :param headers: for requests to it, such as the protocol's version (AUM-03).
    :raises AuthError: the metadata is of another server, or names its authorization servers in a way that cannot be read;
        or none was found, and a place where it may be has failed.
    """
    candidates = resource_metadata_urls(url)
    named = None if challenge is None else challenge.get("resource_metadata")
    if named:
        try:
            candidates.insert(0, check_url(named, _RESOURCE))
        except ValueError as error:  # behind a proxy some servers write http:// or a path
            _log.info("%s; the well-known URLs are asked", error)
    failures: List[AuthError] = []
    for candidate, document in _documents(web, dict.fromkeys(candidates), _RESOURCE, headers, failures):
        if "resource" in document:
            return _resource(document, url, candidate)
    if failures:
        # Later there may be metadata: a login elsewhere meanwhile would end the one that there is.
        raise failures[0]
    return ProtectedResource(canonical(url), [base_of(url)], described=False)


def _documents(web: Web, candidates: Iterable[str], what: str, headers: Mapping[str, str],
               failures: List[AuthError]) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Return the JSON objects at some URLs, each with its URL; a page, a redirect or nothing in its place is none.

    :param failures: gets the errors of servers that cannot be reached or have failed, which may have one later.
    """
    for candidate in candidates:
        try:
            document = web.get(candidate, what, headers)
        except AuthError as error:
            if not 0 < error.status < 500:
                failures.append(error)
            continue
        if document is not None:
            yield candidate, document


def same_issuer(one: str, other: str) -> bool:
    """Return whether two texts name one issuer: a last slash, which libraries add and drop, makes no difference."""
    return one == other or f"{one}/" == other or one == f"{other}/"


def _resource(document: Dict[str, Any], url: str, found_at: str) -> ProtectedResource:
    resource = document["resource"]
    if not isinstance(resource, str) or not covers(resource, url):
        # AUC-06: another server could use a token for that resource.
        raise AuthError(f"{_RESOURCE} at {shown(found_at)[:200]} is about {str(resource)[:200].partition('?')[0]!r} and not"
                        f" about {shown(canonical(url))}, so no token is asked for. The server's operator has to set the URL"
                        " that clients use as its resource")
    named, scopes = document.get("authorization_servers"), _texts(document.get("scopes_supported"))
    if not (any(named) if isinstance(named, list) else named):
        return ProtectedResource(resource, [base_of(url)], scopes, described=False)
    issuers = _texts(named)
    if not issuers:
        raise AuthError(f"{_RESOURCE} at {shown(found_at)[:200]} names no authorization server: authorization_servers must be"
                        " a list of URLs")
    return ProtectedResource(resource, issuers, scopes)


def choose_issuer(resource: ProtectedResource, wanted: Optional[str], known: Optional[str]) -> str:
    """Return the authorization server to use, as it is written in the metadata.

    :param wanted: the only one that the caller trusts; None for any.
    :param known: the one that was used before; None for none.
    :raises AuthError: the server does not name the one that the caller trusts (AUC-34, AUTH-31).
    """
    if wanted is not None:
        given = Option("issuer", f"issuer={wanted!r}", wanted)
        if resource.described and wanted not in resource.issuers:
            raise AuthError(OptionText(
                f"{shown(resource.resource)} wants a token of {' or '.join(resource.issuers)[:400]}, but ", given, " was given;"
                " credentials for one authorization server are never sent to another"))
        if not resource.described and not same_issuer(wanted, resource.issuers[0]):
            raise AuthError(OptionText(
                f"{shown(resource.resource)} names no authorization server, so that it is taken for its own,"
                f" {resource.issuers[0]}; but ", given, " was given"))
        return wanted
    again = (issuer for issuer in resource.issuers if known is not None and same_issuer(issuer, known))
    return next(again, resource.issuers[0])


def find_server(web: Web, issuer: str, described: bool, headers: Mapping[str, str]) -> AuthorizationServer:
    """Return the metadata of an authorization server.

    :param described: False if its URL was guessed: then it need not have metadata (AUM-04).
    :raises AuthError: no metadata is of this issuer (AUC-09), or its endpoints may not be used; or none was found, and a
        place where it may be has failed.
    """
    _checked(issuer, "the authorization server")
    foreign: List[str] = []
    failures: List[AuthError] = []
    # AUM-02: the servers of that time know a single URL.
    candidates = issuer_metadata_urls(issuer) if described else issuer_metadata_urls(issuer)[:1]
    for candidate, document in _documents(web, candidates, _SERVER, headers, failures):
        named = document.get("issuer")
        if isinstance(named, str) and same_issuer(named, issuer):
            return _server(document, named, described)
        if "issuer" in document:
            foreign.append(f"{candidate} is of {str(named)[:200]!r}")
    if foreign:
        raise AuthError(f"no metadata was found of the authorization server {issuer[:200]!r}: {'; '.join(foreign)}")
    if failures:
        raise failures[0]
    base = issuer.rstrip("/")
    if described:
        raise AuthError(f"the authorization server {issuer[:200]} has no metadata; asked: {', '.join(candidates)[:600]}")
    _log.info("%s has no metadata as an authorization server; its default endpoints are used", issuer)
    return AuthorizationServer(issuer, f"{base}/token", f"{base}/authorize", f"{base}/register", methods=[
        "none", "client_secret_basic", "client_secret_post"])


def _server(document: Dict[str, Any], issuer: str, described: bool) -> AuthorizationServer:
    endpoints: Dict[str, Any] = {}
    for name in _ENDPOINTS:
        url = document.get(name)
        if url is not None and url != "":  # some gateways write "" for an endpoint that they do not have
            endpoints[name] = _checked(url, f"the {name} of {issuer[:200]}")
            if urlsplit(url).fragment:
                raise AuthError(f"the {name} of {issuer[:200]} has a fragment, which no endpoint may have")
    if "token_endpoint" not in endpoints:
        raise AuthError(f"{_SERVER} {issuer[:200]} names no token_endpoint")
    issuer_server = AuthorizationServer(issuer, **endpoints)
    methods = _texts(document.get("token_endpoint_auth_methods_supported"))
    if methods:
        issuer_server.methods = methods
    issuer_server.scopes = _texts(document.get("scopes_supported")) or ()
    issuer_server.pkce = "S256" in (_texts(document.get("code_challenge_methods_supported")) or ())
    if not described and "code_challenge_methods_supported" not in document:
        issuer_server.pkce = None  # clients had to use PKCE before servers could announce it (AUC-12 is of late 2025)
    issuer_server.names_issuer = document.get("authorization_response_iss_parameter_supported") is True
    issuer_server.accepts_client_documents = document.get("client_id_metadata_document_supported") is True
    return issuer_server


def _texts(value: Any) -> Optional[List[str]]:
    """Return the texts of a list; None for an empty list, or for anything else."""
    return [item for item in value if isinstance(item, str) and item] or None if isinstance(value, list) else None


def _checked(url: Any, what: str) -> str:
    try:
        return check_url(url, what)
    except ValueError as error:
        raise AuthError(str(error)) from error


#: Seconds in which a user is not asked again for what did not help (AUC-44).
_REMEMBERED = 600.0
#: How often more is asked for in that time when it does not help (AUTH-29).
_MOST_STEPS = 3


def choose_scopes(challenge: Optional[Challenge], resource: ProtectedResource, issuer_server: AuthorizationServer,
                  given: Sequence[str], granted: Sequence[str], offline: bool) -> List[str]:
    """Return the scopes to ask for: those of the challenge, else all of the metadata, else none beside the caller's (AUC-39).

    The caller knows which scopes are needed, so that scopes of the caller take the place of the metadata's; they are
    asked for beside those of a challenge.

    :param given: by the caller; empty if the server's word counts.
    :param granted: before; they are asked for again with the new ones (AUC-43).
    :param offline: whether a refresh token is wanted.
    """
    named = None if challenge is None else challenge.scopes
    base = named or [scope for scope in given if scope != OFFLINE_ACCESS] or resource.scopes or ()
    chosen = [scope for scope in dict.fromkeys([*granted, *base, *given]) if scope != OFFLINE_ACCESS]
    if offline and chosen and OFFLINE_ACCESS in issuer_server.scopes:
        chosen.append(OFFLINE_ACCESS)  # AUC-47: only where the server knows it
    return chosen


class LoginHistory:
    """What the logins for one server have brought lately.

    It changes under the token lock of that server, or by assignments that need none.

    :param name: of the server, for errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        #: When each set of scopes was asked for.
        self._asked: Dict[FrozenSet[str], float] = {}
        #: When more was granted, and was not enough.
        self._insufficient: List[float] = []
        #: When tokens were refused that a login had just given, and whether the server has accepted one since.
        self._refused: List[float] = []
        self._accepted = False

    def clear(self) -> None:
        """Forget everything: a user has asked for a login."""
        self._asked, self._insufficient, self._refused = {}, [], []

    def on_step_up(self, scopes: Sequence[str], challenge: Optional[Challenge]) -> None:
        """Note that a user is about to be asked for more scopes.

        :raises AuthError: the same scopes were asked for a short time ago (AUC-44).
        """
        wanted, now = frozenset(scopes), time.monotonic()
        if now - self._asked.get(wanted, now - _REMEMBERED) < _REMEMBERED:
            named = " ".join((challenge and challenge.scopes) or scopes)
            raise AuthError(f"{self._name} wants the scopes {named}, which were asked for already, but not granted or not"
                            " enough")
        self._asked = {asked: at for asked, at in self._asked.items() if now - at < _REMEMBERED}
        self._asked[wanted] = now

    def forget_step_up(self, scopes: Sequence[str]) -> None:
        """Note that asking for these scopes failed for another reason than a user's refusal, so that it may be repeated."""
        self._asked.pop(frozenset(scopes), None)

    def on_insufficient(self) -> None:
        """Note that the server has refused the scopes that it had asked for (AUTH-29)."""
        self._insufficient = [*self._insufficient, time.monotonic()][-_MOST_STEPS:]

    @property
    def exhausted(self) -> bool:
        """Whether more scopes were granted so often without being enough that no more are asked for."""
        since = time.monotonic() - _REMEMBERED
        return sum(at > since for at in self._insufficient) >= _MOST_STEPS

    def on_token_refused(self) -> None:
        """Note that the server has refused a token that a login had just given (AUTH-48)."""
        self._refused, self._accepted = [*self._refused, time.monotonic()][-_MOST_STEPS:], False

    def on_token_accepted(self) -> None:
        """Note that the server has accepted a token."""
        self._accepted = True

    @property
    def useless(self) -> bool:
        """Whether logins have not helped lately: no token was accepted since, or too many were refused."""
        since = time.monotonic() - _REMEMBERED
        recent = sum(at > since for at in self._refused)
        return recent >= _MOST_STEPS or bool(recent and not self._accepted)
