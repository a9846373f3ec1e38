"""mount: offers another server as a server's own; ``Server.mount`` loads it."""

from typing import Any, Callable, Optional

from ..client.client import Client
from ..errors import RegistrationError
from ..server.app import Server
from .client_mount import ClientMount, check_client
from .names import Names
from .servers import ServerMount

__all__ = ["mount"]


def mount(hub: Server, other: Any, prefix: str = "", tool: Optional[Callable[[str], Optional[str]]] = None,
          shared: bool = False) -> None:
    """Offer *other* as a part of *hub*; see :meth:`Server.mount`.

    :raises RegistrationError: it cannot be mounted.
    """
    if not isinstance(prefix, str) or tool is not None and not callable(tool):
        raise RegistrationError(f"mount takes prefix= as a text and tool= as a function, not {prefix!r} and {tool!r}")
    providers = hub.registry.providers
    if prefix and any(getattr(provider, "names").prefix == prefix for provider in providers):
        raise RegistrationError(f"another server is mounted with prefix={prefix!r} already; choose another one")
    names = Names(prefix, tool)
    if isinstance(other, Server):
        if other is hub or _mounts(other, hub):
            raise RegistrationError(f"{hub!r} would be mounted on itself")
        ServerMount(hub.runtime, other.runtime, names).open()
    elif isinstance(other, Client):
        check_client(other)
        ClientMount(hub.runtime, other, names, shared).open()
    else:
        raise RegistrationError(f"mount takes a Server, or a client as from mcplite.connect(), not {type(other).__name__}")


def _mounts(server: Server, hub: Server) -> bool:
    """Whether *hub* is mounted on *server*, or on a server that is mounted there."""
    waiting = [server.runtime]
    while waiting:
        runtime = waiting.pop()
        if runtime is hub.runtime:
            return True
        waiting.extend(provider.mounted for provider in runtime.catalog.registry.providers if isinstance(provider, ServerMount))
    return False
