"""The public keys of an authorization server: read from the given form, or fetched and kept up to date."""

import json
import time
from typing import Any, Callable, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...protocol.error_text import shown
from ...protocol.http.wellknown import check_url, issuer_metadata_urls
from ...rpc.forks import new_condition, on_fork
from ...rpc.tracing import get_logger
from .fetch import FetchError, deadline, fetch_json

__all__ = ["ALGORITHMS", "Key", "KeySet", "fitting", "metadata_keys_url", "read_keys"]

_log = get_logger(__name__)
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
        found = _set(given["keys"]) if "keys" in given else [_jwk(given)]
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
            found.append(_jwk(item))
        except ValueError as error:
            _log.debug("a key is ignored: %s", error)  # for another use, or of a type that is not known yet
    return found


def _jwk(given: Any) -> Key:
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
    failures: List[FetchError] = []
    for url in issuer_metadata_urls(issuer):
        try:
            found = _keys_url_at(url, issuer, until)
        except FetchError as error:  # such as a page, a redirect or an error of a gateway
            failures.append(error)
            continue
        if found is not None:
            return found
    if failures:
        raise failures[0]
    raise FetchError(f"the authorization server {issuer} has no metadata at its well-known URLs; give jwks_url=")


def _keys_url_at(url: str, issuer: str, until: float) -> Optional[str]:
    """Return the URL of the keys from the metadata at one URL; None if there is no metadata.

    :raises FetchError: as for :func:`metadata_keys_url`.
    """
    status, found = fetch_json(url, "the metadata of the authorization server", until=until)
    if 400 <= status < 500:
        return None
    if status != 200 or not isinstance(found, dict):
        raise FetchError(f"the metadata of the authorization server at {url} could not be fetched (status {status})")
    if found.get("issuer") != issuer:
        # RFC 8414, section 3.3: such metadata must not be used.
        raise FetchError(f"the metadata at {url} is of the issuer {str(found.get('issuer'))[:200]!r}, not of {issuer!r};"
                         " issuers are compared character by character")
    try:
        return check_url(found.get("jwks_uri", ""), "jwks_uri")
    except ValueError as error:
        raise FetchError(f"the metadata at {url} does not say where the keys are: {error}") from error


class KeySet:
    """A key set that is fetched on demand, by one thread at a time, while other threads use the last set.

    :param locate: called with a deadline before each fetch, without a lock held; returns the URL of the set.
    :param clock: returns seconds.
    """

    def __init__(self, locate: Callable[[float], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._locate = locate
        self._clock = clock
        #: Guards the fields below; held for assignments only. Threads wait on it for the first set.
        self._changed = new_condition()
        self._keys: Optional[Tuple[Key, ...]] = None
        self._fetched = 0.0
        #: When the next fetch may be tried.
        self._due: Optional[float] = None
        self._fetching = False
        self._failure = ""
        on_fork(self, KeySet._let_go)

    def _let_go(self, owner: int) -> None:
        self._fetching = False  # a forked process does not have the fetching thread

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
