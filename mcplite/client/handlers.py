"""Handlers: the user's callbacks that answer a server's questions and take its notifications.

A client declares a capability if it has the handler for it. One set of handlers serves every revision; the sessions decide when
and on which thread a handler runs.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

from .. import types
from ..errors import (
    CAPABILITY_KEYWORDS,
    USER_REJECTED,
    Cancelled,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
    RemoteError,
)
from ..protocol.error_text import quoted
from ..protocol.meta import RESOURCE_UPDATED
from ..revisions import Revision
from ..rooms import has
from ..rpc.tracing import get_logger
from ..types import codec
from ..types.content import as_block

# The modules that are needed to answer a question are loaded with the first question.
if TYPE_CHECKING:
    from ..rpc.cancel import CancelToken
    from .client_options import ClientSettings
    from .handler_types import AskedElicitation, AskedSampling, Elicitation, Roots

__all__ = ["Handlers", "checked_roots"]

_log = get_logger(__name__)
_Notify = Optional[Callable[[Dict[str, Any]], object]]
#: How many URL questions are remembered that the server may still report as completed; the oldest are forgotten first.
_MAX_EXPECTED = 1000
#: Characters of the id of a URL question; a longer one is not remembered.
_MAX_IDENTITY = 1024
#: The settings that are functions of the user.
_CALLBACKS = ("elicitation_handler", "url_elicitation_handler", "sampling_handler", "log_handler", "on_tools_changed",
              "on_resources_changed", "on_prompts_changed", "on_resource_updated", "on_elicitation_complete", "on_disconnect")
#: The callback of each notification without arguments, and the part of a filter that asks for it.
_CHANGES = {"notifications/tools/list_changed": ("on_tools_changed", "tools"),
            "notifications/resources/list_changed": ("on_resources_changed", "resource_list"),
            "notifications/prompts/list_changed": ("on_prompts_changed", "prompts")}
_ACTIONS = ("accept", "decline", "cancel")


class Handlers:
    """The callbacks of one client.

    Questions are answered on worker threads, several at a time; callbacks for notifications run one after another.

    - ``elicitation_handler`` gets an :class:`AskedElicitation` with a form; it returns the dict of its
      fields, True (accepted), False (declined) or None (cancelled), or what the argument's methods ``accept({...})``,
      ``decline()`` and ``cancel()`` return. Missing fields get their defaults (ELIC-10); an answer that does not fit the
      form, or is none of these, is logged and refused (ELIC-14).
    - ``url_elicitation_handler`` gets an :class:`AskedElicitation` with a ``url`` (and its ``host``) to show.
      ``asked.accept()``, or True, is the user's consent to open it; the client itself never opens or fetches it (URLE-20,
      URLE-21).
    - ``sampling_handler`` gets an :class:`AskedSampling`; it returns a ``CreateMessageResult``, or text or
      content, with the model set to "unknown"; False or None refuses (SAMP-16).
    - ``roots`` are paths, ``file://`` URIs or ``Root`` objects, or a function that returns them.

    :param settings: have the callbacks, under the names that :func:`~.connect.connect` and :class:`~.ClientOptions` document.
    :raises TypeError: one of them cannot be called.
    :raises ValueError: a root is not a file.
    """

    def __init__(self, settings: ClientSettings) -> None:
        for name in _CALLBACKS:
            value = getattr(settings, name)
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be a function, not {type(value).__name__}")
        self._settings = settings
        roots = settings.roots
        self._roots = roots if roots is None or callable(roots) else checked_roots(roots)
        #: Guards ``_expected``, and changes of ``_roots`` that depend on it; held for work in memory only.
        self._lock = threading.Lock()
        self._expected: Dict[str, None] = {}
        #: The asking server; set when the session opens.
        self.server_info = types.Implementation(name="", version="")

    def capabilities(self) -> types.ClientCapabilities:
        """Return the capabilities for which there are handlers; encoding leaves out members that a revision does not have."""
        given = self._settings
        elicitation: Dict[str, Any] = {mode: {} for mode, handler in (
            ("form", given.elicitation_handler), ("url", given.url_elicitation_handler)) if handler}
        sampling: Dict[str, Any] = {flag: {} for flag, on in (
            ("tools", given.sampling_tools), ("context", given.sampling_context)) if on}
        requests: Dict[str, Any] = {**({"elicitation": {"create": {}}} if elicitation else {}),
                                    **({"sampling": {"createMessage": {}}} if given.sampling_handler else {})}
        tasks = {"list": {}, "cancel": {}, "requests": requests} if requests and has("tasks") else None  # TSK-01
        return types.ClientCapabilities(
            tasks=tasks, roots={"listChanged": True} if self._roots is not None else None,
            sampling=sampling if given.sampling_handler else None, experimental=given.experimental,
            elicitation=elicitation or None)  # an empty object would promise forms (ELIC-02)

    # --- questions ----------------------------------------------------------------------------------

    def answer(self, method: str, params: Dict[str, Any], revision: Revision, token: CancelToken,
               notify_progress: _Notify = None) -> Dict[str, Any]:
        """Return the encoded answer to one question.

        :param token: cancelled when the server withdraws the question.
        :param notify_progress: sends the params of a progress notification for this question; None if the server has not asked
            for progress.
        :raises RemoteError: the error for the server.
        """
        known = method in revision.server_requests or method in revision.input_requests
        if known and method == "elicitation/create" and (
                self._settings.elicitation_handler or self._settings.url_elicitation_handler):
            return self._answer_elicitation(params, revision, token, notify_progress)
        if known and method == "sampling/createMessage" and self._settings.sampling_handler:
            return self._answer_sampling(params, revision, token, notify_progress)
        if known and method == "roots/list" and self._roots is not None:
            return {"roots": [codec.encode(root, revision) for root in self.roots()]}
        raise MethodNotFound(f"Method not found: {method[:200]}" + (self._advice(method.partition("/")[0]) if known else ""))

    def _advice(self, capability: str) -> str:
        """Return, as the end of an error, the keyword that declares a capability; empty if no keyword does.

        It is also logged as a warning, since a server may not pass the error on to its user.
        """
        keyword = CAPABILITY_KEYWORDS.get(capability)
        if keyword is None:
            return ""
        _log.warning("%.100s asked for %s, and nothing answers: give connect() %s", self.server_info.name or "the server",
                     capability, keyword)
        return f"; give connect() {keyword}"

    def _question(self, cls: Any, params: Dict[str, Any], token: CancelToken, notify_progress: _Notify) -> Any:
        try:
            request = codec.decode(cls, params)
        except ProtocolError as error:
            raise InvalidParams(str(error)) from error
        request.server, request.token, request.notify_progress = self.server_info, token, notify_progress
        return request

    def _answer_elicitation(self, params: Dict[str, Any], revision: Revision, token: CancelToken, notify_progress: _Notify
                            ) -> Dict[str, Any]:
        from ..protocol import elicitation_forms
        from .handler_types import AskedElicitation

        request: AskedElicitation = self._question(AskedElicitation, params, token, notify_progress)
        by_url = self._settings.url_elicitation_handler if revision.elicitation_modes else None
        handler = {"form": self._settings.elicitation_handler, "url": by_url}.get(request.mode)
        if handler is None:
            advice = self._advice(f"elicitation.{request.mode}") if revision.elicitation_modes else ""
            raise InvalidParams(f"this client does not do elicitation in the mode {request.mode[:50]!r}{advice}")  # ELIC-23
        if request.mode == "url":
            return self._answer_url(request, handler, revision)
        schema = request.requested_schema
        if schema is None or not isinstance(schema.get("properties"), dict):
            raise InvalidParams("a form needs requestedSchema, an object with properties")
        answer = self._ask_user(handler, request)
        if answer.action != "accept":
            return codec.encode(types.ElicitResult(answer.action), revision)  # type: ignore[no-any-return]
        # Empty fields are left out: a form has no null values (ELIC-12).
        filled = elicitation_forms.fill_defaults(schema, answer.content or {})
        content = {name: value for name, value in filled.items() if value is not None}
        problems = elicitation_forms.check_answer(self._checkable(schema), content)
        if problems:
            _log.error("the elicitation handler's answer does not fit the form: %s", "; ".join(problems))
            raise InternalError("the client's elicitation handler gave an answer that does not fit the form")
        return codec.encode(types.ElicitResult("accept", content), revision)  # type: ignore[no-any-return]

    def _answer_url(self, request: AskedElicitation, handler: Elicitation, revision: Revision) -> Dict[str, Any]:
        _check_url(request)
        # Remember the id before the user is asked: the page may be completed before the handler returns.
        identity = request.elicitation_id
        if identity is not None:
            self.expect([{"elicitationId": identity}])
        answer = self._ask_user(handler, request)
        if answer.action != "accept" and identity is not None:
            with self._lock:
                self._expected.pop(identity, None)
        return codec.encode(types.ElicitResult(answer.action), revision)  # type: ignore[no-any-return]

    def expect(self, questions: Sequence[Mapping[str, Any]]) -> None:
        """Remember the ids of URL questions that the server may later report as completed (URLE-08)."""
        with self._lock:
            for item in questions:
                identity = item.get("elicitationId")
                if isinstance(identity, str) and len(identity) <= _MAX_IDENTITY:
                    self._expected[identity] = None
            while len(self._expected) > _MAX_EXPECTED:
                del self._expected[next(iter(self._expected))]

    def _answer_sampling(self, params: Dict[str, Any], revision: Revision, token: CancelToken, notify_progress: _Notify
                         ) -> Dict[str, Any]:
        from ..protocol import elicitation_forms
        from .handler_types import AskedSampling

        request: AskedSampling = self._question(AskedSampling, params, token, notify_progress)
        if (request.tools or request.tool_choice) and not self._settings.sampling_tools:
            raise InvalidParams(f"this client does not do sampling with tools{self._advice('sampling.tools')}")  # SAMP-08
        problem = elicitation_forms.check_messages(params["messages"]) or _content_problem(request.messages)
        if problem is not None:
            raise InvalidParams(problem)
        sample = self._settings.sampling_handler
        assert sample is not None, "a question without a handler is refused before"
        answer = self._run("sampling", lambda: sample(request))
        if answer is None or answer is False:
            raise RemoteError("User rejected sampling request", code=USER_REJECTED)  # SAMP-16
        try:
            result = _sampled(answer)
            if not revision.sampling_tools and all(isinstance(block, types.TextContent) for block in result.content):
                result.content = [types.TextContent(result.text)]  # such a revision has one block
            return codec.encode(result, revision)  # type: ignore[no-any-return]
        except (ProtocolError, TypeError, ValueError) as error:
            _log.error("the sampling handler returned %s: %s; use CreateMessageResult, content or a str",
                               type(answer).__name__, error)
            reason = f": {error}" if type(error) is ValueError else ""  # what the revision cannot carry
            raise InternalError(f"the client's sampling handler failed{reason}") from error

    def roots(self) -> List[types.Root]:
        """Return the current roots.

        :raises InternalError: the user's function of roots failed.
        """
        given = self._roots
        if not callable(given):
            return list(given or ())
        return self._run("roots", lambda: checked_roots(given()))  # type: ignore[no-any-return]

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots.

        :raises ValueError: the client was made without roots, so it has not declared the capability; or a root is not
            a file.
        """
        if self._roots is None:
            raise ValueError("this client was made without roots and has not declared the capability; give roots=[] to"
                             " connect()")
        self._roots = roots if callable(roots) else checked_roots(roots)

    def change_roots(self, change: Callable[[List[types.Root]], List[types.Root]]) -> bool:
        """Replace the roots by what *change* returns for them; return whether that differs.

        :raises ValueError: the client was made without roots, or with a function of them, which decides alone.
        """
        with self._lock:
            if callable(self._roots):
                raise ValueError("the roots of this client are those that its function returns; change what that returns")
            before = [] if self._roots is None else checked_roots(self._roots)
            after = change(before)
            if after != before:
                self.set_roots(after)
            return after != before

    # --- notifications ---------------------------------------------------------------------------------------

    def callback_for(self, method: str, params: Dict[str, Any]) -> Optional[Callable[[], object]]:
        """Return the callback for a notification, with its arguments bound; None if there is none.

        :raises ProtocolError: the params break the rules.
        """
        settings = self._settings
        if method in _CHANGES:
            return getattr(settings, _CHANGES[method][0])  # type: ignore[no-any-return]
        if method == "notifications/message" and settings.log_handler is not None:
            return functools.partial(settings.log_handler, codec.decode(types.LogMessage, params))
        if method == RESOURCE_UPDATED and settings.on_resource_updated is not None:
            uri = params.get("uri")
            if not isinstance(uri, str):
                raise ProtocolError("notifications/resources/updated has no uri", params)
            return functools.partial(settings.on_resource_updated, uri)
        if method == "notifications/elicitation/complete" and settings.on_elicitation_complete is not None:
            identity = params.get("elicitationId")
            if not isinstance(identity, str):
                raise ProtocolError("notifications/elicitation/complete has no elicitationId", params)
            with self._lock:
                if identity not in self._expected:
                    return None  # URLE-08
                del self._expected[identity]
            return functools.partial(settings.on_elicitation_complete, identity)
        return None

    @property
    def wants_logs(self) -> bool:
        """Whether there is a handler for log messages."""
        return self._settings.log_handler is not None

    def interests(self) -> Dict[str, Any]:
        """Return for each list whether there is a handler for its changes."""
        return {part: getattr(self._settings, callback) is not None for callback, part in _CHANGES.values()}

    def disconnected(self, error: Exception) -> None:
        """Call the user's callback for a lost connection."""
        if self._settings.on_disconnect is not None:
            self._settings.on_disconnect(error)

    # --- calls of the user's code -----------------------------------------------------------------

    def _ask_user(self, handler: Elicitation, request: AskedElicitation) -> types.ElicitResult:
        try:
            return self._run("elicitation", lambda: _elicited(handler(request)))  # type: ignore[no-any-return]
        except RemoteError as error:
            if isinstance(error.__cause__, Cancelled):
                return types.ElicitResult("cancel")  # elicitation has an answer for a cancellation, so it is not an error
            raise

    def _checkable(self, schema: Mapping[str, Any]) -> Dict[str, Any]:
        """Return a form without the fields that break the rules; the server checks their values.

        Servers do send such fields, for example ``anyOf`` with null for an optional one, and their users expect the
        question nevertheless.
        """
        from ..protocol import elicitation_forms

        fields = {}
        for name, field in schema["properties"].items():
            try:
                elicitation_forms.check_form({"type": "object", "properties": {name: field}})
                fields[name] = field
            except ValueError as error:
                _log.warning("the answer is not checked in full: %.200s", error)
        required = schema.get("required")
        return {"type": "object", "properties": fields,
                "required": [name for name in required if isinstance(name, str)] if isinstance(required, list) else []}

    def _run(self, what: str, handler: Callable[[], Any]) -> Any:
        try:
            return handler()
        except RemoteError:
            raise
        except Cancelled as error:
            raise RemoteError(f"User rejected {what} request", code=USER_REJECTED) from error  # SAMP-16
        except Exception as error:
            _log.exception("the %s handler failed", what)
            raise InternalError(f"the client's {what} handler failed") from error


def _elicited(answer: Any) -> types.ElicitResult:
    """Return the result for what an elicitation handler returned: a result, a form's fields, True, False or None.

    :raises TypeError: it is none of these.
    """
    if isinstance(answer, Mapping):
        answer = types.ElicitResult("accept", answer)  # type: ignore[arg-type]
    if answer is None or isinstance(answer, bool):
        return types.ElicitResult("cancel" if answer is None else "accept" if answer else "decline")
    if not isinstance(answer, types.ElicitResult) or answer.action not in _ACTIONS:
        raise TypeError("return a dict with the fields of the form, True (accepted), False (declined) or None (cancelled), not"
                        f" {quoted(answer)}")
    if answer.content is None:
        return answer
    from ..protocol.jsonable import jsonable  # with the first form

    content = jsonable(answer.content)
    if not isinstance(content, dict):
        raise TypeError(f"use accept({{...}}), a dict with the fields of the form, not accept({quoted(answer.content)})")
    return types.ElicitResult(answer.action, content)


def _sampled(answer: Any) -> types.CreateMessageResult:
    """Return the result for what a sampling handler returned: a result, a message, content, or the JSON object of one of them.

    :raises ProtocolError, TypeError: it is none of these, or not valid.
    """
    if isinstance(answer, dict) and "role" in answer and "content" in answer:
        members = dict(answer)
        result = types.CreateMessageResult(members.pop("role"), members.pop("content"), members.pop("model", "unknown"))
        rest = codec.decode_own(types.CreateMessageResult, {"role": "", "content": [], "model": "", **members})
        result.stop_reason, result.meta = rest.stop_reason, rest.meta
    elif isinstance(answer, types.CreateMessageResult):
        import copy  # with the first such answer

        result = copy.copy(answer)
    elif isinstance(answer, (types.PromptMessage, types.SamplingMessage)):
        result = types.CreateMessageResult(answer.role, answer.content, "unknown")
    else:
        result = types.CreateMessageResult("assistant", answer, "unknown")
    given: Any = result.content
    result.content = [_block(item) for item in (given if isinstance(given, (list, tuple)) else [given])]
    if not result.content:
        raise TypeError("it has no content")
    for member, value in (("role", result.role), ("model", result.model)):
        if not isinstance(value, str):
            raise TypeError(f"its {member} must be a text, not {quoted(value)}")
    return result


def _block(item: Any) -> Any:
    block = as_block(item)
    if block is None:
        raise TypeError(f"{quoted(item)} is no content")
    return block


def _content_problem(messages: Sequence[types.SamplingMessage]) -> Optional[str]:
    """Return a description of the first bad content in sampling messages, or None (SAMP-22)."""
    for index, message in enumerate(messages):
        for block in message.content:
            if isinstance(block, types.UnknownContent):
                return f"messages[{index}] has content of the unknown kind {block.wire_type[:50]!r}"
            if isinstance(block, (types.ImageContent, types.AudioContent)):
                try:
                    block.bytes
                except ValueError:
                    return f"messages[{index}] has data that is not base64"
    return None


def _check_url(request: types.ElicitRequest) -> None:
    from ..protocol import elicitation_forms

    url = request.url or ""
    scheme, separator, rest = url.partition("://")
    # Programs disagree about URLs with a backslash or a third slash, so that the user could open another host than shown.
    if (scheme.lower() not in ("http", "https") or not separator or not request.host or rest.startswith("/")
            or "\\" in url or " " in url or not url.isprintable() or len(url) > elicitation_forms.MAX_URL):
        raise InvalidParams("only absolute http and https URLs can be shown to the user")


def checked_roots(roots: Any) -> List[types.Root]:
    """Return roots as objects.

    :param roots: paths, URIs, :class:`Root` objects or their JSON objects, in a list; or a whole ``ListRootsResult``.
    :raises TypeError: they are no list, or one of them is of another type.
    :raises ValueError: one is not a file.
    """
    if isinstance(roots, types.ListRootsResult):
        roots = roots.roots
    if isinstance(roots, (str, bytes, os.PathLike, types.Root, Mapping)) or not isinstance(roots, Iterable):
        one = "string" if isinstance(roots, (str, bytes)) else "root"
        raise TypeError(f"roots is a list of paths or file:// URIs, not one {one}: write roots=[{quoted(roots)}]")
    from ..protocol.uris import check_root_uri, file_uri

    checked: List[types.Root] = []
    for root in roots:
        if isinstance(root, Mapping):
            try:
                root = codec.decode_own(types.Root, dict(root))
            except ProtocolError as error:
                raise TypeError(f"a root is a path, a file:// URI or a Root: {error}") from error
        if not isinstance(root, types.Root):
            if not isinstance(root, (str, bytes, os.PathLike)):
                raise TypeError(f"a root is a path, a file:// URI or a Root, not {quoted(root)}")
            text = os.fsdecode(root)
            root = types.Root(uri=text if "://" in text else file_uri(text))
        check_root_uri(root.uri)
        checked.append(root)
    return checked
