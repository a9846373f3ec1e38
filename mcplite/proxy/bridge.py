"""open_bridge: a server that is another one, over other transports and in other revisions; the command line serves it."""

import contextlib
from typing import Any, Iterator, Optional

from ..client.client import Client
from ..errors import TransportError
from ..server.app import Server
from ..server.catalog.catalog import CapabilityFlags
from ..server.runtime.runtime import Runtime
from ..types import ServerCapabilities
from .client_connections import Link, Links
from .client_mount import ClientMount
from .lists import ListObserver
from .names import Names
from .only import OnlyClient, OnlyClientLinks

__all__ = ["open_bridge"]


@contextlib.contextmanager
def open_bridge(client: Client, *, shared: bool, only: Optional[OnlyClient] = None, **options: Any) -> Iterator[Server]:
    """Give a server that offers what the server of *client* does, under the same names, for the length of the block.

    It has the name, the version and the instructions of that server, and declares what that server declares. When the block
    ends, the connections are closed, and processes that were started for them end.

    :param client: not open.
    :param shared: whether one connection serves all clients of the bridge.
    :param only: the client, if there is only one, and it begins with a handshake; the server then sees it, not the bridge.
    :param options: of the :class:`Server`, such as ``backend=``.
    :raises MCPError: the server cannot be reached.
    :raises RegistrationError: an option cannot be used.
    """
    server = Server("bridge", **options)
    links: Optional[Links] = None
    if only is not None:
        links = OnlyClientLinks(client, "the server behind the bridge", only)
        server.runtime.greeters.append(links.on_session)
    mount = BridgedMount(server.runtime, client, Names(""), shared, links)
    mount.open(reported=True)
    server.runtime.enter()
    try:
        if mount.links.main is None:
            raise mount.down or TransportError("the server cannot be reached")
        yield server
    finally:
        server.close()
        server.runtime.leave()


class BridgedMount(ClientMount):
    """The server behind a bridge."""

    def __init__(self, hub: Runtime, client: Client, names: Names, shared: bool, links: Optional[Links]) -> None:
        super().__init__(hub, client, names, shared, links)
        self.links.observer = ListObserver(hub.catalog)

    def _on_open(self, link: Link) -> None:
        # First, since what the bridge keeps in a backend has the name of the server.
        catalog, client = self.hub.catalog, link.client
        capabilities = client.server_capabilities
        catalog.change_description(
            info=client.server_info, instructions=client.instructions,
            experimental=capabilities.experimental, flags=_flags(capabilities))
        super()._on_open(link)


def _flags(capabilities: ServerCapabilities) -> CapabilityFlags:
    listed = {name: getattr(capabilities, name) or {} for name in ("tools", "resources", "prompts")}
    # Changes are told whatever the server declares: it may go down and come back with other lists.
    return CapabilityFlags(subscribe=bool(listed["resources"].get("subscribe")), logging=capabilities.logging is not None,
                           completions=capabilities.completions is not None or None)
