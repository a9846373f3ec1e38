"""The records of handshake sessions in a shared backend: what any process needs to serve a session.

A record is written when the session is handed out and when a fact in it changes, never for a call; its lifetime is renewed when
a quarter has passed.
"""

import json
import re
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional, Tuple

from ..backend.interface import Backend
from ..revisions import Revision, find_revision
from ..server.limits import Limits
from ..types import ClientCapabilities, Implementation, codec
from ..types.lazy_dataclass import from_members

__all__ = ["LISTED_BYTES", "SessionRecord", "SessionRecords"]

#: The bytes that the lists of a fleet count for a session at its beginning.
LISTED_BYTES = 4096

#: The ids that a server issues.
_ID = re.compile(r"[A-Za-z0-9_-]{32}")
#: The lifetime of a record is renewed when this part of it has passed.
_RENEWED = 0.25


@dataclass
class SessionRecord:
    """One session, as its processes store it. A record is not changed; :meth:`changed` returns the next one.

    :param owner: the key of the principal that opened it; None without authentication.
    :param sender: whose share it counts to.
    :param opened: when it began, in seconds since 1970.
    :param touched: when its lifetime was renewed last, in seconds since 1970; 0 if the client has sent nothing since it began.
    :param change: the number of the last change notification before it began.
    :param begun: whether the client has sent ``initialize``.
    :param capabilities: of the client; None before its ``initialize``.
    :param reader: the number of the process whose response is the stream of a client of the transport with two endpoints;
        the session ends with it. 0 for others.
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
    :param kind: begins the names of what is stored: an id of one transport is not valid for the other.
    :param clock: returns seconds since 1970, since other processes read the time.
    """

    def __init__(self, backend: Backend, limits: Limits, kind: str = "session", clock: Callable[[], float] = time.time) -> None:
        self.backend = backend
        self.limits = limits
        self.kind = kind
        self._clock = clock
        #: Seconds after which a process that uses a session renews its lifetime.
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
        """Store the record of a session whose client has to confirm it, and return its bytes.

        :raises BackendError: the store failed.
        """
        data = record.dump()
        self.backend.put(self.name(id, "record"), data, self.limits.session_start_seconds)
        return data

    def swap(self, id: str, old: bytes, new: SessionRecord) -> Optional[bytes]:
        """Store a record in the place of *old*, and have the session last for the idle time from now on.

        :returns: its bytes; None if *old* is not the stored one any more.
        :raises BackendError: the store failed.
        """
        data = new.dump()
        return data if self.backend.swap(self.name(id, "record"), old, data, self._seconds(new)) else None

    def _seconds(self, record: SessionRecord) -> float:
        left = record.opened + self.limits.session_seconds - self.now
        return max(min(self.limits.session_idle_seconds, left), 0.001)

    def remove(self, id: str) -> bool:
        """Remove a record; False if another process has done so.

        :raises BackendError: the store failed.
        """
        return self.backend.take(self.name(id, "record")) is not None
