"""Hub: what becomes a part of a server. ``Server.mount`` loads it, and ``python -m mcplite.server mcp.json``.

::

    hub.mount(other, "weather")
        a Server           --> ServerMount: its functions run here
        a client           --> ClientMount: its calls are passed on
        a group of clients --> one ClientMount for each, with its name as the prefix
        a provider         --> ServerMount of a server that has nothing else

All that can be refused is refused before the first entry is registered.
"""

import os
from typing import Any, Callable, Dict, Optional

from ..client.client import Client
from ..errors import RegistrationError, TransportError
from ..rpc.tracing import get_logger
from ..server.app import Server
from ..server.catalog.registry import Provider
from .client_mount import ClientMount
from .mount import Choice, Mounted, ServerMount
from .mount_names import Names

__all__ = ["hub_of", "mount"]

_log = get_logger(__name__)


def mount(parent: Server, other: Any, prefix: str = "", tool: Optional[Callable[[str], Optional[str]]] = None,
          shared: bool = False, tags: Any = (), change: Any = None, search: bool = False) -> None:
    """Offer *other* as a part of *parent*; see :meth:`Server.mount`.

    :raises RegistrationError: it cannot be mounted.
    """
    if not isinstance(prefix, str) or tool is not None and not callable(tool):
        raise RegistrationError(f"mount takes prefix= as a text and tool= as a function, not {prefix!r} and {tool!r}")
    choice = Choice(tags, change, search)
    offered = choice if choice.tags or choice.changes is not None or search else None
    mounts = [_mount_of(parent, one, Names(name, tool), shared, offered) for name, one in _parts_of(other, prefix).items()]
    for mounted in mounts:
        mounted.check()
    if search:
        from .mounted_search import offer_search  # for mounts whose tools are found

        offer_search(parent.runtime)  # after all checks, so that a mount that fails changes nothing
    for mounted in mounts:
        mounted.open()


def _parts_of(other: Any, prefix: str) -> Dict[str, Any]:
    """Return the parts to mount, by prefix: *other* itself, or the usable servers of a group, with their names there."""
    if not isinstance(other, (Server, Client, Provider)):
        from ..client.group import Group  # only for objects of none of these classes

        if isinstance(other, Group):
            for name, error in other.errors.items():
                _log.error("the server %r is not mounted: %s", name, error)
            return {f"{prefix}_{name}" if prefix else name: other[name] for name in other if name not in other.errors}
    return {prefix: other}


def _mount_of(parent: Server, other: Any, names: Names, shared: bool, choice: Optional[Choice]) -> Mounted:
    prefix, providers = names.prefix, parent.registry.providers
    if prefix and any(isinstance(provider, Mounted) and provider.names.prefix == prefix for provider in providers):
        raise RegistrationError(f"another server is mounted with prefix={prefix!r} already; choose another one")
    if isinstance(other, Provider):
        holder = Server(prefix or "provider")
        holder.runtime.offer(other)
        other = holder
    if isinstance(other, Server):
        if other is parent or _mounts(other, parent):
            raise RegistrationError(f"{parent!r} would be mounted on itself")
        return ServerMount(parent.runtime, other.runtime, names, choice)
    if not isinstance(other, Client):
        raise RegistrationError(f"mount takes a Server, a client as from mcplite.connect(), or a group as from"
                                f" mcplite.connect_all(), not {type(other).__name__}")
    if other.state != "new":
        raise RegistrationError(f"the client to mount is {other.state}: mount one that is not open, as connect() returns it;"
                                " the server opens the connections to it for its own clients")
    return ClientMount(parent.runtime, other, names, shared, choice=choice)


def _mounts(server: Server, parent: Server) -> bool:
    """Whether *parent* is mounted on *server*, or on a server that is mounted there."""
    waiting = [server.runtime]
    while waiting:
        runtime = waiting.pop()
        if runtime is parent.runtime:
            return True
        waiting.extend(provider.mounted for provider in runtime.catalog.registry.providers if isinstance(provider, ServerMount))
    return False


def hub_of(path: str, name: Optional[str] = None, search: bool = False) -> Server:
    """Return a server that offers all servers of a host's configuration file, each under its name.

    :param name: of the server; default that of the file.
    :param search: whether their tools are found by a search, as with :meth:`Server.mount`.
    :raises TransportError: the file cannot be read, or none of its servers can be used.
    """
    from ..client.group import connect_all  # for configuration files

    group = connect_all(path)
    if not len(group):
        why = "".join(f"\n  {error}" for error in group.errors.values())
        raise TransportError(f"{path} has no server that can be used{why}")
    hub = Server(name or os.path.basename(path).partition(".")[0] or "hub")
    mount(hub, group, search=search)
    return hub
