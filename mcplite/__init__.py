"""The front door: the names that a user types, each loaded when it is first asked for; nothing else.

May import: client, errors, revisions, rpc.cancel, server, types, version
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from . import errors as errors, revisions as revisions, types as types
    from .client import Client as Client, connect as connect, connect_all as connect_all
    from .client.listen import (
        PromptsChanged as PromptsChanged, ResourceUpdated as ResourceUpdated, ResourcesChanged as ResourcesChanged,
        ToolsChanged as ToolsChanged,
    )
    from .errors import (
        AuthError as AuthError, Cancelled as Cancelled, ConnectionClosed as ConnectionClosed,
        HeaderMismatch as HeaderMismatch, HTTPStatusError as HTTPStatusError, InputNeeded as InputNeeded, InternalError as InternalError,
        InvalidParams as InvalidParams, MCPError as MCPError, MethodNotFound as MethodNotFound,
        MissingCapability as MissingCapability, NotSupported as NotSupported, ProtocolError as ProtocolError,
        RegistrationError as RegistrationError, RemoteError as RemoteError, RequestTimeout as RequestTimeout,
        ResourceNotFound as ResourceNotFound, SessionLost as SessionLost, ToolError as ToolError,
        TransportError as TransportError,
        UnsupportedVersion as UnsupportedVersion, UrlElicitationRequired as UrlElicitationRequired,
    )
    from .rpc.cancel import CancelToken as CancelToken
    from .server import Context as Context, Limits as Limits, Server as Server
    from .server.caching import CacheHint as CacheHint
    from .server.httpd import serve as serve
    from .server.marking import header as header
    from .server.media import Audio as Audio, Image as Image
    from .server.questions import (
        Elicit as Elicit, InputRequired as InputRequired, ListRoots as ListRoots, Sample as Sample,
    )
    from .server.replay import StoredState as StoredState
    from .server.wsgi import mount as mount
    from .types import (
        ElicitRequest as ElicitRequest, accept as accept, assistant as assistant, cancel as cancel, decline as decline,
        user as user,
    )
    from .version import __version__ as __version__

__all__ = [
    "Audio", "AuthError", "CacheHint", "CancelToken", "Cancelled", "Client", "ConnectionClosed", "Context",
    "Elicit", "ElicitRequest", "HTTPStatusError", "HeaderMismatch", "Image", "InputNeeded", "InputRequired",
    "InternalError", "InvalidParams", "Limits", "ListRoots", "MCPError", "MethodNotFound", "MissingCapability",
    "NotSupported", "PromptsChanged", "ProtocolError", "RegistrationError", "RemoteError", "RequestTimeout",
    "ResourceNotFound", "ResourceUpdated", "ResourcesChanged", "Sample", "Server", "SessionLost", "StoredState",
    "ToolError", "ToolsChanged", "TransportError", "UnsupportedVersion", "UrlElicitationRequired",
    "__version__", "accept", "assistant", "cancel", "connect", "connect_all", "decline", "errors", "header",
    "mount", "revisions", "serve", "types", "user",
]

#: Where a name lives. What has no home here is an error; submodules stand for themselves.
_HOMES = {
    "client": ("Client", "connect", "connect_all"),
    "client.listen": ("PromptsChanged", "ResourceUpdated", "ResourcesChanged", "ToolsChanged"),
    "rpc.cancel": ("CancelToken",),
    "server": ("Context", "Limits", "Server"),
    "server.caching": ("CacheHint",),
    "server.httpd": ("serve",),
    "server.marking": ("header",),
    "server.media": ("Audio", "Image"),
    "server.questions": ("Elicit", "InputRequired", "ListRoots", "Sample"),
    "server.replay": ("StoredState",),
    "server.wsgi": ("mount",),
    "types": ("ElicitRequest", "accept", "assistant", "cancel", "decline", "user"),
    "version": ("__version__",),
    "": ("errors", "revisions", "types"),
}


def __getattr__(name: str) -> Any:
    """Load *name* from its room on first use (PEP 562); a name without a home is an error's."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((room for room, names in _HOMES.items() if name in names), "errors")
    if home:
        value = getattr(import_module(f".{home}", __name__), name)
    else:
        value = import_module(f".{name}", __name__)
    globals()[name] = value  # the next look-up no longer comes here
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
