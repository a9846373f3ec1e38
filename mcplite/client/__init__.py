"""The client: start or reach a server, and call it."""

from typing import Any

from ..types import accept, cancel, decline
from .client import Client
from .connect import connect
from .features.completer import Completer

__all__ = ["Client", "Completer", "accept", "cancel", "connect", "connect_all", "decline"]


def connect_all(config: Any, **options: Any) -> Any:
    """Return a :class:`Group` for the servers of a configuration file; see ``client.group``."""
    from .group import connect_all as make

    return make(config, **options)
