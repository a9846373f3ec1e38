"""The front door: the names that a user types, each loaded when it is first asked for; nothing else."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from . import errors as errors, revisions as revisions, types as types
    from .client import Client as Client, connect as connect, connect_all as connect_all
    from .client.oauth.code_flow import OAuth as OAuth
    from .client.oauth.grant import find_authorization as find_authorization
    from .client.oauth.registration import client_metadata as client_metadata
    from .client.oauth.stores.base import MemoryStore as MemoryStore, Store as Store
    from .client.oauth.stores.file import FileStore as FileStore
    from .client.oauth.stores.keyring import KeyringStore as KeyringStore
    from .client.oauth.unattended import (
        ClientCredentials as ClientCredentials,
        EnterpriseManaged as EnterpriseManaged,
        WorkloadIdentity as WorkloadIdentity,
    )
    from .client.oauth.users.agent import UserAgent as UserAgent
    from .client.oauth.users.browser import Browser as Browser
    from .client.oauth.users.terminal import Terminal as Terminal
    from .client.subscriptions.events import (
        PromptsChanged as PromptsChanged,
        ResourcesChanged as ResourcesChanged,
        ResourceUpdated as ResourceUpdated,
        ToolsChanged as ToolsChanged,
    )
    from .errors import (
        AuthError as AuthError,
        Cancelled as Cancelled,
        ConnectionClosed as ConnectionClosed,
        HeaderMismatch as HeaderMismatch,
        HTTPStatusError as HTTPStatusError,
        InputNeeded as InputNeeded,
        InternalError as InternalError,
        InvalidParams as InvalidParams,
        MCPError as MCPError,
        MethodNotFound as MethodNotFound,
        MissingCapability as MissingCapability,
        NotSupported as NotSupported,
        ProtocolError as ProtocolError,
        RegistrationError as RegistrationError,
        RemoteError as RemoteError,
        RequestTimeout as RequestTimeout,
        ResourceNotFound as ResourceNotFound,
        SessionLost as SessionLost,
        ToolError as ToolError,
        TransportError as TransportError,
        UnsupportedVersion as UnsupportedVersion,
        UrlElicitationRequired as UrlElicitationRequired,
    )
    from .net.bearer import Bearer as Bearer
    from .rpc.cancel import CancelToken as CancelToken
    from .server import Context as Context, Limits as Limits, Server as Server
    from .server.app import serve as serve
    from .server.auth.bearer import BearerAuth as BearerAuth
    from .server.auth.introspection import Introspection as Introspection
    from .server.auth.jwt import JWTVerifier as JWTVerifier
    from .server.auth.principals import ISSUED_HERE as ISSUED_HERE, Principal as Principal
    from .server.auth.static_tokens import StaticTokens as StaticTokens
    from .server.catalog.hints import CacheHint as CacheHint, header as header
    from .server.functions.media import Audio as Audio, Image as Image
    from .server.handling.questions import (
        Elicit as Elicit,
        InputRequired as InputRequired,
        ListRoots as ListRoots,
        Sample as Sample,
    )
    from .server.runtime.states import StoredState as StoredState
    from .server.transports.wsgi import mount as mount
    from .types import (
        ElicitRequest as ElicitRequest,
        accept as accept,
        assistant as assistant,
        cancel as cancel,
        decline as decline,
        user as user,
    )
    from .version import __version__ as __version__

__all__ = [
    "Audio", "AuthError", "Bearer", "BearerAuth", "Browser", "CacheHint", "CancelToken", "Cancelled", "Client",
    "ClientCredentials", "ConnectionClosed", "Context", "Elicit", "ElicitRequest", "EnterpriseManaged",
    "FileStore", "HTTPStatusError", "HeaderMismatch", "ISSUED_HERE", "Image", "InputNeeded", "InputRequired",
    "InternalError", "Introspection", "InvalidParams", "JWTVerifier", "KeyringStore", "Limits", "ListRoots",
    "MCPError", "MemoryStore", "MethodNotFound", "MissingCapability", "NotSupported", "OAuth", "Principal",
    "PromptsChanged", "ProtocolError", "RegistrationError", "RemoteError", "RequestTimeout", "ResourceNotFound",
    "ResourceUpdated", "ResourcesChanged", "Sample", "Server", "SessionLost", "StaticTokens", "Store",
    "StoredState", "Terminal", "ToolError", "ToolsChanged", "TransportError", "UnsupportedVersion",
    "UrlElicitationRequired", "UserAgent", "WorkloadIdentity", "__version__", "accept", "assistant", "cancel",
    "client_metadata", "connect", "connect_all", "decline", "errors", "find_authorization", "header", "mount",
    "revisions", "serve", "types", "user",
]

#: Where a name lives. What has no home here is an error; submodules stand for themselves.
_HOMES = {
    "client": ("Client", "connect", "connect_all"),
    "net.bearer": ("Bearer",),
    "client.subscriptions.events": ("PromptsChanged", "ResourceUpdated", "ResourcesChanged", "ToolsChanged"),
    "client.oauth.users.browser": ("Browser",),
    "client.oauth.stores.file": ("FileStore",),
    "client.oauth.grant": ("find_authorization",),
    "client.oauth.stores.keyring": ("KeyringStore",),
    "client.oauth.code_flow": ("OAuth",),
    "client.oauth.registration": ("client_metadata",),
    "client.oauth.stores.base": ("MemoryStore", "Store"),
    "client.oauth.users.terminal": ("Terminal",),
    "client.oauth.unattended": ("ClientCredentials", "EnterpriseManaged", "WorkloadIdentity"),
    "client.oauth.users.agent": ("UserAgent",),
    "rpc.cancel": ("CancelToken",),
    "server": ("Context", "Limits", "Server"),
    "server.auth.bearer": ("BearerAuth",),
    "server.app": ("serve",),
    "server.auth.introspection": ("Introspection",),
    "server.auth.jwt": ("JWTVerifier",),
    "server.catalog.hints": ("CacheHint", "header"),
    "server.functions.media": ("Audio", "Image"),
    "server.auth.principals": ("ISSUED_HERE", "Principal"),
    "server.handling.questions": ("Elicit", "InputRequired", "ListRoots", "Sample"),
    "server.runtime.states": ("StoredState",),
    "server.auth.static_tokens": ("StaticTokens",),
    "server.transports.wsgi": ("mount",),
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
