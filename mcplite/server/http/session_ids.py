"""Self-contained, signed session ids: any process with the key can serve the session.

The endpoint of a fleet uses them; a server of one process keeps its sessions in :mod:`.sessions`.
"""

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Callable, Optional, Sequence

from ...errors import ProtocolError
from ...protocol.opaque import open_sealed, seal
from ...revisions import Revision, find_revision
from ...types import ClientCapabilities, Implementation, codec

__all__ = ["ClientDescription", "SessionIds"]

#: Characters of an id, as many as a header line can have.
_MAX_LENGTH = 8192
#: Characters of a client's capabilities in an id; none are kept of a client that has more.
_MAX_CAPABILITIES = 2047


@dataclass
class ClientDescription:
    """The facts about a client that a self-contained session id holds."""

    revision: Revision
    info: Optional[Implementation] = None
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)


class SessionIds:
    """Issues and reads self-contained session ids.

    :param keys: the secret keys. The first one signs, all of them verify, so that a key can be rotated.
    :param purpose: an id is only valid for the same purpose, which is the server's name.
    :param seconds: how long an id is valid.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, keys: Sequence[bytes], purpose: str, seconds: float,
                 clock: Callable[[], float] = time.time) -> None:
        self._keys = list(keys)
        self._purpose = purpose
        self._seconds = seconds
        # Not the monotonic clock: another process, perhaps on another machine, reads the id.
        self._clock = clock

    def issue(self, client: ClientDescription, owner: Optional[str]) -> str:
        """Return an id for a client.

        :param owner: the key of the principal that may use it; None for clients that are not authenticated.
        """
        content = {"r": client.revision.name, "e": int(self._clock() + self._seconds), "n": secrets.token_hex(8)}
        if client.info is not None:
            content["i"] = {"name": client.info.name, "version": client.info.version}
        capabilities = codec.encode(client.capabilities, client.revision)
        if capabilities and len(json.dumps(capabilities)) <= _MAX_CAPABILITIES:
            content["c"] = capabilities
        # Escaped, the longest name and version would not fit into a header line. JSON can say a lone surrogate, UTF-8 cannot.
        text = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return seal(text, self._keys[0], self._binding(owner))

    def read(self, id: str, owner: Optional[str]) -> Optional[ClientDescription]:
        """Return the client that an id describes; None if it was not issued for this owner, or has expired."""
        if len(id) > _MAX_LENGTH:
            return None
        opened = open_sealed(id, self._keys, self._binding(owner))
        if opened is None:
            return None
        content = json.loads(opened)
        revision = find_revision(content["r"])
        if revision is None or content["e"] < self._clock():
            return None
        try:
            info = codec.decode(Implementation, content["i"]) if "i" in content else None
            return ClientDescription(revision, info, codec.decode(ClientCapabilities, content.get("c") or {}))
        except ProtocolError:
            return None

    def _binding(self, owner: Optional[str]) -> str:
        return json.dumps([self._purpose, owner])
