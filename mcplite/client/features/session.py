"""FeatureSession: the part of an open session that the calls of a client use; the sessions of both eras implement it."""

from typing import Any, Dict, List, Optional

from ...revisions import Revision
from ...types import ServerCapabilities, Tool
from .call import Call

__all__ = ["FeatureSession"]


class FeatureSession:
    """The part of an open session that the calls of :class:`~.methods.Features` use."""

    #: Declared by the server.
    capabilities: ServerCapabilities

    @property
    def name(self) -> str:
        """The server's name in errors."""
        raise NotImplementedError

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""
        raise NotImplementedError

    def request(self, call: Call) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`."""
        raise NotImplementedError

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        raise NotImplementedError

    def usable_tools(self, tools: List[Tool]) -> List[Tool]:
        """Return the listed tools that can be called over this session."""
        return tools

    def set_level(self, level: str) -> bool:
        """Make each later request ask for log messages of a level; False where the level needs a request of its own."""
        return False
