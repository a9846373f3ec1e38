"""Calls: what a user asks of an open server, by the protocol's names."""

import json
import logging
from typing import Any, Callable, Dict, List, Mapping, Optional, Type, TypeVar

from ...errors import InvalidParams, MethodNotFound, NotSupported, ProtocolError, RequestTimeout, ResourceNotFound
from ...protocol import codec
from ...revisions import Revision
from ...rpc.cancel import CancelToken
from ...rpc.deadline import Deadline
from ...types import (
    CallToolResult,
    CompleteResult,
    Completion,
    GetPromptResult,
    InitializeResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Model,
    Progress,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)
from .output_schemas import Outputs
from .paging import read_page, walk

__all__ = ["DEFAULT", "Calls", "OnProgress"]

_log = logging.getLogger(__name__)
#: A time that was not given, in contrast to None, which is no limit.
DEFAULT: Any = object()
OnProgress = Callable[[Progress], object]
_RESOURCE_MISSING = (-32002, -32602)
M = TypeVar("M", bound=Model)


class Calls:
    """The half of :class:`Client` that is about the server's features; the other half is about the connection."""

    _outputs: Outputs
    _max_timeout: Optional[float]
    _timeout: Optional[float]

    @property
    def _result(self) -> Optional[InitializeResult]:
        raise NotImplementedError

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = DEFAULT,
                max_timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None,
                on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None, rounds: bool = True,
                input_responses: Optional[Mapping[str, Any]] = None, request_state: Optional[str] = None) -> Dict[str, Any]:
        """Send a request and return its result."""
        raise NotImplementedError

    def learn_tools(self, tools: List[Tool]) -> List[Tool]:
        """Return the listed tools that can be called here."""
        raise NotImplementedError

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""
        raise NotImplementedError

    @property
    def _name(self) -> str:
        raise NotImplementedError

    def _open_handshake(self) -> InitializeResult:
        raise NotImplementedError

    def _require(self, capability: str, method: str, flag: Optional[str] = None) -> None:
        declared = getattr(self._open_handshake().capabilities, capability)
        if declared is None or (flag is not None and not declared.get(flag)):
            name = capability if flag is None else f"{capability}.{flag}"
            raise NotSupported(f"{self._name} did not declare the capability {name!r}, so {method!r} was not sent")

    def _read(self, cls: Type[M], answer: Dict[str, Any], method: str) -> M:
        try:
            return codec.decode(cls, answer)
        except ProtocolError as error:
            raise ProtocolError(f"{self._name} answered {method!r} with what is no valid result: {error}",
                                error.raw) from error

    # --- tools ------------------------------------------------------------------------------------------

    def list_tools(self, **options: Any) -> List[Tool]:
        """Return all tools, from all pages; takes the keywords of :meth:`request`."""
        return self._walk(self.list_tools_page, "tools", options)

    def list_tools_page(self, cursor: Optional[str] = None, **options: Any) -> ListToolsResult:
        """Return one page of tools; ``next_cursor`` is None on the last."""
        epoch = self._outputs.epoch
        page: ListToolsResult = self._page("tools", "tools/list", ListToolsResult, cursor, options)
        page.tools = self.learn_tools(page.tools)
        if self.revision.structured_output:
            self._outputs.learn(page.tools, epoch)
        return page

    def call_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                  timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                  cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                  meta: Optional[Dict[str, Any]] = None, **rounds: Any) -> CallToolResult:
        """Call a tool.

        A tool that fails gives a result with ``is_error``; ``result.raise_for_error()`` makes that an
        exception. Structured content is checked against the tool's declared schema when its
        definition has been listed (TOOL-38).

        :param arguments: JSON values by name.
        :param timeout, max_timeout, cancel, on_progress, meta: as for :meth:`request`, as are *rounds*,
            *input_responses* and *request_state*.
        :raises InvalidParams: there is no such tool, or, before November 2025, the arguments do not fit.
        :raises ProtocolError: the result does not keep what the tool's schema promises.
        :raises TypeError, ValueError: the arguments are no JSON; nothing was sent.
        """
        if self._result is None or self._result.capabilities.tools is None:
            self._require("tools", "tools/call")
        if _log.isEnabledFor(logging.INFO):
            _log.info("%s: calling the tool %.200r", self._name, name)  # TOOL-50
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            if not isinstance(arguments, Mapping):
                raise TypeError(f"the arguments of the tool {name!r} must be a dict, not {type(arguments).__name__}")
            arguments = dict(arguments)
        answer = self.request("tools/call", {"name": name, "arguments": arguments}, timeout=timeout,
                              max_timeout=max_timeout, cancel=cancel, on_progress=on_progress, meta=meta, **rounds)
        result = self._read(CallToolResult, answer, "tools/call")
        self._outputs.check(name, result, self._name, "structuredContent" in answer)
        return result

    # --- resources --------------------------------------------------------------------------------------

    def list_resources(self, **options: Any) -> List[Resource]:
        """Return all resources, from all pages; takes the keywords of :meth:`request`."""
        return self._walk(self.list_resources_page, "resources", options)

    def list_resources_page(self, cursor: Optional[str] = None, **options: Any) -> ListResourcesResult:
        """Return one page of resources."""
        return self._page("resources", "resources/list", ListResourcesResult, cursor, options)  # type: ignore[no-any-return]

    def list_resource_templates(self, **options: Any) -> List[ResourceTemplate]:
        """Return all resource templates, from all pages."""
        return self._walk(self.list_resource_templates_page, "resource_templates", options)

    def list_resource_templates_page(self, cursor: Optional[str] = None, **options: Any) -> ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return self._page("resources", "resources/templates/list", ListResourceTemplatesResult,  # type: ignore[no-any-return]
                          cursor, options)

    def read_resource(self, uri: str, **options: Any) -> ReadResourceResult:
        """Read a resource; takes the keywords of :meth:`request`.

        :raises ResourceNotFound: there is none at this URI.
        """
        self._require("resources", "resources/read")
        try:
            return self._read(ReadResourceResult, self.request("resources/read", {"uri": uri}, **options),
                              "resources/read")
        except InvalidParams as error:
            # RSRC-18: revisions differ in the code, and servers do not always keep to theirs.
            if isinstance(error, ResourceNotFound) or error.code not in _RESOURCE_MISSING:
                raise
            missing = ResourceNotFound(error.message, code=error.code, data=error.data or {"uri": uri})
            missing.received = True
            raise missing from error

    def subscribe_resource(self, uri: str, **options: Any) -> None:
        """Have ``on_resource_updated`` called when the resource changes."""
        self._require("resources", "resources/subscribe", "subscribe")
        self.request("resources/subscribe", {"uri": uri}, **options)

    def unsubscribe_resource(self, uri: str, **options: Any) -> None:
        """End a subscription."""
        self._require("resources", "resources/unsubscribe", "subscribe")
        self.request("resources/unsubscribe", {"uri": uri}, **options)

    # --- prompts and completion ---------------------------------------------------------------------------

    def list_prompts(self, **options: Any) -> List[Prompt]:
        """Return all prompts, from all pages; takes the keywords of :meth:`request`."""
        return self._walk(self.list_prompts_page, "prompts", options)

    def list_prompts_page(self, cursor: Optional[str] = None, **options: Any) -> ListPromptsResult:
        """Return one page of prompts."""
        return self._page("prompts", "prompts/list", ListPromptsResult, cursor, options)  # type: ignore[no-any-return]

    def get_prompt(self, name: str, arguments: Optional[Mapping[str, Any]] = None, **options: Any) -> GetPromptResult:
        """Return a prompt's messages with its arguments filled in; takes the keywords of :meth:`request`.

        :param arguments: by name. The protocol knows only strings; any other JSON value is sent as its
            JSON text, so that ``3`` becomes ``"3"`` and ``True`` becomes ``"true"``.
        :raises InvalidParams: there is no such prompt, or an argument is missing.
        """
        self._require("prompts", "prompts/get")
        params: Dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                                   for key, value in arguments.items()}
        return self._read(GetPromptResult, self.request("prompts/get", params, **options), "prompts/get")

    def complete(self, *, argument: str, value: str, prompt: Optional[str] = None, resource: Optional[str] = None,
                 context: Optional[Mapping[str, str]] = None, **options: Any) -> CompleteResult:
        """Return values that complete an argument of a prompt or of a resource template.

        :param argument: its name, and
        :param value: what it has so far.
        :param prompt: the prompt's name; or
        :param resource: the template or URI.
        :param context: the arguments that are filled in already; sent from June 2025 on.
        :raises ValueError: not exactly one of *prompt* and *resource*.
        """
        if (prompt is None) == (resource is None):
            raise ValueError("complete() needs prompt= or resource=, and not both")
        if self.revision.completions_capability:
            self._require("completions", "completion/complete")
        params: Dict[str, Any] = {
            "ref": {"type": "ref/prompt", "name": prompt} if prompt is not None else {"type": "ref/resource", "uri": resource},
            "argument": {"name": argument, "value": value}}
        if context and self.revision.completion_context:
            params["context"] = {"arguments": dict(context)}
        try:
            return self._read(CompleteResult, self.request("completion/complete", params, **options),
                              "completion/complete")
        except MethodNotFound:
            if self.revision.completions_capability:
                raise
            # COMP-02: before the capability existed, trying was the only way to find out.
            return CompleteResult(Completion([]))

    # --- logging ----------------------------------------------------------------------------------

    def set_log_level(self, level: str, **options: Any) -> None:
        """Set the least urgent level of log messages that the server sends.

        :param level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
        """
        self._require("logging", "logging/setLevel")
        self.request("logging/setLevel", {"level": level}, **options)

    # --- pages --------------------------------------------------------------------------------------------

    def _page(self, capability: str, method: str, cls: Any, cursor: Optional[str], options: Dict[str, Any]) -> Any:
        self._require(capability, method)
        params = None if cursor is None else {"cursor": cursor}
        return read_page(cls, self.request(method, params, **options), self._name)

    def _walk(self, page: Callable[..., Any], member: str, options: Dict[str, Any]) -> List[Any]:
        # One deadline for all pages (TIME-01): each may come in time, and their number is the server's.
        most = options.get("max_timeout", self._max_timeout)
        seconds = options.get("timeout", self._timeout)
        deadline = Deadline(most)

        def one(cursor: Optional[str]) -> Any:
            left = deadline.remaining()
            if left is None:
                return page(cursor, **options)
            if left <= 0:
                raise RequestTimeout(f"{self._name}: all pages of its {member} were not there within {most:g} s"
                                     f" (max_timeout)")
            return page(cursor, **{**options, "timeout": left if seconds is None else min(seconds, left)})

        try:
            return walk(one, member, self._name)
        except InvalidParams:
            # CACHE-16: the pages that were kept may be of a list whose cursors are gone.
            if options.get("fresh") or not self.revision.modern:
                raise
        options = {**options, "fresh": True}
        return walk(one, member, self._name)
