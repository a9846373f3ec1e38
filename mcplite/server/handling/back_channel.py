"""Asks a legacy client over the back channel: requests of the server's own."""

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from ...errors import MissingCapability, ProtocolError
from ...rpc.interfaces import Delivery
from .asker import Asked, Asker
from .questions import ListRoots, Question

if TYPE_CHECKING:
    from ...rpc.incoming import Incoming
    from ..sessions.legacy import LegacySession

__all__ = ["BackChannel"]


class BackChannel(Asker):
    """Asks a legacy client by requests of the server's own, one after another.

    :param session: whose client is asked.
    :param incoming: the request on whose behalf it is asked; None outside of one.
    """

    def __init__(self, session: "LegacySession", incoming: "Optional[Incoming]") -> None:
        super().__init__(session)
        self._legacy = session
        self._incoming = incoming

    @property
    def reachable(self) -> bool:
        return self._legacy.lasting

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        return {key: self._ask(question) for key, question in questions.items()}

    def _ask(self, question: Question) -> Any:
        if not isinstance(question, ListRoots):
            asked = self.prepare(question)
            return asked.read(self._call(asked))
        session = self._legacy
        known = session.roots
        if known is None:
            asked = self.prepare(question)
            epoch = session.roots_epoch
            known = asked.read(self._call(asked))
            session.keep_roots(known, epoch)
        return list(known)

    def _require(self, method: str, capability: Dict[str, Any], mode: str = "") -> None:
        if not self.reachable:
            raise MissingCapability(
                f"this client cannot be asked ({method}): the server keeps no sessions (stateless or fleet), and"
                f" revision {self._revision} has no other way; serve it from one process without these"
                " switches, or test ctx.can_elicit, ctx.can_sample or ctx.can_list_roots first",
                data={"requiredCapabilities": capability})
        super()._require(method, capability, mode)

    def _call(self, asked: Asked) -> Dict[str, Any]:
        session = self._legacy
        incoming = self._incoming
        result = session.peer.call(asked.method, asked.params, timeout=session.limits.ask_seconds,
                                   cancel=None if incoming is None else incoming.token,
                                   delivery=Delivery(None if incoming is None else incoming.outlet))
        if not isinstance(result, dict):
            raise ProtocolError(f"the client answered {asked.method!r} with {type(result).__name__}, not an object", result)
        return result
