"""The client: start or reach a server, and call it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .client import Client
from .client_options import ClientOptions
from .connect import connect

if TYPE_CHECKING:
    from .completer import Completer as Completer
    from .group import connect_all as connect_all

__all__ = ["Client", "ClientOptions", "Completer", "connect", "connect_all"]

#: The modules of the names that most programs do not use, relative to this package.
_HOMES = {"Completer": ".completer", "connect_all": ".group"}


def __getattr__(name: str) -> Any:
    """Load *name* on its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value
