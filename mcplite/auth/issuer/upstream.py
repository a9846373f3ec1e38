"""The login at an upstream provider: GitHub, Google, Entra, any provider with OpenID; for people who have an account there.

The provider is a party of its own. A response that the browser brings from it is believed only as far as it fits the login
that was begun: by the ``state``, the provider's own name (RFC 9207), the code with its verifier (PKCE), and in an ID token the
audience and the nonce. The provider's answers are read from its endpoints alone, within the limits of :mod:`..verify.fetch`;
redirects are not followed. A user is known by the provider's identifier, never by an address or a name.

The differences between providers are data, in :mod:`.upstream_providers`. What is kept of a login is in
:mod:`.upstream_grants`.
"""

import hashlib
import hmac
import json
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, NoReturn, Optional, Tuple, Union
from urllib.parse import quote_plus, urlencode, urlsplit

from ...protocol.error_text import one_line
from ...protocol.http.oauth import base_of
from ...protocol.opaque import base64url_encode
from ...rpc.tracing import get_logger
from ...server.principals import checked_scopes
from ..verify.fetch import FetchError, fetch_json
from .upstream_providers import (
    IdentityProvider,
    OpenID,
    UpstreamEndpoints,
    UpstreamError,
    described,
    openid_provider,
    provider_at,
)
from .users import User

__all__ = ["UpstreamLogin", "UpstreamTokens", "upstream"]

_log = get_logger(__name__)
_AUTHENTICATION_METHODS = ("client_secret_post", "client_secret_basic", "none")
#: Seconds before its expiry from which on a token is refreshed.
_EARLY_SECONDS = 60.0
#: Characters of what is kept about a user, as JSON, and of a code or a token.
_MOST_CLAIMS, _LONGEST = 65_536, 16_384
#: Pages of a list of groups, and groups of all of them.
_MOST_PAGES, _MOST_GROUPS = 10, 5000
#: The names of the claims about an ID token itself.
_TOKEN_CLAIMS = frozenset({"iss", "aud", "exp", "iat", "nbf", "nonce", "azp", "at_hash", "c_hash", "s_hash", "jti", "auth_time",
                           "sid", "aio", "rh", "uti", "ver", "typ", "token_use", "_claim_names", "_claim_sources"})
#: Parameters of the login that ``parameters=`` cannot have.
_OURS = frozenset({"client_id", "redirect_uri", "response_type", "response_mode", "state", "nonce", "scope", "code_challenge",
                   "code_challenge_method", "request", "request_uri"})
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
_TOKEN = re.compile(r"[\x21-\x7e]+")
#: Codes of errors by which a provider says that it may give tokens later.
_FOR_NOW = frozenset({"server_error", "temporarily_unavailable", "slow_down"})


@dataclass
class UpstreamTokens:
    """The tokens that a provider gave for one user."""

    access_token: str = field(repr=False)
    refresh_token: Optional[str] = field(default=None, repr=False)
    #: Seconds since 1970; None if the provider did not say.
    expires_at: Optional[float] = None
    #: When they were given, in seconds since 1970.
    given_at: float = 0.0
    scopes: Tuple[str, ...] = ()

    def due(self, now: float) -> bool:
        """Whether they have expired, or are about to."""
        if self.expires_at is None:
            return False
        return now >= self.expires_at - min(_EARLY_SECONDS, (self.expires_at - self.given_at) / 10)


def upstream(provider: str, *, client_id: str, client_secret: str = "", scopes: Union[str, Iterable[str]] = (),
             groups: Optional[Callable[[Mapping[str, Any]], Iterable[str]]] = None, name: str = "", title: str = "",
             parameters: Optional[Mapping[str, str]] = None, authentication: str = "", **places: str) -> "UpstreamLogin":
    """Return the login at a provider where people have an account, for ``Issuer(upstream=...)``.

    Register an application there, with ``<your issuer>/callback`` as its only redirect URI.

    :param provider: ``"github"``, ``"google"``, ``"entra"``, ``"okta"``, ``"auth0"``, ``"cognito"``, ``"discord"`` or
        ``"keycloak"``; or the issuer identifier of another provider with OpenID, as its URL.
    :param client_id: of the application that was registered there.
    :param client_secret: of that application; empty for a public client.
    :param scopes: to ask the provider for, besides those that identify the user; for handlers that use its token.
    :param groups: called with what the provider says of a user: its own claims, and ``subject``, ``name``, ``email`` and
        ``groups`` as all providers have them. It returns the scopes of *this* server that the user may grant. It raises
        PermissionError, with a text for the user, to refuse the login. Default: each user may grant all scopes.
    :param name: for subjects (``"github:12345"``) and ``ctx.principal.upstream_token(name)``. Default: *provider*, or the host
        of its URL.
    :param title: for people. Default: the provider's.
    :param parameters: more parameters of its login, such as ``{"hd": "example.com"}`` or
        ``{"audience": "https://api.example"}``.
    :param authentication: ``client_secret_post``, ``client_secret_basic`` or ``none``. Default: as the provider expects it.
    :param places: what the provider needs: ``tenant`` (entra); ``domain`` (okta, auth0, keycloak); ``region`` and ``pool``
        (cognito); ``realm`` (keycloak). ``domain`` may be given for the others as well, as of a server of your own.
    :raises ImportError: PyJWT or cryptography is not installed.
    :raises ValueError: an option is not valid.
    """
    given = provider_at(provider, places) if "://" not in str(provider) else openid_provider(provider)
    if "://" in str(provider) and places:
        raise ValueError(f"{sorted(places)[0]}= is for the providers that are known by a name; with a URL leave it out")
    if not name:
        # Without a colon, which ends the name in a subject.
        name = provider if "://" not in provider else re.sub("[^a-z0-9.]", "-", given.title.lower()).strip("-")
    return UpstreamLogin(given, name, client_id, client_secret, scopes=scopes, groups=groups, title=title,
                         parameters=parameters, authentication=authentication)


class UpstreamLogin:
    """The login at one provider; any thread may use it. See :func:`upstream`.

    :param clock: returns seconds since 1970.
    """

    def __init__(self, provider: IdentityProvider, name: str, client_id: str, client_secret: str, *,
                 scopes: Union[str, Iterable[str]] = (), groups: Optional[Callable[[Mapping[str, Any]], Iterable[str]]] = None,
                 title: str = "", parameters: Optional[Mapping[str, str]] = None, authentication: str = "",
                 clock: Callable[[], float] = time.time) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"name={name[:100]!r} cannot stand in a subject: give a name of small letters, digits, dots and"
                             " dashes")
        for option, value in (("client_id", client_id), ("client_secret", client_secret)):
            if not isinstance(value, str) or (value or option == "client_id") and not _TOKEN.fullmatch(value):
                raise ValueError(f"{option}= of upstream({name!r}) is the text that the provider shows for your application; it"
                                 " is empty, or has blanks in it")
        if authentication and authentication not in _AUTHENTICATION_METHODS:
            raise ValueError(f"authentication={authentication[:100]!r}: give one of {', '.join(_AUTHENTICATION_METHODS)}")
        if groups is not None and not callable(groups):
            raise ValueError("groups= is a function that turns what the provider says of a user into scopes of this server")
        self.name, self.title, self.provider = name, title or provider.title, provider
        self.client_id, self._secret = client_id, client_secret
        self._scopes = checked_scopes(scopes, "scopes=", offline=True)
        self._groups, self._parameters, self._authentication = groups, dict(parameters or {}), authentication
        taken = _OURS & self._parameters.keys()
        if taken:
            raise ValueError(f"parameters= cannot have {sorted(taken)[0]!r}, on which the safety of the login depends")
        self._clock = clock
        self._openid = OpenID(provider, client_id, clock) if provider.issuer else None

    def __repr__(self) -> str:
        return f"<UpstreamLogin {self.name!r}, client {self.client_id!r}>"

    # --- the login ------------------------------------------------------------------------------------------

    def begin(self, transaction: Dict[str, Any], callback: str, state: str) -> str:
        """Return the URL of the provider's login, and note in the transaction what its response has to fit.

        :param callback: the redirect URI that is registered at the provider.
        :param state: the id of the transaction. The provider sends it back to *callback*; the caller checks that the browser
            is the one that has begun it.
        :raises UpstreamError: the metadata of the provider cannot be fetched.
        """
        endpoints = self._endpoints()
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        transaction["upstream"] = {
            "name": self.name, "state": state, "verifier": verifier, "nonce": nonce, "callback": callback}
        asked = self._asked(endpoints)
        # A provider by the letter gives offline access only with a consent (OpenID Connect Core, section 11).
        consent = {"prompt": "consent"} if self.provider.offline_scope is None and "offline_access" in asked else {}
        query = {**consent, **self.provider.parameters, **self._parameters, "response_type": "code",
                 "client_id": self.client_id, "redirect_uri": callback, "scope": " ".join(asked), "state": state,
                 "code_challenge": base64url_encode(hashlib.sha256(verifier.encode("ascii")).digest()),
                 "code_challenge_method": "S256"}
        if self.provider.issuer:
            query["nonce"] = nonce
        return endpoints.authorization + ("&" if urlsplit(endpoints.authorization).query else "?") + urlencode(query)

    def _asked(self, endpoints: UpstreamEndpoints) -> List[str]:
        offline = self.provider.offline_scope
        if offline is None:
            offline = "offline_access" if "offline_access" in endpoints.scopes else ""
        return [scope for scope in dict.fromkeys([*self.provider.scopes, offline, *self._scopes]) if scope]

    def finish(self, query: Mapping[str, str], transaction: Mapping[str, Any], callback: str) -> Tuple[User, UpstreamTokens]:
        """Return who has logged in, and the tokens that the provider gave.

        :param query: of the response, each parameter once.
        :param transaction: the one that the browser has begun, which is used once.
        :raises UpstreamError: the response does not belong to the transaction, the login was refused, or the provider's answers
            cannot be used.
        """
        begun = transaction.get("upstream")
        if not isinstance(begun, Mapping) or begun.get("name") != self.name or begun.get("callback") != callback:
            self._refuse("the response is not of the login that was begun", "invalid_request")
        if not hmac.compare_digest(str(query.get("state", "")).encode("utf-8", "replace"), begun["state"].encode("ascii")):
            self._refuse("the response has another state than the login", "invalid_request")
        endpoints = self._endpoints()
        self._check_issuer(query.get("iss"), endpoints)
        error = query.get("error")
        if error is not None:
            text = one_line(query.get("error_description", ""), 200)
            code = "temporarily_unavailable" if error in _FOR_NOW else "access_denied"
            self._refuse(f"it did not let the user log in: {one_line(error, 100)}" + (f" ({text})" if text else ""), code)
        code = query.get("code", "")
        if not 0 < len(code) <= _LONGEST:
            self._refuse("the response has no code", "invalid_request")
        tokens, answer = self._ask_tokens(endpoints, {
            "grant_type": "authorization_code", "code": code, "redirect_uri": callback, "code_verifier": begun["verifier"]},
            tuple(self._asked(endpoints)))
        claims = self._read_claims(endpoints, tokens, answer.get("id_token"), begun["nonce"])
        return self._user(claims), tokens

    def _check_issuer(self, named: Optional[str], endpoints: UpstreamEndpoints) -> None:
        """Refuse a response of another provider (RFC 9207): it could have the code of one sent to the other."""
        if named is None:
            fits = not endpoints.names_issuer
        elif self._openid is not None:
            fits = self._openid.names(named)
        else:
            try:
                fits = base_of(named) == base_of(endpoints.authorization)  # no document says what it is
            except ValueError:
                fits = False
        if not fits:
            self._refuse("the response is of another issuer, or does not name its issuer", "invalid_request")

    # --- tokens ---------------------------------------------------------------------------------------------

    def refresh(self, tokens: UpstreamTokens) -> Tuple[UpstreamTokens, Optional[str]]:
        """Return new tokens for old ones, and the ID token that came with them; None without one.

        The old ones may be used up by it: the caller keeps the new ones before it does anything that can fail.

        :raises UpstreamError: the provider refused, with ``invalid_grant`` if the login has ended; or cannot be reached.
        """
        if tokens.refresh_token is None:
            self._refuse("its token has expired, and it gave none to refresh it with", "invalid_grant")
        new, answer = self._ask_tokens(
            self._endpoints(), {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}, tokens.scopes)
        new.refresh_token = new.refresh_token or tokens.refresh_token  # one that is not rotated is not repeated
        return new, answer.get("id_token")

    def find(self, user: User, tokens: UpstreamTokens, id_token: Optional[str]) -> User:
        """Return a user as the provider knows them now, from before if it cannot say without a new login.

        :param id_token: that came with the latest refresh; None for none.
        :raises UpstreamError: the provider has ended the login (``invalid_grant``), the tokens are of another user by now, or
            the provider cannot be asked.
        """
        if self._openid is not None and id_token is None:
            return user
        found = self._user(self._read_claims(self._endpoints(), tokens, id_token, None))
        if found.subject != user.subject:
            self._refuse("its token is of another user now", "invalid_grant")
        return found

    def _ask_tokens(self, endpoints: UpstreamEndpoints, form: Dict[str, str], scopes: Tuple[str, ...]
                    ) -> Tuple[UpstreamTokens, Dict[str, Any]]:
        """Return the tokens of an answer of the token endpoint, and the answer.

        :param scopes: that the tokens have if the answer names none (RFC 6749, section 5.1).
        """
        method, basic = self._method(endpoints), None
        form = {**form, "client_id": self.client_id}
        if method == "client_secret_post":
            form["client_secret"] = self._secret
        elif method == "client_secret_basic":
            basic = quote_plus(self.client_id), quote_plus(self._secret)  # RFC 6749, section 2.3.1
            del form["client_id"]
        status, answer = self._fetch(endpoints.token, "the token endpoint", form=form, auth=basic, answers=True)
        answer = answer if isinstance(answer, dict) else {}
        error = answer.get("error")
        error = error if error is None or isinstance(error, str) else "an error that is no text"
        if status >= 500 or status == 429 or error in _FOR_NOW:
            self._refuse(f"its token endpoint has failed (status {status})", "temporarily_unavailable", status)
        if status >= 300 or error is not None:  # GitHub says errors with 200
            # Without the description, which can quote what was sent.
            code = one_line(error, 100) if error else f"status {status}"
            ours = code in ("invalid_client", "incorrect_client_credentials", "unauthorized_client") or status == 401
            (_log.error if ours else _log.info)("%s gave no tokens: %s%s", self.name, code,
                                                "; check client_id= and client_secret= of upstream()" if ours else "")
            self._refuse(f"it gave no tokens: {code}", "server_error" if ours else "invalid_grant", status)
        token, kind, again = answer.get("access_token"), answer.get("token_type"), answer.get("refresh_token")
        if not _is_token(token) or not isinstance(kind, str) or kind.lower() != "bearer":
            self._refuse("its token endpoint gave no bearer token", "server_error")
        now, seconds, granted = self._clock(), _seconds(answer.get("expires_in")), answer.get("scope")
        if isinstance(granted, str):
            scopes = tuple(re.split("[ ,]+", granted))  # GitHub has commas between them
        return UpstreamTokens(str(token), str(again) if _is_token(again) else None, None if seconds is None else now + seconds,
                              now, scopes), answer

    def _method(self, endpoints: UpstreamEndpoints) -> str:
        if not self._secret:
            return "none"
        preferred = self._authentication or self.provider.authentication
        known = [method for method in _AUTHENTICATION_METHODS if method != "none" and method in endpoints.methods]
        return preferred or (known[0] if known else "client_secret_basic")

    # --- who the user is --------------------------------------------------------------------------------------

    def _read_claims(self, endpoints: UpstreamEndpoints, tokens: UpstreamTokens, id_token: Any, nonce: Optional[str]
                     ) -> Dict[str, Any]:
        """Return what the provider says of the user: by the ID token, and by the user endpoint where that says too little."""
        if self._openid is None:
            claims = self._ask_user(endpoints.user, tokens)
        else:
            claims = self._openid.id_claims(id_token, nonce, tokens.access_token)
            if endpoints.user and not self.provider.tenants and not ("name" in claims and "email" in claims):
                more = self._ask_user(endpoints.user, tokens)
                if more.get("sub") != claims["sub"]:  # OpenID Connect Core, section 5.3.2
                    self._refuse("its user endpoint answers for another user than the ID token", "server_error")
                claims = {**more, **claims}
        for scope, (name, url, member) in self.provider.lists.items():
            if scope in tokens.scopes:
                claims[name] = self._list(url, tokens, member)
        sources = claims.get("_claim_names")
        if self.provider.groups_url and isinstance(sources, dict) and "groups" in sources and "groups" not in claims:
            try:
                claims["groups"] = self._list(self.provider.groups_url, tokens, "id")
            except UpstreamError as error:
                if self._groups is not None:  # which must not take a user for one without groups
                    raise
                _log.warning("the groups of a user could not be read: %s", error)
        return claims

    def _ask_user(self, url: str, tokens: UpstreamTokens) -> Dict[str, Any]:
        found = self._ask(url, tokens)
        if not isinstance(found, dict):
            self._refuse("its user endpoint did not answer with an object", "server_error")
        return found

    def _ask(self, url: str, tokens: UpstreamTokens) -> Any:
        status, found = self._fetch(url, "the user endpoint", auth=tokens.access_token)
        if status == 401:
            self._refuse("it does not accept its token any more", "invalid_grant", status)
        if status != 200:
            code = "temporarily_unavailable" if status >= 500 or status in (403, 429) else "server_error"
            more = "; it may want more scopes than upstream(scopes=) asks for" if status == 403 else ""
            self._refuse(f"its user endpoint answered with status {status}{more}", code, status)
        return found

    def _list(self, url: str, tokens: UpstreamTokens, member: str) -> List[Any]:
        """Return the entries of a list, which may come in pages of the same host."""
        entries: List[Any] = []
        at: Any = url
        for _ in range(_MOST_PAGES):
            found = self._ask(at, tokens)
            at = found.get("@odata.nextLink") if isinstance(found, dict) else None
            found = found.get("value") if isinstance(found, dict) else found
            if not isinstance(found, list):
                self._refuse("its answer is not a list", "server_error")
            entries += found
            if at is None:
                break
            try:
                elsewhere = base_of(at) != base_of(url)
            except (TypeError, ValueError):
                elsewhere = True
            if elsewhere:
                self._refuse("its list goes on at another host", "server_error")
        else:
            at = url
        if at is not None or len(entries) > _MOST_GROUPS:
            self._refuse(f"its list has more than {_MOST_GROUPS} entries or {_MOST_PAGES} pages", "server_error")
        if not member:
            return entries
        return [str(entry[member]) for entry in entries
                if isinstance(entry, dict) and isinstance(entry.get(member), (str, int))]

    def _user(self, claims: Mapping[str, Any]) -> User:
        """Return the user that claims describe, with the scopes that ``groups=`` gives."""
        try:
            common = described(self.provider, claims)
        except ValueError as error:
            self._refuse(str(error), "server_error")
        common["subject"] = f"{self.name}:{common['subject']}"
        kept = {name: value for name, value in claims.items() if name not in _TOKEN_CLAIMS}
        said = {**kept, **common, "upstream": self.name}
        if len(json.dumps(said)) > _MOST_CLAIMS:
            self._refuse(f"it says more about the user than {_MOST_CLAIMS} characters", "server_error")
        scopes: Optional[FrozenSet[str]] = None
        if self._groups is not None:
            try:
                scopes = frozenset(checked_scopes(self._groups(said), "groups="))
            except PermissionError as error:
                self._refuse(str(error) or "this user may not log in here", "access_denied")
            except Exception as error:
                # Without scopes a user would have all of them; the text can quote claims.
                _log.exception("groups= of upstream(%r) has failed", self.name)
                raise UpstreamError(f"{self.title}: the scopes of the user could not be found", error="server_error") from error
        return User(common["subject"], common["name"], common["email"], tuple(common["groups"]), scopes, said)

    # --- the provider -----------------------------------------------------------------------------------------

    def _endpoints(self) -> UpstreamEndpoints:
        row = self.provider
        return (UpstreamEndpoints(row.authorization_url, row.token_url, row.user_url) if self._openid is None
                else self._openid.endpoints())

    def _fetch(self, url: str, what: str, **options: Any) -> Tuple[int, Any]:
        try:
            return fetch_json(url, f"{what} of {self.title}", **options)
        except FetchError as error:
            _log.warning("upstream(%r): %s", self.name, error)
            raise UpstreamError(f"{self.title} gave no answer that can be used",
                                error="temporarily_unavailable") from error

    def _refuse(self, why: str, error: str, status: int = 0) -> NoReturn:
        raise UpstreamError(f"{self.title}: {why}", error=error, status=status)


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and _TOKEN.fullmatch(value) is not None


def _seconds(value: Any) -> Optional[float]:
    """Return a lifetime; None if there is none. Answers that are forms have texts for numbers."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e11:
        return None
    return float(value)

