"""What the two eras of a client's session share."""

from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from ...protocol import jsonrpc
from ...rpc.incoming import Incoming

if TYPE_CHECKING:
    from ...revisions import Revision

__all__ = ["Speaker"]


class Speaker:
    """One way of talking to a server; what a session is to its line."""

    #: "legacy" or "modern".
    era = ""

    @property
    def restartable(self) -> bool:
        """Whether it can go on over another line to the same server, once this one is over."""
        return False

    @property
    def agreed(self) -> "Optional[Revision]":
        """The revision that is spoken; None until that is known."""
        raise NotImplementedError

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        """See :meth:`Handler.on_request`."""
        raise NotImplementedError

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        """See :meth:`Handler.cancel_notice`."""
        return jsonrpc.Notification("notifications/cancelled", {"requestId": id, "reason": reason[:500]})

    def take(self, method: str, params: Dict[str, Any]) -> bool:
        """Take a notification that somebody waits for in particular; False when it is for all."""
        return False

    def on_cancelled(self, params: Dict[str, Any]) -> None:
        """The server has called something off."""

    def on_end(self) -> None:
        """The line is closed: whoever waits in the session must not wait any more."""
