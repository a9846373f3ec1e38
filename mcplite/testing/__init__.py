"""Tools for tests of servers and clients: recordings, cassettes, checks of handlers and backends, an issuer of tokens.

A server is tested without a process by connecting to the object itself, in any revision:
``with mcplite.connect(mcp, revision=...) as client: ...``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agreeing_issuer import AgreeingIssuer as AgreeingIssuer, issuer as issuer
    from .backend_check import check_backend as check_backend
    from .cassette import Cassette as Cassette
    from .fleet_check import Replayed as Replayed, replay as replay
    from .recording import CassetteWriter as CassetteWriter, Recorded as Recorded, Recording as Recording

__all__ = ["AgreeingIssuer", "Cassette", "CassetteWriter", "Recorded", "Recording", "Replayed", "check_backend", "issuer",
           "replay"]

#: By name: the module that has it. Each is loaded on its first use, since pytest loads this package for every project.
_MODULES = {"AgreeingIssuer": "agreeing_issuer", "issuer": "agreeing_issuer", "check_backend": "backend_check",
            "Cassette": "cassette", "CassetteWriter": "recording", "Recorded": "recording", "Recording": "recording",
            "Replayed": "fleet_check", "replay": "fleet_check"}


def __getattr__(name: str) -> Any:
    """Return the object of a name, and load its module on the first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
