"""Questions to a client: which may be asked, how a question is encoded, how its answer is read.

There are two ways to ask. A client with a handshake gets requests of the server's own (:mod:`.back_channel`). A client without
one gets the questions as the result of its request (:mod:`.suspended_calls`). The first handler that asks loads this module.
"""

import functools
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from ...errors import InternalError, InvalidParams, MethodNotFound, MissingCapability, ProtocolError, copied
from ...protocol import elicitation_forms
from ...revisions import Revision
from ...rpc.cancel import CancelToken
from ...rpc.tracing import get_logger
from ...types import (
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    Progress,
    PromptMessage,
    Root,
    SamplingMessage,
    codec,
)
from ..functions.converters import Mismatch, Node
from ..functions.forms import form_type
from ..functions.results import content_items
from .questions import Elicit, Elicited, ListRoots, Question, Relayed, Sample
from .session import Session

__all__ = ["ABILITIES", "Asker", "EncodedQuestion", "InvalidAnswer", "NoAsker", "input_required", "read_answers",
           "through_json"]

_log = get_logger(__name__)
#: What a client must be able to do, for its user to read.
ABILITIES = {"elicitation/create": "ask its user", "sampling/createMessage": "ask its language model",
              "roots/list": "list its roots"}


def through_json(value: Any) -> Any:
    """Return the result of an action of ``ctx.once`` as a later call gets it, so that the handler gets it alike each time.

    :raises TypeError: it is not JSON.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"the result of ctx.once(), {type(value).__name__}, cannot be kept as JSON ({error}); return plain data"
                        " from the action") from error


class InvalidAnswer(ProtocolError):
    """An answer is valid, but does not fit the form of its question."""


class EncodedQuestion(NamedTuple):
    """One question, encoded for a revision."""

    method: str
    params: Optional[Dict[str, Any]]
    #: Converts the client's answer for the handler; raises ProtocolError if it does not fit the question.
    read: Callable[[Dict[str, Any]], Any]
    #: Withdraws the question; None if only the end of the request does.
    cancel: Optional[CancelToken] = None
    #: Whether it is asked as a task of the client.
    as_task: bool = False
    #: Gets the progress that the client reports.
    on_progress: Optional[Callable[[Progress], object]] = None


class Asker:
    """Asks one client: ``BackChannelAsker`` by a request, ``ResultAsker`` by the result of the call, ``TaskAsker`` in a task.

    :param session: of the client.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        #: The results of :meth:`once`, by key.
        self._results: Dict[str, Any] = {}

    @property
    def session(self) -> Session:
        """The client's present session."""
        return self._session

    @property
    def _revision(self) -> Revision:
        return self.session.revision

    @property
    def reachable(self) -> bool:
        """Whether questions can reach the client at all."""
        return True

    @property
    def waits(self) -> bool:
        """Whether the handler waits for the answer. In a fleet that shares only keys it is called again with the answer."""
        return True

    def can(self, method: str, mode: str = "") -> bool:
        """Whether the client declared the capability that a question needs.

        :param method: the protocol's method.
        :param mode: "form" or "url" for elicitation, "tools" for sampling with tools.
        """
        revision = self._revision
        if not self.reachable or (method not in revision.server_requests and method not in revision.input_requests):
            return False
        declared = self.session.client_capabilities
        if method == "roots/list":
            return declared.roots is not None
        if method == "sampling/createMessage":
            flags = declared.sampling
            return flags is not None and (not mode or (revision.sampling_tools and mode in flags))
        if declared.elicitation is None:
            return False
        if mode == "url":
            return revision.elicitation_modes and "url" in declared.elicitation
        # An empty object means forms (ELIC-02). Before there were modes, clients declared nothing else.
        return "form" in declared.elicitation or "url" not in declared.elicitation

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        """Ask, wait, and return the converted answers by key.

        :param named: whether the handler has chosen the keys.
        :raises MissingCapability: the client did not declare a capability that a question needs; nothing was sent.
        :raises RemoteError: the client answered with an error, or its user refused.
        :raises ProtocolError: an answer does not fit its question.
        :raises Cancelled: the request was cancelled.
        :raises RequestTimeout: no answer within ``Limits.ask_seconds``.
        """
        raise NotImplementedError

    def once(self, key: str, action: Callable[[], Any]) -> Any:
        """Return the result of an action, as :meth:`Context.once` does."""
        if key not in self._results:
            self._results[key] = action()
        return self._results[key]

    def prepare(self, question: Question) -> EncodedQuestion:
        """Return a question, encoded for this client.

        :raises MissingCapability: the client did not declare the capability that the question needs.
        :raises ValueError: the question is not valid.
        :raises ConnectionClosed: the handler has forked this process; the client is connected to the parent process.
        """
        if self.session.peer.foreign and self.session.peer.last_error is not None:
            raise copied(self.session.peer.last_error)
        encoded = self._encode(question)
        as_task = question.task and self._gives_tasks(encoded.method)
        return encoded._replace(as_task=as_task, on_progress=question.on_progress)

    def _gives_tasks(self, method: str) -> bool:
        """Whether the client has declared to answer such questions as tasks (TSK-02 to TSK-04)."""
        if "tasks/result" not in self._revision.task_requests:
            return False  # servers start tasks only in revisions with this method
        kind, _, verb = method.partition("/")
        found: Any = self.session.client_capabilities.tasks
        for name in ("requests", kind, verb):
            found = found.get(name) if isinstance(found, dict) else None
        return found is not None

    def _encode(self, question: Question) -> EncodedQuestion:
        if isinstance(question, Elicit):
            return self._elicit(question) if question.url is None else self._elicit_url(question)
        if isinstance(question, Sample):
            return self._sample(question)
        if isinstance(question, Relayed):
            return self._relayed(question)
        if isinstance(question, ListRoots):
            self._require("roots/list", {"roots": {}})
            return EncodedQuestion("roots/list", None, _roots)
        raise TypeError(f"{question!r} is not a question: use Elicit, Sample or ListRoots")

    def _relayed(self, question: Relayed) -> EncodedQuestion:
        method, params, revision = question.method, question.params, self._revision
        if method == "roots/list":
            self._require(method, {"roots": {}})
            return EncodedQuestion(method, None, lambda answer: answer, question.cancel)
        if method == "sampling/createMessage":
            sampling = codec.decode(CreateMessageRequest, params)
            tools = bool(sampling.tools or sampling.tool_choice)
            self._require(method, {"sampling": {"tools": {}} if tools else {}}, "tools" if tools else "")
            encoded = codec.encode(sampling, revision)
        elif method == "elicitation/create":
            request = codec.decode(ElicitRequest, params)
            self._require(method, {"elicitation": {request.mode: {}} if revision.elicitation_modes else {}}, request.mode)
            if request.mode == "url" and revision.elicitation_ids and request.elicitation_id is None:
                request.elicitation_id = _random_id()
            if request.requested_schema is not None:
                request.requested_schema = elicitation_forms.adapt_form(request.requested_schema, revision)
            encoded = codec.encode(request, revision)
        else:
            raise MethodNotFound(f"a question {method[:100]!r} cannot be passed on: the protocol has none of this name")
        return EncodedQuestion(method, encoded, lambda answer: answer, question.cancel)

    def _require(self, method: str, capability: Dict[str, Any], mode: str = "") -> None:
        if not self.can(method, mode):
            names = ".".join([*capability, *next(iter(capability.values()))])
            raise MissingCapability(
                f"this needs a client that can {ABILITIES[method]}: yours did not declare the capability {names!r}",
                data={"requiredCapabilities": capability})

    def _elicit(self, question: Elicit) -> EncodedQuestion:
        self._require("elicitation/create", {"elicitation": {"form": {}} if self._revision.elicitation_modes else {}},
                      "form")
        form = (_form_of_class if isinstance(question.schema, type) else _checked_form)(question.schema)
        for name in elicitation_forms.sensitive_names(form.schema):
            _log.warning("the form field %r looks like a secret; ask for secrets by url= instead", name)  # ELIC-16
        schema = elicitation_forms.adapt_form(form.schema, self._revision)
        request = ElicitRequest(message=question.message, requested_schema=schema)

        def read(answer: Dict[str, Any]) -> "Elicited[Any]":
            result = _decided(answer)
            if result.action != "accept":
                return Elicited(result.action)
            content = elicitation_forms.fill_defaults(form.schema, result.content or {})
            problems = elicitation_forms.check_answer(form.schema, content)
            if problems:
                raise InvalidAnswer(f"the client's answer does not fit the form: {'; '.join(problems)}", content)
            try:
                return Elicited("accept", content, form.convert(content))
            except ValueError as error:  # of the form's type, which may check more than its schema says
                reason = error.sentence() if isinstance(error, Mismatch) else str(error)
                raise InvalidAnswer(f"the client's answer does not fit the form: {reason}", content) from error

        return EncodedQuestion("elicitation/create", codec.encode(request, self._revision), read)

    def _elicit_url(self, question: Elicit) -> EncodedQuestion:
        url = question.url or ""
        scheme, separator, rest = url.partition("://")
        if scheme.lower() not in ("http", "https") or not rest or len(url) > elicitation_forms.MAX_URL or not url.isprintable():
            raise ValueError(f"a URL question needs an absolute http or https URL, not {url[:200]!r}")  # URLE-03
        host = rest.split("/", 1)[0].rsplit("@", 1)[-1]
        if scheme.lower() == "http" and not host.startswith(("localhost", "127.", "[::1]")):
            _log.warning("URL questions should use https outside development: %.200r", host)  # URLE-19
        self._require("elicitation/create", {"elicitation": {"url": {}}}, "url")
        identity = None
        if self._revision.elicitation_ids:
            identity = question.elicitation_id or _random_id()
        request = ElicitRequest(message=question.message, mode="url", url=url, elicitation_id=identity)
        known = identity or question.elicitation_id
        return EncodedQuestion("elicitation/create", codec.encode(request, self._revision),
                               lambda answer: Elicited(_decided(answer).action, elicitation_id=known))

    def _sample(self, question: Sample) -> EncodedQuestion:
        if question.tools or question.tool_choice:
            self._require("sampling/createMessage", {"sampling": {"tools": {}}}, "tools")
        else:
            self._require("sampling/createMessage", {"sampling": {}})
        context = question.include_context
        if context not in (None, "none", "thisServer", "allServers"):
            raise ValueError(f"include_context must be 'none', 'thisServer' or 'allServers', not {context!r}")
        if context not in (None, "none") and self._revision.sampling_tools and not self.can(
                "sampling/createMessage", "context"):
            _log.warning("include_context=%r needs the client's sampling.context capability; it is left out", context)
            context = None
        request = CreateMessageRequest(
            messages=[_sampling_message(item) for item in question.messages], max_tokens=question.max_tokens,
            system_prompt=question.system_prompt, temperature=question.temperature,
            stop_sequences=question.stop_sequences, include_context=context,
            model_preferences=question.model_preferences, metadata=question.metadata, tools=question.tools,
            tool_choice=question.tool_choice)
        params = codec.encode(request, self._revision)
        problem = elicitation_forms.check_messages(params["messages"])
        if problem is not None:
            raise ValueError(f"this conversation cannot be sampled: {problem}")
        return EncodedQuestion("sampling/createMessage", params, lambda answer: codec.decode(CreateMessageResult, answer))


def input_required(asked: Mapping[str, EncodedQuestion], state: str) -> Dict[str, Any]:
    """Return the result that carries questions to the client (MRTR-04 to MRTR-07)."""
    requests: Dict[str, Dict[str, Any]] = {}
    for key, question in asked.items():
        requests[key] = {"method": question.method}
        if question.params is not None:
            requests[key]["params"] = question.params
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def read_answers(asked: Mapping[str, EncodedQuestion], responses: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the answers that fit their questions; the other questions have to be asked again (MRTR-20, MRTR-21).

    :raises InvalidParams: an answer has the wrong form for its question (MRTR-19).
    """
    answers = {}
    for key, question in asked.items():
        if key in responses:
            try:
                answers[key] = question.read(responses[key])
            except InvalidAnswer as error:
                _log.warning("the client's answer to %.100r is asked for again: %s", key, error)
            except ProtocolError as error:
                raise InvalidParams(f"params.inputResponses[{key[:100]!r}]: {error}") from error
    return answers


class NoAsker(Asker):
    """The asker for a client that cannot be asked.

    :param why: for the error.
    """

    def __init__(self, session: Session, why: str) -> None:
        super().__init__(session)
        self._why = why

    @property
    def reachable(self) -> bool:
        return False

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        _log.error("a handler asked a client that cannot be asked: %s", self._why)
        raise InternalError(f"the client cannot be asked: {self._why}")


def _checked_form(wanted: Any) -> Node:
    form = form_type(wanted)
    elicitation_forms.check_form(form.schema)
    return form


#: The form of a class, which is made once.
_form_of_class = functools.lru_cache(maxsize=64)(_checked_form)


def _decided(answer: Dict[str, Any]) -> ElicitResult:
    result = codec.decode(ElicitResult, answer)
    if result.action not in ("accept", "decline", "cancel"):
        raise ProtocolError(f"the client answered with the unknown action {result.action!r:.100}")
    return result


def _roots(answer: Dict[str, Any]) -> List[Root]:
    listed = answer.get("roots")
    if not isinstance(listed, list):
        raise ProtocolError("the client answered 'roots/list' without a list of roots", answer)
    return [codec.decode(Root, item) for item in listed]


def _sampling_message(item: Any) -> SamplingMessage:
    if isinstance(item, (SamplingMessage, PromptMessage)):
        return SamplingMessage(role=item.role, content=content_items(item.content, data=False),
                               meta=getattr(item, "meta", None))
    if isinstance(item, dict) and item.keys() == {"role", "content"}:
        return SamplingMessage(role=item["role"], content=content_items(item["content"], data=False))
    return SamplingMessage(role="user", content=content_items(item, data=False))


def _random_id() -> str:
    import secrets  # it imports OpenSSL, which few servers need

    return secrets.token_urlsafe(16)
