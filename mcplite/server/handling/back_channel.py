"""Asks a client with a handshake over the back channel: by requests of the server's own, one after another."""

import contextlib
import functools
from typing import Any, Callable, ContextManager, Dict, Mapping, Optional

from ...errors import MCPError, MissingCapability, ProtocolError
from ...protocol.jsonrpc import memory_size
from ...revisions import Revision
from ...rooms import load
from ...rpc.cancel import CancelToken
from ...rpc.interfaces import Delivery
from ...rpc.request import Incoming
from ...types import Progress, codec
from ..runtime.observer import observed_question
from .client_questions import ABILITIES, Asker, EncodedQuestion
from .context import RequestFacts
from .questions import ListRoots, Question
from .session import KnownRoots, Session

__all__ = ["BackChannelAsker", "send_question"]


class BackChannelAsker(Asker):
    """Asks a client with a handshake by requests of the server's own, one after another.

    :param session: of the client.
    :param roots: the cache of the client's roots.
    :param incoming: the request whose handler asks; None if questions are only encoded.
    """

    def __init__(self, session: Session, roots: KnownRoots, incoming: Optional[Incoming]) -> None:
        super().__init__(session)
        self._roots = roots
        self._incoming = incoming

    @property
    def reachable(self) -> bool:
        return self._session.persistent and not self._plain

    @property
    def _plain(self) -> bool:
        incoming = self._incoming
        return incoming is not None and incoming.outlet is not None and incoming.outlet.plain

    def _require(self, method: str, capability: Dict[str, Any], mode: str = "") -> None:
        if self._plain:
            raise _unreadable(method, self._revision, capability)
        if not self.reachable:
            raise MissingCapability(
                f"this needs a client that can {ABILITIES[method]}, which takes a session in revision {self._revision}:"
                " this server keeps none, as it is stateless, or a fleet without a backend; give it one, Server(backend=...),"
                " or serve it from one process",
                data={"requiredCapabilities": capability})
        super()._require(method, capability, mode)

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        return {key: self._roots.get(functools.partial(self._ask, question)) if isinstance(question, ListRoots)
                else self._ask(question) for key, question in questions.items()}

    def _ask(self, question: Question) -> Any:
        session, incoming, asked = self._session, self._incoming, self.prepare(question)
        assert incoming is not None, "a question without a request is not asked here"
        observers, id = session.runtime.observers, session.peer.new_id()
        try:
            with observed_question(observers, session, asked.method, asked.params, id) as params, self._counted(incoming):
                answer = send_question(session, asked._replace(params=params), asked.cancel or incoming.token,
                                       Delivery(incoming.outlet), id)
            return asked.read(answer)
        except MCPError as error:
            error.asked = True
            raise

    def _counted(self, incoming: Incoming) -> ContextManager[None]:
        """Return a block in which the request counts as one whose handler waits: a client may start many of them, and leave."""
        session = self._session
        if not session.sender:
            return contextlib.nullcontext()  # a pipe has one client
        from .suspended_calls import CountedCall, suspended_calls_of

        facts: Optional[RequestFacts] = incoming.facts
        head = [] if facts is None or facts.http is None else facts.http.headers.items()
        size = memory_size([incoming.params, *map(list, head)], session.limits.waiting_bytes)
        call = CountedCall(session.sender_of(incoming), size, incoming.peer, incoming.token.cancel)
        return suspended_calls_of(session.runtime).counted(call)


def send_question(session: Session, asked: EncodedQuestion, token: Optional[CancelToken], delivery: Delivery,
                  id: Optional[int] = None) -> Dict[str, Any]:
    """Send a question to a client with a session, as a task if it is to be one, and return the answer.

    :param token: cancelled when the question is withdrawn.
    :param id: of the request; by default a new one.
    :raises RemoteError, RequestTimeout, Cancelled, ConnectionClosed: there is no answer.
    :raises ProtocolError: the answer is no object.
    """
    outlet, params = delivery.outlet, asked.params
    if outlet is not None and outlet.plain:
        raise _unreadable(asked.method, session.revision, {})
    on_progress: Optional[Callable[[Dict[str, Any]], object]] = None
    if asked.on_progress is not None and not asked.as_task:
        # The request's id is unique, so it serves as its progress token as well (PROG-02).
        id = session.peer.new_id() if id is None else id
        params = {**(params or {}), "_meta": {**((params or {}).get("_meta") or {}), "progressToken": id}}
        on_progress = functools.partial(_report, asked.on_progress)
    if outlet is not None:
        outlet.awaits_answer(True)
    try:
        result: Any
        if asked.as_task:
            result = load("Elicit(task=True)")(session, asked, token, delivery, id)  # tasks.question_tasks.ask_as_task
        else:
            result = session.peer.call(asked.method, params, id=id, timeout=session.limits.ask_seconds, cancel=token,
                                       on_progress=on_progress, delivery=delivery)
    finally:
        if outlet is not None:
            outlet.awaits_answer(False)
    if not isinstance(result, dict):
        raise ProtocolError(f"the client answered {asked.method!r} with {type(result).__name__}, not an object", result)
    return result


def _report(on_progress: Callable[[Progress], object], params: Dict[str, Any]) -> None:
    on_progress(codec.decode(Progress, {name: value for name, value in params.items() if name != "progressToken"}))


def _unreadable(method: str, revision: Revision, capability: Dict[str, Any]) -> MissingCapability:
    return MissingCapability(
        f"send 'Accept: application/json, text/event-stream': the question {method} comes in an event stream"
        f" in revision {revision}, and the request accepts only JSON", data={"requiredCapabilities": capability})
