"""Session ids that say themselves what is known of a client, so that any process with the key can serve it."""

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Callable, Optional, Sequence

from ...errors import ProtocolError
from ...protocol import codec, state as seal
from ...revisions import Revision, find
from ...types import ClientCapabilities, Implementation

__all__ = ["Ticket", "Tickets"]

#: Of an id; a header line has room for twice as much.
_MAX_BYTES = 4096


@dataclass
class Ticket:
    """What is known of a client without a session."""

    revision: Revision
    info: Optional[Implementation] = None
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)


class Tickets:
    """Makes and reads such ids.

    :param keys: secrets; the first seals, all of them open, so that a key can be replaced without a break.
    :param purpose: what else an id is bound to: the server's name.
    :param seconds: how long an id is good for.
    """

    def __init__(self, keys: Sequence[bytes], purpose: str, seconds: float,
                 clock: Callable[[], float] = time.time) -> None:
        self._keys = list(keys)
        self._purpose = purpose
        self._seconds = seconds
        # Not the monotonic clock: another process, perhaps on another machine, reads the ticket.
        self._clock = clock

    def issue(self, ticket: Ticket, owner: Optional[str]) -> str:
        """Return an id for a client.

        :param owner: the key of who may use it; None for everybody who is not known.
        """
        content = {"r": ticket.revision.name, "e": int(self._clock() + self._seconds), "n": secrets.token_hex(8)}
        if ticket.info is not None:
            content["i"] = {"name": ticket.info.name, "version": ticket.info.version}
        known = codec.encode(ticket.capabilities, ticket.revision)
        if known and len(json.dumps(known)) < _MAX_BYTES // 2:
            content["c"] = known
        return seal.seal(json.dumps(content).encode("utf-8"), self._keys[0], self._bound(owner))

    def read(self, id: str, owner: Optional[str]) -> Optional[Ticket]:
        """Return what an id says; None when it was not issued for this owner, or is too old."""
        if len(id) > 2 * _MAX_BYTES:
            return None
        opened = seal.open_sealed(id, self._keys, self._bound(owner))
        if opened is None:
            return None
        content = json.loads(opened)
        revision = find(content["r"])
        if revision is None or content["e"] < self._clock():
            return None
        try:
            info = codec.decode(Implementation, content["i"]) if "i" in content else None
            return Ticket(revision, info, codec.decode(ClientCapabilities, content.get("c") or {}))
        except ProtocolError:
            return None

    def _bound(self, owner: Optional[str]) -> str:
        return json.dumps([self._purpose, owner])
