"""RequestContext: the context of a request, as the code that runs its handler sees it.

The sessions make one for each request. A module of its own so that :class:`~.context.Context` has what handlers use, and no
more.
"""

from typing import Any, Dict, Optional

from ...protocol.jsonio import first_members
from ...protocol.state import request_params
from ...rpc.incoming import Incoming
from .context import Context
from .session import Session
from .timeout import Timeout

__all__ = ["RequestContext"]

#: Bytes of memory of the params that a context keeps while its handler waits.
_SHORT_PARAMS = 4096


class RequestContext(Context):
    """One request, for the dispatcher, the askers and the sessions."""

    #: Whether the handler has asked by returning ``InputRequired``, and is called again for that.
    asked_by_return = False
    #: The result that asks the client, if the handler was ended to ask (in a fleet).
    question_result: Optional[Dict[str, Any]] = None

    @property
    def once_results(self) -> Optional[Dict[str, Any]]:
        """The results of :meth:`once`, by key."""
        return self._once_results

    @once_results.setter
    def once_results(self, results: Optional[Dict[str, Any]]) -> None:
        self._once_results = results

    def limit_time(self, timeout: Optional[Timeout]) -> None:
        """Have *timeout* paused while the handler waits for an answer; None for no limit."""
        self._timeout = timeout

    def respond(self, result: Any) -> None:
        """Send the response before the handler has returned.

        :param result: as encoded JSON; members that every result of the era has are added.
        """
        self.incoming.respond(self.session.complete_result(result))

    def continue_with(self, session: Session, incoming: Incoming) -> None:
        """Answer a later request instead: the client has sent it with the answers to a question."""
        incoming.take_over(self.incoming)
        self.session, self.incoming = session, incoming
        self.params = {name: value for name, value in incoming.params.items() if name not in ("inputResponses", "requestState")}

    def forget_request(self) -> None:
        """Keep of the request no more than its short params, while the handler waits for the client's next request.

        That request brings the same params again.
        """
        incoming = self.incoming
        self.params = incoming.params = first_members(request_params(incoming.params), _SHORT_PARAMS)
        self.session.forget_request()

    def send_held_progress(self) -> None:
        """Send the progress that was held back; called before the result is sent."""
        with self._lock:
            held, self.held_progress = self.held_progress, None
        if held is not None:
            self.incoming.emit("notifications/progress", held)
