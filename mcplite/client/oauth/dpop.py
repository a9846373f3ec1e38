"""Proofs of possession: a token that is of use only together with this client's key (RFC 9449)."""

import base64
import hashlib
import json
import re
import secrets
import threading
import time
from collections import OrderedDict
from typing import Any, Dict, Mapping, Optional, Tuple

from ...protocol.http.wellknown import base_of, origin_of, path_of
from .keys import SigningKey, base64url

__all__ = ["Proofs"]

#: RFC 9449, section 8.1. Two headers that were joined have a space and are none.
_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,2048}")
#: Origins of which nonces are kept; a client talks to a server or two and to who authorizes for them.
_ORIGINS = 64


class Proofs:
    """Makes the proof that goes with each request, and remembers what nonce each origin wants in it; for any thread.

    :param key: what the tokens are bound to.
    """

    def __init__(self, key: SigningKey) -> None:
        self.key = key
        self._headers: Dict[str, Any] = {"typ": "dpop+jwt", "jwk": key.public_jwk}
        #: Guards _nonces, and nothing is done under it but looking up and putting in.
        self._lock = threading.Lock()
        #: By origin, the one that was used last at the end.
        self._nonces: "OrderedDict[Tuple[str, str, int], str]" = OrderedDict()

    def proof(self, method: str, url: str, token: Optional[str] = None) -> str:
        """Return the value of the header ``DPoP`` for one request; each request, a repeated one too, needs its own.

        :param url: where the request goes, as it is sent.
        :param token: the access token that goes with it; none at a token endpoint.
        :raises ValueError: the URL is none of http or https, or the token has characters that no token has.
        :raises AuthError: what signing needs is not installed.
        """
        claims: Dict[str, Any] = {
            # By chance, not by counting: it holds across threads, forks and processes that share a key.
            "jti": secrets.token_urlsafe(24),
            "htm": method.upper(),
            "htu": base_of(url) + (path_of(url) or "/"),
            "iat": int(time.time()),
        }
        if token is not None:
            if not token.isascii():
                raise ValueError("an access token has only ASCII characters")
            claims["ath"] = base64url(hashlib.sha256(token.encode("ascii")).digest())
        nonce = self._nonce(url)
        if nonce is not None:
            claims["nonce"] = nonce
        return self.key.sign(claims, self._headers)

    def learn(self, url: str, headers: Mapping[str, str], proof: Optional[str] = None) -> bool:
        """Note the nonce that an answer asks for in further proofs, and return whether it is new.

        What is no nonce is not noted.

        :param url: where the request went.
        :param headers: the answer's.
        :param proof: the one that went with the request: new is then what that proof did not have. Without it, new is
            what was not known, which is no answer for a thread whose neighbour met the same nonce a moment before.
        :raises ValueError: the URL is none of http or https.
        """
        nonce = next((value for name, value in headers.items() if name.lower() == "dpop-nonce"), None)
        origin = origin_of(url)
        if nonce is None or _NONCE.fullmatch(nonce) is None:
            return False
        with self._lock:
            before = self._nonces.get(origin)
            self._nonces[origin] = nonce
            self._nonces.move_to_end(origin)
            if len(self._nonces) > _ORIGINS:
                self._nonces.popitem(last=False)
        return nonce != (before if proof is None else _nonce_in(proof))

    def _nonce(self, url: str) -> Optional[str]:
        origin = origin_of(url)
        with self._lock:
            nonce = self._nonces.get(origin)
            if nonce is not None:
                self._nonces.move_to_end(origin)
        return nonce


def _nonce_in(proof: str) -> Optional[str]:
    payload = proof.split(".")[1]
    found: Optional[str] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).get("nonce")
    return found
