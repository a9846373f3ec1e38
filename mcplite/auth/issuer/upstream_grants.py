"""Keeps what the logins at upstream providers gave: who logged in, and the provider's tokens, encrypted.

A record has a grant's whole life::

    begin() -> finish() -> renewed(), token() ... -> forget(), or a refusal of the provider
               stored      replaced in one step      removed

One worker at a time refreshes the tokens of a grant, and holds a lease in the backend for that: many providers end a login
whose refresh token is used twice. The other workers wait for the result. The lease of a worker that dies expires. No token
reaches a client: only :meth:`UpstreamGrants.token` returns one, for a handler.
"""

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Sequence, Tuple

from ...backend.interface import Backend
from ...protocol.opaque import base64url_decode, base64url_encode
from ...rpc.tracing import get_logger
from .upstream import UpstreamLogin, UpstreamTokens
from .upstream_providers import UpstreamError
from .users import User, user_from, user_members

__all__ = ["Encryption", "UpstreamGrants"]

_log = get_logger(__name__)
#: Seconds for which a lease lasts: longer than a refresh with all its requests takes.
_LEASE_SECONDS = 30.0
#: Seconds between two looks at the record that another worker is about to replace.
_LOOK_SECONDS = 0.05
#: After the provider has said who a user is, it is not asked again for this many seconds.
_RENEWED_SECONDS = 5.0
_NONCE_BYTES = 12


class Encryption:
    """Encrypts texts for the store (AES-256-GCM), each bound to its place there.

    :param keys: secrets that all processes share: the first encrypts, all of them decrypt. Without keys, this process makes one
        for itself.
    :raises ImportError: cryptography is not installed.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        # The keys for encryption are derived, because the given keys also serve for signatures.
        self._ciphers = [AESGCM(hmac.new(key, b"mcplite issuer encryption", hashlib.sha256).digest())
                         for key in keys or [secrets.token_bytes(32)]]

    def encrypt(self, content: bytes, place: str) -> bytes:
        """Return *content* encrypted, to be decrypted for the same place."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, content, place.encode("utf-8"))

    def decrypt(self, data: bytes, place: str) -> Optional[bytes]:
        """Return the content; None if it was not encrypted for this place with one of the keys."""
        from cryptography.exceptions import InvalidTag

        for cipher in self._ciphers:
            try:
                return cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], place.encode("utf-8"))
            except (InvalidTag, ValueError):  # ValueError: it is too short
                continue
        return None


@dataclass(frozen=True)
class _Record:
    """What is stored of one grant."""

    provider: str
    user: User
    tokens: UpstreamTokens
    #: When the provider last said who the user is, in seconds since 1970.
    renewed_at: float

    def dump(self) -> bytes:
        return json.dumps({"provider": self.provider, "user": user_members(self.user), "tokens": asdict(self.tokens),
                           "renewed_at": self.renewed_at}, separators=(",", ":")).encode("ascii")

    @classmethod
    def load(cls, data: bytes) -> "_Record":
        members = json.loads(data)
        tokens = UpstreamTokens(**{**members["tokens"], "scopes": tuple(members["tokens"]["scopes"])})
        return cls(members["provider"], user_from(members["user"]), tokens, members["renewed_at"])


class UpstreamGrants:
    """The logins at the providers of one issuer, and what they gave; any thread and any worker may use it.

    :param logins: the providers.
    :param backend: keeps the grants.
    :param encryption: of what is stored.
    :param seconds: for which a grant is kept after its last change.
    :param clock: returns seconds since 1970.
    :raises ValueError: two providers have one name.
    """

    def __init__(self, logins: Iterable[UpstreamLogin], backend: Backend, encryption: Encryption, seconds: float,
                 clock: Callable[[], float] = time.time) -> None:
        #: The logins, by the name of the provider.
        self.logins: Dict[str, UpstreamLogin] = {}
        for login in logins:
            if login.name in self.logins:
                raise ValueError(f"two upstreams have the name {login.name!r}: give one of them another name=")
            self.logins[login.name] = login
        self._backend, self._encryption, self._seconds, self._clock = backend, encryption, seconds, clock

    # --- the login ------------------------------------------------------------------------------------------

    def begin(self, name: str, transaction: Dict[str, Any], callback: str, state: str) -> str:
        """Return the URL of a provider's login; see :meth:`UpstreamLogin.begin`. The values that it notes are encrypted.

        :raises UpstreamError: there is no such provider, or it cannot be reached.
        """
        begun: Dict[str, Any] = {}
        url = self._login(name).begin(begun, callback, state)
        sealed = self._encryption.encrypt(json.dumps(begun["upstream"]).encode("ascii"), "transaction")
        transaction["upstream"] = {"name": name, "sealed": base64url_encode(sealed)}
        return url

    def finish(self, query: Mapping[str, str], transaction: Mapping[str, Any], callback: str) -> Tuple[User, str]:
        """Return the user who has logged in, and the name of the grant under which the provider's tokens are kept.

        :param transaction: the one that was given to :meth:`begin`; it must not be used again, whether or not this succeeds.
        :raises UpstreamError: see :meth:`UpstreamLogin.finish`.
        """
        noted = transaction.get("upstream")
        try:
            content = self._encryption.decrypt(base64url_decode(noted["sealed"]), "transaction")  # type: ignore[index]
        except (KeyError, TypeError, ValueError, AttributeError):
            content = None
        if content is None or noted is None:
            raise UpstreamError("the response is not of a login that was begun here", error="invalid_request")
        login = self._login(noted["name"])
        user, tokens = login.finish(query, {"upstream": json.loads(content)}, callback)
        grant, record = secrets.token_urlsafe(18), _Record(login.name, user, tokens, self._clock())
        self._backend.put(_place(grant), self._sealed(grant, record), self._seconds)
        return user, grant

    def _login(self, name: str) -> UpstreamLogin:
        login = self.logins.get(name)
        if login is None:
            raise UpstreamError(f"this server has no login at {name[:100]!r} any more", error="invalid_grant")
        return login

    # --- the grant --------------------------------------------------------------------------------------------

    def renewed(self, grant: str) -> User:
        """Ask the provider again who the user is, and return the user.

        :raises UpstreamError: the grant has ended, or the provider has ended it (``invalid_grant``); ``groups=`` refuses the
            user (``access_denied``); or the provider cannot say (any other ``error``), and the grant stays.
        """
        since = self._clock() - _RENEWED_SECONDS

        def renew(record: _Record) -> _Record:
            login, id_token = self._login(record.provider), None
            if record.tokens.refresh_token is not None or record.tokens.due(self._clock()):
                tokens, id_token = login.refresh(record.tokens)
                # The new tokens are stored at once: if the old refresh token were sent again, the provider would end the login.
                record = self._replace(grant, lambda latest: replace(latest, tokens=tokens))
            return replace(record, user=login.find(record.user, record.tokens, id_token), renewed_at=self._clock())

        return self._current(grant, lambda record: record.renewed_at < since, renew).user

    def token(self, grant: str, provider: str) -> str:
        """Return the access token of the provider, refreshed if it is about to expire.

        :raises UpstreamError: the grant has ended (``invalid_grant``), is of another provider, or the token cannot be refreshed
            at present.
        """
        def is_old(record: _Record) -> bool:
            if record.provider != provider:
                raise UpstreamError(f"the user has logged in with {record.provider!r}, not with {provider!r}",
                                    error="access_denied")
            return record.tokens.due(self._clock())

        def refresh(record: _Record) -> _Record:
            try:
                return replace(record, tokens=self._login(provider).refresh(record.tokens)[0])
            except UpstreamError as error:
                if error.error != "invalid_grant" and (record.tokens.expires_at or 0) > self._clock():
                    return record  # the access token is still valid for some seconds
                raise

        return self._current(grant, is_old, refresh).tokens.access_token

    def forget(self, grant: str) -> None:
        """Remove a grant: its user or the issuer has ended it."""
        self._backend.take(_place(grant))

    def _current(self, grant: str, is_old: Callable[[_Record], bool], change: Callable[[_Record], _Record]) -> _Record:
        """Return the record of a grant; if it is old, change it first. Only one worker at a time changes a record."""
        lease = secrets.token_bytes(16)
        until = time.monotonic() + _LEASE_SECONDS
        while True:
            record = self._read(grant)[1]
            if not is_old(record):
                return record
            if self._backend.swap(_place(grant, "lease"), None, lease, _LEASE_SECONDS):
                break
            if time.monotonic() > until:
                raise UpstreamError("another worker is about to refresh the tokens of the provider; try again",
                                    error="temporarily_unavailable")
            time.sleep(_LOOK_SECONDS)
        try:
            record = self._read(grant)[1]  # the last holder of the lease may have changed the record since
            if not is_old(record):
                return record
            changed = change(record)
            return self._replace(grant, lambda latest: changed)
        except UpstreamError as error:
            if error.error == "invalid_grant":
                _log.info("a grant has ended: %s", error)
                self.forget(grant)
            raise
        finally:
            self._backend.swap(_place(grant, "lease"), lease, None, 0.0)

    def _replace(self, grant: str, change: Callable[[_Record], _Record]) -> _Record:
        while True:
            old, record = self._read(grant)
            new = change(record)
            if self._backend.swap(_place(grant), old, self._sealed(grant, new), self._seconds):
                return new

    def _read(self, grant: str) -> Tuple[bytes, _Record]:
        data = self._backend.get(_place(grant))
        content = None if data is None else self._encryption.decrypt(data, _place(grant))
        if data is None or content is None:
            raise UpstreamError("the login at the provider has ended; log in again", error="invalid_grant")
        return data, _Record.load(content)

    def _sealed(self, grant: str, record: _Record) -> bytes:
        return self._encryption.encrypt(record.dump(), _place(grant))


def _place(grant: str, what: str = "record") -> str:
    return f"upstream-{grant}/{what}"
