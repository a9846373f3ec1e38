"""Tokens that are bound to a key: the checks of a DPoP proof on a server (RFC 9449).

A stolen bearer token can be used by its thief. A bound token names a key in its claim ``cnf``, and each request brings a
proof: a small JSON Web Token that this key has signed for the request's method, URL and token. :class:`BearerAuth` asks for
proofs with ``dpop=``. A token endpoint calls :meth:`DPoP.check` without a token, and binds the token that it issues to the key
whose thumbprint is returned.

A proof can be used once: its ``jti`` is kept in the backend of the server, so that no other process accepts it either.
Needs PyJWT and cryptography, as signed tokens do.
"""

import hashlib
import hmac
import json
import secrets
import time
from typing import Any, Callable, Iterable, Mapping, NoReturn, Optional, Sequence, Tuple

from ...backend.interface import Backend
from ...protocol.http.oauth import canonical
from ...protocol.opaque import base64url_encode
from ...rpc.tracing import get_logger
from ...server.http.access import Refused
from ...server.principals import Principal
from .jwt_verifier import ALGORITHMS, read_claims, read_jwk

__all__ = ["DPoP", "PROOF_ERRORS", "bound_key"]

_log = get_logger(__name__)
#: The errors that are about a proof, and not about the token.
PROOF_ERRORS = frozenset({"invalid_dpop_proof", "use_dpop_nonce"})
_TYPE = "dpop+jwt"
#: The members of a JWK that only a private or shared key has (RFC 7518, section 6).
_SECRET = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
#: The members that a thumbprint is made of (RFC 7638, section 3.2).
_THUMBPRINT = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}
#: Characters of a proof, and of its ``jti``.
_MOST_CHARACTERS = 8000
_MOST_OF_JTI = 256
#: Seconds that the clocks may differ.
_LEEWAY = 5.0
#: Seconds for which a nonce is the current one; proofs with the nonce before it are accepted as well.
_NONCE_SECONDS = 120.0
_SHORTEST, _LONGEST = 5.0, 300.0


class DPoP:
    """Accepts tokens that are bound to a key, with a proof for each request, for ``BearerAuth(..., dpop=DPoP())``.

    :param required: whether tokens that are not bound are refused. By default both kinds are accepted, and a bound token never
        without its proof.
    :param nonces: whether a proof must have a nonce of this server, which changes every two minutes: then a proof cannot have
        been made in advance. A client learns the nonce from the first response, which costs it a request.
    :param seconds: for which a proof can be used after it was made, 5 to 300.
    :param algorithms: the accepted signature algorithms of proofs, as for :class:`JWTVerifier`.
    :param clock: returns seconds since 1970.
    :raises ImportError: PyJWT or cryptography is not installed.
    :raises ValueError: an option is not valid.
    """

    def __init__(self, *, required: bool = False, nonces: bool = False, seconds: float = 60.0,
                 algorithms: Iterable[str] = ("ES256", "ES384", "RS256", "PS256", "EdDSA"),
                 clock: Callable[[], float] = time.time) -> None:
        try:
            import cryptography as _  # noqa: F401 - PyJWT needs it for these algorithms
            import jwt
        except ImportError as error:
            raise ImportError(f"DPoP needs more than is installed ({error}): pip install 'mcplite[jwt]'") from error
        self.required, self.nonces = required, nonces
        self.algorithms = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
        unknown = [name for name in self.algorithms if name not in ALGORITHMS]
        if unknown or not self.algorithms:
            raise ValueError(f"algorithms={list(self.algorithms)!r}: supported are {', '.join(sorted(ALGORITHMS))}")
        if not _SHORTEST <= seconds <= _LONGEST:
            raise ValueError(f"seconds must be {_SHORTEST:g} to {_LONGEST:g}, not {seconds!r}")
        self._seconds = seconds
        self._clock = clock
        self._jws = jwt.PyJWS()

    def __repr__(self) -> str:
        return f"<DPoP, {'required' if self.required else 'allowed'}{', with nonces' if self.nonces else ''}>"

    def check(self, proofs: Sequence[str], method: str, url: str, backend: Backend, *, token: Optional[str] = None,
              key: Optional[str] = None) -> str:
        """Return the thumbprint of the key that a request proves to hold (RFC 7638), and use up the proof.

        :param proofs: the values of the request's header ``DPoP``.
        :param url: of the request, as its client knows it; the query is ignored.
        :param backend: remembers the proofs that were used.
        :param token: the access token of the request; None at a token endpoint.
        :param key: the thumbprint that the token is bound to; None if any key will do.
        :raises Refused: there is no valid proof: status 401 and the error ``invalid_dpop_proof``, or ``use_dpop_nonce`` with
            the nonce among its headers. A token endpoint answers with status 400.
        :raises BackendError: the backend cannot tell whether the proof was used.
        """
        header, claims = self._signed(proofs)
        self._check_request(claims, method, url)
        self._check_time(claims)
        thumbprint = _thumbprint(header["jwk"])
        if token is not None:
            expected = base64url_encode(hashlib.sha256(token.encode("ascii")).digest())
            if not _equal(claims.get("ath"), expected):
                _refuse("it is for another token: 'ath' does not fit")
        if key is not None and not hmac.compare_digest(thumbprint, key):
            _refuse("its key is another one than that of the token")
        if self.nonces:
            self._check_nonce(claims.get("nonce"), backend)
        jti = claims.get("jti")
        if not isinstance(jti, str) or not 0 < len(jti) <= _MOST_OF_JTI:
            _refuse(f"'jti' must be a text of 1 to {_MOST_OF_JTI} characters")
        used = hashlib.sha256(f"{thumbprint} {jti}".encode("utf-8", "surrogatepass")).digest()
        if not backend.swap(f"dpop-{base64url_encode(used)}", None, b"1", self._seconds + 3 * _LEEWAY):
            _refuse("it was used before; each request needs another proof")
        return thumbprint

    def nonce(self, backend: Backend) -> str:
        """Return the current nonce, which is for all clients and all processes.

        :raises BackendError: the backend failed.
        """
        key = f"dpop-nonce-{self._period()}"
        found = backend.get(key)
        if found is None:
            made = secrets.token_urlsafe(24).encode("ascii")
            # If several processes make a nonce at once, the first one that is stored counts.
            found = made if backend.swap(key, None, made, 3 * _NONCE_SECONDS) else backend.get(key) or made
        return found.decode("ascii")

    def _period(self) -> int:
        return int(self._clock() // _NONCE_SECONDS)

    def _check_nonce(self, nonce: Any, backend: Backend) -> None:
        current, now = self.nonce(backend), self._period()
        if _equal(nonce, current):
            return
        for period in (now - 1, now + 1):  # the clock of another process may be ahead
            known = backend.get(f"dpop-nonce-{period}")
            if known is not None and _equal(nonce, known.decode("ascii")):
                return
        raise Refused(401, "use_dpop_nonce", "the proof needs the nonce of this server, in the header DPoP-Nonce",
                      [("DPoP-Nonce", current)])

    # --- the parts of a proof ---------------------------------------------------------------------------------

    def _signed(self, proofs: Sequence[str]) -> Tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the header and the claims of the proof, after its signature has been verified with its own key."""
        from jwt import PyJWTError

        if len(proofs) != 1:
            _refuse("a request needs one header DPoP" + (f", not {len(proofs)}" if proofs else ""))
        proof = proofs[0]
        if len(proof) > _MOST_CHARACTERS:
            _refuse(f"it has more than {_MOST_CHARACTERS} characters")
        try:
            header = self._jws.get_unverified_header(proof)
        except (PyJWTError, ValueError, RecursionError):
            _refuse("it is not a signed JWT")
        algorithm, jwk = header.get("alg"), header.get("jwk")
        if header.get("typ") != _TYPE:
            _refuse(f"its 'typ' must be {_TYPE!r}")
        if algorithm not in self.algorithms:
            _refuse(f"its algorithm must be one of {' '.join(self.algorithms)}")
        if "crit" in header or header.get("b64", True) is not True:
            _refuse("its header asks for extensions")
        if not isinstance(jwk, Mapping) or not _SECRET.isdisjoint(jwk):
            _refuse("its 'jwk' must be a public key")
        try:
            known = read_jwk(jwk)
        except ValueError as error:
            _refuse(f"its 'jwk' is not usable: {error}")
        if algorithm not in known.algorithms:
            _refuse("its 'jwk' does not fit its algorithm")
        try:
            return header, read_claims(self._jws.decode(proof, known.key, algorithms=[algorithm]))
        except (PyJWTError, ValueError, TypeError):
            _refuse("its signature is not valid, or its claims are no JSON object")

    def _check_request(self, claims: Mapping[str, Any], method: str, url: str) -> None:
        if claims.get("htm") != method:
            _refuse("'htm' is not the method of the request")
        htu = claims.get("htu")
        try:
            fits = isinstance(htu, str) and _without_query(htu) == _without_query(url)
        except ValueError:
            fits = False
        if not fits:
            _log.info("a DPoP proof was refused, since it is for %.300r and not for %.300r", str(htu), url)
            _refuse("'htu' is not the URL of the request")

    def _check_time(self, claims: Mapping[str, Any]) -> None:
        made, now = claims.get("iat"), self._clock()
        if isinstance(made, bool) or not isinstance(made, (int, float)) or not abs(made) < float("inf"):
            _refuse("'iat' must be a time in seconds")
        if not now - self._seconds - _LEEWAY < made < now + _LEEWAY:
            _refuse("'iat' is too long ago, or in the future; check the clock")


def bound_key(principal: Principal) -> Optional[str]:
    """Return the thumbprint of the key that a principal's token is bound to; None if it is a bearer token.

    :raises Refused: the token is bound in another way, which is not supported.
    """
    if "cnf" not in principal.claims:
        return None
    cnf = principal.claims["cnf"]
    key = cnf.get("jkt") if isinstance(cnf, Mapping) and set(cnf) == {"jkt"} else None
    if not isinstance(key, str) or not key.isascii():
        raise Refused(401, "invalid_token", "the token is bound to its holder in a way that is not supported")
    return key


def _thumbprint(jwk: Mapping[str, Any]) -> str:
    members = {name: jwk[name] for name in _THUMBPRINT[jwk["kty"]]}
    text = json.dumps(members, sort_keys=True, separators=(",", ":"))
    return base64url_encode(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())


def _without_query(url: str) -> str:
    return canonical(url.partition("#")[0].partition("?")[0])


def _equal(given: Any, expected: str) -> bool:
    return isinstance(given, str) and given.isascii() and hmac.compare_digest(given, expected)


def _refuse(why: str) -> NoReturn:
    raise Refused(401, "invalid_dpop_proof", f"the DPoP proof is not valid: {why}")
