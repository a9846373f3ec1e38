"""The answers to a server's questions, and the callbacks for its news; a handler *is* the capability.

May import: errors, protocol.codec, protocol.forms, protocol.paths, protocol.sampling, revisions, types

One set serves every revision. Nothing here knows how a question came or which thread it runs on.
"""

import logging
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from ..errors import INVALID_PARAMS, USER_REJECTED, Cancelled, InternalError, InvalidParams, MethodNotFound, ProtocolError, RemoteError
from ..protocol import codec, forms, sampling
from ..protocol.paths import check_root_uri, file_uri
from ..revisions import Revision
from ..types import (
    ClientCapabilities, CreateMessageRequest, CreateMessageResult, ElicitRequest, ElicitResult, Implementation,
    LogMessage, PromptMessage, Root, SamplingMessage, TextContent,
)

__all__ = ["Handlers", "Roots"]

_log = logging.getLogger(__name__)
Roots = Union[Sequence[Union[str, "os.PathLike[str]", Root]], Callable[[], Sequence[Union[str, "os.PathLike[str]", Root]]]]
Elicitation = Callable[[ElicitRequest], Union[ElicitResult, Dict[str, Any], None]]
Sampling = Callable[[CreateMessageRequest], Union[CreateMessageResult, PromptMessage, SamplingMessage, str]]


class Handlers:
    """What a user of the client gave to answer with; see :func:`connect` for each.

    :raises TypeError: one of them cannot be called.
    :raises ValueError: a root is no file.
    """

    def __init__(self, *, elicitation_handler: Optional[Elicitation] = None,
                 url_elicitation_handler: Optional[Elicitation] = None, sampling_handler: Optional[Sampling] = None,
                 sampling_tools: bool = False, sampling_context: bool = False, roots: Optional[Roots] = None,
                 log_handler: Optional[Callable[[LogMessage], object]] = None,
                 on_tools_changed: Optional[Callable[[], object]] = None,
                 on_resources_changed: Optional[Callable[[], object]] = None,
                 on_prompts_changed: Optional[Callable[[], object]] = None,
                 on_resource_updated: Optional[Callable[[str], object]] = None,
                 on_elicitation_complete: Optional[Callable[[str], object]] = None) -> None:
        given = dict(
            elicitation_handler=elicitation_handler, url_elicitation_handler=url_elicitation_handler,
            sampling_handler=sampling_handler, log_handler=log_handler, on_tools_changed=on_tools_changed,
            on_resources_changed=on_resources_changed, on_prompts_changed=on_prompts_changed,
            on_resource_updated=on_resource_updated, on_elicitation_complete=on_elicitation_complete)
        for name, value in given.items():
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be a function, not {type(value).__name__}")
        self._elicit = elicitation_handler
        self._elicit_url = url_elicitation_handler
        self._sample = sampling_handler
        self._sampling_flags = {"tools": sampling_tools, "context": sampling_context}
        self._roots = roots if roots is None or callable(roots) else _checked_roots(roots)
        self._log = log_handler
        self._changed = {
            "notifications/tools/list_changed": on_tools_changed,
            "notifications/resources/list_changed": on_resources_changed,
            "notifications/prompts/list_changed": on_prompts_changed,
        }
        self._updated = on_resource_updated
        self._complete = on_elicitation_complete
        #: Who asks, for handlers that show it (ELIC-18); set once the server has said its name.
        self.server_info: Optional[Implementation] = None

    def capabilities(self) -> ClientCapabilities:
        """Return what the client can be asked for; the codec trims it to a revision."""
        elicitation: Optional[Dict[str, Any]] = None
        if self._elicit or self._elicit_url:
            elicitation = {}
            if self._elicit:
                elicitation["form"] = {}
            if self._elicit_url:
                elicitation["url"] = {}
        flags = {name: {} for name, on in self._sampling_flags.items() if on}
        return ClientCapabilities(roots={"listChanged": True} if self._roots is not None else None,
                                  sampling=dict(flags) if self._sample else None, elicitation=elicitation)

    # --- questions ----------------------------------------------------------------------------------

    def answer(self, method: str, params: Dict[str, Any], revision: Revision) -> Dict[str, Any]:
        """Return the encoded answer to one question.

        :raises RemoteError: what the server shall read as the error.
        """
        if method == "elicitation/create" and (self._elicit or self._elicit_url):
            return self._answer_elicitation(params, revision)
        if method == "sampling/createMessage" and self._sample:
            return self._answer_sampling(params, revision)
        if method == "roots/list" and self._roots is not None:
            return {"roots": [codec.encode(root, revision) for root in self.roots()]}
        raise MethodNotFound(f"Method not found: {method[:200]}")

    def _answer_elicitation(self, params: Dict[str, Any], revision: Revision) -> Dict[str, Any]:
        request = _decoded(ElicitRequest, params)
        request.mode = request.mode or "form"
        handler = {"form": self._elicit, "url": self._elicit_url}.get(request.mode)
        if handler is None:
            raise InvalidParams(f"this client does not do elicitation in the mode {request.mode[:50]!r}")  # ELIC-23
        if request.mode == "url":
            _check_url(request.url or "")
        else:
            try:
                forms.check_form(request.requested_schema)
            except ValueError as error:
                raise InvalidParams(str(error)) from error
        answer = _run("elicitation", lambda: handler(request))
        if answer is None:
            answer = ElicitResult("cancel")
        elif isinstance(answer, dict):
            answer = ElicitResult("accept", answer)
        if not isinstance(answer, ElicitResult) or answer.action not in ("accept", "decline", "cancel"):
            _log.error("the elicitation handler returned %.200r; use accept(...), decline() or cancel()", answer)
            raise InternalError("the client's elicitation handler failed")
        if answer.action != "accept" or request.mode == "url":
            return codec.encode(ElicitResult(answer.action), revision)  # type: ignore[no-any-return]
        schema = request.requested_schema or {}
        content = forms.fill_defaults(schema, answer.content or {})
        problems = forms.check_answer(schema, content)
        if problems:
            _log.error("the elicitation handler's answer does not fit the form: %s", "; ".join(problems))
            raise InternalError("the client's elicitation handler gave an answer that does not fit the form")
        return codec.encode(ElicitResult("accept", content), revision)  # type: ignore[no-any-return]

    def _answer_sampling(self, params: Dict[str, Any], revision: Revision) -> Dict[str, Any]:
        request = _decoded(CreateMessageRequest, params)
        if (request.tools or request.tool_choice) and not self._sampling_flags["tools"]:
            raise InvalidParams("this client does not do sampling with tools")  # SAMP-08
        problem = sampling.check_messages(params["messages"])
        if problem is not None:
            raise InvalidParams(problem)
        assert self._sample is not None
        sample = self._sample
        answer = _run("sampling", lambda: sample(request))
        if isinstance(answer, str):
            answer = CreateMessageResult(role="assistant", content=[TextContent(answer)], model="unknown")
        elif isinstance(answer, (PromptMessage, SamplingMessage)):
            content = answer.content if isinstance(answer.content, list) else [answer.content]
            answer = CreateMessageResult(role=answer.role, content=content, model="unknown")
        if not isinstance(answer, CreateMessageResult):
            _log.error("the sampling handler returned %.200r; use CreateMessageResult or a str", answer)
            raise InternalError("the client's sampling handler failed")
        return codec.encode(answer, revision)  # type: ignore[no-any-return]

    def roots(self) -> List[Root]:
        """Return the roots as they are now.

        :raises InternalError: the function that gives them failed.
        """
        given = self._roots
        if not callable(given):
            return list(given or ())  # type: ignore[arg-type]
        return _run("roots", lambda: _checked_roots(given()))  # type: ignore[no-any-return]

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots.

        :raises ValueError: there were none when the client was made, so the server was told that there never
            are; or a root is no file.
        """
        if self._roots is None:
            raise ValueError("this client was made without roots, and has told the server so; give roots=[] to connect()")
        self._roots = roots if callable(roots) else _checked_roots(roots)

    # --- news ---------------------------------------------------------------------------------------

    def news(self, method: str, params: Dict[str, Any]) -> Optional[Callable[[], object]]:
        """Return what is to be called for a notification; None when nobody wants it.

        :raises ProtocolError: its params are not what they must be.
        """
        if method in self._changed:
            return self._changed[method]
        if method == "notifications/message" and self._log is not None:
            log, message = self._log, codec.decode(LogMessage, params)
            return lambda: log(message)
        if method == "notifications/resources/updated" and self._updated is not None:
            updated, uri = self._updated, params.get("uri")
            if not isinstance(uri, str):
                raise ProtocolError("notifications/resources/updated has no uri", params)
            return lambda: updated(uri)
        if method == "notifications/elicitation/complete" and self._complete is not None:
            complete, identity = self._complete, params.get("elicitationId")
            if not isinstance(identity, str):
                raise ProtocolError("notifications/elicitation/complete has no elicitationId", params)
            return lambda: complete(identity)
        return None


def _decoded(cls: Any, params: Dict[str, Any]) -> Any:
    try:
        return codec.decode(cls, params)
    except ProtocolError as error:
        raise InvalidParams(str(error)) from error


def _run(what: str, handler: Callable[[], Any]) -> Any:
    try:
        return handler()
    except RemoteError:
        raise
    except Cancelled as error:
        raise RemoteError(f"User rejected {what} request", code=USER_REJECTED) from error  # SAMP-16
    except Exception as error:
        _log.exception("the %s handler failed", what)
        raise InternalError(f"the client's {what} handler failed") from error


def _check_url(url: str) -> None:
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in ("http", "https") or not separator or not rest or not url.isprintable() or " " in url:
        raise InvalidParams("only absolute http and https URLs can be shown to the user", code=INVALID_PARAMS)


def _checked_roots(roots: Sequence[Union[str, "os.PathLike[str]", Root]]) -> List[Root]:
    if isinstance(roots, (str, bytes)):
        raise TypeError("roots is a list of paths or file:// URIs, not one string")
    checked: List[Root] = []
    for root in roots:
        if not isinstance(root, Root):
            text = os.fspath(root)
            root = Root(uri=text if "://" in text else file_uri(text))
        check_root_uri(root.uri)
        checked.append(root)
    return checked
