"""The stored sessions of clients with a handshake: a record of each, which any process serves, and the lists that bound them.

A record is written when the session begins and when a fact in it changes, but not for each call. If the session is used after a
quarter of its idle time, the lifetime of the record is renewed. The limits of one process do not bound the sessions of a
client, since a client may open sessions at all processes. So each session is noted in one of several lists in the backend when
it begins and when its record has grown. If a list is full, an idle session of the list is evicted for a new one.
"""

import json
import re
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..backend.interface import Backend
from ..errors import SERVER_BUSY, RemoteError
from ..protocol.opaque import digest
from ..revisions import Revision, find_revision
from ..server.eviction import Shares
from ..server.limits import Limits
from ..types import ClientCapabilities, Implementation, codec
from ..types.lazy_dataclass import from_members

__all__ = ["FleetSessions", "LISTED_BYTES", "SessionRecord", "SessionRecords"]

#: The bytes that the lists of a fleet count for a session at its beginning.
LISTED_BYTES = 4096

#: The ids that a server issues.
_ID = re.compile(r"[A-Za-z0-9_-]{32}")
#: The lifetime of a record is renewed if the session is used after this part of its idle time.
_RENEWED = 0.25


@dataclass
class SessionRecord:
    """One session, as its processes store it. A record is not changed; :meth:`changed` returns the next one.

    :param owner: the key of the principal that opened it; None without authentication.
    :param sender: the sender that the session counts to in limits.
    :param opened: when the session began, in seconds since 1970.
    :param touched: when its lifetime was renewed last, in seconds since 1970; 0 if the client has sent nothing since it began.
    :param change: the number of the last change notification before the session began.
    :param begun: whether the client has sent ``initialize``.
    :param capabilities: of the client; None before its ``initialize``.
    :param reader: for the transport with two endpoints (HTTP+SSE): the number of the process that serves the stream of the
        client; the session ends with that process. 0 for the other transport.
    :param roots: how often the client has announced that its roots have changed.
    :param version: counts the changes of the record.
    """

    revision: Revision
    owner: Optional[str]
    sender: str
    opened: float
    change: int
    begun: bool = True
    reader: int = 0
    info: Optional[Implementation] = None
    capabilities: Optional[ClientCapabilities] = None
    level: str = ""
    uris: Tuple[str, ...] = ()
    ready: bool = False
    roots: int = 0
    version: int = 1
    touched: float = 0.0

    def dump(self) -> bytes:
        """Return the bytes that are stored."""
        content = {
            "revision": self.revision.name, "owner": self.owner, "sender": self.sender, "opened": self.opened,
            "change": self.change, "begun": self.begun, "reader": self.reader, "level": self.level, "uris": self.uris,
            "ready": self.ready, "roots": self.roots, "version": self.version, "touched": self.touched,
            "capabilities": None if self.capabilities is None else codec.encode(self.capabilities, self.revision),
            "info": None if self.info is None else codec.encode(self.info, self.revision)}
        return json.dumps(content, separators=(",", ":")).encode("ascii")

    @classmethod
    def load(cls, data: bytes) -> "Optional[SessionRecord]":
        """Return the record of stored bytes; None if its revision is not known to this version of the package."""
        content = json.loads(data)
        revision = find_revision(content["revision"])
        if revision is None:
            return None
        info, capabilities, uris = content.pop("info"), content.pop("capabilities"), content.pop("uris")
        return from_members(cls, {**content, "revision": revision, "uris": tuple(uris),
                                  "info": None if info is None else codec.decode(Implementation, info),
                                  "capabilities": None if capabilities is None else codec.decode(ClientCapabilities,
                                                                                                 capabilities)})

    def changed(self, **changes: Any) -> "SessionRecord":
        """Return the next version of the record."""
        return replace(self, version=self.version + 1, **changes)


class SessionRecords:
    """The stored sessions of one kind.

    :param backend: sealed.
    :param kind: the beginning of the names of values and logs, so that an id of one transport is not valid for the other.
    :param clock: returns seconds since 1970, since other processes read the stored times.
    """

    def __init__(self, backend: Backend, limits: Limits, kind: str = "session", clock: Callable[[], float] = time.time) -> None:
        self.backend = backend
        self.limits = limits
        self.kind = kind
        self._clock = clock
        #: If a process uses a session this many seconds after the last renewal, it renews the lifetime of the record.
        self.renew_seconds = limits.session_idle_seconds * _RENEWED

    @property
    def now(self) -> float:
        """Seconds since 1970, to the millisecond."""
        return round(self._clock(), 3)

    def name(self, id: str, part: str) -> str:
        """Return the name of a value or log of a session."""
        return f"{self.kind}-{id}/{part}"

    def get(self, id: str) -> Optional[bytes]:
        """Return a stored record; None if the session is unknown, or has ended.

        :raises BackendError: the store failed.
        """
        return self.backend.get(self.name(id, "record")) if _ID.fullmatch(id) else None

    def put(self, id: str, record: SessionRecord) -> bytes:
        """Store the record of a session that begins, and return its bytes.

        It expires after ``Limits.session_start_seconds``, unless the client sends another request before that.

        :raises BackendError: the store failed.
        """
        data = record.dump()
        self.backend.put(self.name(id, "record"), data, self.limits.session_start_seconds)
        return data

    def swap(self, id: str, old: bytes, new: SessionRecord) -> Optional[bytes]:
        """Store a record in the place of *old*, and keep it for the idle time of a session from now on.

        A session never lasts longer than ``Limits.session_seconds``.

        :returns: the bytes of the record; None if *old* is not the stored record any more.
        :raises BackendError: the store failed.
        """
        data = new.dump()
        return data if self.backend.swap(self.name(id, "record"), old, data, self._seconds(new)) else None

    def _seconds(self, record: SessionRecord) -> float:
        left = record.opened + self.limits.session_seconds - self.now
        return max(min(self.limits.session_idle_seconds, left), 0.001)

    def remove(self, id: str) -> bool:
        """Remove a record; False if it is gone already.

        :raises BackendError: the store failed.
        """
        return self.backend.take(self.name(id, "record")) is not None


#: The most lists; many lists are short, and few processes change one of them at the same time. Then the least number of
#: sessions, and the least bytes, that each list can note.
_MOST_LISTS = 128
_LEAST_SESSIONS = 50
_LEAST_BYTES = 1 << 20
#: The characters that an id can have. The first two of an id decide in which list its session is.
_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
#: Characters of the digest of a sender in a list. They are few, because the whole list is written for each new session.
_SENDER_CHARACTERS = 10
#: The most sessions whose records are read for one new session, to see when they were used.
_LOOKS = 8
#: Attempts to replace a list that other processes change at the same time, and the seconds between them after the first few.
_ATTEMPTS = 1000
_PAUSE_SECONDS = 0.002


class _Listed(NamedTuple):
    """One session in a list.

    :param sender: a digest of the sender that the session counts to.
    :param size: in units of LISTED_BYTES.
    :param used: the time of the last use that the list knows of, in whole seconds since 1970; if it knows of none, the time
        when the session began.
    :param in_use: 1 if the list knows of a use, 0 if not.
    """

    id: str
    sender: str
    size: int
    used: int
    in_use: int


class _SetClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class FleetSessions:
    """The sessions of one transport of a server, in all processes, with the rule of :class:`Shares`.

    A session is noted when it begins and when it has grown, and not when it is used, so a call costs nothing here. Before a
    session is evicted, its record is read, unless ``_LOOKS`` records were read already; if the record shows a later use, the
    choice is made again. A list may have sessions that have expired: they count until they are evicted or too old for a list.

    :param records: where the sessions are stored.
    :param server: the name of the server.
    """

    def __init__(self, records: SessionRecords, server: str) -> None:
        self._records = records
        limits = records.limits
        lists = min(_MOST_LISTS, limits.fleet_sessions // _LEAST_SESSIONS, limits.fleet_session_bytes // _LEAST_BYTES)
        self._lists = max(1, lists)
        self._most = max(1, limits.fleet_sessions // self._lists)
        self._most_size = limits.fleet_session_bytes // self._lists // LISTED_BYTES
        self._group = f"sessions-{digest([server, records.kind, self._lists])}"

    def add(self, id: str, sender: str) -> Optional[List[str]]:
        """Note a session that begins, before it is stored.

        :param sender: the sender that the session counts to.
        :returns: the ids of the sessions that are evicted for it, which the caller ends; None if there is no space for it.
        :raises BackendError: the store failed.
        :raises RemoteError: the list is being changed too often.
        """
        return self._enter(_Listed(id, digest(sender)[:_SENDER_CHARACTERS], 1, int(self._records.now), in_use=0))

    def resize(self, id: str, sender: str, size: int) -> Optional[List[str]]:
        """Note the bytes of a session that has grown; returns and raises as :meth:`add` does."""
        size = -(-size // LISTED_BYTES)
        return self._enter(_Listed(id, digest(sender)[:_SENDER_CHARACTERS], size, int(self._records.now), in_use=1))

    def remove(self, id: str) -> None:
        """Note that a session has ended.

        :raises BackendError: the store failed.
        """
        for _ in range(_ATTEMPTS):
            data, listed = self._read(id)
            rest = [other for other in listed if other.id != id]
            if len(rest) == len(listed) or self._swap(id, data, rest):
                return

    # --- one list -------------------------------------------------------------------------------------

    def _key(self, id: str) -> str:
        first, second = map(_CHARACTERS.index, id[:2])
        return f"{self._group}-{(first * len(_CHARACTERS) + second) % self._lists}/list"

    def _read(self, id: str) -> Tuple[Optional[bytes], List[_Listed]]:
        data = self._records.backend.get(self._key(id))
        ended = self._records.now - self._records.limits.session_seconds
        listed = [] if data is None else [_Listed(*entry[:len(_Listed._fields)]) for entry in json.loads(data)]
        return data, [entry for entry in listed if entry.used > ended]

    def _swap(self, id: str, data: Optional[bytes], listed: List[_Listed]) -> bool:
        text = json.dumps(listed, separators=(",", ":")).encode("ascii") if listed else None
        return self._records.backend.swap(self._key(id), data, text, self._records.limits.session_seconds)

    def _enter(self, new: _Listed) -> Optional[List[str]]:
        known: Dict[str, Optional[SessionRecord]] = {}
        for attempt in range(_ATTEMPTS):
            data, listed = self._read(new.id)
            others = {entry.id: entry for entry in listed if entry.id != new.id}
            going = self._make_room(others, new, known)
            if going is None:
                return None
            if self._swap(new.id, data, [*(entry for id, entry in others.items() if id not in going), new]):
                return [id for id in going if known.get(id, new) is not None]
            if attempt > 2:
                time.sleep(_PAUSE_SECONDS)
        raise RemoteError("Server busy: too many sessions begin at once; try again later", code=SERVER_BUSY)

    def _make_room(self, others: Dict[str, _Listed], new: _Listed,
                   known: Dict[str, Optional[SessionRecord]]) -> Optional[List[str]]:
        """Return the ids of the sessions that are evicted for a new one; None if there is no space for it even then.

        :param others: the other sessions of the list. If the record of one shows a later use, its entry is replaced.
        :param known: the records that were read, by id; each record that is read here is added.
        """
        if len(others) < self._most and sum(entry.size for entry in others.values()) + new.size <= self._most_size:
            return []
        while True:
            going = self._choose(others, new)
            spared = False
            for id in [] if going is None or len(known) >= _LOOKS else going:
                if id not in known:
                    data = self._records.get(id)
                    known[id] = None if data is None else SessionRecord.load(data)
                record, entry = known[id], others[id]
                used = 0 if record is None else int(record.touched)
                if used > entry.used or (used and not entry.in_use):
                    others[id] = entry._replace(used=used, in_use=1)
                    spared = True
            if not spared:
                return going

    def _choose(self, others: Dict[str, _Listed], new: _Listed) -> Optional[List[str]]:
        clock, going = _SetClock(), []
        shares: Shares[str] = Shares(self._most, self._most_size, clock=clock)
        for entry in [*sorted(others.values(), key=lambda entry: entry.used), new]:
            clock.now = entry.used
            gone = shares.add(entry.id, entry.sender, entry.size)
            if gone is None and entry is new:
                return None
            going += [entry.id] if gone is None else gone
            if entry.in_use:
                shares.use(entry.id)
        return going
