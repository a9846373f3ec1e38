"""Verifies access tokens that are JSON Web Tokens: keys, signature and claims (RFC 9068, RFC 8725).

A :class:`KeySet` has the public keys of an authorization server: read from the given form, or fetched and kept up to date.
Needs the package PyJWT; only servers that use :class:`JWTVerifier` load it.
"""

import json
import os
import threading
import time
from copy import copy
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from ...protocol.error_text import shown
from ...protocol.http.oauth import check_url, issuer_metadata_urls
from ...rpc.tracing import get_logger
from ...server.principals import Principal
from .fetch import FetchError, deadline, fetch_json
from .verified_tokens import VerifiedTokens

__all__ = ["InvalidToken", "JWTVerifier", "KeySet", "audience_of", "fitting", "fetch_metadata", "metadata_keys_url",
           "read_claims", "read_jwk", "read_keys"]

_log = get_logger(__name__)
T = TypeVar("T")
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
#: The supported signature algorithms. Those with a shared secret are not: a verifier of such tokens could also issue them.
ALGORITHMS = _RSA | frozenset(_CURVES.values()) | {"EdDSA"}
#: The members of a public key. Others are not read: a private part may have been published by mistake.
_PUBLIC = ("kty", "n", "e", "crv", "x", "y")
_RSA_BITS = range(2048, 16_385)
#: Keys that are read of one set.
_MOST_KEYS = 100
#: Keys that are tried for a token that does not name its key.
_MOST_TRIED = 8
#: Seconds between two attempts to fetch a set (AUTH-07).
_PAUSE_SECONDS = 60.0
#: Seconds between two attempts as long as no set has been fetched.
_FIRST_PAUSE_SECONDS = 5.0
#: Seconds after which a set is fetched again, so that revoked keys are dropped.
_FRESH = 600.0
#: Seconds for which a set is used while fetching it again fails.
_KEPT = 86_400.0


class Key(NamedTuple):
    """One public key."""

    #: None for a key without an id, which is tried for every token.
    id: Optional[str]
    #: The algorithms that the key can be used with.
    algorithms: FrozenSet[str]
    key: Any


def fitting(keys: Sequence[Key], id: Optional[str], algorithm: str) -> List[Key]:
    """Return the keys that a token with this key id and algorithm may be signed with."""
    return [key for key in keys if algorithm in key.algorithms and (id is None or key.id in (None, id))][:_MOST_TRIED]


# --- reading ------------------------------------------------------------------------------------------------


def read_keys(given: Any) -> List[Key]:
    """Return the keys in a PEM, a JWK, a JWK set (as objects or as text), or in several of them.

    :raises ValueError: there is no usable key.
    """
    if isinstance(given, bytes):
        given = given.decode("utf-8")
    if isinstance(given, str):
        text = given.lstrip("\ufeff").strip()
        found = [_pem(text)] if text.startswith("-----BEGIN") else read_keys(_json(text))
    elif isinstance(given, Mapping):
        found = _set(given["keys"]) if "keys" in given else [read_jwk(given)]
    else:
        found = [key for one in given for key in read_keys(one)]
    if not found:
        raise ValueError("there is no usable key")
    return found


def _json(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, (dict, list)):
        raise ValueError("a key must be a PEM text, a JWK or a JWK set")
    return value


def _set(keys: Any) -> List[Key]:
    if not isinstance(keys, list):
        raise ValueError("'keys' of a JWK set must be a list")
    found = []
    for item in keys[:_MOST_KEYS]:
        try:
            found.append(read_jwk(item))
        except ValueError as error:
            _log.debug("a key is ignored: %s", error)  # for another use, or of a type that is not known yet
    return found


def read_jwk(given: Any) -> Key:
    """Return the public key in a JWK.

    :raises ValueError: there is none, or it is not for signatures.
    """
    from jwt import PyJWTError
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    if not isinstance(given, Mapping):
        raise ValueError("a key must be an object")
    reader: Any = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}.get(str(given.get("kty")))
    if reader is None:
        raise ValueError(f"a JWK of the type {str(given.get('kty'))[:50]!r} is not supported; RSA, EC and OKP are")
    use, operations, id, algorithm = (given.get(name) for name in ("use", "key_ops", "kid", "alg"))
    if use not in (None, "sig") or isinstance(operations, list) and "verify" not in operations:
        raise ValueError("it is not for signatures")
    try:
        key = reader.from_jwk({name: given[name] for name in _PUBLIC if name in given})
    except (PyJWTError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"it cannot be read ({type(error).__name__})") from error
    able = _algorithms(key)
    return Key(id if isinstance(id, str) else None, able if algorithm is None else able & {str(algorithm)}, key)


def _pem(text: str) -> Key:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from cryptography.x509 import load_pem_x509_certificate

    data = text.encode("utf-8")
    if "PRIVATE KEY" in text:
        raise ValueError("this is a private key; use the public key, which is what verifies signatures")
    try:
        key: Any = load_pem_x509_certificate(data).public_key() if "CERTIFICATE" in text else load_pem_public_key(data)
    except (ValueError, TypeError) as error:
        raise ValueError(f"this is not the PEM of a public key or a certificate: {error}") from error
    return Key(None, _algorithms(key), key)


def _algorithms(key: Any) -> FrozenSet[str]:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in _RSA_BITS:
            raise ValueError(f"an RSA key of {key.key_size} bits is not supported; {_RSA_BITS[0]} to {_RSA_BITS[-1]} bits are")
        return _RSA
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return frozenset({_CURVES[key.curve.name]})
    if isinstance(key, ed25519.Ed25519PublicKey):
        return frozenset({"EdDSA"})
    raise ValueError(f"keys of the type {type(key).__name__} are not supported")


# --- fetching -----------------------------------------------------------------------------------------------


def metadata_keys_url(issuer: str, until: float) -> str:
    """Return the URL of an authorization server's keys from its metadata (RFC 8414, OpenID Connect Discovery).

    :param until: the :func:`deadline` for fetching the metadata.
    :raises FetchError: there is no metadata, it belongs to another issuer, or it does not name the URL.
    """
    def keys_url(found: Dict[str, Any], url: str) -> str:
        try:
            return check_url(found.get("jwks_uri", ""), "jwks_uri")
        except ValueError as error:
            raise FetchError(f"the metadata at {url} does not say where the keys are: {error}") from error

    return fetch_metadata(issuer, issuer_metadata_urls(issuer), until, keys_url, lambda named: named == issuer)


def fetch_metadata(issuer: str, urls: Iterable[str], until: float, read: Callable[[Dict[str, Any], str], T],
                   is_issuer: Callable[[Any], bool]) -> T:
    """Return what *read* makes of an authorization server's metadata, from the first URL where that succeeds.

    :param urls: where the metadata may be, in the order to try.
    :param until: the :func:`deadline` for fetching the metadata.
    :param read: called with metadata and its URL; raises FetchError if they are not enough.
    :param is_issuer: tells whether the ``issuer`` of the metadata is the expected one.
    :raises FetchError: there is no metadata, or none that is of this issuer and enough.
    """
    failures: List[FetchError] = []
    for url in urls:
        try:
            status, found = fetch_json(url, "the metadata of the authorization server", until=until)
            if 400 <= status < 500:
                continue
            if status != 200 or not isinstance(found, dict):
                raise FetchError(f"the metadata of the authorization server at {url} could not be fetched (status {status})")
            if not is_issuer(found.get("issuer")):
                # RFC 8414, section 3.3: such metadata must not be used.
                raise FetchError(f"the metadata at {url} is of the issuer {str(found.get('issuer'))[:200]!r}, not of"
                                 f" {issuer!r}; issuers are compared character by character")
            return read(found, url)
        except FetchError as error:  # such as a page, a redirect or an error of a gateway
            failures.append(error)
    if failures:
        raise failures[0]
    raise FetchError(f"the authorization server {issuer} has no metadata at its well-known URLs; give jwks_url=")


class KeySet:
    """A key set that is fetched on demand, by one thread at a time, while other threads use the last set.

    :param locate: called with a deadline before each fetch, without a lock held; returns the URL of the set.
    :param clock: returns seconds.
    """

    def __init__(self, locate: Callable[[float], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._locate = locate
        self._clock = clock
        #: Guards the fields below; held for assignments only. Threads wait on it for the first set.
        self._changed = threading.Condition()
        self._keys: Optional[Tuple[Key, ...]] = None
        self._fetched = 0.0
        #: When the next fetch may be tried.
        self._due: Optional[float] = None
        self._fetching = False
        self._failure = ""
        #: The process whose threads fetch.
        self._process = os.getpid()

    @property
    def fresh(self) -> Optional[Tuple[Key, ...]]:
        """The set that was fetched last; None if it is due to be fetched again."""
        keys = self._keys
        return keys if self._clock() - self._fetched < _FRESH else None

    def find(self, id: Optional[str], algorithm: str) -> List[Key]:
        """Return the keys that a token may be signed with; empty if the current set has none.

        :raises FetchError: no set could be fetched.
        """
        keys = self.fresh
        if keys is not None:
            found = fitting(keys, id, algorithm)
            if found:
                return found
        return fitting(self._renewed(), id, algorithm)

    def _renewed(self) -> Tuple[Key, ...]:
        if self._process != os.getpid():  # a forked process does not have the fetching thread
            self._changed, self._fetching, self._process = threading.Condition(), False, os.getpid()
        with self._changed:
            self._changed.wait_for(lambda: self._keys is not None or not self._fetching)
            keys, now = self._keys, self._clock()
            if self._fetching or (self._due is not None and now < self._due):
                return self._still_good(keys, now)
            self._fetching = True
        fetched: Optional[Tuple[Key, ...]] = None
        failure = "it was interrupted"
        try:
            fetched = self._fetch()
        except FetchError as error:
            failure = str(error)
        finally:
            with self._changed:
                self._fetching = False
                now = self._clock()
                self._due = now + (_FIRST_PAUSE_SECONDS if self._keys is None and fetched is None else _PAUSE_SECONDS)
                self._failure = failure
                if fetched is not None:
                    self._keys, self._fetched = fetched, now
                self._changed.notify_all()
        if fetched is not None:
            return fetched
        _log.warning("the keys of the authorization server could not be fetched: %s", failure)
        return self._still_good(keys, now)

    def _still_good(self, keys: Optional[Tuple[Key, ...]], now: float) -> Tuple[Key, ...]:
        if keys is None or now - self._fetched > _KEPT:
            raise FetchError(self._failure)
        return keys

    def _fetch(self) -> Tuple[Key, ...]:
        until = deadline()
        url = self._locate(until)
        status, found = fetch_json(url, "the key set of the authorization server", until=until)
        if status != 200:
            raise FetchError(f"the key set at {shown(url)} could not be fetched (status {status})")
        try:
            return tuple(read_keys(found if isinstance(found, dict) and "keys" in found else {"keys": None}))
        except ValueError as error:
            raise FetchError(f"the key set at {shown(url)} cannot be used: {error}") from error


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


class InvalidToken(Exception):
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

    #: Whether tokens that are bound to a key are accepted.
    _takes_bound = False

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

    def for_bound_tokens(self) -> "JWTVerifier":
        """Return a verifier with these keys that accepts bound tokens as well, whose proof its caller checks."""
        other = copy(self)
        other._takes_bound, other._cache = True, VerifiedTokens(_CACHE_SECONDS, _MOST_CACHED, self._clock)
        return other

    def __call__(self, token: str) -> Optional[Principal]:
        """Return the principal of a token; None if the token is not valid, or is bound to a key.

        :raises OSError: the issuer's keys cannot be fetched.
        """
        fresh = self._fresh_keys()
        digest, principal = self._cache.find(token, fresh)
        if principal is not None:
            return principal
        try:
            claims, key = self.signed_claims(token)
            principal = self._principal(claims)
        except InvalidToken as error:
            _log.info("a token was refused: " + error.why, *error.values)
            return None
        fresh = self._fresh_keys()
        if fresh is not None and any(one is key for one in fresh):  # another thread may have fetched others meanwhile
            self._cache.add(digest, principal, fresh)
        return principal

    # --- the signature ----------------------------------------------------------------------------------------

    def signed_claims(self, token: str) -> Tuple[Dict[str, Any], Key]:
        """Return the claims of a token, after its signature has been verified, and the key that has verified it.

        :raises InvalidToken: it is not signed by one of the issuer's keys. Issuer, audience and times are not looked at.
        :raises OSError: the issuer's keys cannot be fetched.
        """
        from jwt import PyJWTError

        try:
            header = self._jws.get_unverified_header(token)
        except (PyJWTError, ValueError, RecursionError) as error:
            raise InvalidToken("it is not a signed JWT (%s)", type(error).__name__) from error
        algorithm, id = header.get("alg"), header.get("kid")
        # AUTH-06: the configuration decides which algorithms are allowed, never the token.
        if algorithm not in self._algorithms:
            raise InvalidToken("it is signed with %.20r; allowed are %s", str(algorithm), ", ".join(self._algorithms))
        if "crit" in header or header.get("b64", True) is not True:
            raise InvalidToken("its header asks for extensions")
        if self._types is not None and _short_type(header.get("typ")) not in self._types:
            raise InvalidToken("its type is %.50r", str(header.get("typ")))
        named = id if isinstance(id, str) else None
        for key in fitting(self._keys, named, algorithm) if isinstance(self._keys, list) else self._keys.find(named, algorithm):
            try:
                return read_claims(self._jws.decode(token, key.key, algorithms=[algorithm])), key
            except (PyJWTError, ValueError, TypeError) as error:
                _log.debug("a key does not fit a token: %s", type(error).__name__)
        raise InvalidToken("its signature is not by one of the issuer's keys")

    # --- the claims -------------------------------------------------------------------------------------------

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        for name in self._required:
            if claims.get(name) is None:
                raise InvalidToken("it has no %r", name)
        if claims.get("iss") != self.issuer:
            raise InvalidToken("its issuer is %.200r, not %r", str(claims.get("iss")), self.issuer)  # AUTH-05: as text
        for name, what in _FOREIGN_CLAIMS.items():
            if name in claims and not (self._takes_bound and name == "cnf"):
                raise InvalidToken("it is %s", what)
        if any(str(claims.get(name, "")).lower() in _FOREIGN_KINDS for name in ("typ", "token_use", "token_type")):
            raise InvalidToken("it is not an access token")
        ends = self.check_times(claims)
        try:
            return Principal(
                claims.get("sub", ""), audience=audience_of(claims), issuer=self.issuer, scopes=scopes_of(claims),
                client_id=_text(claims.get("client_id")) or _text(claims.get("azp")),
                expires_at=None if ends is None else ends + self._leeway, claims=claims)
        except (TypeError, ValueError) as error:
            raise InvalidToken("%s", error) from error


    def check_times(self, claims: Mapping[str, Any]) -> Optional[float]:
        """Return when a token with these claims expires, without the leeway; None for never.

        :raises InvalidToken: it has expired, or is not valid yet.
        """
        now = self._clock()
        ends = _time(claims, "exp")
        if ends is not None and ends + self._leeway <= now:
            raise InvalidToken("it has expired")
        for name in ("nbf", "iat"):
            begins = _time(claims, name)
            if begins is not None and begins - self._leeway > now:
                raise InvalidToken("its %r is in the future", name)
        return ends


def _short_type(kind: Any) -> str:
    # RFC 7515, section 4.1.9: the prefix is usually omitted.
    text = str(kind).lower()
    return text[len("application/"):] if text.startswith("application/") else text


def read_claims(payload: bytes) -> Dict[str, Any]:
    """Return the claims of a token.

    :raises ValueError: they are no JSON object.
    """
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
        raise InvalidToken("its %r is not a valid time", name)
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
