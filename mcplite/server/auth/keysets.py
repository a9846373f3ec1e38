"""The public keys of an authorization server: read from what was given, or fetched and kept up to date."""

import json
import logging
import os
import threading
import time
from typing import Any, Callable, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...protocol.http.wellknown import check_url, issuer_metadata_urls
from .fetch import FetchError, deadline, fetch_json, shown

__all__ = ["ALGORITHMS", "Key", "KeySet", "fitting", "metadata_keys_url", "read_keys"]

_log = logging.getLogger(__name__)
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
#: What signatures may be made with. None of a shared secret: whoever can verify such a token can also make one.
ALGORITHMS = _RSA | frozenset(_CURVES.values()) | {"EdDSA"}
#: What a public key consists of; a private part that somebody has published by mistake is not even looked at.
_PUBLIC = ("kty", "n", "e", "crv", "x", "y")
_RSA_BITS = range(2048, 16_385)
#: Keys of one set.
_MOST_KEYS = 100
#: Keys that are tried for a token that does not say which one it was signed with.
_MOST_TRIED = 8
#: Seconds between two attempts to fetch a set (AUTH-07), and
_PAUSE = 60.0
#: the same as long as there is none;
_FIRST_PAUSE = 5.0
#: after which a set is fetched anew, so that keys that were withdrawn are forgotten;
_FRESH = 600.0
#: and for which one is used when that fails.
_KEPT = 86_400.0


class Key(NamedTuple):
    """One public key."""

    #: None for a key that has no name, and may be the one that any token means.
    id: Optional[str]
    #: What it can have signed with.
    algorithms: FrozenSet[str]
    key: Any


def fitting(keys: Sequence[Key], id: Optional[str], algorithm: str) -> List[Key]:
    """Return the keys that a token may be signed with."""
    return [key for key in keys if algorithm in key.algorithms and (id is None or key.id in (None, id))][:_MOST_TRIED]


# --- reading ------------------------------------------------------------------------------------------------


def read_keys(given: Any) -> List[Key]:
    """Return the keys in a PEM, a JWK, a JWK set (as objects or as text), or in several of them.

    :raises ValueError: there is none that can be used.
    """
    if isinstance(given, bytes):
        given = given.decode("utf-8")
    if isinstance(given, str):
        text = given.strip()
        found = [_pem(text)] if text.startswith("-----BEGIN") else read_keys(_json(text))
    elif isinstance(given, Mapping):
        found = _set(given["keys"]) if "keys" in given else [_jwk(given)]
    else:
        found = [key for one in given for key in read_keys(one)]
    if not found:
        raise ValueError("there is no key that can be used")
    return found


def _json(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, (dict, list)):
        raise ValueError("a key is a PEM text, a JWK or a JWK set")
    return value


def _set(keys: Any) -> List[Key]:
    if not isinstance(keys, list):
        raise ValueError("'keys' of a JWK set must be a list")
    found = []
    for item in keys[:_MOST_KEYS]:
        try:
            found.append(_jwk(item))
        except ValueError as error:
            _log.debug("a key is left out: %s", error)  # for something else, or of a kind that comes one day
    return found


def _jwk(given: Any) -> Key:
    from jwt import PyJWTError
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    if not isinstance(given, Mapping):
        raise ValueError("a key must be an object")
    reader: Any = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}.get(str(given.get("kty")))
    if reader is None:
        raise ValueError(f"a JWK of the kind {str(given.get('kty'))[:50]!r} is not used; those of RSA, EC and OKP are")
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
        raise ValueError("this is a private key; to verify signatures the public one is needed")
    try:
        key: Any = load_pem_x509_certificate(data).public_key() if "CERTIFICATE" in text else load_pem_public_key(data)
    except (ValueError, TypeError) as error:
        raise ValueError(f"this is no PEM of a public key or a certificate: {error}") from error
    return Key(None, _algorithms(key), key)


def _algorithms(key: Any) -> FrozenSet[str]:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in _RSA_BITS:
            raise ValueError(f"an RSA key of {key.key_size} bits is not used; those of {_RSA_BITS[0]} to {_RSA_BITS[-1]} are")
        return _RSA
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return frozenset({_CURVES[key.curve.name]})
    if isinstance(key, ed25519.Ed25519PublicKey):
        return frozenset({"EdDSA"})
    raise ValueError(f"keys of the kind {type(key).__name__} are not used")


# --- fetching -----------------------------------------------------------------------------------------------


def metadata_keys_url(issuer: str, until: float) -> str:
    """Return where an authorization server's keys are, as its own metadata says (RFC 8414, OpenID Connect Discovery).

    :param until: the :func:`deadline` for it.
    :raises FetchError: it has no metadata, or they are somebody else's, or do not say it.
    """
    for url in issuer_metadata_urls(issuer):
        status, found = fetch_json(url, "the metadata of the authorization server", until=until)
        if 400 <= status < 500:
            continue
        if status != 200 or not isinstance(found, dict):
            raise FetchError(f"the metadata of the authorization server at {url} could not be had (status {status})")
        if found.get("issuer") != issuer:
            # RFC 8414, section 3.3: its keys are not those of this issuer.
            raise FetchError(f"the metadata at {url} are of the issuer {str(found.get('issuer'))[:200]!r}, not of {issuer!r};"
                             " issuers are compared letter by letter")
        try:
            return check_url(found.get("jwks_uri", ""), "jwks_uri")
        except ValueError as error:
            raise FetchError(f"the metadata at {url} do not say where the keys are: {error}") from error
    raise FetchError(f"the authorization server {issuer} has no metadata at its well-known URLs; say jwks_url=")


class KeySet:
    """Keys that are fetched, by one thread at a time while the others use what is there.

    :param locate: returns where they are, before a deadline; called before each fetch, without a lock.
    :param clock: returns seconds.
    """

    def __init__(self, locate: Callable[[float], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._locate = locate
        self._clock = clock
        #: Guards the fields below; held for assignments, and waited on for the very first set.
        self._changed = threading.Condition()
        self._keys: Optional[Tuple[Key, ...]] = None
        self._fetched = 0.0
        #: When it may be tried again, and whether somebody does that now.
        self._due: Optional[float] = None
        #: The process that does so: one that was forked meanwhile has no such thread.
        self._fetching: Optional[int] = None
        self._failure = ""

    def find(self, id: Optional[str], algorithm: str) -> List[Key]:
        """Return the keys that a token may be signed with; none when the set, as new as can be, has none.

        :raises FetchError: there is no set.
        """
        keys = self._keys
        if keys is not None:
            found = fitting(keys, id, algorithm)
            if found and self._clock() - self._fetched < _FRESH:
                return found
        return fitting(self._renewed(), id, algorithm)

    def _renewed(self) -> Tuple[Key, ...]:
        with self._changed:
            self._changed.wait_for(lambda: self._keys is not None or self._fetching != os.getpid())
            keys, now = self._keys, self._clock()
            if self._fetching == os.getpid() or (self._due is not None and now < self._due):
                return self._still_good(keys, now)
            self._fetching = os.getpid()
        fetched: Optional[Tuple[Key, ...]] = None
        failure = "it was interrupted"
        try:
            fetched = self._fetch()
        except FetchError as error:
            failure = str(error)
        finally:
            with self._changed:
                self._fetching = None
                now = self._clock()
                self._due = now + (_FIRST_PAUSE if self._keys is None and fetched is None else _PAUSE)
                self._failure = failure
                if fetched is not None:
                    self._keys, self._fetched = fetched, now
                self._changed.notify_all()
        if fetched is not None:
            return fetched
        _log.warning("the keys of the authorization server could not be had: %s", failure)
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
            raise FetchError(f"the key set at {shown(url)} could not be had (status {status})")
        try:
            return tuple(read_keys(found if isinstance(found, dict) and "keys" in found else {"keys": None}))
        except ValueError as error:
            raise FetchError(f"the key set at {shown(url)} cannot be used: {error}") from error
