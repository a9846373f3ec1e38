"""The only client of a bridge on stdio: its name and capabilities are declared to a server with a handshake, as its own.

A module of its own, since mounts and bridges over HTTP have any number of clients.
"""

import json
from typing import Any, NamedTuple, Optional

from ..client.client import Client
from ..errors import ProtocolError
from ..protocol import codec
from ..protocol.meta import bounded_capabilities, bounded_info
from ..server.runtime.runtime import OpenSession
from ..server.sessions.legacy import LegacySession
from ..types import ClientCapabilities, Implementation
from .client_connections import Link, Links
from .senders import passed_on

__all__ = ["OnlyClient", "OnlyClientLinks", "client_of_handshake"]


class OnlyClient(NamedTuple):
    """A client, as its handshake describes it."""

    info: Implementation
    capabilities: ClientCapabilities


def client_of_handshake(received: bytes) -> Optional[OnlyClient]:
    """Return the client as its ``initialize`` describes it; None if it begins with another message.

    :param received: what it has sent, the first message at least.
    """
    try:
        message = json.loads(received.lstrip().partition(b"\n")[0])
        if message.get("method") != "initialize":
            return None
        info = codec.decode(Implementation, message["params"]["clientInfo"])
        declared = bounded_capabilities(codec.decode(ClientCapabilities, message["params"]["capabilities"]))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, ProtocolError):
        return None  # the session says what is wrong with it
    return OnlyClient(bounded_info(info), passed_on(declared))


class OnlyClientLinks(Links):
    """The connection for the only client of a bridge.

    :param template: as for :class:`Links`.
    :param name: of the server, for errors.
    :param only: the client.
    """

    def __init__(self, template: Client, name: str, only: OnlyClient) -> None:
        super().__init__(template, name, shared=True)
        self._only = only
        #: The session of the client; None before its handshake is complete.
        self._session: Optional[LegacySession] = None

    def create_main(self, **callbacks: Any) -> Link:
        link = self.create(self._only.capabilities, info=self._only.info, **callbacks)
        link.handlers.expect_session(self._session)
        if self.observer is not None:
            link.client.observe(self.observer)
        return link

    def of(self, session: OpenSession) -> Optional[Link]:
        main = self.main
        return main if session is self._session and main is not None and main.client.era == "legacy" else None

    def forget(self, session: OpenSession) -> None:
        """Do nothing: the bridge ends with its client."""

    def on_session(self, session: OpenSession) -> None:
        """Note that the client has completed its handshake."""
        if isinstance(session, LegacySession):
            self._session = session
            main = self.main
            if main is not None:
                main.handlers.expect_session(session)
