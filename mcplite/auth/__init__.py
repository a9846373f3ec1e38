"""Authorization beyond a token: a login of a user or of a service on the client, and verifying tokens on the server.

``OAuth``, ``Bearer``, ``BearerAuth``, ``StaticTokens`` and ``Principal`` are names of :mod:`mcplite` itself. Each name is
loaded with its first use: a service that logs in loads no browser and no key ring.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from ..server.principals import ISSUED_HERE as ISSUED_HERE
    from .issuer.issuer import Issuer as Issuer
    from .issuer.pages import Pages as Pages
    from .issuer.upstream import upstream as upstream
    from .issuer.users import (
        PasswordFile as PasswordFile,
        User as User,
        Users as Users,
        check_password as check_password,
        hash_password as hash_password,
    )
    from .login.code_flow import client_metadata as client_metadata
    from .login.file_store import FileStore as FileStore
    from .login.grant_base import find_authorization as find_authorization
    from .login.keyring_store import KeyringStore as KeyringStore
    from .login.service_grants import (
        ClientCredentials as ClientCredentials,
        EnterpriseManaged as EnterpriseManaged,
        WorkloadIdentity as WorkloadIdentity,
    )
    from .login.stores import MemoryStore as MemoryStore, Store as Store
    from .login.user_agent import Browser as Browser, Terminal as Terminal, UserAgent as UserAgent
    from .verify.client_certificate import ClientCertificate as ClientCertificate
    from .verify.dpop import DPoP as DPoP
    from .verify.introspection import Introspection as Introspection
    from .verify.jwt_verifier import JWTVerifier as JWTVerifier

__all__ = [
    "Browser", "ClientCertificate", "ClientCredentials", "DPoP", "EnterpriseManaged", "FileStore", "ISSUED_HERE",
    "Introspection", "Issuer", "JWTVerifier", "KeyringStore", "MemoryStore", "Pages", "PasswordFile", "Store", "Terminal",
    "User", "UserAgent", "Users", "WorkloadIdentity", "check_password", "client_metadata", "find_authorization",
    "hash_password", "upstream",
]

#: The names of each module, relative to this folder.
_HOMES = {
    ".issuer.issuer": ("Issuer",),
    ".issuer.pages": ("Pages",),
    ".issuer.upstream": ("upstream",),
    ".issuer.users": ("PasswordFile", "User", "Users", "check_password", "hash_password"),
    ".login.code_flow": ("client_metadata",),
    ".login.grant_base": ("find_authorization",),
    ".login.stores": ("MemoryStore", "Store"),
    ".login.file_store": ("FileStore",),
    ".login.keyring_store": ("KeyringStore",),
    ".login.service_grants": ("ClientCredentials", "EnterpriseManaged", "WorkloadIdentity"),
    ".login.user_agent": ("Browser", "Terminal", "UserAgent"),
    ".verify.client_certificate": ("ClientCertificate",),
    ".verify.dpop": ("DPoP",),
    ".verify.introspection": ("Introspection",),
    ".verify.jwt_verifier": ("JWTVerifier",),
    "..server.principals": ("ISSUED_HERE",),
}


def __getattr__(name: str) -> Any:
    """Load *name* on its first use (PEP 562)."""
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module, __package__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return list(__all__)
