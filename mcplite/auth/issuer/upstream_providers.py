"""The providers that people have accounts at: a table of them, and what their metadata and ID tokens say.

A row is data. The login in :mod:`.upstream` serves all providers. A provider with OpenID has an ``issuer``, whose metadata
names the endpoints (:class:`OpenID` fetches it); the row of a provider without OpenID has the endpoints themselves. Texts in
braces are places, which the caller fills in (``upstream("entra", tenant="...")``) or which have a default.
"""

import hashlib
import hmac
import json
import re
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

from ...errors import AuthError
from ...protocol.error_text import shown
from ...protocol.http.oauth import check_url, issuer_metadata_urls
from ...protocol.opaque import base64url_decode, base64url_encode
from ...rpc.tracing import get_logger
from ..verify.fetch import FetchError, deadline
from ..verify.jwt_verifier import ALGORITHMS, InvalidToken, JWTVerifier, audience_of, fetch_metadata

__all__ = ["IdentityProvider", "OpenID", "PROVIDERS", "UpstreamEndpoints", "UpstreamError", "described", "openid_provider",
           "provider_at"]

_log = get_logger(__name__)
#: The scopes of OpenID Connect that identify a user.
_OPENID = ("openid", "profile", "email")
_POST, _BASIC = "client_secret_post", "client_secret_basic"
#: The form of a place that is one segment of a URL.
_SEGMENT = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,199}")
_PLACE = re.compile(r"\{([a-z]+)\}")
_TENANT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: The place of a tenant's id in the metadata of all tenants.
_ANY_TENANT = "{tenantid}"
#: Seconds for which metadata are used without fetching them again, and for which they are used while fetching them fails.
_FRESH_SECONDS, _KEPT_SECONDS = 3600.0, 86_400.0
#: After an attempt to fetch metadata has failed, seconds until the next one.
_PAUSE_SECONDS = 5.0
#: Characters of an ID token.
_LONGEST_TOKEN = 65_536


class UpstreamError(AuthError):
    """A login at an upstream provider, or the use of what it gave, has failed.

    ``error`` is ``access_denied`` if the user or the provider refused, ``invalid_grant`` if the login has ended and has to be
    repeated, ``temporarily_unavailable`` if the provider cannot be reached, ``invalid_request`` if a response does not belong
    to the login, and ``server_error`` for an answer that cannot be used. The text is for the log, and for people.
    """


@dataclass(frozen=True)
class IdentityProvider:
    """The facts about one provider that its login needs."""

    #: The name by which people know it.
    title: str
    #: The issuer of its ID tokens; empty for a provider without OpenID.
    issuer: str = ""
    #: Other texts that its ID tokens name as their issuer.
    also_issuers: Tuple[str, ...] = ()
    #: Whether it has an issuer for each tenant, which an ID token names as ``tid`` and the metadata by ``{tenantid}``.
    tenants: bool = False
    #: The endpoints of a provider without OpenID. ``user_url`` is asked with the access token.
    authorization_url: str = ""
    token_url: str = ""
    user_url: str = ""
    #: The places that the caller has to fill in, each with an example; and the default values of other places.
    needs: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    #: The scopes that each login asks for.
    scopes: Tuple[str, ...] = _OPENID
    #: The scope that asks for a refresh token: "" for a provider that gives one anyway, or refuses the scope; None if the
    #: metadata decides.
    offline_scope: Optional[str] = "offline_access"
    #: Parameters of each login, besides those of OAuth.
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: How the client authenticates at the token endpoint; empty if the metadata decides.
    authentication: str = _POST
    #: The claims that identify a user for ever, joined by a colon.
    subject: Tuple[str, ...] = ("sub",)
    #: The claims with the name that is shown; the first that is there counts.
    names: Tuple[str, ...] = ("name", "preferred_username", "nickname")
    #: The claim that says whether the address in ``email`` was verified. No other claim is used as an address.
    verified: str = "email_verified"
    #: The claims that list groups; the first that is there counts. A dot leads into an object.
    groups: Tuple[str, ...] = ("groups",)
    #: Lists to read with the access token, by the scope that has to be granted for it: the claim that gets the list, the URL,
    #: and the member to take from each object; with an empty member, the whole objects.
    lists: Mapping[str, Tuple[str, str, str]] = field(default_factory=dict)
    #: The URL that lists the user's groups. It is read if they are too many for the token, which then has ``_claim_names``.
    groups_url: str = ""


#: The rows, by the word that is given to ``upstream()``.
PROVIDERS: Dict[str, IdentityProvider] = {
    "github": IdentityProvider(
        "GitHub", defaults={"domain": "github.com", "api": "https://api.github.com"},
        authorization_url="{domain}/login/oauth/authorize", token_url="{domain}/login/oauth/access_token",
        user_url="{api}/user", scopes=("read:user", "user:email"), offline_scope="",
        subject=("id",), names=("name", "login"),
        # The address in the profile is chosen by the user; the list says which ones are verified.
        lists={"user:email": ("emails", "{api}/user/emails", ""), "read:org": ("groups", "{api}/user/orgs", "login")}),
    "google": IdentityProvider(
        "Google", issuer="{domain}", also_issuers=("accounts.google.com",), defaults={"domain": "accounts.google.com"},
        # It gives a refresh token for these parameters, with each consent, and refuses the scope offline_access.
        offline_scope="", parameters={"access_type": "offline", "prompt": "consent"}),
    "entra": IdentityProvider(
        "Microsoft", issuer="{domain}/{tenant}/v2.0", tenants=True, needs={"tenant": "the id of your directory (tenant)"},
        defaults={"domain": "login.microsoftonline.com", "graph": "https://graph.microsoft.com"},
        # A user's address can be set by the administrator of any tenant; xms_edov says that its domain was verified.
        subject=("tid", "oid"), verified="xms_edov",
        groups_url="{graph}/v1.0/me/transitiveMemberOf/microsoft.graph.group?$select=id&$top=999"),
    "okta": IdentityProvider(
        "Okta", issuer="{domain}/oauth2/{server}", needs={"domain": "such as dev-123.okta.com"},
        defaults={"server": "default"}, authentication=_BASIC),
    "auth0": IdentityProvider("Auth0", issuer="{domain}/", needs={"domain": "such as dev-123.eu.auth0.com"}),
    "cognito": IdentityProvider(
        "Amazon Cognito", issuer="{domain}/{pool}",
        needs={"region": "such as eu-west-1", "pool": "such as eu-west-1_AbCdEfGhI"},
        defaults={"domain": "cognito-idp.{region}.amazonaws.com"}, offline_scope="",
        names=("name", "preferred_username", "cognito:username", "username"), groups=("cognito:groups",)),
    "discord": IdentityProvider(
        "Discord", defaults={"domain": "discord.com"}, authorization_url="{domain}/oauth2/authorize",
        token_url="{domain}/api/oauth2/token", user_url="{domain}/api/users/@me", scopes=("identify", "email"),
        offline_scope="", subject=("id",), names=("global_name", "username"), verified="verified",
        lists={"guilds": ("groups", "{domain}/api/users/@me/guilds", "id")}),
    "keycloak": IdentityProvider(
        "Keycloak", issuer="{domain}/realms/{realm}", needs={"domain": "such as login.example.com", "realm": "such as staff"},
        # It gives a refresh token of the session anyway. With the scope, the token would stay valid after the user's logout.
        offline_scope="", groups=("groups", "realm_access.roles")),
}


def openid_provider(issuer: str) -> IdentityProvider:
    """Return the row of any provider with OpenID, by its issuer identifier.

    :raises ValueError: it is not the URL of an issuer.
    """
    parts = urlsplit(check_url(issuer, "the issuer"))
    if parts.query or parts.fragment:
        raise ValueError(f"{issuer[:200]!r} is not an issuer: its URL has no query and no fragment")
    return IdentityProvider(parts.netloc, issuer=issuer, offline_scope=None, authentication="")


def provider_at(word: str, places: Mapping[str, str]) -> IdentityProvider:
    """Return a row of the table with its places filled in.

    :param word: the word of the row in the table.
    :param places: the values that the caller has given, by the names of the places.
    :raises ValueError: there is no such row; a place is missing, unknown or malformed.
    """
    row = PROVIDERS.get(word)
    if row is None:
        raise ValueError(f"give one of {', '.join(PROVIDERS)}, or the https:// URL of an OpenID provider, not"
                         f" {str(word)[:100]!r}")
    missing = [f"{name}= ({example})" for name, example in row.needs.items() if not places.get(name)]
    if missing:
        raise ValueError(f"upstream({word!r}) needs {' and '.join(missing)}")
    unknown = places.keys() - row.needs.keys() - row.defaults.keys()
    if unknown:
        known = [f"{name}=" for name in dict.fromkeys([*row.needs, *row.defaults])]
        raise ValueError(f"upstream({word!r}) does not take {sorted(unknown)[0]}=; it takes {', '.join(known) or 'no places'}")
    values = _checked({**row.defaults, **places})
    lists = {scope: (name, _filled(url, values), member) for scope, (name, url, member) in row.lists.items()}
    return replace(row, issuer=_filled(row.issuer, values), authorization_url=_filled(row.authorization_url, values),
                   token_url=_filled(row.token_url, values), user_url=_filled(row.user_url, values),
                   groups_url=_filled(row.groups_url, values), lists=lists)


def _checked(places: Mapping[str, str]) -> Dict[str, str]:
    """Return the places as texts for URLs: a place that names a host gets ``https://`` if it has no scheme.

    :raises ValueError: a place cannot be a part of a URL.
    """
    values = dict(places)
    for name in ("region", "pool", "tenant", "realm", "server"):
        if name in values and not _SEGMENT.fullmatch(str(values[name])):
            raise ValueError(f"{name}={str(values[name])[:100]!r} is not a name; it has letters, digits and ._~- only")
    for name in ("domain", "api", "graph"):
        if name in values:
            text = _filled(str(values[name]), values)
            values[name] = check_url(text if "://" in text else f"https://{text}", f"{name}=").rstrip("/")
    return values


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), text)


# --- what a user's claims say -------------------------------------------------------------------------------


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim, or a member of an object among them; None if it is not there."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def described(row: IdentityProvider, claims: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what a provider says of a user, by the names that all providers have in common.

    ``subject`` is a text; ``name`` and ``email`` are texts, empty if they are not known; ``email`` is empty as well if the
    provider does not say that it was verified; ``groups`` is a list of texts.

    :raises ValueError: the claims do not identify a user.
    """
    identity = [_identifier(claims.get(name), name) for name in row.subject]
    name = next((text for text in map(claims.get, row.names) if isinstance(text, str) and text), "")
    groups = next((found for found in (claim(claims, path) for path in row.groups) if isinstance(found, list)), [])
    return {"subject": ":".join(identity), "name": name, "email": _verified_email(row, claims),
            "groups": [group for group in groups if isinstance(group, str)]}


def _identifier(value: Any, name: str) -> str:
    # GitHub's identifiers are numbers. In Python True is a number as well, and is refused.
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value or len(value) > 255 or not value.isprintable():
        raise ValueError(f"its answer has no {name!r} that identifies the user")
    return value


def _verified_email(row: IdentityProvider, claims: Mapping[str, Any]) -> str:
    found: Iterable[Any] = [{"email": claims.get("email"), "verified": claims.get(row.verified), "primary": True}]
    listed = claims.get("emails")
    if row.lists and isinstance(listed, list):
        found = listed
    elif any(name == "emails" for name, _, _ in row.lists.values()):
        return ""  # the list of addresses was not read
    # Some providers write "verified" as a text.
    addresses: List[str] = [
        one["email"] for one in found if isinstance(one, Mapping) and isinstance(one.get("email"), str)
        and (one.get("verified") in (True, 1) or one.get("verified") == "true") and one.get("primary") is True]
    return addresses[0] if addresses else ""


# --- what its metadata and its ID tokens say ----------------------------------------------------------------


class UpstreamEndpoints(NamedTuple):
    """The endpoints of a provider, and other facts from its metadata; without OpenID, from its row."""

    authorization: str
    token: str
    #: The endpoint that is asked for the user with the access token; empty if there is none.
    user: str
    #: The issuer, as the metadata writes it; empty without OpenID.
    issuer: str = ""
    keys: str = ""
    #: How clients may authenticate.
    methods: Tuple[str, ...] = ()
    scopes: Tuple[str, ...] = ()
    #: Whether each of its authorization responses names it (RFC 9207).
    names_issuer: bool = False


class OpenID:
    """The metadata, the keys and the ID tokens of one provider; any thread may use it.

    :param row: of the provider.
    :param client_id: the audience of its ID tokens.
    :param clock: returns seconds since 1970.
    :raises ImportError: PyJWT or cryptography is not installed.
    """

    def __init__(self, row: IdentityProvider, client_id: str, clock: Callable[[], float]) -> None:
        self._row, self._client_id, self._clock = row, client_id, clock
        #: Guards the fields below; held while metadata are fetched, which takes ten seconds at most.
        self._lock = threading.Lock()
        self._known: Optional[Tuple[float, UpstreamEndpoints]] = None
        #: Until when metadata are not fetched again after a failure: logins must not wait for each other's attempts.
        self._pause = 0.0
        self._verifier = self._verifier_of(row.issuer)
        #: The URL of the keys of the verifier; until metadata were fetched, the issuer stands there.
        self._keys = row.issuer

    def _verifier_of(self, keys: str) -> JWTVerifier:
        # No algorithm with a shared secret is accepted: the client's own secret would be the key.
        return JWTVerifier(issuer=self._row.issuer, jwks_url=keys, algorithms=sorted(ALGORITHMS), clock=self._clock)

    def endpoints(self) -> UpstreamEndpoints:
        """Return the facts of the metadata, which are fetched once in an hour.

        :raises UpstreamError: the metadata cannot be fetched.
        """
        row = self._row
        with self._lock:
            known, now = self._known, time.monotonic()
            if known is not None and now - known[0] < _FRESH_SECONDS:
                return known[1]
            try:
                if now < self._pause:
                    raise FetchError("the last attempt has failed a moment ago")
                # OpenID Connect Discovery first: RFC 8414 is younger than most of these providers.
                found = fetch_metadata(row.issuer, reversed(issuer_metadata_urls(row.issuer)), deadline(), _read_metadata,
                                       self._is_issuer)
            except FetchError as error:
                if now >= self._pause:
                    self._pause = time.monotonic() + _PAUSE_SECONDS
                if known is None or now - known[0] > _KEPT_SECONDS:
                    _log.error("the metadata of %s cannot be used: %s", row.title, error)
                    raise UpstreamError(f"{row.title} cannot be reached at present", error="temporarily_unavailable") from error
                _log.warning("the metadata of %s could not be fetched again: %s", row.title, error)
                return known[1]
            self._known = now, found
            if self._keys != found.keys:
                self._verifier, self._keys = self._verifier_of(found.keys), found.keys
            return found

    def _is_issuer(self, named: Any) -> bool:
        expected = self._row.issuer
        if not self._row.tenants or named == expected:
            return bool(named == expected)
        # The tenant may be given by its domain, or as "organizations" for all tenants. Then the metadata name the id of the
        # tenant, or have a place for it.
        base, tenant, version = expected.rsplit("/", 2)
        if _TENANT.fullmatch(tenant) or not isinstance(named, str):
            return False
        parts = named.rsplit("/", 2)
        return [parts[0], parts[-1]] == [base, version] and (parts[1] == _ANY_TENANT or _TENANT.fullmatch(parts[1]) is not None)

    def names(self, issuer: str, tenant: Any = None) -> bool:
        """Return whether a text is an issuer of this provider.

        :param tenant: the tenant that the text must name, if the issuer is for all tenants; None for any tenant.
        """
        expected = self.endpoints().issuer
        if _ANY_TENANT not in expected:
            return issuer == expected or issuer in self._row.also_issuers
        start, _, rest = expected.partition(_ANY_TENANT)
        found = re.fullmatch(re.escape(start) + f"({_TENANT.pattern})" + re.escape(rest), issuer)
        return found is not None and tenant in (None, found[1])

    def id_claims(self, token: Any, nonce: Optional[str], access_token: str) -> Dict[str, Any]:
        """Return the claims of an ID token (OpenID Connect Core, section 3.1.3.7).

        :param nonce: None for a token of a refresh, which need not have one.
        :raises UpstreamError: the token is not valid, or not for this login.
        """
        title = self._row.title
        if not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
            raise UpstreamError(f"{title}: it gave no ID token", error="server_error")
        try:
            claims, _ = self._verifier.signed_claims(token)
            self._verifier.check_times(claims)
        except InvalidToken as error:
            _log.info("an ID token was refused: " + error.why, *error.values)
            raise UpstreamError(f"{title}: its ID token is not valid", error="server_error") from None
        except OSError as error:
            raise UpstreamError(f"{title}: its keys cannot be fetched", error="temporarily_unavailable") from error
        audience, party, tenant = audience_of(claims), claims.get("azp"), claims.get("tid")
        wrong = [what for what, bad in (
            ("issuer", not isinstance(claims.get("iss"), str) or not self.names(claims["iss"], tenant or "")),
            ("audience", self._client_id not in audience),
            ("authorized party", party not in (None, self._client_id) or len(audience) > 1 and party is None),
            ("nonce", nonce is not None and not _equal(claims.get("nonce"), nonce)),
            ("expiry", claims.get("exp") is None or claims.get("iat") is None),
            ("subject", not isinstance(claims.get("sub"), str) or not claims["sub"]),
            ("purpose", claims.get("token_use", "id") != "id" or claims.get("typ", "ID") != "ID" or "events" in claims),
            ("access token", claims.get("at_hash") is not None and not _is_of(claims["at_hash"], access_token, token)),
        ) if bad]
        if wrong:
            raise UpstreamError(f"{title}: its ID token is not for this login ({wrong[0]})", error="server_error")
        return claims


def _read_metadata(document: Dict[str, Any], url: str) -> UpstreamEndpoints:
    def endpoint(name: str) -> str:
        try:
            return check_url(document.get(name, ""), name)
        except ValueError as error:
            raise FetchError(f"the metadata at {shown(url)} cannot be used: {error}") from error

    def texts(name: str) -> Tuple[str, ...]:
        value = document.get(name)
        return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()

    return UpstreamEndpoints(
        endpoint("authorization_endpoint"), endpoint("token_endpoint"),
        endpoint("userinfo_endpoint") if document.get("userinfo_endpoint") else "", document["issuer"], endpoint("jwks_uri"),
        texts("token_endpoint_auth_methods_supported") or ("client_secret_basic",), texts("scopes_supported"),
        document.get("authorization_response_iss_parameter_supported") is True)


def _equal(one: Any, other: str) -> bool:
    return isinstance(one, str) and hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8"))


def _is_of(digest: Any, access_token: str, id_token: str) -> bool:
    """Return whether an ``at_hash`` is of this access token (OpenID Connect Core, section 3.1.3.6)."""
    algorithm = str(json.loads(base64url_decode(id_token.partition(".")[0])).get("alg"))
    full = hashlib.new("sha512" if algorithm == "EdDSA" else f"sha{algorithm[2:]}", access_token.encode("ascii")).digest()
    return _equal(digest, base64url_encode(full[:len(full) // 2]))
