"""Chooses the scopes to ask for when a server wants more than the token has."""

from typing import List, Optional, Sequence

from ...protocol.http.challenges import Challenge
from .discovery import OFFLINE_ACCESS, AuthorizationServer, ProtectedResource

__all__ = ["choose_scopes"]


def choose_scopes(challenge: Optional[Challenge], resource: ProtectedResource, server: AuthorizationServer, given: Sequence[str],
                  before: Sequence[str], lasting: bool) -> List[str]:
    """Return the scopes to ask for: those of the challenge, else what the caller wants, else what the server knows (AUC-39).

    :param before: that were granted before, and are asked for again with what is new (AUC-43).
    :param lasting: whether a refresh token is wanted.
    """
    named = None if challenge is None else challenge.scopes
    base = named or given or resource.scopes or ()
    chosen = [scope for scope in dict.fromkeys([*before, *base, *given]) if scope != OFFLINE_ACCESS]
    if lasting and chosen and OFFLINE_ACCESS in server.scopes:
        chosen.append(OFFLINE_ACCESS)  # AUC-47: only where it is known
    return chosen
