"""Features: the calls that a user makes on an open client, by the protocol's names.

:class:`~mcplite.client.client.Client` inherits them. The sessions of both eras carry them out.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from .. import types
from ..errors import InvalidParams, MethodNotFound, ResourceNotFound
from .call import DEFAULT, OnProgress, RequestOptions
from .features.tool_calls import ToolCalls

if TYPE_CHECKING:
    from ..rpc.cancel import CancelToken

__all__ = ["Features"]

_RESOURCE_MISSING = (-32002, -32602)


class Features(ToolCalls):
    """The calls of a client, by the protocol's names: those of tools and tasks, which it inherits, and all others.

    A class of its own, so that :class:`Client` is about the connection alone. The subclass provides the session, and
    subscriptions that have a stream.
    """

    @abstractmethod
    def _watch(self, uri: str, timeout: Optional[float]) -> None:
        """Call the handler of updates when a resource changes, by a stream of changes that is open in *timeout* seconds."""

    @abstractmethod
    def _unwatch(self, uri: str) -> None:
        """Undo :meth:`_watch`."""

    # --- resources --------------------------------------------------------------------------------------

    def list_resources(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                       cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                       meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.Resource]:
        """Return all resources, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._resources_page, "resources", options)

    def list_resources_page(self, cursor: Optional[str] = None, *,
                            timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                            cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                            meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> types.ListResourcesResult:
        """Return one page of resources."""
        return self._resources_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _resources_page(self, cursor: Optional[str], options: RequestOptions) -> types.ListResourcesResult:
        session, options = self._require(options, "resources", "resources/list")
        return self._page(session, "resources/list", types.ListResourcesResult, cursor, options)

    def list_resource_templates(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                                cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                                meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.ResourceTemplate]:
        """Return all resource templates, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._resource_templates_page, "resource_templates", options)

    def list_resource_templates_page(self, cursor: Optional[str] = None, *,
                                     timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                                     cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                                     meta: Optional[Dict[str, Any]] = None, fresh: bool = False
                                     ) -> types.ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return self._resource_templates_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _resource_templates_page(self, cursor: Optional[str], options: RequestOptions) -> types.ListResourceTemplatesResult:
        session, options = self._require(options, "resources", "resources/templates/list")
        return self._page(session, "resources/templates/list", types.ListResourceTemplatesResult, cursor, options)

    def read_resource(self, uri: str, arguments: Optional[Mapping[str, Any]] = None, *,
                      timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                      cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                      meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                      input_responses: Optional[Mapping[str, Any]] = None,
                      request_state: Optional[str] = None) -> types.ReadResourceResult:
        """Read a resource; the keywords are those of :meth:`request`.

        :param uri: the resource's URI, or a template if there are *arguments*.
        :param arguments: values by the names of the template's variables: ``{"city": "Rome"}`` for ``weather://{city}``.
        :raises ValueError: the template is not one, has no such variable, or needs another one; nothing was sent.
        :raises ResourceNotFound: the server has no resource with this URI.
        """
        if arguments is not None:
            from ..protocol.uritemplate import Template

            uri = Template(uri).fill(arguments)
        session, options = self._require(RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh, rounds,
                                                        input_responses, request_state), "resources", "resources/read")
        try:
            answer = self._request(session, "resources/read", {"uri": uri}, options)
        except InvalidParams as error:
            # RSRC-18: revisions differ in the code, and servers do not always keep to theirs.
            if isinstance(error, ResourceNotFound) or error.code not in _RESOURCE_MISSING:
                raise
            missing = ResourceNotFound(error.message, code=error.code, data=error.data or {"uri": uri})
            missing.received = True
            raise missing from error
        return self._read(types.ReadResourceResult, answer, session, "resources/read")

    def subscribe_resource(self, uri: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                           cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                           meta: Optional[Dict[str, Any]] = None) -> None:
        """Call ``on_resource_updated`` when the resource changes; the keywords are those of :meth:`request`.

        From July 2026 on each such subscription is a stream of its own: for many URIs use :meth:`subscribe`.

        :param uri: the resource's URI.
        :param timeout, max_timeout, cancel, on_progress, meta: as for :meth:`request`; from July 2026 on only *timeout*
            counts.
        :raises NotSupported: the server did not declare such subscriptions; nothing was sent.
        :raises ConnectionClosed: the connection is not open.
        """
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta))
        method = "subscriptions/listen" if session.change_streams else "resources/subscribe"
        session, options = self._require(options, "resources", method, "subscribe")
        if session.change_streams:
            self._watch(uri, self._left_of(options))
            return
        self._request(session, "resources/subscribe", {"uri": uri}, options)

    def unsubscribe_resource(self, uri: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                             cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                             meta: Optional[Dict[str, Any]] = None) -> None:
        """End a subscription; the keywords are those of :meth:`request`, for revisions that send a request."""
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta))
        if session.change_streams:
            self._unwatch(uri)
            return
        session, options = self._require(options, "resources", "resources/unsubscribe", "subscribe")
        self._request(session, "resources/unsubscribe", {"uri": uri}, options)

    # --- prompts and completion ---------------------------------------------------------------------------

    def list_prompts(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                     cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                     meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.Prompt]:
        """Return all prompts, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._prompts_page, "prompts", options)

    def list_prompts_page(self, cursor: Optional[str] = None, *,
                          timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                          cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                          meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> types.ListPromptsResult:
        """Return one page of prompts."""
        return self._prompts_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _prompts_page(self, cursor: Optional[str], options: RequestOptions) -> types.ListPromptsResult:
        session, options = self._require(options, "prompts", "prompts/list")
        return self._page(session, "prompts/list", types.ListPromptsResult, cursor, options)

    def get_prompt(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                   timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                   meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                   input_responses: Optional[Mapping[str, Any]] = None,
                   request_state: Optional[str] = None) -> types.GetPromptResult:
        """Return a prompt's messages with its arguments filled in; the keywords are those of :meth:`request`.

        :param arguments: by name. The protocol knows only strings; any other JSON value is sent as its
            JSON text, so that ``3`` becomes ``"3"`` and ``True`` becomes ``"true"``.
        :raises InvalidParams: there is no such prompt, or an argument is missing.
        """
        session, options = self._require(RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh, rounds,
                                                        input_responses, request_state), "prompts", "prompts/get")
        # Always there, as for tools: many servers check it against a schema that requires an object.
        params: Dict[str, Any] = {"name": name, "arguments": {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in (arguments or {}).items()}}
        return self._read(types.GetPromptResult, self._request(session, "prompts/get", params, options), session, "prompts/get")

    def complete(self, *, argument: str, value: str, prompt: Optional[str] = None, resource: Optional[str] = None,
                 context: Optional[Mapping[str, str]] = None,
                 timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                 cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                 meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> types.CompleteResult:
        """Return values that complete an argument of a prompt or of a resource template.

        :param argument: the argument's name.
        :param value: the text so far.
        :param prompt: the prompt's name, if the argument is one of a prompt.
        :param resource: the template or URI, if the argument is one of a resource template.
        :param context: the arguments that are filled in already; sent from June 2025 on.
        :param timeout, max_timeout, cancel, on_progress, meta, fresh: as for :meth:`request`.
        :raises ValueError: not exactly one of *prompt* and *resource*.
        """
        if (prompt is None) == (resource is None):
            raise ValueError("complete() needs prompt= or resource=, and not both")
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))
        declared = session.revision.completions_capability
        if declared:
            session, options = self._require(options, "completions", "completion/complete")
        params: Dict[str, Any] = {
            "ref": {"type": "ref/prompt", "name": prompt} if prompt is not None else {"type": "ref/resource", "uri": resource},
            "argument": {"name": argument, "value": value}}
        if context and session.revision.completion_context:
            params["context"] = {"arguments": dict(context)}
        try:
            answer = self._request(session, "completion/complete", params, options)
        except MethodNotFound:
            if declared:
                raise
            # COMP-02: before the capability existed, only trying showed whether a server completes.
            return types.CompleteResult(types.Completion([]))
        return self._read(types.CompleteResult, answer, session, "completion/complete")

    # --- logging ----------------------------------------------------------------------------------

    def set_log_level(self, level: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                      cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                      meta: Optional[Dict[str, Any]] = None) -> None:
        """Set the least urgent level of log messages that the server sends.

        From July 2026 on this sends nothing: each later request has the level. A client with a log handler asks for
        "info" from the start, one without for no messages.

        :param level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
        """
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta))
        if not session.set_level(level):
            session, options = self._require(options, "logging", "logging/setLevel")
            self._request(session, "logging/setLevel", {"level": level}, options)
