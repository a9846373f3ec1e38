"""open_bridge: a server that is another one, over other transports and in other revisions; the command line serves it.

The only client of a bridge on stdio is declared to a server with a handshake under its own name and with its own
capabilities. A :class:`ListObserver` sees how the server pages its lists and how long they may be kept, so that the bridge
pages its lists and gives hints in the same way.
"""

import contextlib
import json
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from ..client.call import Call
from ..client.client import Client
from ..client.sessions.base import ClientObserver, ClientSession
from ..errors import ProtocolError, RegistrationError, TransportError
from ..protocol.meta import bounded_capabilities, bounded_info
from ..server.app import Server
from ..server.catalog.cache_hints import CacheHint
from ..server.catalog.catalog import CapabilityFlags, Catalog
from ..server.runtime.runtime import OpenSession, Runtime
from ..server.sessions.legacy import LegacySession
from ..types import ClientCapabilities, Implementation, ServerCapabilities, codec
from .client_connections import UpstreamPool
from .client_mount import ClientMount
from .forwarded_calls import Upstream, declared_to_server
from .mount_names import Names

__all__ = ["ListObserver", "OnlyClient", "OnlyClientPool", "client_of_handshake", "open_bridge"]

#: By method: the kind of list, and the member of a result that has the entries.
_LISTS: Mapping[str, Tuple[str, str]] = {
    "tools/list": ("tools", "tools"), "prompts/list": ("prompts", "prompts"), "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"), "server/discover": ("discover", "")}


class ListObserver(ClientObserver):
    """Sets the size of the first page of each list, and the hints of the server, in the catalog of a bridge.

    :param catalog: of the bridge.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def request(self, session: ClientSession, call: Call, send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
        result = send(call)
        kind, member = _LISTS.get(call.method, ("", ""))
        if kind and "cursor" not in (call.params or {}):
            entries = result.get(member)
            # A list of one page does not say how large a page may be.
            size = len(entries) if isinstance(entries, list) and result.get("nextCursor") is not None else 0
            self._catalog.set_listing(kind, size or None, _hint(result))
        return result


def _hint(result: Mapping[str, Any]) -> Optional[CacheHint]:
    ttl, scope = result.get("ttlMs"), result.get("cacheScope")
    if type(ttl) not in (int, float) or not isinstance(scope, str):
        return None  # a result of a revision without hints, or an invalid one, which the codec reports
    try:
        return CacheHint(ttl / 1000, scope)  # type: ignore[operator]
    except RegistrationError:
        return None


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
    return OnlyClient(bounded_info(info), declared_to_server(declared))


class OnlyClientPool(UpstreamPool):
    """The connection for the only client of a bridge.

    :param template: as for :class:`UpstreamPool`.
    :param name: of the server, for errors.
    :param only: the client.
    """

    def __init__(self, template: Client, name: str, only: OnlyClient) -> None:
        super().__init__(template, name, shared=True)
        self._only = only
        #: The session of the client; None before its handshake is complete.
        self._session: Optional[LegacySession] = None

    def create_main(self, **callbacks: Any) -> Upstream:
        upstream = self.create(self._only.capabilities, info=self._only.info, **callbacks)
        upstream.handlers.expect_session(self._session)
        if self.observer is not None:
            upstream.client.observe(self.observer)
        return upstream

    def of(self, session: OpenSession) -> Optional[Upstream]:
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


@contextlib.contextmanager
def open_bridge(client: Client, *, shared: bool, only: Optional[OnlyClient] = None, **options: Any) -> Iterator[Server]:
    """Return a block with a server that offers all that the server of *client* offers, under the same names.

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
    pool: Optional[UpstreamPool] = None
    if only is not None:
        pool = OnlyClientPool(client, "the server behind the bridge", only)
        server.runtime.greeters.append(pool.on_session)
    mount = BridgedMount(server.runtime, client, Names(""), shared, pool)
    mount.open(reported=True)
    server.runtime.enter()
    try:
        if mount.pool.main is None:
            raise mount.down or TransportError("the server cannot be reached")
        yield server
    finally:
        server.close()
        server.runtime.leave()


class BridgedMount(ClientMount):
    """The server behind a bridge."""

    _role = "the server behind the bridge"

    def __init__(self, parent: Runtime, client: Client, names: Names, shared: bool, pool: Optional[UpstreamPool]) -> None:
        super().__init__(parent, client, names, shared, pool)
        self.pool.observer = ListObserver(parent.catalog)

    def _on_open(self, upstream: Upstream) -> None:
        # This comes first: the data that the bridge keeps in a backend is stored under the name of the server.
        catalog, client = self.parent.catalog, upstream.client
        capabilities = client.server_capabilities
        catalog.change_description(
            info=client.server_info, instructions=client.instructions,
            experimental=capabilities.experimental, flags=_flags(capabilities))
        super()._on_open(upstream)


def _flags(capabilities: ServerCapabilities) -> CapabilityFlags:
    listed = {name: getattr(capabilities, name) or {} for name in ("tools", "resources", "prompts")}
    # The bridge declares changes of lists whatever the server declares: the server may go down and come back with other lists.
    return CapabilityFlags(subscribe=bool(listed["resources"].get("subscribe")), logging=capabilities.logging is not None,
                           completions=capabilities.completions is not None or None)
