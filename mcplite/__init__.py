"""The names that most programs type; this module loads each of them on its first use.

So ``import mcplite`` costs no more than ``typing``, and a client does not load the server. Further errors are in
:mod:`~mcplite.errors`, the rest of authorization in :mod:`~mcplite.auth`, the protocol's objects in :mod:`~mcplite.types`, and
the interfaces for extensions in :mod:`~mcplite.extend`. If the docs import a name from a deeper module, the name belongs in one
of these modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from . import auth as auth, errors as errors, extend as extend, revisions as revisions, types as types
    from .auth.login.code_flow import OAuth as OAuth
    from .auth.verify.bearer_auth import BearerAuth as BearerAuth, StaticTokens as StaticTokens
    from .client.client import Client as Client
    from .client.client_options import ClientOptions as ClientOptions
    from .client.connect import connect as connect
    from .client.group import connect_all as connect_all
    from .client.subscription import (
        PromptsChanged as PromptsChanged,
        ResourcesChanged as ResourcesChanged,
        ResourceUpdated as ResourceUpdated,
        ToolsChanged as ToolsChanged,
    )
    from .errors import (
        Cancelled as Cancelled,
        MCPError as MCPError,
        RemoteError as RemoteError,
        RequestTimeout as RequestTimeout,
        ToolError as ToolError,
        TransportError as TransportError,
    )
    from .fleet.fleet_processes import publisher as publisher
    from .net.settings import Bearer as Bearer
    from .rpc.cancel import CancelToken as CancelToken
    from .server import Context as Context, Limits as Limits, Server as Server, ServerOptions as ServerOptions
    from .server.app import serve as serve
    from .server.catalog.cache_hints import CacheHint as CacheHint, Header as Header
    from .server.handling.questions import (
        Elicit as Elicit,
        InputRequired as InputRequired,
        ListRoots as ListRoots,
        Sample as Sample,
    )
    from .server.principals import Principal as Principal
    from .server.transports.wsgi import mount_wsgi as mount_wsgi
    from .tasks.task_follower import Task as Task
    from .types import assistant as assistant, user as user
    from .types.media import Audio as Audio, Image as Image
    from .version import __version__ as __version__

__all__ = [
    "Audio", "Bearer", "BearerAuth", "CacheHint", "CancelToken", "Cancelled", "Client", "ClientOptions", "Context",
    "Elicit", "Header", "Image", "InputRequired", "Limits", "ListRoots", "MCPError", "OAuth", "Principal",
    "PromptsChanged", "RemoteError", "RequestTimeout", "ResourceUpdated", "ResourcesChanged", "Sample", "Server",
    "ServerOptions", "StaticTokens", "Task", "ToolError", "ToolsChanged", "TransportError", "__version__", "assistant",
    "auth", "connect", "connect_all", "errors", "extend", "mount_wsgi", "publisher", "revisions", "serve", "types",
    "user",
]

#: The module of each name, relative to the package, as in the imports above; under the empty text, the names that are modules.
#: Each name that is not here is in ``errors``.
_HOMES = {
    "": ("auth", "errors", "extend", "revisions", "types"),
    "client": ("Client", "ClientOptions", "connect", "connect_all"),
    "tasks.task_follower": ("Task",),
    "auth.login.code_flow": ("OAuth",),
    "client.subscription": ("PromptsChanged", "ResourceUpdated", "ResourcesChanged", "ToolsChanged"),
    "net.settings": ("Bearer",),
    "rpc.cancel": ("CancelToken",),
    "server": ("Context", "Limits", "Server", "ServerOptions"),
    "server.app": ("serve",),
    "auth.verify.bearer_auth": ("BearerAuth", "StaticTokens"),
    "server.principals": ("Principal",),
    "server.catalog.cache_hints": ("CacheHint", "Header"),
    "server.handling.questions": ("Elicit", "InputRequired", "ListRoots", "Sample"),
    "fleet.fleet_processes": ("publisher",),
    "server.transports.wsgi": ("mount_wsgi",),
    "types": ("assistant", "user"),
    "types.media": ("Audio", "Image"),
    "version": ("__version__",),
}


def __getattr__(name: str) -> Any:
    """Load *name* on its first use (PEP 562)."""
    if name not in __all__:
        hint = f"; the server is {__name__}.Server" if name in ("FastMCP", "MCPServer") else ""
        for room in ("errors", "auth", "types", "extend"):
            if not name.startswith("_") and name in import_module(f".{room}", __name__).__all__:
                hint = f"; it is {__name__}.{room}.{name}"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    home = next((module for module, names in _HOMES.items() if name in names), "errors")
    if home:
        value = getattr(import_module(f".{home}", __name__), name)
    else:
        value = import_module(f".{name}", __name__)
    globals()[name] = value  # the next look-up finds it without a call of this function
    return value


def __dir__() -> List[str]:
    return list(__all__)
