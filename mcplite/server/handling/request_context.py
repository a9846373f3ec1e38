"""RequestContext: the context of a request, as the code that runs its handler sees it.

The sessions make one for each request. A module of its own so that :class:`~.context.Context` has what handlers use, and no
more.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional

from ...errors import SERVER_BUSY, RemoteError
from ...protocol.jsonrpc import first_members
from ...rpc.fair_queue import COSTLY, Turn
from .context import Context

# What a start and a list do not need is imported by the functions that use it.
if TYPE_CHECKING:
    from ...rpc.request import Incoming
    from ..functions.function import Function
    from ..runtime.runtime import Runtime
    from .session import RequestFacts, Session
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

    #: Whether a server that mounts another reads the result, or middleware of a mounted server, so that it must be an object.
    result_is_read = False

    #: The turn in which a large answer is made, until it is sent.
    turn: Optional[Turn] = None

    @property
    def runtime(self) -> Runtime:
        """The runtime of the server whose handler runs: the session's, or that of a mounted server."""
        return self._mounted or self.session.runtime

    @contextlib.contextmanager
    def within(self, runtime: Runtime, params: Dict[str, Any], reads: bool) -> Iterator[None]:
        """Run the block as a request to a mounted server.

        :param runtime: of that server.
        :param params: as its own clients would send them.
        :param reads: whether the caller reads the result, as middleware does.
        """
        before = self._mounted, self.result_is_read, self.params
        self.result_is_read = self.result_is_read or reads or bool(runtime.catalog.middleware)
        self._mounted, self.params = runtime, params
        try:
            yield
        finally:
            self._mounted, self.result_is_read, self.params = before

    def bind(self, function: Function, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the keyword arguments for a call, as :meth:`Function.bind` does; large ones are checked in a turn.

        :raises BadArguments: they do not fit.
        :raises RemoteError: the request was cancelled, or the turn has not come in time.
        """
        incoming = self.incoming
        if incoming.size < COSTLY:
            return function.bind(arguments)
        with self.session.runtime.turns.turn(incoming.sender, lambda: self.cancelled):
            return function.bind(arguments)

    def begin_turn(self, size: int, done: bool = True) -> None:
        """Wait for a turn in which a large answer is made, if the request has none yet; it lasts until the answer is sent.

        :param size: the bytes of the answer, roughly.
        :param done: whether the handler has returned, so that the request is answered without a turn if none comes.
        :raises RemoteError: if it has not: the request was cancelled, the turn has not come in time, or too much is unread.
        """
        if self.turn is not None:
            return
        incoming = self.incoming
        facts: Optional[RequestFacts] = incoming.facts
        try:
            self.turn = self.session.runtime.turns.begin(incoming.sender, lambda: self.cancelled)
            if facts is not None and facts.http is not None and not facts.http.reserve(size):
                raise RemoteError("Server busy: too many large answers are unread; try again later", code=SERVER_BUSY)
        except RemoteError:
            if not done:
                raise

    @property
    def once_results(self) -> Optional[Dict[str, Any]]:
        """The results of :meth:`once`, by key."""
        return self._once_results

    @once_results.setter
    def once_results(self, results: Optional[Dict[str, Any]]) -> None:
        self._once_results = results

    @property
    def waits(self) -> bool:
        """Whether a question is answered while the handler waits; in a fleet the handler is called again with the answer."""
        # With a shared backend a handler waits in a fleet as well; another process passes the answer on.
        return self._get_asker().waits or self.session.runtime.processes.shared

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
        from ...protocol.opaque import request_params

        self.params = incoming.params = first_members(request_params(incoming.params), _SHORT_PARAMS)
        self.session.forget_request()

    def send_held_progress(self) -> None:
        """Send the progress that was held back; called before the result is sent."""
        with self._lock:
            held, self.held_progress = self.held_progress, None
        if held is not None:
            self.incoming.emit("notifications/progress", held)
