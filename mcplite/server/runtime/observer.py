"""ServerObserver: what a server tells its telemetry of requests, of the questions that handlers ask, and of sessions.

``Server.observe`` takes one. A server without an observer does none of this work.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Protocol

from ...revisions import Revision
from ...rpc.peer import Peer

__all__ = ["ServedSession", "ServerObserver", "observed_question"]


class ServedSession(Protocol):
    """The part of a session that an observer sees."""

    #: The other side of the connection.
    peer: Peer
    #: The protocol revision in use.
    revision: Revision


class ServerObserver:
    """Sees what one server does. The methods do nothing here; subclasses override those that they need.

    An exception from a method ends the request or the question that it observes, or refuses the session that begins. One from
    ``session_closed`` is logged.
    """

    def request(self, context: Any, proceed: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        """Return the result of one request, which is ``proceed()``; on the handler's thread, outside of all middleware.

        :param context: the request's :class:`Context`.
        """
        return proceed()

    @contextlib.contextmanager
    def question(self, session: ServedSession, method: str, params: Optional[Dict[str, Any]], id: Optional[int]
                 ) -> Iterator[Optional[Dict[str, Any]]]:
        """Return a block for the time of one question of a handler; on the handler's thread.

        In a fleet without a shared backend it is not called: the handler ends with its question, and is called again with the
        answer.

        :param params: of the question; the block may give others.
        :param id: of the server's own request; None if the question travels in a result, and then *params* stay as they are.
        """
        yield params

    def session_opened(self, session: ServedSession) -> None:
        """Called when a session begins that lasts for more than one message."""

    def session_closed(self, session: ServedSession, error: Exception) -> None:
        """Called when such a session has ended."""


@contextlib.contextmanager
def observed_question(observers: Iterable[ServerObserver], session: ServedSession, method: str,
                      params: Optional[Dict[str, Any]], id: Optional[int]) -> Iterator[Optional[Dict[str, Any]]]:
    """Return the blocks of all observers as one; it gives the params of the last."""
    with contextlib.ExitStack() as stack:
        for observer in observers:
            params = stack.enter_context(observer.question(session, method, params, id))
        yield params
