"""ClientObserver: what a client tells its telemetry of its calls, of the questions that it answers, and of its session.

``Client.observe`` takes one. A client without an observer does none of this work.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional

from ..revisions import Revision
from ..rpc.peer import Peer
from .call import Call

__all__ = ["ObservedSession", "ClientObserver", "observed_question", "observed_request"]


class ObservedSession:
    """The part of a session that an observer sees; the sessions of both eras implement it."""

    #: The other side of the connection.
    peer: Peer

    @property
    def agreed(self) -> Optional[Revision]:
        """The revision agreed on; None before that."""
        raise NotImplementedError


class ClientObserver:
    """Sees what one client does. The methods do nothing here; subclasses override those that they need.

    What a method raises ends the call or the answer that it observes.
    """

    def request(self, session: ObservedSession, call: Call, send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
        """Return the result of one call, which is ``send(call)``; on the caller's thread.

        A result from the cache is not observed. The questions of a call are answered within ``send``.

        :param call: a copy with another ``id`` (from ``session.peer.new_id()``) or other params may be sent in its place.
        """
        return send(call)

    def question(self, session: ObservedSession, method: str, params: Dict[str, Any], id: Any,
                 answer: Callable[[], Any]) -> Any:
        """Return the answer to one question of the server, which is ``answer()``; on the handler's thread.

        :param id: of the server's request; None if the question came in the result of a call.
        """
        return answer()

    def headers(self) -> Mapping[str, str]:
        """Return headers for each message over HTTP; on the thread that sends it."""
        return {}

    def opened(self, session: ObservedSession) -> None:
        """Called when the client is open, or at once for a client that is open already."""

    def closed(self, session: ObservedSession, error: Optional[Exception]) -> None:
        """Called once for an open client, when it is closed or has lost its connection.

        :param error: what ended it; None for ``close()``.
        """


def observed_request(observers: List[ClientObserver], session: ObservedSession, call: Call,
                     send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
    """Return the result of a call, seen by all observers; the first one is the outermost."""
    if not observers:
        return send(call)
    first, rest = observers[0], observers[1:]
    return first.request(session, call, lambda given: observed_request(rest, session, given, send))


def observed_question(observers: List[ClientObserver], session: ObservedSession, method: str, params: Dict[str, Any], id: Any,
                      answer: Callable[[], Any]) -> Any:
    """Return the answer to a question, seen by all observers; the first one is the outermost."""
    if not observers:
        return answer()
    first, rest = observers[0], observers[1:]
    return first.question(session, method, params, id,
                          lambda: observed_question(rest, session, method, params, id, answer))
