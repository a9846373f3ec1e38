"""The front door: the names that a user types, each loaded on its first use; nothing else.

So ``import mcplite`` costs no more than ``typing``, and a client does not load the server. A name that the docs import
from a deeper module belongs here instead.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from . import errors as errors, revisions as revisions, types as types
    from .backend.from_url import open_backend as open_backend
    from .backend.interface import Backend as Backend
    from .client.client import Client as Client
    from .client.connect import connect as connect
    from .client.features.tasks.task import Task as Task
    from .client.group import connect_all as connect_all
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
        BackendError as BackendError,
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
    from .protocol.framing import LineBuffer as LineBuffer
    from .rpc.cancel import CancelToken as CancelToken
    from .rpc.channels import StreamChannel as StreamChannel
    from .rpc.interfaces import Channel as Channel
    from .server import Context as Context, Limits as Limits, Server as Server
    from .server.auth.bearer import BearerAuth as BearerAuth
    from .server.auth.introspection import Introspection as Introspection
    from .server.auth.jwt import JWTVerifier as JWTVerifier
    from .server.auth.principals import ISSUED_HERE as ISSUED_HERE, Principal as Principal
    from .server.auth.static_tokens import StaticTokens as StaticTokens
    from .server.catalog.cache_hints import CacheHint as CacheHint, header as header
    from .server.functions.media import Audio as Audio, Image as Image
    from .server.handling.questions import (
        Elicit as Elicit,
        InputRequired as InputRequired,
        ListRoots as ListRoots,
        Sample as Sample,
    )
    from .server.http.event_store import EventStore as EventStore
    from .server.runtime.publisher import publisher as publisher
    from .server.runtime.states import StoredState as StoredState
    from .server.serving import serve as serve
    from .server.transports.wsgi import mount as mount
    from .types import ElicitRequest as ElicitRequest, assistant as assistant, user as user
    from .version import __version__ as __version__

__all__ = [
    "Audio", "AuthError", "Backend", "BackendError", "Bearer", "BearerAuth", "Browser", "CacheHint", "CancelToken", "Cancelled",
    "Channel", "Client", "ClientCredentials", "ConnectionClosed", "Context", "Elicit", "ElicitRequest",
    "EnterpriseManaged", "EventStore", "FileStore", "HTTPStatusError", "HeaderMismatch", "ISSUED_HERE",
    "Image", "InputNeeded", "InputRequired", "InternalError", "Introspection", "InvalidParams", "JWTVerifier",
    "KeyringStore", "Limits", "LineBuffer", "ListRoots", "MCPError", "MemoryStore", "MethodNotFound",
    "MissingCapability", "NotSupported", "OAuth", "Principal", "PromptsChanged", "ProtocolError",
    "RegistrationError", "RemoteError", "RequestTimeout", "ResourceNotFound", "ResourceUpdated",
    "ResourcesChanged", "Sample", "Server", "SessionLost", "StaticTokens", "Store", "StoredState",
    "StreamChannel", "Task", "Terminal", "ToolError", "ToolsChanged", "TransportError", "UnsupportedVersion",
    "UrlElicitationRequired", "UserAgent", "WorkloadIdentity", "__version__", "assistant",
    "client_metadata", "connect", "connect_all", "errors", "find_authorization", "header", "mount",
    "open_backend", "publisher",
    "revisions", "serve", "types", "user",
]

#: Where each name lives, relative to the package: as in the list above, but for the errors, which are the rest.
_HOMES = {
    "": ("errors", "revisions", "types"),
    "backend.interface": ("Backend",),
    "backend.from_url": ("open_backend",),
    "client": ("Client", "connect", "connect_all"),
    "client.features.tasks.task": ("Task",),
    "client.oauth.code_flow": ("OAuth",),
    "client.oauth.grant": ("find_authorization",),
    "client.oauth.registration": ("client_metadata",),
    "client.oauth.stores.base": ("MemoryStore", "Store"),
    "client.oauth.stores.file": ("FileStore",),
    "client.oauth.stores.keyring": ("KeyringStore",),
    "client.oauth.unattended": ("ClientCredentials", "EnterpriseManaged", "WorkloadIdentity"),
    "client.oauth.users.agent": ("UserAgent",),
    "client.oauth.users.browser": ("Browser",),
    "client.oauth.users.terminal": ("Terminal",),
    "client.subscriptions.events": ("PromptsChanged", "ResourceUpdated", "ResourcesChanged", "ToolsChanged"),
    "net.bearer": ("Bearer",),
    "protocol.framing": ("LineBuffer",),
    "rpc.cancel": ("CancelToken",),
    "rpc.channels": ("StreamChannel",),
    "rpc.interfaces": ("Channel",),
    "server": ("Context", "Limits", "Server"),
    "server.serving": ("serve",),
    "server.auth.bearer": ("BearerAuth",),
    "server.auth.introspection": ("Introspection",),
    "server.auth.jwt": ("JWTVerifier",),
    "server.auth.principals": ("ISSUED_HERE", "Principal"),
    "server.auth.static_tokens": ("StaticTokens",),
    "server.catalog.cache_hints": ("CacheHint", "header"),
    "server.functions.media": ("Audio", "Image"),
    "server.handling.questions": ("Elicit", "InputRequired", "ListRoots", "Sample"),
    "server.http.event_store": ("EventStore",),
    "server.runtime.publisher": ("publisher",),
    "server.runtime.states": ("StoredState",),
    "server.transports.wsgi": ("mount",),
    "types": ("ElicitRequest", "assistant", "user"),
    "version": ("__version__",),
}


def __getattr__(name: str) -> Any:
    """Load *name* on its first use (PEP 562)."""
    if name not in __all__:
        hint = f"; the server is {__name__}.Server" if name in ("FastMCP", "MCPServer") else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    home = next((module for module, names in _HOMES.items() if name in names), "errors")
    if home:
        value = getattr(import_module(f".{home}", __name__), name)
    else:
        value = import_module(f".{name}", __name__)
    globals()[name] = value  # the next look-up finds it without a call of this function
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
