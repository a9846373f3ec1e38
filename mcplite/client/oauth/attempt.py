"""The refusals of one request: what is done about each, so that none goes on for ever (AUTH-48)."""

from typing import TYPE_CHECKING, Mapping, Set

from ...errors import AuthError
from ...protocol.http.challenges import find, parse
from ...net.adapter import Exchange

if TYPE_CHECKING:
    from ...net.link import Reply
    from .access import Access

__all__ = ["Attempt"]

#: How often one request is sent again because another thread has got a new token, or for a nonce.
_REPEATS = 3


class Attempt:
    """One request.

    :param access: the way to a token.
    """

    def __init__(self, access: "Access") -> None:
        self._access = access
        self._since = access.failed
        self._done: Set[str] = set()
        self._repeats = 0

    def answers(self, reply: "Reply", headers: Mapping[str, str], exchange: Exchange) -> bool:
        """Deal with a refusal; return whether the request is to be sent again.

        :param headers: those of the request that are its own.
        :raises AuthError: the server wants what cannot be had.
        :raises Stopped: nobody waits any more.
        """
        header = reply.headers.get("WWW-Authenticate") or ""
        challenge = find(parse(header), *self._access.schemes)
        code = None if challenge is None else challenge.get("error")
        if reply.status == 401 or code == "insufficient_scope":
            reply.excerpt()  # its connection is free for others, however long a login takes
        if reply.status == 401 and code == "use_dpop_nonce" and reply.headers.get("DPoP-Nonce"):
            return self._again()  # RFC 9449, section 9: the token is as good as it was
        if reply.status == 401:
            if "obtained" in self._done:
                self._access.fresh_was_refused()
                return False
            may_refresh = "refreshed" not in self._done
            return self._did(self._access.replace(reply.token, challenge, headers, exchange, refresh=may_refresh,
                                                  address=reply.address, since=self._since))
        if code != "insufficient_scope" or challenge is None:
            return False
        if "stepped up" in self._done:
            self._access.stepped_in_vain()
        reason = ("it was given more just now" if "stepped up" in self._done
                  else self._access.insufficient(reply.token, challenge))
        if reason is not None:
            wanted = " ".join(challenge.scopes or ["not said"])
            raise AuthError(f"{self._access.name} refuses, because the token lacks scopes ({wanted}), and {reason}",
                            challenge=header, error=code)
        how = self._access.replace(reply.token, challenge, headers, exchange, refresh=False, more=True, address=reply.address,
                                   since=self._since)
        return self._did("stepped up" if how == "obtained" else how)

    def _did(self, what: str) -> bool:
        self._done.add(what)
        return what != "adopted" or self._again()

    def _again(self) -> bool:
        self._repeats += 1
        return self._repeats <= _REPEATS
