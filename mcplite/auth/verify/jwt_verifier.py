"""Verifies access tokens that are JSON Web Tokens: signature and claims (RFC 9068, RFC 8725).

Needs the package PyJWT; only servers that use :class:`JWTVerifier` load it.
"""

import json
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ...protocol.http.wellknown import check_url
from ...rpc.tracing import INFO, PeerLog, get_logger
from ...server.principals import Principal, VerifiedTokens
from .keysets import ALGORITHMS, Key, KeySet, fitting, metadata_keys_url, read_keys

__all__ = ["JWTVerifier"]

_log = get_logger(__name__)
#: The most seconds of leeway for clocks that differ (AUTH-04).
_MAX_LEEWAY_SECONDS = 60.0
#: Seconds for which a valid token is not verified again, and how many tokens that holds for at most.
_CACHE_SECONDS = 60.0
_MOST_CACHED = 10_000
#: Times from the year 5138 on are not valid.
_LATEST = 1e11
#: Claims that only tokens for other purposes have (AUTH-08).
_FOREIGN_CLAIMS = {"at_hash": "an ID token", "c_hash": "an ID token", "cnf": "bound to a key, not a bearer token"}
_FOREIGN_KINDS = frozenset({"id", "id_token", "refresh", "refresh_token", "offline", "logout"})


class _Invalid(Exception):
    """The token is not valid.

    :param why: a text for the log, with the places of *values*. It stands in the code, so that the log is limited for each.
    """

    def __init__(self, why: str, *values: object) -> None:
        super().__init__(why, *values)
        self.why = why
        self.values = values


class JWTVerifier:
    """Verifies access tokens that an authorization server has signed.

    The audience is checked by :class:`BearerAuth`. Only the issuer's keys are used; keys or URLs in a token's header are
    ignored. A token that is valid is not verified again for a minute, unless it expires or the keys are fetched again.

    :param issuer: the issuer identifier; must equal the token's ``iss`` character by character.
    :param jwks_url: the URL of the issuer's keys. Default: taken from the issuer's metadata.
    :param keys: the keys themselves, so that nothing is fetched: a public key or certificate as PEM, a JWK, a JWK set, or
        several of them.
    :param algorithms: the accepted signature algorithms, of RS, PS and ES with 256, 384 and 512, and EdDSA.
    :param leeway: seconds that the clocks may differ, at most 60.
    :param token_types: the accepted ``typ`` of a token's header, such as ``["at+jwt"]``. Default: any.
    :param required: claims that a token must have.
    :param clock: returns seconds since 1970.
    :raises ImportError: PyJWT or cryptography is not installed.
    :raises ValueError: an option is not valid.
    """

    def __init__(self, *, issuer: str, jwks_url: Optional[str] = None, keys: Any = None,
                 algorithms: Iterable[str] = ("RS256", "ES256"), leeway: float = 30.0,
                 token_types: Optional[Iterable[str]] = None, required: Iterable[str] = ("exp", "sub"),
                 clock: Callable[[], float] = time.time) -> None:
        try:
            import cryptography as _  # noqa: F401 - PyJWT needs it for these algorithms
            import jwt
        except ImportError as error:
            raise ImportError(f"JWTVerifier needs more than is installed ({error}): pip install 'mcplite[jwt]'") from error
        self._jws = jwt.PyJWS()
        self.issuer = check_url(issuer, "issuer=")
        self._algorithms = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
        unknown = [name for name in self._algorithms if name not in ALGORITHMS]
        if unknown or not self._algorithms:
            raise ValueError(f"algorithms={list(self._algorithms)!r}: supported are {', '.join(sorted(ALGORITHMS))};"
                             " algorithms with a shared secret are not, since a server that verifies such tokens could also"
                             " issue them")
        if not 0 <= leeway <= _MAX_LEEWAY_SECONDS:
            raise ValueError(f"leeway must be 0 to {_MAX_LEEWAY_SECONDS:g} seconds, not {leeway!r}")
        self._leeway = leeway
        self._types = None if token_types is None else frozenset(_short_type(kind) for kind in token_types)
        self._required = tuple(required)
        self._clock = clock
        #: Of the tokens that were refused, which anyone can send.
        self._log = PeerLog()
        if keys is not None and jwks_url is not None:
            raise ValueError("give keys= or jwks_url=, not both")
        self._cache = VerifiedTokens(_CACHE_SECONDS, _MOST_CACHED, clock)
        #: Given, or to be fetched.
        self._keys: Union[List[Key], KeySet] = self._key_set(jwks_url) if keys is None else read_keys(keys)

    def _key_set(self, url: Optional[str]) -> KeySet:
        if url is not None:
            at = check_url(url, "jwks_url=")
            return KeySet(lambda until: at)
        return KeySet(lambda until: metadata_keys_url(self.issuer, until))

    def _fresh_keys(self) -> Optional[Sequence[Key]]:
        """Return the keys that tokens are verified by now; None if they have to be fetched."""
        return self._keys if isinstance(self._keys, list) else self._keys.fresh

    def __repr__(self) -> str:
        return f"<JWTVerifier of {self.issuer}>"

    def __call__(self, token: str) -> Optional[Principal]:
        """Return the principal of a token; None if the token is not valid.

        :raises OSError: the issuer's keys cannot be fetched.
        """
        fresh = self._fresh_keys()
        digest, principal = self._cache.find(token, fresh)
        if principal is not None:
            return principal
        try:
            claims, key = self._claims(token)
            principal = self._principal(claims)
        except _Invalid as error:
            self._log.log(_log, INFO, "a token was refused: " + error.why, *error.values)
            return None
        fresh = self._fresh_keys()
        if fresh is not None and any(one is key for one in fresh):  # another thread may have fetched others meanwhile
            self._cache.add(digest, principal, fresh)
        return principal

    # --- the signature ----------------------------------------------------------------------------------------

    def _claims(self, token: str) -> Tuple[Dict[str, Any], Key]:
        """Return the claims of a token, after its signature has been verified, and the key that has verified it."""
        from jwt import PyJWTError

        try:
            header = self._jws.get_unverified_header(token)
        except (PyJWTError, ValueError, RecursionError) as error:
            raise _Invalid("it is not a signed JWT (%s)", type(error).__name__) from error
        algorithm, id = header.get("alg"), header.get("kid")
        # AUTH-06: the configuration decides which algorithms are allowed, never the token.
        if algorithm not in self._algorithms:
            raise _Invalid("it is signed with %.20r; allowed are %s", str(algorithm), ", ".join(self._algorithms))
        if "crit" in header or header.get("b64", True) is not True:
            raise _Invalid("its header asks for extensions")
        if self._types is not None and _short_type(header.get("typ")) not in self._types:
            raise _Invalid("its type is %.50r", str(header.get("typ")))
        named = id if isinstance(id, str) else None
        for key in fitting(self._keys, named, algorithm) if isinstance(self._keys, list) else self._keys.find(named, algorithm):
            try:
                return _object(self._jws.decode(token, key.key, algorithms=[algorithm])), key
            except (PyJWTError, ValueError, TypeError) as error:
                _log.debug("a key does not fit a token: %s", type(error).__name__)
        raise _Invalid("its signature is not by one of the issuer's keys")

    # --- the claims -------------------------------------------------------------------------------------------

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        for name in self._required:
            if claims.get(name) is None:
                raise _Invalid("it has no %r", name)
        if claims.get("iss") != self.issuer:
            raise _Invalid("its issuer is %.200r, not %r", str(claims.get("iss")), self.issuer)  # AUTH-05: as text
        for name, what in _FOREIGN_CLAIMS.items():
            if name in claims:
                raise _Invalid("it is %s", what)
        if any(str(claims.get(name, "")).lower() in _FOREIGN_KINDS for name in ("typ", "token_use", "token_type")):
            raise _Invalid("it is not an access token")
        now = self._clock()
        ends = _time(claims, "exp")
        if ends is not None and ends + self._leeway <= now:
            raise _Invalid("it has expired")
        for name in ("nbf", "iat"):
            begins = _time(claims, name)
            if begins is not None and begins - self._leeway > now:
                raise _Invalid("its %r is in the future", name)
        try:
            return Principal(
                claims.get("sub", ""), audience=audience_of(claims), issuer=self.issuer, scopes=scopes_of(claims),
                client_id=_text(claims.get("client_id")) or _text(claims.get("azp")),
                expires_at=None if ends is None else ends + self._leeway, claims=claims)
        except (TypeError, ValueError) as error:
            raise _Invalid("%s", error) from error


def _short_type(kind: Any) -> str:
    # RFC 7515, section 4.1.9: the prefix is usually omitted.
    text = str(kind).lower()
    return text[len("application/"):] if text.startswith("application/") else text


def _object(payload: bytes) -> Dict[str, Any]:
    try:
        claims = json.loads(payload, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(claims, dict):
        raise ValueError("not an object")
    return claims


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _time(claims: Mapping[str, Any], name: str) -> Optional[float]:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LATEST:
        raise _Invalid("its %r is not a valid time", name)
    return float(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def audience_of(claims: Mapping[str, Any]) -> Tuple[str, ...]:
    """Return the audience of a token; empty if it has none, or one that is not valid."""
    audience = claims.get("aud")
    if isinstance(audience, str):
        return (audience,)
    return tuple(audience) if isinstance(audience, list) and all(isinstance(one, str) for one in audience) else ()


def scopes_of(claims: Mapping[str, Any]) -> Union[str, List[str]]:
    """Return the scopes of a token: ``scope`` (RFC 9068), or ``scp``, which some servers use."""
    scopes = claims.get("scope") or claims.get("scp")
    return scopes if isinstance(scopes, (str, list)) else []
