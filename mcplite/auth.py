"""Authorization beyond a token: a login of a user or of a service on the client, and verifying tokens on the server.

``OAuth``, ``Bearer``, ``BearerAuth``, ``StaticTokens`` and ``Principal`` are at the front door. Each name is loaded with its
first use: a service that logs in loads no browser and no key ring.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
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
    from .server.auth.introspection import Introspection as Introspection
    from .server.auth.jwt import JWTVerifier as JWTVerifier
    from .server.auth.principals import ISSUED_HERE as ISSUED_HERE

__all__ = [
    "Browser", "ClientCredentials", "EnterpriseManaged", "FileStore", "ISSUED_HERE", "Introspection", "JWTVerifier",
    "KeyringStore", "MemoryStore", "Store", "Terminal", "UserAgent", "WorkloadIdentity", "client_metadata",
    "find_authorization",
]

#: Where each name lives, relative to the package.
_HOMES = {
    "client.oauth.grant": ("find_authorization",),
    "client.oauth.registration": ("client_metadata",),
    "client.oauth.stores.base": ("MemoryStore", "Store"),
    "client.oauth.stores.file": ("FileStore",),
    "client.oauth.stores.keyring": ("KeyringStore",),
    "client.oauth.unattended": ("ClientCredentials", "EnterpriseManaged", "WorkloadIdentity"),
    "client.oauth.users.agent": ("UserAgent",),
    "client.oauth.users.browser": ("Browser",),
    "client.oauth.users.terminal": ("Terminal",),
    "server.auth.introspection": ("Introspection",),
    "server.auth.jwt": ("JWTVerifier",),
    "server.auth.principals": ("ISSUED_HERE",),
}


def __getattr__(name: str) -> Any:
    """Load *name* on its first use (PEP 562)."""
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f".{module}", __package__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return list(__all__)
