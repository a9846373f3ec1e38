"""How questions get answers: over the back channel of a legacy client.

May import: errors, revisions, types, protocol.codec, protocol.forms, protocol.sampling, rpc.incoming, server.formtypes, server.questions

``BackChannel`` sends a request of its own and blocks (legacy); the ways of the modern era stand
beside it with the same three methods.
"""

import logging
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ..errors import MissingCapability, ProtocolError
from ..protocol import codec, forms, sampling
from ..types import (
    CreateMessageRequest, CreateMessageResult, ElicitRequest, ElicitResult, PromptMessage, Root, SamplingMessage, user,
)
from .formtypes import form_type
from .questions import Elicit, Elicited, ListRoots, Question, Sample

if TYPE_CHECKING:
    from ..revisions import Revision
    from ..rpc.incoming import Incoming
    from .sessions import LegacySession

__all__ = ["BackChannel"]

_log = logging.getLogger(__name__)
_MAX_URL = 8192


class BackChannel:
    """Asks a legacy client by a request of the server's own, and waits for the answer.

    :param session: whose client is asked.
    :param incoming: the request on whose behalf it is asked; None outside of one.
    """

    def __init__(self, session: "LegacySession", incoming: "Optional[Incoming]") -> None:
        self._session = session
        self._incoming = incoming

    @property
    def _revision(self) -> "Revision":
        return self._session.revision

    def can(self, method: str, mode: str = "") -> bool:
        """Whether the client declared what this question needs.

        :param method: the protocol's method.
        :param mode: "form" or "url" for elicitation, "tools" for sampling with tools.
        """
        if method not in self._revision.server_requests or not self._session.lasting:
            return False
        declared = self._session.client_capabilities
        if method == "roots/list":
            return declared.roots is not None
        if method == "sampling/createMessage":
            flags = declared.sampling
            return flags is not None and (not mode or (self._revision.sampling_tools and mode in flags))
        if declared.elicitation is None:
            return False
        if mode == "url":
            return self._revision.elicitation_modes and "url" in declared.elicitation
        # An empty object means forms (ELIC-02), and is all there was before there were modes (2.5, 19).
        return "form" in declared.elicitation or "url" not in declared.elicitation

    def ask(self, question: Question) -> Any:
        """Ask, wait, and return the answer in the form that the handler asked for.

        :raises MissingCapability: the client did not declare what this needs; nothing was sent.
        :raises RemoteError: the client answered with an error, or its user refused.
        :raises ProtocolError: the answer does not fit the question.
        :raises Cancelled: the request on whose behalf it was asked is over.
        :raises RequestTimeout: no answer within ``Limits.ask_seconds``.
        """
        if isinstance(question, Elicit):
            return self._elicit(question)
        if isinstance(question, Sample):
            return self._sample(question)
        if isinstance(question, ListRoots):
            return self._list_roots()
        raise TypeError(f"{question!r} is no question: use Elicit, Sample or ListRoots")

    def _require(self, method: str, capability: Dict[str, Any], mode: str = "") -> None:
        if not self.can(method, mode):
            if not self._session.lasting:
                raise MissingCapability(
                    f"this client cannot be asked ({method}): the server keeps no sessions (stateless or fleet), and"
                    f" revision {self._revision} has no other way; serve it from one process without these"
                    " switches, or test ctx.can_elicit, ctx.can_sample or ctx.can_list_roots first",
                    data={"requiredCapabilities": capability})
            names = ".".join([*capability, *next(iter(capability.values()))])
            raise MissingCapability(
                f"the client did not declare the capability {names!r}, so it cannot be asked ({method});"
                " test ctx.can_elicit, ctx.can_sample or ctx.can_list_roots first",
                data={"requiredCapabilities": capability})

    def _call(self, method: str, params: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        session = self._session
        incoming = self._incoming
        result = session.peer.call(method, params, timeout=session.limits.ask_seconds,
                                   cancel=None if incoming is None else incoming.token,
                                   outlet=None if incoming is None else incoming.outlet)
        if not isinstance(result, dict):
            raise ProtocolError(f"the client answered {method!r} with {type(result).__name__}, not an object", result)
        return result

    def _elicit(self, question: Elicit) -> "Elicited[Any]":
        if question.url is not None:
            return self._elicit_url(question)
        self._require("elicitation/create", {"elicitation": {"form": {}} if self._revision.elicitation_modes else {}},
                      "form")
        form = form_type(question.schema)
        forms.check_form(form.schema)
        for name in forms.sensitive_names(form.schema):
            _log.warning("the form field %r looks like a secret; ask for secrets by url= instead (ELIC-16)", name)
        request = ElicitRequest(message=question.message, requested_schema=forms.adapt_form(form.schema, self._revision))
        answer = codec.decode(ElicitResult, self._call("elicitation/create", codec.encode(request, self._revision)))
        if answer.action not in ("accept", "decline", "cancel"):
            raise ProtocolError(f"the client answered with the unknown action {answer.action!r}")
        if answer.action != "accept":
            return Elicited(answer.action)
        content = forms.fill_defaults(form.schema, answer.content or {})
        problems = forms.check_answer(form.schema, content)
        if problems:
            raise ProtocolError(f"the client's answer does not fit the form: {'; '.join(problems)}", content)
        return Elicited("accept", content, form.convert(content))

    def _elicit_url(self, question: Elicit) -> "Elicited[Any]":
        url = question.url or ""
        scheme, separator, rest = url.partition("://")
        if scheme.lower() not in ("http", "https") or not rest or len(url) > _MAX_URL or not url.isprintable():
            raise ValueError(f"a URL question needs an absolute http or https URL, not {url[:200]!r} (URLE-03)")
        host = rest.split("/", 1)[0].rsplit("@", 1)[-1]
        if scheme.lower() == "http" and not host.startswith(("localhost", "127.", "[::1]")):
            _log.warning("URL questions should use https outside development (URLE-19): %.200r", host)
        self._require("elicitation/create", {"elicitation": {"url": {}}}, "url")
        identity = question.elicitation_id or _random_id()
        request = ElicitRequest(message=question.message, mode="url", url=url, elicitation_id=identity)
        answer = codec.decode(ElicitResult, self._call("elicitation/create", codec.encode(request, self._revision)))
        return Elicited(answer.action)

    def _sample(self, question: Sample) -> CreateMessageResult:
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
        problem = sampling.check_messages(params["messages"])
        if problem is not None:
            raise ValueError(f"this conversation cannot be sampled: {problem}")
        result = codec.decode(CreateMessageResult, self._call("sampling/createMessage", params))
        return result

    def _list_roots(self) -> List[Root]:
        session = self._session
        known = session.roots
        if known is not None:
            return list(known)
        self._require("roots/list", {"roots": {}})
        epoch = session.roots_epoch
        result = self._call("roots/list", None)
        listed = result.get("roots")
        if not isinstance(listed, list):
            raise ProtocolError("the client answered 'roots/list' without a list of roots", result)
        roots = [codec.decode(Root, item) for item in listed]
        session.keep_roots(roots, epoch)
        return list(roots)


def _sampling_message(item: Any) -> SamplingMessage:
    if isinstance(item, SamplingMessage):
        return item
    message: PromptMessage = item if isinstance(item, PromptMessage) else user(item)
    content = message.content
    return SamplingMessage(role=message.role, content=content if isinstance(content, list) else [content])


def _random_id() -> str:
    import secrets  # it brings OpenSSL along, which few servers need

    return secrets.token_urlsafe(16)
