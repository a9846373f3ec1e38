"""Asks a legacy client over the back channel: requests of the server's own.

A module of its own because it is loaded by the first handler that asks a legacy client.
"""

import functools
from typing import Any, Callable, Dict, List, Mapping, Optional

from ...errors import MCPError, MissingCapability, ProtocolError
from ...protocol.jsonrpc import memory_size
from ...revisions import Revision
from ...rooms import load
from ...rpc.cancel import CancelToken
from ...rpc.interfaces import Delivery
from ...rpc.request import Incoming
from ...types import Progress, Root, codec
from ..runtime.observer import observed_question
from ..runtime.suspended_calls import WaitingCall
from .client_questions import ABILITIES, Asker, EncodedQuestion
from .questions import ListRoots, Question
from .session import KnownRoots, RequestFacts, Session

__all__ = ["BackChannelAsker", "send_question"]


class BackChannelAsker(Asker):
    """Asks a legacy client by requests of the server's own, one after another.

    :param session: of the client.
    :param roots: the cache of the client's roots.
    :param incoming: the request whose handler asks; None only encodes questions.
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

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        return {key: self._ask_known_roots(question) if isinstance(question, ListRoots) else self._ask(question)
                for key, question in questions.items()}

    def _ask_known_roots(self, question: ListRoots) -> List[Root]:
        return self._roots.get(lambda: self._ask(question))

    def _ask(self, question: Question) -> Any:
        asked = self.prepare(question)
        try:
            return self._answer_to(asked)
        except MCPError as error:
            error.asked = True
            raise

    def _answer_to(self, asked: EncodedQuestion) -> Any:
        session = self._session
        if not session.runtime.observers:
            return asked.read(self._call(asked))
        id = session.peer.new_id()
        with observed_question(session.runtime.observers, session, asked.method, asked.params, id) as params:
            answer = self._call(asked._replace(params=params), id)
        return asked.read(answer)

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

    def _call(self, asked: EncodedQuestion, id: Optional[int] = None) -> Dict[str, Any]:
        incoming, session = self._incoming, self._session
        assert incoming is not None, "a question without a request is not asked here"
        if not session.sender:
            return self._request(asked, id)  # a pipe has one client
        # Over HTTP a client may start calls that ask and leave, as often as it likes.
        facts: Optional[RequestFacts] = incoming.facts
        head = [] if facts is None or facts.http is None else facts.http.headers.items()
        waiting, most = session.runtime.waiting, session.limits.waiting_bytes
        size = memory_size([incoming.params, *map(list, head)], most)
        handle = waiting.add(WaitingCall(session.sender_of(incoming), size, incoming.peer, incoming.token.cancel))
        try:
            return self._request(asked, id)
        finally:
            waiting.remove(handle)

    def _request(self, asked: EncodedQuestion, id: Optional[int]) -> Dict[str, Any]:
        incoming = self._incoming
        assert incoming is not None, "a question without a request is not asked here"
        return send_question(self._session, asked, asked.cancel or incoming.token, Delivery(incoming.outlet), id)


def send_question(session: Session, asked: EncodedQuestion, token: Optional[CancelToken], delivery: Delivery,
                  id: Optional[int] = None) -> Dict[str, Any]:
    """Send a question to a client with a session, as a task if it is to be one, and return the answer.

    :param token: cancelled when it is withdrawn.
    :param id: of the request; by default a new one.
    :raises RemoteError, RequestTimeout, Cancelled, ConnectionClosed: there is no answer.
    :raises ProtocolError: the answer is no object.
    """
    outlet = delivery.outlet
    if outlet is not None and outlet.plain:
        raise _unreadable(asked.method, session.revision, {})
    if outlet is not None:
        outlet.awaits_answer(True)
    try:
        result = _send(session, asked, token, delivery, id)
    finally:
        if outlet is not None:
            outlet.awaits_answer(False)
    if not isinstance(result, dict):
        raise ProtocolError(f"the client answered {asked.method!r} with {type(result).__name__}, not an object", result)
    return result


def _unreadable(method: str, revision: Revision, capability: Dict[str, Any]) -> MissingCapability:
    return MissingCapability(
        f"send 'Accept: application/json, text/event-stream': the question {method} comes in an event stream"
        f" in revision {revision}, and the request accepts only JSON", data={"requiredCapabilities": capability})


def _send(session: Session, asked: EncodedQuestion, token: Optional[CancelToken], delivery: Delivery,
          id: Optional[int]) -> Any:
    if asked.as_task:
        return load("Elicit(task=True)")(session, asked, token, delivery, id)
    params = asked.params
    on_progress: Optional[Callable[[Dict[str, Any]], object]] = None
    if asked.on_progress is not None:
        # The request's id is unique, so it serves as its progress token as well (PROG-02).
        id = session.peer.new_id() if id is None else id
        params = {**(params or {}), "_meta": {**((params or {}).get("_meta") or {}), "progressToken": id}}
        on_progress = functools.partial(_report, asked.on_progress)
    return session.peer.call(asked.method, params, id=id, timeout=session.limits.ask_seconds, cancel=token,
                             on_progress=on_progress, delivery=delivery)


def _report(on_progress: Callable[[Progress], object], params: Dict[str, Any]) -> None:
    on_progress(codec.decode(Progress, {name: value for name, value in params.items() if name != "progressToken"}))
