"""The latest changes that processes of a fleet have told, read from the backend once for all streams of this process."""

import json
from collections import deque
from typing import Deque, List, NamedTuple, Optional, Tuple

from ...backend.interface import Backend
from ...rpc.forks import new_lock
from .news import EVERYTHING, LOG

__all__ = ["ToldChange", "Changes"]

#: Changes that are remembered for streams that have not read them yet.
_MOST = 1000


class ToldChange(NamedTuple):
    """One change.

    :param method: of its notification; empty for one that another server has told.
    :param uri: of the resource; None for a list.
    """

    number: int
    method: str
    uri: Optional[str]


class Changes:
    """The log of changes, as the streams of one process read it.

    :param backend: sealed.
    :param server: the name of the server.
    """

    log = LOG

    def __init__(self, backend: Backend, server: str) -> None:
        self._backend = backend
        self._server = server
        #: Guards ``_latest``; held while the log is read, so that of many streams one reads it.
        self._lock = new_lock()
        self._latest: Deque[ToldChange] = deque(maxlen=_MOST)

    def last(self) -> int:
        """Return the number of the last change.

        :raises BackendError: the store failed.
        """
        return self._backend.last(LOG)

    def since(self, number: int) -> Tuple[List[ToldChange], int, bool]:
        """Return the changes after a number, the number up to which that is, and whether anything may have changed,
        since some are gone or a process says so.

        :raises BackendError: the store failed.
        """
        with self._lock:
            latest = self._latest
            if latest and latest[0].number - 1 <= number < latest[-1].number:
                found = [change for change in latest if change.number > number]
                return found, latest[-1].number, _any_change(found)
            entries = self._backend.since(LOG, number)
            if entries is None or not entries:
                last = self._backend.last(LOG)
                entries = [] if last == number else self._backend.since(LOG, number)
                if entries is None:
                    latest.clear()
                    return [], last, True
                if not entries:
                    return [], last, False  # what was appended was not sealed by this server
            changes = [self._change(at, entry) for at, entry in entries]
            if latest and latest[-1].number != number:
                latest.clear()
            latest.extend(changes)
            return changes, changes[-1].number, _any_change(changes)

    def _change(self, number: int, entry: bytes) -> ToldChange:
        news = json.loads(entry)
        ours = news["server"] in (None, self._server)
        return ToldChange(number, news["method"] if ours else "", news["uri"])


def _any_change(changes: List[ToldChange]) -> bool:
    return any(change.method == EVERYTHING for change in changes)
