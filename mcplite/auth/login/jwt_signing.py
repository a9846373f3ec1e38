"""Signing keys: the JSON Web Tokens that this client signs, for client authentication and for DPoP.

All signing of the client is here. It needs the extra ``mcplite[jwt]``, which is loaded with the first key.
"""

import hashlib
import re
import secrets
import threading
import time
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from ...errors import AuthError
from ...protocol.http.oauth import base_of, origin_of, path_of
from ...protocol.opaque import base64url_encode

__all__ = ["Proofs", "SigningKey", "client_assertion"]

#: The algorithm of each curve.
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
#: The fewest bits of an RSA key (RFC 7518, section 3.3).
_SHORTEST = 2048
_EXPECTED = "a private key in PEM, without a password: EC P-256, P-384 or P-521, RSA of 2048 bits or more, or Ed25519"


def _load_encode() -> Any:
    """Return PyJWT's ``encode``, after checking that signing is possible.

    :raises AuthError: a package that signing needs is not installed.
    """
    try:
        import cryptography.hazmat.primitives.asymmetric.ec  # noqa: F401  (PyJWT does without, and then cannot sign)
        from jwt import encode
    except ImportError as error:
        raise AuthError("signing a token needs PyJWT and cryptography: pip install 'mcplite[jwt]'") from error
    return encode


def _algorithms_of(key: Any) -> Tuple[Tuple[str, ...], Dict[str, str]]:
    """Return the algorithms that a key can sign with, the usual one first, and its public half as a JWK.

    :raises ValueError: it is of a kind that is not supported.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
    kind: Any = ECAlgorithm
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        algorithms: Tuple[str, ...] = (_CURVES[key.curve.name],)
    elif isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < _SHORTEST:
            raise ValueError(f"an RSA key of {key.key_size} bits is too short; expected is {_EXPECTED}")
        kind, algorithms = RSAAlgorithm, _RSA
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        kind, algorithms = OKPAlgorithm, ("EdDSA",)
    else:
        raise ValueError(f"this kind of key is not supported; expected is {_EXPECTED}")
    jwk: Dict[str, str] = kind.to_jwk(key.public_key(), as_dict=True)
    jwk.pop("key_ops", None)
    return algorithms, jwk


def _read(pem: Union[str, bytes]) -> Any:
    """Return the private key of a PEM text.

    :raises ValueError: it has none; neither the error nor its cause quotes the text (AUTH-19).
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    data = pem.encode("utf-8", "replace") if isinstance(pem, str) else pem
    why = "the key cannot be read"
    if b"-----BEGIN" not in data:
        why = "this is not PEM, which begins with -----BEGIN (the file's content, not its name)"
    elif b"\\n" in data:
        why += ", as its ends of lines are written as \\n"
    elif b"PUBLIC KEY-" in data and b"PRIVATE KEY-" not in data:
        why = "the key is a public one"
    try:
        return load_pem_private_key(data, password=None)
    except TypeError:
        why = "the key is encrypted"
    except (ValueError, UnsupportedAlgorithm):
        pass  # our error is raised below, without the library's error, which quotes the text
    raise ValueError(f"{why}; expected is {_EXPECTED}")


class SigningKey:
    """A private key and the algorithm that it signs with; any thread may use it.

    Made by :meth:`load` or :meth:`generate`.
    """

    def __init__(self, key: Any, algorithm: Optional[str], key_id: Optional[str]) -> None:
        possible, jwk = _algorithms_of(key)
        if algorithm is not None and algorithm not in possible:
            raise ValueError(f"this key cannot sign with {algorithm!r}, only with {' or '.join(possible)}")
        if key_id is not None and (not isinstance(key_id, str) or not key_id):
            raise ValueError("key_id is a text that is not empty, or None")
        self._key = key
        self._jwk = jwk
        #: The name in a token's header, RFC 7518, section 3.1.
        self.algorithm: str = algorithm or possible[0]
        #: How the other side finds the public key among several.
        self.key_id = key_id

    def __repr__(self) -> str:
        return f"<SigningKey for {self.algorithm}>"

    @classmethod
    def load(cls, pem: Union[str, bytes], algorithm: Optional[str] = None, key_id: Optional[str] = None) -> "SigningKey":
        """Return the key of a PEM text: PKCS#8, or the older forms of EC and RSA keys.

        :param algorithm: by default the usual one of the key: ES256, ES384, ES512, RS256 or EdDSA.
        :param key_id: ``kid`` in what it signs.
        :raises ValueError: it is not such a key, or is one for another algorithm; the text never quotes it.
        :raises AuthError: a package that signing needs is not installed.
        """
        _load_encode()
        return cls(_read(pem), algorithm, key_id)

    @classmethod
    def generate(cls) -> "SigningKey":
        """Return a new key, for ES256.

        :raises AuthError: a package that signing needs is not installed.
        """
        _load_encode()
        from cryptography.hazmat.primitives.asymmetric import ec
        return cls(ec.generate_private_key(ec.SECP256R1()), None, None)

    @property
    def public_jwk(self) -> Dict[str, str]:
        """The public half, with the required members alone (RFC 7517)."""
        return dict(self._jwk)

    @property
    def pem(self) -> str:
        """The private key, as PKCS#8 without a password: for a store of secrets and nothing else."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        text: bytes = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return text.decode("ascii")

    def sign(self, claims: Mapping[str, Any], headers: Optional[Mapping[str, Any]] = None) -> str:
        """Return a signed token.

        :param claims: the payload; values of JSON.
        :param headers: further headers; ``alg`` is always the key's.
        :raises TypeError: a claim is not a value of JSON.
        :raises AuthError: a package that signing needs is not installed.
        """
        # A header that contains the key needs no key id.
        named = {"kid": self.key_id} if self.key_id is not None and "jwk" not in (headers or {}) else {}
        # PyJWT would let a header choose the algorithm.
        signed: str = _load_encode()(dict(claims), self._key, algorithm=self.algorithm,
                                headers={**named, **(headers or {}), "alg": self.algorithm})
        return signed


def client_assertion(key: SigningKey, client_id: str, audience: str) -> str:
    """Return an assertion by which a client authenticates once, within a minute (RFC 7523, section 3).

    :param audience: the authorization server: its issuer, or its token endpoint if it requires that.
    :raises AuthError: a package that signing needs is not installed.
    """
    now = int(time.time())
    return key.sign({
        "iss": client_id, "sub": client_id, "aud": audience, "iat": now, "exp": now + 60,
        "jti": secrets.token_urlsafe(24),
    })


#: The form of a nonce (RFC 9449, section 8.1). If two headers were joined, the value has a space, and is not a nonce.
_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,2048}")
#: Origins whose nonces are remembered; a client talks to few servers and their authorization servers.
_MOST_ORIGINS = 64


class Proofs:
    """Makes the DPoP proof of each request, and remembers the nonce of each origin; any thread may use it.

    :param key: the key that the tokens are bound to.
    """

    def __init__(self, key: SigningKey) -> None:
        self.key = key
        self._headers: Dict[str, Any] = {"typ": "dpop+jwt", "jwk": key.public_jwk}
        #: Guards ``_nonces``; held for dictionary work.
        self._lock = threading.Lock()
        #: The nonces by origin; the nonce that was learned last is at the end.
        self._nonces: Dict[Tuple[str, str, int], str] = {}

    def proof(self, method: str, url: str, token: Optional[str] = None) -> str:
        """Return the value of the header ``DPoP`` for one request; a repeated request needs another one.

        :param url: of the request, as it is sent.
        :param token: the access token of the request; None at a token endpoint.
        :raises ValueError: the URL is not of http or https, or the token is not ASCII.
        :raises AuthError: a package that signing needs is not installed.
        """
        claims: Dict[str, Any] = {
            # A random number, and no counter: it is unique among all threads and processes that use one key, also after a fork.
            "jti": secrets.token_urlsafe(24),
            "htm": method.upper(),
            "htu": base_of(url) + (path_of(url) or "/"),
            "iat": int(time.time()),
        }
        if token is not None:
            if not token.isascii():
                raise ValueError("an access token has only ASCII characters")
            claims["ath"] = base64url_encode(hashlib.sha256(token.encode("ascii")).digest())
        nonce = self._nonces.get(origin_of(url))
        if nonce is not None:
            claims["nonce"] = nonce
        return self.key.sign(claims, self._headers)

    def learn(self, url: str, headers: Mapping[str, str]) -> bool:
        """Note the nonce that a response wants in further proofs; return whether there is one.

        A malformed nonce is ignored.

        :param url: of the request.
        :param headers: of the response.
        :raises ValueError: the URL is not of http or https.
        """
        nonce = next((value for name, value in headers.items() if name.lower() == "dpop-nonce"), None)
        origin = origin_of(url)
        if nonce is None or _NONCE.fullmatch(nonce) is None:
            return False
        with self._lock:
            self._nonces.pop(origin, None)
            self._nonces[origin] = nonce
            if len(self._nonces) > _MOST_ORIGINS:
                del self._nonces[next(iter(self._nonces))]
        return True
