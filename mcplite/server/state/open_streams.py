"""The event streams that clients hold open, within one limit: which one ends for another, and when its client comes back.

A module of its own below the streams: under a WSGI host all endpoints of a process share one object of it.
"""

import time
from typing import Dict, Hashable

from ...rpc.forks import new_lock, on_fork
from ..eviction import Shares
from .bodies import EndingBody

__all__ = ["OpenStreams"]

#: Requests a second by which the clients come back whose streams have made room for others.
_RETURNS_PER_SECOND = 6.0
#: Seconds after the time to come back for which a client still counts as one that waits.
_LATE_SECONDS = 5.0


def _ends_session(body: EndingBody) -> bool:
    return body.ends_session


def _stays(body: EndingBody) -> bool:
    return body.ends_session or body.must_stay


class OpenStreams:
    """The event streams that are open; for one more the oldest ends.

    A stream whose session ends with it makes room only if there is no other, and one that must stay makes none.

    :param most: streams at once.
    :param in_turns: whether clients have to take turns, since there may be more of them than *most*: then each is told when to
        come back. That is the later the more of them wait, so that few come back in a second.
    """

    def __init__(self, most: int, in_turns: bool = False) -> None:
        self._in_turns = in_turns
        self._open: Shares[EndingBody] = Shares(most, busy=_stays, lasting=_ends_session)
        #: Guards ``_away``; held for dictionary work only.
        self._lock = new_lock()
        #: Until when a client counts as one that waits, by the name of its stream.
        self._away: Dict[Hashable, float] = {}
        on_fork(self, OpenStreams._let_go)

    def _let_go(self, owner: int) -> None:
        self._open.clear()  # these responses belong to the other process
        self._away.clear()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, body: EndingBody, sender: str) -> None:
        """Add a stream until :meth:`remove`."""
        if body.name is not None:
            with self._lock:
                self._away.pop(body.name, None)
        going = self._open.add(body, sender)
        for old in [body] if going is None else going:
            if old.must_stay:
                continue
            if self._in_turns and not old.ends_session:
                old.end_for_now(self.leave(old.name))
            else:
                old.stop()

    def remove(self, body: EndingBody) -> None:
        """Note that a stream has ended."""
        self._open.remove(body)

    def leave(self, name: Hashable = None) -> float:
        """Note that a client waits to come back; return the seconds until it should.

        :param name: of its stream; None if it cannot be told when it has come back.
        """
        now = time.monotonic()
        with self._lock:
            self._away = {known: until for known, until in self._away.items() if until > now}
            seconds = (len(self._away) + (name not in self._away)) / _RETURNS_PER_SECOND
            self._away[object() if name is None else name] = now + seconds + (0.0 if name is None else _LATE_SECONDS)
        return seconds

    def forget(self, session: str) -> None:
        """Note that a session has ended, whose client does not come back."""
        with self._lock:
            for name in [name for name in self._away if name == session or type(name) is tuple and name[0] == session]:
                del self._away[name]
