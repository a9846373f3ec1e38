"""Step-up: which scopes to ask for when a server wants more than the token has, and when to ask no further.

A server that is never content must not have the user log in with every call. So what logins have brought is remembered for
some minutes.
"""

import time
from typing import Dict, FrozenSet, List, Optional, Sequence

from ...errors import AuthError
from ...protocol.http.oauth import Challenge
from .discovery import OFFLINE_ACCESS, AuthorizationServer, ProtectedResource

__all__ = ["LoginHistory", "choose_scopes"]

#: Seconds in which a user is not asked again for what did not help (AUC-44).
_REMEMBERED = 600.0
#: How often more is asked for in that time when it does not help (AUTH-29).
_MOST_STEPS = 3


def choose_scopes(challenge: Optional[Challenge], resource: ProtectedResource, server: AuthorizationServer,
                  given: Sequence[str], granted: Sequence[str], offline: bool) -> List[str]:
    """Return the scopes to ask for: those of the challenge, else those of the caller, else those of the metadata (AUC-39).

    :param given: by the caller.
    :param granted: before; they are asked for again with the new ones (AUC-43).
    :param offline: whether a refresh token is wanted.
    """
    named = None if challenge is None else challenge.scopes
    base = named or [scope for scope in given if scope != OFFLINE_ACCESS] or resource.scopes or ()
    chosen = [scope for scope in dict.fromkeys([*granted, *base, *given]) if scope != OFFLINE_ACCESS]
    if offline and chosen and OFFLINE_ACCESS in server.scopes:
        chosen.append(OFFLINE_ACCESS)  # AUC-47: only where the server knows it
    return chosen


class LoginHistory:
    """What the logins for one server have brought lately.

    It changes under the token lock of that server, or by assignments that need none.

    :param name: of the server, for errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        #: When each set of scopes was asked for.
        self._asked: Dict[FrozenSet[str], float] = {}
        #: When more was granted, and was not enough.
        self._insufficient: List[float] = []
        #: When tokens were refused that a login had just given, and whether the server has accepted one since.
        self._refused: List[float] = []
        self._accepted = False

    def clear(self) -> None:
        """Forget everything: a user has asked for a login."""
        self._asked, self._insufficient, self._refused = {}, [], []

    def on_step_up(self, scopes: Sequence[str], challenge: Optional[Challenge]) -> None:
        """Note that a user is about to be asked for more scopes.

        :raises AuthError: the same scopes were asked for a short time ago (AUC-44).
        """
        wanted, now = frozenset(scopes), time.monotonic()
        if now - self._asked.get(wanted, now - _REMEMBERED) < _REMEMBERED:
            named = " ".join((challenge and challenge.scopes) or scopes)
            raise AuthError(f"{self._name} wants the scopes {named}, which were asked for already, but not granted or not"
                            " enough")
        self._asked = {asked: at for asked, at in self._asked.items() if now - at < _REMEMBERED}
        self._asked[wanted] = now

    def forget_step_up(self, scopes: Sequence[str]) -> None:
        """Note that asking for these scopes failed for another reason than a user's refusal, so that it may be repeated."""
        self._asked.pop(frozenset(scopes), None)

    def on_insufficient(self) -> None:
        """Note that the server has refused the scopes that it had asked for (AUTH-29)."""
        self._insufficient = [*self._insufficient, time.monotonic()][-_MOST_STEPS:]

    @property
    def exhausted(self) -> bool:
        """Whether more scopes were granted so often without being enough that no more are asked for."""
        since = time.monotonic() - _REMEMBERED
        return sum(at > since for at in self._insufficient) >= _MOST_STEPS

    def on_token_refused(self) -> None:
        """Note that the server has refused a token that a login had just given (AUTH-48)."""
        self._refused, self._accepted = [*self._refused, time.monotonic()][-_MOST_STEPS:], False

    def on_token_accepted(self) -> None:
        """Note that the server has accepted a token."""
        self._accepted = True

    @property
    def useless(self) -> bool:
        """Whether logins have not helped lately: no token was accepted since, or too many were refused."""
        since = time.monotonic() - _REMEMBERED
        recent = sum(at > since for at in self._refused)
        return recent >= _MOST_STEPS or bool(recent and not self._accepted)
