"""The authorization code flow: a user logs in with a browser once, and the program gets tokens.

``connect(auth=OAuth())`` and the command line use it. :class:`AuthorizationRequest` has the checks of the redirect, which
are tested without a browser. A client that an authorization server does not know registers itself (RFC 7591), and the
registration is stored (AUC-22).
"""

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Union
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from ...errors import AuthError
from ...protocol.error_text import Option, OptionText, one_line
from ...protocol.http.oauth import check_url, is_loopback
from ...protocol.opaque import base64url_encode
from ...rpc.tracing import get_logger
from .discovery import OFFLINE_ACCESS, AuthorizationServer
from .grant_base import Grant, TokenRequest
from .stores import Store
from .token_endpoint import METHODS, SECRET_METHODS, ClientIdentity, Credentials, choose_method, client_by_hand
from .web import Web

if TYPE_CHECKING:
    from .user_agent import UserAgent, Visit

__all__ = ["AuthorizationRequest", "OAuth", "check_document_url", "client_metadata", "find_registration", "register"]

_log = get_logger(__name__)
#: Characters of a server's error description that are shown.
_LONGEST_DESCRIPTION = 200
#: Characters of the URL to log in at, which a user may have to copy; servers take half of it or less.
_LONGEST_URL = 16_000
#: Codes by which an authorization server says that it does not know a client.
_UNKNOWN_CLIENT = ("invalid_client", "unauthorized_client")


class AuthorizationRequest:
    """One authorization request, and what is needed to check and use its answer (AUC-35).

    :param issuer_server: its issuer is the one that the answer has to name.
    :param redirect_uri: to the letter as it was registered (AUTH-42).
    :param resource: the MCP server, as its metadata writes it.
    :param prompt: as for :class:`OAuth`.
    :raises AuthError: the URL to log in at would be too long to be shown to a user.
    """

    def __init__(self, issuer_server: AuthorizationServer, client: ClientIdentity, redirect_uri: str, resource: str,
                 scopes: Sequence[str], prompt: Optional[str] = None) -> None:
        self._issuer_server = issuer_server
        self._redirect_uri = redirect_uri
        #: 32 random bytes each (AUTH-20, AUTH-21).
        self._verifier = secrets.token_urlsafe(32)
        self.state = secrets.token_urlsafe(32)
        digest = hashlib.sha256(self._verifier.encode("ascii")).digest()
        parameters = {
            "response_type": "code", "client_id": client.client_id, "redirect_uri": redirect_uri, "state": self.state,
            "code_challenge": base64url_encode(digest), "code_challenge_method": "S256",
            "resource": resource,
        }
        if scopes:
            parameters["scope"] = " ".join(scopes)
        if prompt is None and OFFLINE_ACCESS in scopes:
            prompt = "consent"  # without it OpenID providers ignore the scope
        if prompt:
            parameters["prompt"] = prompt
        #: The URL to send the user to.
        self.url = _with_query(issuer_server.authorization_endpoint or "", parameters)
        if len(self.url) > _LONGEST_URL:
            parts = {**parameters, "authorization_endpoint": issuer_server.authorization_endpoint or ""}
            longest = max(parts, key=lambda name: len(parts[name]))
            raise AuthError(f"the URL to log in at {issuer_server.issuer[:200]} would have {len(self.url)} of {_LONGEST_URL}"
                            f" characters: its operator has to shorten {longest}, which has {len(parts[longest])} characters")

    def __repr__(self) -> str:
        return f"<AuthorizationRequest to {self._issuer_server.issuer}>"

    def verified_code(self, redirect_url: str) -> str:
        """Check the state and issuer of the redirect, and return its code (AUC-35).

        :param redirect_url: the URL by which the user came back.
        :raises AuthError: it does not answer this request, is not from this server, or refuses; then ``error`` has the code
            of the authorization server.
        """
        try:
            given = parse_qs(urlsplit(redirect_url).query, keep_blank_values=True)
        except ValueError:
            given = {}
        state = _single(given, "state")
        if state is None or not hmac.compare_digest(state.encode("utf-8", "replace"), self.state.encode("utf-8")):
            raise AuthError("this is the answer to another login (its state differs), so it is not used")
        self._check_issuer(given.get("iss", []))
        error = _single(given, "error")
        if error is not None or "error" in given:
            text = one_line(_single(given, "error_description") or "", _LONGEST_DESCRIPTION)
            reason = one_line(error or "error", 100) + (f": {text}" if text else "")
            raise AuthError(f"{self._issuer_server.issuer} did not authorize: {reason}", error=(error or "")[:100])
        code = _single(given, "code")
        if not code:
            raise AuthError(f"the answer of {self._issuer_server.issuer} to the login has neither a code nor an error")
        return code

    def _check_issuer(self, named: List[str]) -> None:
        """Refuse the answer of another server, without quoting it (AUC-36 to AUC-38).

        :raises AuthError: it is not from the server that was asked.
        """
        issuer = self._issuer_server.issuer
        if not named and not self._issuer_server.names_issuer:
            return
        if not named:
            raise AuthError(f"the answer to the login does not name its authorization server, although {issuer} says that its"
                            " answers do; it is not used")
        if named != [issuer]:
            raise AuthError(f"the answer to the login is not from {issuer}, which was asked; it is not used")

    def token_request_fields(self, code: str) -> Dict[str, str]:
        """Return the form fields by which the token endpoint exchanges the code for a token."""
        return {"grant_type": "authorization_code", "code": code, "redirect_uri": self._redirect_uri,
                "code_verifier": self._verifier}


def _single(given: Dict[str, List[str]], name: str) -> Optional[str]:
    """Return a parameter's value; None if it is missing or repeated (RFC 6749, section 3.1)."""
    values = given.get(name, ())
    return values[0] if len(values) == 1 else None


def _with_query(url: str, parameters: Dict[str, str]) -> str:
    parts = urlsplit(url)
    others = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in parameters]
    return urlunsplit(parts._replace(query=urlencode([*others, *parameters.items()])))


class OAuth(Grant):
    """Gets tokens by the authorization code flow with PKCE, as every revision asks for; for ``connect(..., auth=)``.

    The client identifies itself by *client_id* if it is given, else by *client_metadata_url* if the server supports that;
    else it registers itself (AUC-22). Later runs need no login as long as *store* has the tokens and the server refreshes
    them.

    :param client_id: of a client that was registered by hand; needs *issuer*, since no other server knows it.
    :param client_secret: of that client, if it has one.
    :param issuer: the authorization server to trust, exactly as it writes itself; by default the one that the MCP server
        names.
    :param client_metadata_url: where a document about this client is hosted (see :func:`client_metadata`).
    :param client_name: how the login page names this program.
    :param redirect_uri: where the user comes back to; by default a free port of this machine. One of this machine without a
        port, such as ``http://127.0.0.1/callback``, means any port.
    :param scopes: to ask for, besides those that the server's refusal names, and in place of those of its metadata.
    :param ask: how the user is asked: a :class:`Browser`, a :class:`Terminal`, a :class:`UserAgent` of your own, or a callable
        that takes the URL to visit and returns the URL by which the user came back (needs *redirect_uri*). By default a
        browser, or the terminal when there is none.
    :param store: where tokens and registrations are kept: a :class:`MemoryStore` (default), a :class:`FileStore`, ...
    :param timeout: seconds that a user has for a login.
    :param dpop: binds tokens to a key, so that they are useless to a thief (needs the extra ``jwt``).
    :param application_type: "native" or "web"; by default derived from *redirect_uri* (AUC-30).
    :param prompt: a value of OpenID's ``prompt``; by default "consent" if a refresh token is asked for, which many servers
        require for one. "" leaves it to the server.
    :raises ValueError: an option cannot be used, or needs another.
    """

    interactive = True

    def __init__(self, *, client_id: Optional[str] = None, client_secret: Optional[str] = None, issuer: Optional[str] = None,
                 client_metadata_url: Optional[str] = None, client_name: str = "", redirect_uri: Optional[str] = None,
                 scopes: Union[str, Sequence[str]] = (), ask: "Union[None, UserAgent, Callable[[str], str]]" = None,
                 store: Optional[Store] = None, timeout: float = 300.0, dpop: bool = False,
                 application_type: Optional[str] = None, prompt: Optional[str] = None) -> None:
        super().__init__(issuer=issuer, scopes=scopes, store=store, dpop=dpop)
        if client_id is not None and issuer is None:
            raise ValueError("client_id= needs issuer=: the authorization server that knows it"
                             " (mcplite.auth.find_authorization(url)"
                             " shows which one a server names)")
        if client_secret is not None and client_id is None:
            raise ValueError("client_secret= needs client_id=")
        if client_metadata_url is not None:
            check_document_url(client_metadata_url)
        if redirect_uri is not None:
            _check_redirect(redirect_uri)
        if application_type not in (None, "native", "web"):
            raise ValueError(f"application_type is 'native' or 'web', not {application_type!r}")
        if ask is not None and (isinstance(ask, type) or not (callable(ask) or hasattr(ask, "begin"))):
            raise ValueError(f"ask= is a UserAgent such as Browser(), or a callable, not {ask!r:.100}")
        if callable(ask) and not hasattr(ask, "begin") and redirect_uri is None:
            raise ValueError("ask= as a callable needs redirect_uri=, where the authorization server sends the user back to")
        if not timeout > 0:
            raise ValueError(OptionText(Option("timeout", "timeout"), f" must be positive, not {timeout!r}"))
        self._client_id, self._client_secret = client_id, client_secret
        self._document_url = client_metadata_url
        self._name = client_name or __name__.partition(".")[0]
        self._redirect_uri = redirect_uri
        self._ask = ask
        self._timeout = timeout
        self._application_type = application_type
        self._prompt = prompt

    def accepts(self, credentials: Credentials) -> bool:
        return super().accepts(credentials) and self._client_id in (None, credentials.client.client_id)

    def on_client_unknown(self, client: ClientIdentity) -> None:
        stored = find_registration(self.store, client.issuer, None)
        if stored is not None and stored.client_id == client.client_id:  # it may have been replaced meanwhile
            self.store.delete(_key(client.issuer))

    def obtain(self, request: TokenRequest) -> Credentials:
        """Have the user log in, and exchange the code for a token; if the registration does not fit, once more with another."""
        issuer_server = request.issuer_server
        if issuer_server.authorization_endpoint is None:
            raise AuthError(f"{issuer_server.issuer} has no page to log in at (authorization_endpoint)")
        if issuer_server.pkce is False:
            # AUC-12
            raise AuthError(f"{issuer_server.issuer} does not say that it supports PKCE with S256"
                            " (code_challenge_methods_supported), without which a login is not safe")
        known, may_repeat = self._known(issuer_server), True
        scopes: Sequence[str] = ()
        while True:
            preferred = self._redirect_uri or (known.redirect_uris[0] if known is not None and known.redirect_uris else None)
            with self._visit(preferred, urlsplit(request.resource.resource).netloc) as visit:
                try:
                    credentials = self._log_in(request, known, visit, scopes)
                except AuthError as error:
                    may_repeat = may_repeat and self._wants_registration(error, request, known)
                    visit.failed(f"another page opens to log in at, since {error}" if may_repeat else str(error))
                    if not may_repeat:
                        raise
                    _log.info("this client registers again, and the user is asked once more: %s", error)
                    scopes = request.scopes if error.error == "invalid_scope" else ()
                else:
                    visit.succeeded()
                    return credentials
            known, may_repeat = None, False

    @staticmethod
    def _wants_registration(error: AuthError, request: TokenRequest, known: Optional[ClientIdentity]) -> bool:
        """Return whether another registration may help after a failed login: with scopes, or of a client that is forgotten."""
        if request.client is None or not request.client.redirect_uris:
            return False
        return bool(request.scopes) if error.error == "invalid_scope" else (
            request.client is known and error.error in _UNKNOWN_CLIENT)

    def _log_in(self, request: TokenRequest, known: Optional[ClientIdentity], visit: "Visit",
                scopes: Sequence[str]) -> Credentials:
        """Have the user log in once.

        :param known: the client; None to register one, for these scopes.
        """
        issuer_server, client = request.issuer_server, known
        request.client, request.user_agreed = None, False
        if self._redirect_uri is not None and _with_port(self._redirect_uri, visit) != visit.redirect_uri:
            raise AuthError(f"the browser cannot come back to {self._redirect_uri}: its port is taken, or it does not lead to"
                            " this machine; free it, give another redirect_uri=, or ask=")
        if client is None or (client.redirect_uris and visit.redirect_uri not in client.redirect_uris):
            metadata = self._metadata(visit.redirect_uri, issuer_server, scopes)
            client = register(request.web, issuer_server, metadata, self.store)
        authorization = AuthorizationRequest(issuer_server, client, visit.redirect_uri, request.resource.resource,
                                             request.scopes, self._prompt)
        end = time.monotonic() + self._timeout

        def check() -> None:
            request.check()
            if time.monotonic() > end:
                raise AuthError(f"the user did not log in at {issuer_server.issuer} within {self._timeout:g} s")

        request.client = client
        try:
            back = visit.ask(authorization.url, authorization.state, check)
        except AuthError:
            if client is known:  # the page may have said that it does not know this client
                self.on_client_unknown(client)
            raise
        try:
            code = authorization.verified_code(back)
            request.user_agreed = True
            return self._request_token(request, client, authorization.token_request_fields(code))
        except AuthError as error:
            if error.error in _UNKNOWN_CLIENT:
                self.on_client_unknown(client)
            raise

    def _known(self, issuer_server: AuthorizationServer) -> Optional[ClientIdentity]:
        """Return the client's identity, if it is known before the user is asked (AUC-56)."""
        if self._client_id is not None:
            return client_by_hand(issuer_server, self._client_id, self._client_secret)
        if self._document_url is not None and issuer_server.accepts_client_documents:
            return ClientIdentity(issuer_server.issuer, self._document_url)
        return find_registration(self.store, issuer_server.issuer, self._redirect_uri)

    def _metadata(self, redirect_uri: str, issuer_server: AuthorizationServer, scopes: Sequence[str]) -> Dict[str, Any]:
        # Without scopes at first: some servers never grant others than those of the registration (RFC 7591, section 2); others
        # grant none without.
        return client_metadata(self._name, [redirect_uri], application_type=self._application_type,
                               method=choose_method(issuer_server.methods, False, issuer_server.issuer), scopes=scopes)

    def _visit(self, preferred: Optional[str], mcp_name: str) -> "Visit":
        from .user_agent import CallbackVisit, default_user_agent

        ask: Any = self._ask
        if ask is not None and not hasattr(ask, "begin"):
            return CallbackVisit(self._redirect_uri or "", mcp_name, ask)
        visit: "Visit" = (ask or default_user_agent()).begin(preferred, mcp_name)
        return visit


def _with_port(uri: str, visit: "Visit") -> str:
    """Return a redirect URI to this machine with the port of a visit, if it has none (RFC 8252, section 7.3)."""
    parts, there = urlsplit(uri), urlsplit(visit.redirect_uri)
    if parts.scheme != "http" or parts.port is not None or there.port is None:
        return uri
    return parts._replace(netloc=f"{parts.netloc}:{there.port}").geturl()


def _check_redirect(uri: str) -> None:
    """Refuse a redirect URI that may not be used (AUC-18).

    :raises ValueError: it has a fragment, or is neither of https nor of this machine.
    """
    parts = urlsplit(uri)
    if parts.fragment:
        raise ValueError(f"redirect_uri={uri!r} has a fragment")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError(f"redirect_uri={uri!r} must be https, or of this machine such as http://127.0.0.1:8765/callback")
    if parts.scheme == "https":
        check_url(uri, "redirect_uri=")
    elif parts.scheme != "http":
        raise ValueError(f"redirect_uri={uri!r} must be of https, or of http on this machine")


# --- registration of the client -------------------------------------------------------------------------

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


def _key(issuer: str) -> str:
    return f"client {issuer}"


def register(web: Web, issuer_server: AuthorizationServer, metadata: Dict[str, Any], store: Store) -> ClientIdentity:
    """Register with an authorization server (RFC 7591), and store the registration.

    :param metadata: as :func:`client_metadata` makes it.
    :raises AuthError: the server has no registration, or refused; then with its reason (AUC-31).
    """
    if issuer_server.registration_endpoint is None:
        raise AuthError(OptionText(
            f"{issuer_server.issuer} has no dynamic registration: register a client with it, and give ", Option("client_id"),
            " (and ", Option("client_secret"), ") with ",
            Option("issuer", f"issuer={issuer_server.issuer!r}", issuer_server.issuer)))
    answer = web.post_json(issuer_server.registration_endpoint, "the registration endpoint", metadata)
    if not answer.accepted:
        by_hand = OptionText("; it may want a client that was registered by hand: ", Option("client_id"), " with ",
                             Option("issuer"))
        if issuer_server.pkce is None:  # without metadata it may be no authorization server at all (AUM-11)
            by_hand = OptionText(by_hand, "; or it issues no tokens itself: then ask its operator for one, and give it as ",
                                 Option("auth", "auth='...'"))
        hint = {
            "invalid_redirect_uri": OptionText(f"; it was asked for {', '.join(metadata['redirect_uris'])}: see ",
                                               Option("redirect_uri")),
            "invalid_client_metadata": OptionText("; see ", Option("client_name"), ", ", Option("redirect_uri"),
                                                  " and application_type=") if "scope" not in metadata else OptionText(
                f"; it was asked for the scopes {metadata['scope'][:200]}: see ", Option("scopes")),
        }.get(answer.error, by_hand)
        raise AuthError(OptionText(f"{issuer_server.issuer} did not register this client: {answer.explain()}", hint),
                        error=answer.error)
    client = _identity(answer.document, issuer_server, metadata)
    store.save(_key(issuer_server.issuer), client.record())
    return client


def _identity(document: Mapping[str, Any], issuer_server: AuthorizationServer, metadata: Mapping[str, Any]) -> ClientIdentity:
    issuer, id, secret = issuer_server.issuer, document.get("client_id"), document.get("client_secret")
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
        method = next((method for method in SECRET_METHODS if method in issuer_server.methods), SECRET_METHODS[0])
    if method not in METHODS:
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
