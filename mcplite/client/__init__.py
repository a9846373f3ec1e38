"""The client: start or reach a server, and call it."""

from typing import TYPE_CHECKING, Any

from ..types import accept, cancel, decline
from .client import Client
from .connect import connect
from .features.completer import Completer

if TYPE_CHECKING:
    from .group import connect_all as connect_all

__all__ = ["Client", "Completer", "accept", "cancel", "connect", "connect_all", "decline"]


def __getattr__(name: str) -> Any:
    """Load :func:`connect_all` on its first use (PEP 562): most programs have one server."""
    if name != "connect_all":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .group import connect_all

    return connect_all
