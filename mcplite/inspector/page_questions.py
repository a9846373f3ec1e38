"""PageQuestions: what a server asks the client, until the user answers on the page: forms, URLs to visit, sampling.

A question waits on the thread of the client's handler. It ends with an answer of the page, when the server withdraws it, or
with the connection.
"""

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from .. import types
from ..client.handler_types import AskedElicitation, AskedSampling
from ..client.sessions.base import ClientObserver, ClientSession
from ..errors import Cancelled, InvalidParams, MCPError, RemoteError
from ..llm import anthropic_sampling, openai_sampling
from ..protocol.error_text import printable
from ..protocol.jsonrpc import memory_size
from ..revisions import NEWEST
from ..types import codec
from .traffic import Traffic

__all__ = ["InspectorError", "PageQuestions"]

#: Bytes of memory that the params of one question may take; pictures for a model are part of them.
_MOST_BYTES = 8 << 20


class InspectorError(Exception):
    """A request of the page cannot be carried out; the text is for people, and ``status`` is the one of the HTTP response."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class _Question:
    """A question that waits for the page."""

    def __init__(self, number: int, kind: str, asked: Any) -> None:
        self.number, self.kind, self.asked = number, kind, asked
        self.answered = threading.Event()
        self.answer: Any = None


class PageQuestions(ClientObserver):
    """The open questions of one server; its methods are the handlers of its client.

    :param server: its name.
    :param traffic: shows the questions to the page.
    :param numbers: of questions.
    :param calling: returns the number of the call that a question on the current thread belongs to, if that is known.
    """

    def __init__(self, server: str, traffic: Traffic, numbers: Iterator[int], calling: Callable[[], Optional[int]]) -> None:
        self._server, self._traffic, self._numbers, self._calling = server, traffic, numbers, calling
        #: Guards the fields below; held for assignments.
        self._lock = threading.Lock()
        self._open: Dict[int, _Question] = {}
        self._canned: Optional[Dict[str, Any]] = None
        self._ended = False
        #: In each thread of a handler: the params of the question that it handles, as they are on the wire.
        self._wire = threading.local()

    # --- on the threads of the client's handlers -----------------------------------------------------------------

    def question(self, session: ClientSession, method: str, params: Dict[str, Any], id: Any,
                 answer: Callable[[], Any]) -> Any:
        self._wire.params = params
        return answer()

    def elicit(self, asked: AskedElicitation) -> types.ElicitResult:
        """Return the page's answer to a form, or to a URL to visit."""
        answer = self._ask("url" if asked.mode == "url" else "elicitation", asked)
        return types.ElicitResult(answer["action"], answer.get("content"))

    def sample(self, asked: AskedSampling) -> Any:
        """Return the page's answer in place of a model; if a canned result is set, return that."""
        canned = self._canned
        return canned if canned is not None else self._ask("sampling", asked)

    def _ask(self, kind: str, asked: Any) -> Any:
        """Show a question on the page, wait for the answer, and return it.

        :raises RemoteError: the page refuses, or the question is too long for it.
        :raises Cancelled: the server has withdrawn the question, or the connection has ended.
        """
        params = getattr(self._wire, "params", None)
        if memory_size(params, _MOST_BYTES) > _MOST_BYTES:
            raise InvalidParams("ask with less: the question is too long to be shown to a user")
        question = _Question(next(self._numbers), kind, asked)
        with self._lock:
            self._open[question.number] = question
            if self._ended:
                question.answered.set()
        self._traffic.set("question", question.number, {
            "question": question.number, "server": self._server, "call": self._calling(), "kind": kind,
            "params": params})
        uncancel = asked.token.add_callback(question.answered.set)
        try:
            question.answered.wait()
        finally:
            uncancel()
            with self._lock:
                del self._open[question.number]
            self._traffic.unset("question", question.number)
            self._traffic.note("question-closed", {"question": question.number})
        if question.answer is None:
            raise Cancelled(asked.token.reason or "the question was withdrawn")
        if isinstance(question.answer, Exception):
            raise question.answer
        return question.answer

    # --- from the page -------------------------------------------------------------------------------------------

    def answer(self, number: int, result: Any, error: Any) -> bool:
        """Answer a question; return whether it is one of this server.

        :param result: the answer on the wire; None if *error* refuses.
        :raises InspectorError: the answer has another form than the question asks for; the question stays open.
        """
        with self._lock:
            question = self._open.get(number)
            if question is None or question.answered.is_set():
                return False
            if error is not None:
                code, message = error.get("code"), error.get("message")
                if type(code) is not int or not isinstance(message, str):
                    raise InspectorError("an error needs a code, which is a whole number, and a message")
                question.answer = RemoteError(message, code=code)
            elif question.kind != "sampling" and (result.get("action") not in ("accept", "decline", "cancel")
                                                  or not isinstance(result.get("content"), (dict, type(None)))):
                raise InspectorError("answer with an action, which is accept, decline or cancel, and a content, an object")
            elif question.kind == "sampling" and not ("role" in result and "content" in result):
                raise InspectorError("answer with a role, content and the name of the model")
            else:
                question.answer = result
            question.answered.set()
        return True

    def ask_model(self, number: int, provider: str, model: str, key: str) -> Optional[Dict[str, Any]]:
        """Return what a model answers to an open question; None if no such question is open here.

        :param provider: "anthropic" or "openai", whose SDK has to be installed.
        :param key: of its API; it is used for this request alone.
        :raises InspectorError: the SDK is not installed, or the API has failed.
        """
        with self._lock:
            question = self._open.get(number)
        if question is None or question.kind != "sampling":
            return None
        try:
            with _api(provider, key) as (api, sampling):
                answer: types.CreateMessageResult = sampling(api, model)(question.asked)
        except ImportError as error:
            raise InspectorError(f"install the SDK of this API: pip install {provider}", 501) from error
        except (MCPError, ValueError) as error:
            raise InspectorError(printable(str(error)), 502) from error
        encoded: Dict[str, Any] = codec.encode(answer, NEWEST)
        return encoded

    def set_canned(self, canned: Optional[Dict[str, Any]]) -> None:
        """Answer each sampling request with the result *canned*; None asks the page each time."""
        with self._lock:
            self._canned = canned

    def end(self) -> None:
        """Withdraw all open questions, and each one that still comes."""
        with self._lock:
            self._ended = True
            questions = list(self._open.values())
        for question in questions:
            question.answered.set()


@contextlib.contextmanager
def _api(provider: str, key: str) -> Iterator[Tuple[Any, Callable[[Any, str], Any]]]:
    """Give the client of an SDK, and the function that makes a handler of it.

    :raises ImportError: the SDK is not installed.
    """
    if provider == "anthropic":
        import anthropic

        with anthropic.Anthropic(api_key=key, max_retries=1) as api:
            yield api, anthropic_sampling
    else:
        import openai

        with openai.OpenAI(api_key=key, max_retries=1) as api:
            yield api, openai_sampling
