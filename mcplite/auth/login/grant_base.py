"""The base of all grants, the ways to obtain tokens; ``connect(..., auth=)`` takes any of them.

A grant keeps one :class:`~.token_cache.ServerTokens` for each server. ``login``, ``logout`` and ``token`` of the command line
use it without an MCP client, so the probe that shows whether a server requires a token stands here too.

Client registration: the client's metadata, dynamic registration, and registrations that are stored (AUC-22).

The code flow uses it when it meets an authorization server that does not know the client.
"""

import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import urlsplit

from ...errors import AuthError, TransportError
from ...net.exchange import Exchange
from ...net.origin_client import OriginClient
from ...net.settings import HTTPSettings, TokenProvider, Verify
from ...protocol.error_text import Option, OptionText, shown
from ...protocol.http.headers import POST_HEADERS
from ...protocol.http.oauth import Challenge, canonical, check_url, find_challenge, is_loopback, parse_challenges
from ...rpc.deadline import Deadline
from .discovery import AuthorizationServer, ProtectedResource, find_resource, same_issuer
from .jwt_signing import Proofs
from .stores import MemoryStore, Store
from .token_cache import ServerTokens, TokenFlow
from .token_endpoint import ClientIdentity, Credentials, TokenEndpoint
from .web import Web

__all__ = [
    "Grant", "check_document_url", "choose_method", "client_metadata", "delete_registration", "find_authorization",
    "find_registration", "register",
]

#: Seconds that a read or write blocks at most.
_SLICE_SECONDS = 0.25
#: Seconds for the request that finds out whether a server wants a token.
_PROBE_SECONDS = 30.0
#: Servers that one grant remembers, the one that was used last at the end (AUTH-45); the store has more.
_MOST_SERVERS = 1000
#: The request that shows whether a server requires a token.
_PING = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'


def _slice() -> float:
    return _SLICE_SECONDS


class Grant(TokenFlow, TokenProvider):
    """A way to get tokens; one object serves any number of servers and clients, from any thread.

    :param issuer: the only authorization server that is trusted; None for the one that the MCP server names.
    :param scopes: to ask for, besides those that the server's refusal names, and in place of those of its metadata; a list,
        or one text with blanks.
    :param store: where tokens are kept; by default in memory.
    :param dpop: binds tokens to a key of this client's (RFC 9449).
    :raises ValueError: an option cannot be used.
    """

    def __init__(self, *, issuer: Optional[str] = None, scopes: Union[str, Sequence[str]] = (), store: Optional[Store] = None,
                 dpop: bool = False) -> None:
        if store is not None and (isinstance(store, type) or not hasattr(store, "lock")):
            raise ValueError(f"store= is a Store such as FileStore('tokens.json'), not {store!r:.100}")
        self.issuer = issuer
        self.scopes = scopes.split() if isinstance(scopes, str) else list(scopes)
        self.store = MemoryStore() if store is None else store
        self.dpop = dpop
        #: Guards ``_servers``; held for dictionary work.
        self._lock = threading.Lock()
        self._servers: Dict[str, ServerTokens] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{'' if self.issuer is None else f' at {self.issuer}'}>"

    def tokens_for(self, url: str, settings: HTTPSettings = HTTPSettings()) -> ServerTokens:
        """Return the token source of one server, which is the same for all of its clients.

        :param settings: how authorization servers are reached, from now on by all of those clients.
        :raises ValueError: a token would travel in the clear to that URL.
        """
        name = canonical(url)
        with self._lock:
            known = self._servers.pop(name) if name in self._servers else ServerTokens(self, url, settings)
            self._servers[name] = known
            if len(self._servers) > _MOST_SERVERS:
                del self._servers[next(iter(self._servers))]
            # The latest settings win: earlier ones may be outdated.
            known.settings = settings
            return known

    @property
    def given_urls(self) -> Sequence[str]:
        return [self.issuer] if self.issuer else []

    def accepts(self, credentials: Credentials) -> bool:
        return self.issuer is None or same_issuer(self.issuer, credentials.issuer)

    def endpoint(self, web: Web, server: AuthorizationServer, proofs: Optional[Proofs]) -> TokenEndpoint:
        return TokenEndpoint(web, server, proofs)

    def on_client_unknown(self, client: ClientIdentity) -> None:
        """Do nothing: most clients are registered by hand."""

    # --- without an MCP client --------------------------------------------------------------------------

    def login(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> Credentials:
        """Obtain a token for a server now, whatever is stored; return it.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: no token could be obtained, or the server wants none.
        :raises TransportError: the server cannot be reached.
        """
        settings = HTTPSettings(verify=verify, proxies=proxies)
        tokens = self.tokens_for(url, settings)
        status, challenge, address = _probe(url, settings)
        # Some servers require a token for a few operations only; their metadata says that there is something to log in to.
        if status not in (401, 403) and not find_authorization(url, verify=verify, proxies=proxies).described:
            raise AuthError(f"{shown(url)} wants no authorization (it answered {status} to a request without)")
        return tokens.log_in(challenge, Exchange(_slice), address)

    def logout(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> bool:
        """Drop the tokens for a server, and have them revoked; return whether there were any.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: they are dropped, but could not be revoked.
        """
        return self.tokens_for(url, HTTPSettings(verify=verify, proxies=proxies)).forget(Exchange(_slice))

    def token(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> Optional[str]:
        """Return the stored token for a server, refreshed if it has expired; None when there is no valid one.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: it could not be refreshed.
        """
        return self.tokens_for(url, HTTPSettings(verify=verify, proxies=proxies)).token(Exchange(_slice))


def find_authorization(url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> ProtectedResource:
    """Return what the MCP server at *url* says of its authorization: its resource, its authorization servers, its scopes.

    For people who want to know which ``issuer=`` to trust; a program that trusts the result unseen gains nothing by it.

    :param verify: as for :func:`connect`; so is *proxies*.
    :raises AuthError: the server says nothing that can be used.
    :raises TransportError: it cannot be reached.
    """
    settings = HTTPSettings(verify=verify, proxies=proxies)
    _, challenge, address = _probe(url, settings)
    with Web(url, settings, address=address) as web:
        return find_resource(web, url, challenge, {})


def _probe(url: str, settings: HTTPSettings) -> Tuple[int, Optional[Challenge], Optional[str]]:
    """Return status and challenge of a server's answer to a request without a token, and the address that it came from.

    :raises TransportError: it cannot be reached, or does not answer.
    """
    deadline = Deadline(_PROBE_SECONDS)

    def next_timeout() -> float:
        if deadline.expired:
            raise TransportError(f"{shown(url)} did not answer within {_PROBE_SECONDS:g} s")
        return _SLICE_SECONDS

    client, exchange = OriginClient(url, settings), Exchange(next_timeout, deadline.remaining)
    exchange.records_address = True
    try:
        reply = client.send(exchange, "POST", None, POST_HEADERS, _PING)
        reply.close()
        challenges = parse_challenges(reply.headers.get("www-authenticate") or "")
        return reply.status, find_challenge(challenges, "dpop", "bearer"), reply.address
    finally:
        client.close()


#: The methods of a client that registers itself, in the order of preference: a program on a user's machine cannot keep a
#: secret, and the official Python SDK's servers, which have both of the others, look for the client's id in the form.
_METHODS = ("none", "client_secret_post", "client_secret_basic")
#: Those of a client with a secret that was registered by hand; each server has to know the first (RFC 6749, section 2.3.1).
_SECRET_METHODS = ("client_secret_basic", "client_secret_post")
#: Characters of a client's id, which is a part of the URL that a user may have to copy.
_LONGEST_ID = 4_000

#: Epoch seconds from which on a time counts as never; JSON can have larger numbers, and infinity.
_LATEST = 10 ** 11


def check_document_url(url: str) -> str:
    """Return a URL that can be a client's id (AUC-25).

    :raises ValueError: it is not of https, or has no path.
    """
    parts = urlsplit(url)
    try:
        check_url(url, "client_metadata_url=")
        fits = parts.scheme == "https" and parts.path not in ("", "/") and not parts.fragment
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(OptionText(_document_option(url), ": the document about a client is at an https URL with a path"))
    if any(segment in (".", "..") for segment in parts.path.split("/")):
        raise ValueError(OptionText(_document_option(url), " has dots in its path"))
    return url


def client_metadata(client_name: str, redirect_uris: Sequence[str], *, url: Optional[str] = None,
                    application_type: Optional[str] = None, method: str = "none", scopes: Sequence[str] = ()) -> Dict[str, Any]:
    """Return the metadata of a client: for a registration, or for the document that is hosted at *url* (AUC-26).

    :param client_name: the program's name, for the user to read at the login.
    :param redirect_uris: the URLs that a browser may come back to.
    :param url: of the document, which is the client's id there; None for a registration.
    :param application_type: "native" or "web"; by default derived from the redirect URIs (AUC-30).
    :param method: how the client authenticates at the token endpoint.
    :param scopes: the scopes that the client may ask for; without any, the server decides.
    :raises ValueError: *url* cannot be the id of a client.
    """
    native = all(is_loopback(urlsplit(uri).hostname or "") or urlsplit(uri).scheme not in ("http", "https")
                 for uri in redirect_uris)
    document: Dict[str, Any] = {
        "client_name": client_name, "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": application_type or ("native" if native else "web"),
    }
    if scopes:
        document["scope"] = " ".join(scopes)
    return document if url is None else {"client_id": check_document_url(url), **document}


def _document_option(url: str) -> Option:
    return Option("client_metadata_url", f"client_metadata_url={url!r}", url)


def choose_method(supported: Sequence[str], has_secret: bool, issuer: str) -> str:
    """Return how to authenticate at a token endpoint (AUC-50).

    :param has_secret: whether the client has one already; else it is about to register.
    :raises AuthError: the server supports no method of this client's.
    """
    wanted = _SECRET_METHODS if has_secret else _METHODS
    method = next((method for method in wanted if method in supported), None)
    if method is None:
        raise AuthError(f"{issuer} lets clients authenticate by {', '.join(supported)[:200]} only, and this one can do"
                        f" {', '.join(wanted)}")
    return method


def find_registration(store: Store, issuer: str, redirect_uri: Optional[str]) -> Optional[ClientIdentity]:
    """Return the stored registration at an issuer; None if there is none, or it cannot be used any more.

    :param redirect_uri: that it has to be for; None for any.
    """
    record = store.load(_key(issuer))
    if record is None:
        return None
    try:
        client = ClientIdentity(**record)
    except TypeError:
        return None
    fits = client.issuer == issuer and not client.expired and (redirect_uri is None or redirect_uri in client.redirect_uris)
    return client if fits else None


def delete_registration(store: Store, issuer: str) -> None:
    """Delete the stored registration at an issuer, which no longer knows it."""
    store.delete(_key(issuer))


def _key(issuer: str) -> str:
    return f"client {issuer}"


def register(web: Web, server: AuthorizationServer, metadata: Dict[str, Any], store: Store) -> ClientIdentity:
    """Register with an authorization server (RFC 7591), and store the registration.

    :param metadata: as :func:`client_metadata` makes it.
    :raises AuthError: the server has no registration, or refused; then with its reason (AUC-31).
    """
    if server.registration_endpoint is None:
        raise AuthError(OptionText(
            f"{server.issuer} has no dynamic registration: register a client with it, and give ", Option("client_id"), " (and ",
            Option("client_secret"), ") with ", Option("issuer", f"issuer={server.issuer!r}", server.issuer)))
    answer = web.post_json(server.registration_endpoint, "the registration endpoint", metadata)
    if not answer.accepted:
        by_hand = OptionText("; it may want a client that was registered by hand: ", Option("client_id"), " with ",
                             Option("issuer"))
        if server.pkce is None:  # without metadata it may be no authorization server at all (AUM-11)
            by_hand = OptionText(by_hand, "; or it issues no tokens itself: then ask its operator for one, and give it as ",
                                 Option("auth", "auth='...'"))
        hint = {
            "invalid_redirect_uri": OptionText(f"; it was asked for {', '.join(metadata['redirect_uris'])}: see ",
                                               Option("redirect_uri")),
            "invalid_client_metadata": OptionText("; see ", Option("client_name"), ", ", Option("redirect_uri"),
                                                  " and application_type=") if "scope" not in metadata else OptionText(
                f"; it was asked for the scopes {metadata['scope'][:200]}: see ", Option("scopes")),
        }.get(answer.error, by_hand)
        raise AuthError(OptionText(f"{server.issuer} did not register this client: {answer.explain()}", hint),
                        error=answer.error)
    client = _identity(answer.document, server, metadata)
    store.save(_key(server.issuer), client.record())
    return client


def _identity(document: Mapping[str, Any], server: AuthorizationServer, metadata: Mapping[str, Any]) -> ClientIdentity:
    issuer, id, secret = server.issuer, document.get("client_id"), document.get("client_secret")
    if not isinstance(id, str) or not id:
        raise AuthError(f"{issuer} answered a registration without a client_id")
    if len(id) > _LONGEST_ID:
        raise AuthError(f"{issuer} answered a registration with a client_id of {len(id)} characters, which is not used; it may"
                        f" have {_LONGEST_ID}")
    has_secret = isinstance(secret, str) and bool(secret)
    named = document.get("token_endpoint_auth_method")
    method = named or metadata["token_endpoint_auth_method"]
    if method == "none" and has_secret and not named:
        # RFC 7591, section 2: without a method it is the first of these.
        method = next((method for method in _SECRET_METHODS if method in server.methods), _SECRET_METHODS[0])
    if method not in _METHODS:
        raise AuthError(f"{issuer} registered this client to authenticate by {str(method)[:50]!r}, which it does not support")
    if method != "none" and not has_secret:
        method = "none"
    uris = document.get("redirect_uris")
    registered: List[str] = [uri for uri in uris if isinstance(uri, str)] if isinstance(uris, list) else []
    end = document.get("client_secret_expires_at")
    lasting = isinstance(end, bool) or not isinstance(end, (int, float)) or not 0 < end < _LATEST
    return ClientIdentity(
        issuer, id, secret if has_secret else None, str(method), registered or list(metadata["redirect_uris"]),
        None if lasting else float(end), True if has_secret and not named else None)  # type: ignore[arg-type]
