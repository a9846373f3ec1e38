"""Runs handlers: binds the arguments, asks declared questions, calls the user's function, makes the result.

Each method that runs handlers has one function here. The dispatcher loads this module with the first call of one.
"""

from __future__ import annotations

import copy
import functools
import re
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from ... import types
from ...errors import (
    Cancelled,
    InternalError,
    InvalidParams,
    MCPError,
    MissingCapability,
    RemoteError,
    ResourceNotFound,
    ToolError,
    UrlElicitationRequired,
)
from ...protocol.error_text import did_you_mean
from ...protocol.jsonrpc import Encoded, object_of
from ...revisions import Revision
from ...rpc.fair_queue import COSTLY
from ...rpc.tracing import get_logger
from ...types import CallToolResult, Model, TextContent, codec
from ...types.content import downgrade
from ..catalog.catalog import Target
from ..catalog.registry import ToolEntry
from ..functions.function import BadArguments, Function
from ..functions.results import (
    BadOutput,
    Write,
    completion_of,
    content_items,
    prompt_messages,
    resource_result,
    result_writer,
    tool_result,
)
from ..functions.signature import Output
from .context import NeedsWorker, RequestContext, Timeout, visible_catalog
from .questions import Elicit, InputRequired

__all__ = ["Declined", "METHODS", "ask_declared", "bind_and_call", "call_bound", "call_custom", "raised_result",
           "tool_error"]

_log = get_logger(__name__)
_ROUNDS = 10
#: The name of an argument in the text of a question.
_IN_BRACES = re.compile(r"\{(\w+)\}")
#: The line of the log for a handler that asked a client which cannot be asked.
_UNASKABLE = ("%s was not answered: %s; a handler that can do without asks ctx.can_elicit, ctx.can_sample or ctx.can_list_roots"
             " first")


class Declined(Exception):
    """A declared question was declined or cancelled, so the handler does not run."""


def _call_tool(context: RequestContext, target: Target) -> Any:
    """Return the encoded result of one ``tools/call``: an object, or its text as :class:`jsonrpc.Encoded` if nothing reads it.

    :param target: its ``entry`` is the tool, or None if there is no tool of this name.
    :raises InvalidParams: there is no such tool (TOOL-30), the arguments are not an object (TOOL-31), or
        they break the schema in a revision where that is a protocol error (TOOL-32).
    :raises Cancelled: the request was cancelled.
    """
    entry: Optional[ToolEntry] = target.entry
    if entry is None:
        raise _unknown(context, "tool", context.params.get("name"))
    if context.runtime.tool_hooks:
        return _call_hooked(context, entry, functools.partial(bind_and_call, context, entry))
    return bind_and_call(context, entry)


def _call_hooked(context: RequestContext, entry: Any, run: Callable[[], Any]) -> Any:
    """Return the encoded result of a call of a tool that runs within the hooks of extensions.

    A server with a tool that has ``task=`` has such a hook of the package: ``ServerTasks.handle_tool``, in ``tasks``.

    :param entry: the tool.
    :param run: runs the call, and returns its encoded result.
    :raises TypeError: a hook returns no result.
    """
    hooks = context.runtime.tool_hooks
    if any(hook.reads_results for hook in hooks):
        context.result_is_read = True
    for hook in reversed(hooks):
        run = functools.partial(hook.handle_tool, context, entry, run)
    result = run()
    if isinstance(result, (dict, Encoded)):
        return result
    if not isinstance(result, Model):
        raise TypeError(f"return an object, a result of mcplite.types or proceed() from handle_tool() of an extension, not"
                        f" {type(result).__name__}")
    return codec.encode(result, context.session.revision)


def bind_and_call(context: RequestContext, entry: ToolEntry) -> Any:
    """Return the encoded result of one ``tools/call``, as :func:`_call_tool` does, for a tool that is found already."""
    arguments = context.params.get("arguments")
    if not arguments and (arguments is None or arguments == []):
        arguments = {}
    elif not isinstance(arguments, dict):
        raise InvalidParams("params.arguments must be an object")
    try:
        if context.incoming.size < COSTLY:  # most calls: without the time of one more function
            kwargs = entry.function.bind(arguments)
        else:
            kwargs = context.bind(entry.function, arguments)
    except BadArguments as error:
        text = f"Invalid arguments for tool {entry.name}: {'; '.join(error.problems)}"
        if context.session.revision.bad_arguments == "error":
            raise InvalidParams(text) from error
        return tool_error(context, text)
    del arguments  # a handler may wait for minutes, and the context forgets the arguments meanwhile
    return call_bound(context, entry, kwargs)


def _unknown(context: RequestContext, kind: str, name: Any) -> InvalidParams:
    if not isinstance(name, str):
        return InvalidParams("params.name must be a string")
    # Middleware may hide entries from this caller. It sees only the name in the request, so no other name is suggested.
    may_hide = context.runtime.catalog.middleware or context.session.runtime.catalog.middleware
    known = () if may_hide else visible_catalog(context).registry.all(f"{kind}s")
    return InvalidParams(f"Unknown {kind}: {name[:200]}{did_you_mean(name, known)}")


def _writer(output: Output, revision: Revision) -> Write:
    """Make the writer of a tool's results in one revision, keep it for later calls, and return it."""
    write = output.writers[revision] = result_writer(output, revision)
    return write


def call_bound(context: RequestContext, entry: ToolEntry, kwargs: Dict[str, Any]) -> Any:
    """Call a tool whose arguments are bound, within its timeout, and return the encoded result as :func:`_call_tool` does.

    :raises RemoteError: the error for the client.
    :raises Cancelled: the request was cancelled.
    """
    name, function = entry.name, entry.function
    timeout = None if entry.timeout is None else _start_timeout(context, name, entry.timeout)
    try:
        value = _call_handler(context, function, kwargs)
        session = context.session  # another one, if the handler has waited for an answer
        revision = session.revision
        if not (session.runtime.catalog.middleware or context.result_is_read):  # these read results, and change them
            write = function.output.writers.get(revision) or _writer(function.output, revision)
            encoded = write(value, session.result_end)
            if encoded is not None:
                if encoded.parts is not None:  # a long text, which is encoded when it is sent
                    context.begin_turn(len(encoded.parts[1]))
                return encoded
        result = tool_result(value, function)
        result.structured_content = function.output.value_for(result.structured_content, revision)
        result.content = downgrade(result.content, revision)
        return codec.encode(result, revision)
    except Cancelled:
        if context.cancelled:
            raise
        return tool_error(context, "The tool was cancelled")
    except Declined as error:
        return tool_error(context, str(error))
    except UrlElicitationRequired as error:
        if context.session.revision.elicitation_ids:
            raise
        return tool_error(context, error.message)
    except RemoteError as error:
        if error.received:
            _log_failure(context, f"tool {name!r}", error)
            return _failed(context, name, error)
        if isinstance(error, MissingCapability):
            _log.info(_UNASKABLE, f"tool {name!r}", error)
            if not context.session.revision.capability_errors:
                return tool_error(context, error.message)
        raise  # raised on purpose, for the client to read
    except ToolError as error:
        return raised_result(context, name, error)
    except BadOutput as error:
        # TOOL-37: an invalid result is never sent as a valid one.
        _log.error("tool %r returned what its output schema does not allow: %s", name, error)
        return tool_error(context, f"Tool {name} returned an invalid result: {error}")
    except (Exception, SystemExit) as error:
        if context.incoming.peer.foreign:
            raise  # the handler has forked, and SystemExit ends the forked process
        _log_failure(context, f"tool {name!r}", error)
        return _failed(context, name, error)
    finally:
        if timeout is not None:
            timeout.stop()
            context.limit_time(None)


def _start_timeout(context: RequestContext, name: str, seconds: float) -> Timeout:
    """Answer the client, and cancel the handler, if the call of a tool takes longer than it may."""

    def end() -> None:
        _log.warning("tool %r ran for more than its timeout of %g s", name, seconds)
        try:
            context.respond(tool_error(context, f"Tool {name} did not finish within {seconds:g} s"))
        finally:
            context.token.cancel(f"timeout of {seconds:g} s")

    timeout = Timeout(seconds, end)
    context.limit_time(timeout)
    timeout.start()
    return timeout


def _log_failure(context: RequestContext, what: str, error: BaseException) -> None:
    """Log that a handler failed: with the traceback, unless the client's answer to a question is why.

    :param what: the handler, for the line.
    """
    if isinstance(error, MCPError) and error.asked:
        _log.info("%s got no answer from its client: %s", what, error)
    else:
        _log.exception("%s failed", what)


def raised_result(context: RequestContext, name: str, error: ToolError) -> Dict[str, Any]:
    """Return the result for a ToolError; its content may be anything that tools return."""
    revision = context.session.revision
    items = ([error.message] if error.message or not error.content else []) + error.content
    try:
        content = downgrade(content_items(items), revision)
    except (TypeError, ValueError) as problem:
        _log.exception("tool %r raised a ToolError whose content cannot be sent", name)
        return _failed(context, name, problem)
    return codec.encode(CallToolResult(content=content, is_error=True), revision)  # type: ignore[no-any-return]


def _failed(context: RequestContext, name: str, error: BaseException) -> Dict[str, Any]:
    if context.runtime.mask_errors:
        return tool_error(context, f"Tool {name} failed")
    return tool_error(context, _message_of(error))


def _message_of(error: BaseException) -> str:
    """Return the text of an exception; with its kind if the text is a single word, such as a key, or empty."""
    kind = type(error).__name__
    try:
        text = str(error)
        if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str) and " " in error.args[0]:
            return error.args[0]  # a sentence; str() would put it in quotation marks
    except Exception:
        return kind  # an exception whose own __str__ fails still gets an answer (REL-58)
    return text if len(text.split()) > 1 else f"{kind}: {text}" if text else kind


def tool_error(context: RequestContext, text: str) -> Dict[str, Any]:
    """Return the ``isError`` result with a text, encoded for the request's revision."""
    result = CallToolResult(content=[TextContent(text=text)], is_error=True)
    return codec.encode(result, context.session.revision)  # type: ignore[no-any-return]


def _call_handler(context: RequestContext, function: Function, kwargs: Dict[str, Any]) -> Any:
    """Call a handler, again with the answers if it returns ``InputRequired``; return its value.

    Declared questions are asked first. The handler is called again ten times at most.

    :raises InternalError: it still asks after ten rounds.
    :raises NeedsWorker: it asks on the thread of an HTTP request. It has no context, so it has sent nothing before.
    """
    if function.wants_context is not None:
        kwargs[function.wants_context] = context
    if function.questions:
        ask_declared(context, function, kwargs)
    for entered in range(_ROUNDS + 1):
        unvisited: Optional[UrlElicitationRequired] = None
        try:
            value = function.function(**kwargs)
        except UrlElicitationRequired as error:
            # A revision without this error asks for the pages by questions (URLE-15, ERR-06).
            if context.session.revision.elicitation_ids or not context.can_elicit_url or not error.urls:
                raise
            unvisited, value = error, _visits(error)
        if not isinstance(value, InputRequired):
            return value
        if entered == _ROUNDS:
            break
        if function.wants_context is None and context.http is not None and context.http.inline:
            raise NeedsWorker
        context.asked_by_return = True
        context.input_responses = context.ask(value.requests)
        context.asked_by_return = False
        if unvisited is not None and not all(answer.accepted for answer in context.input_responses.values()):
            raise unvisited  # a user who refuses to visit a page is not asked again
        context.round += 1
        context.state = value.state
    raise InternalError(f"the handler still asked for input after {_ROUNDS} rounds; let it return several questions in one"
                        " InputRequired")


def _visits(error: UrlElicitationRequired) -> InputRequired:
    """Return the questions that ask the user to visit the pages of the error."""
    return InputRequired({f"page-{number}": Elicit(str(page.get("message") or error.message), url=str(page.get("url")))
                          for number, page in enumerate(error.urls, 1)})


def ask_declared(context: RequestContext, function: Function, kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """Ask the declared questions whose answers are not among the arguments, and add them; return them as JSON, by name.

    :raises Declined: the user declined.
    """
    contents: Dict[str, Any] = {}
    for name, (answer_type, question) in function.questions.items():
        if name in kwargs:
            continue  # asked before the call became a task
        assert isinstance(question, Elicit)
        # Not by format(), which would give the text access to the attributes of arguments. All names are replaced in one pass:
        # what stands in braces in an argument stays, so that the user sees the argument as it is.
        message = _IN_BRACES.sub(lambda found: str(kwargs.get(found[1], found[0])), question.message)
        outcome = context.elicit(message, answer_type if question.schema is None else question.schema)
        if not outcome.accepted:
            raise Declined(f"The user answered {outcome.action!r} to: {message}")
        kwargs[name], contents[name] = outcome.data, outcome.content
    return contents


# --- handlers other than tools' ---------------------------------------------------------------------


def call_custom(context: RequestContext, target: Target) -> Any:
    """Return the encoded result of a handler of the user's own method, of an extension or of a provided entry."""
    own = target.custom_handler  # Server.add_method's, Extension.methods()', or handler of a provider's entry
    assert own is not None
    run = functools.partial(_answered, own, context)
    if target.entry is not None and context.incoming.method == "tools/call" and context.runtime.tool_hooks:
        run = functools.partial(_call_hooked, context, target.entry, run)
    result = _guarded(context, context.method, run)
    if target.entry is not None and own == target.entry.handler:
        size = _characters(result)
        if size >= COSTLY:
            context.begin_turn(size)
        return result  # the provider has encoded it
    return {} if result is None else codec.encode(result, context.session.revision)


def _answered(own: Callable[..., Any], context: RequestContext) -> Any:
    result = own(context.params, context)
    if result is not None and not isinstance(result, (dict, Model, Encoded)):
        raise TypeError(f"the handler of {context.method!r} returns a dict or None, not {type(result).__name__}")
    return result


def _characters(result: Any) -> int:
    """Return the number of characters of the items in a result that a provider has encoded."""
    items = result.get("contents") or result.get("content") if isinstance(result, dict) else None
    return sum(len(value) for item in items or () if isinstance(item, dict)
               for value in item.values() if isinstance(value, str))


def _text(params: Mapping[str, Any], name: str, where: str = "params") -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise InvalidParams(f"{where}.{name} must be a string")
    return value


def _strings(params: Mapping[str, Any], name: str) -> Dict[str, str]:
    value = object_of(params.get(name))
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidParams(f"params.{name} must be an object")
    for key, item in value.items():
        if not isinstance(item, str):
            raise InvalidParams(f"params.{name}.{key} must be a string")  # PRMT-17
    return value


def _guarded(context: RequestContext, what: str, run: Callable[[], Any]) -> Any:
    """Run a handler other than a tool's; unexpected exceptions become "Internal error" (SAFE-14)."""
    try:
        return run()
    except Cancelled:
        raise
    except Exception as error:
        if not isinstance(error, RemoteError) or error.received:
            _log_failure(context, what, error)
            raise InternalError("Internal error") from error
        if isinstance(error, MissingCapability):
            _log.info(_UNASKABLE, what, error)
        raise


# --- resources --------------------------------------------------------------------------------------


def _read_resource(context: RequestContext, target: Target) -> Any:
    uri, found = _resource(context, target)

    def read() -> types.ReadResourceResult:
        kwargs = _bind_arguments(context, found.function, target.values or {})
        size = 0 if found.size is None else found.size(**kwargs)
        if size >= COSTLY:
            context.begin_turn(size, done=False)
        value = _call_handler(context, found.function, kwargs)
        if isinstance(value, (str, bytes)) and len(value) >= COSTLY:
            context.begin_turn(len(value))
        return resource_result(value, uri, found.mime_type)

    try:
        result = _guarded(context, f"resource {uri[:200]!r}", read)
    except ResourceNotFound as error:
        if error.data is not None:
            raise
        raise ResourceNotFound(error.message, code=error.code, data={"uri": uri}) from error  # RSRC-15
    if not result.contents:
        # RSRC-19: an empty list would mean that the resource exists and is empty.
        raise _missing(context, uri)
    if result.ttl_ms is None and result.cache_scope is None:
        catalog = context.session.runtime.catalog
        hint = catalog.hint_for(found.cache)
        result.ttl_ms = hint.milliseconds
        result.cache_scope = "private" if catalog.hides else hint.scope
    return codec.encode(result, context.session.revision)


def _resource(context: RequestContext, target: Target) -> Tuple[str, Any]:
    """Return the URI that a request names, and its entry.

    :raises ResourceNotFound: there is none, or the value of a variable leads out of a folder.
    """
    uri, found = _uri(context), target.entry
    if found is None:
        raise _missing(context, uri)
    if target.values and found.function is not None and not found.any_path:
        from ...protocol.uris import may_lead_outside  # for servers that have templates

        for name, value in target.values.items():
            # The function may join the items of a list by slashes, or one after another to a folder.
            if any(map(may_lead_outside, [value] if isinstance(value, str) else [*value, "/".join(value)])):
                raise _missing(context, uri, f": the value of {name!r} leads out of a folder")
    return uri, found


def _missing(context: RequestContext, uri: str, reason: str = "") -> ResourceNotFound:
    return ResourceNotFound(f"Resource not found: {uri[:200]}{reason}", code=context.session.revision.not_found,
                            data={"uri": uri})


def _bind_arguments(context: RequestContext, function: Function, arguments: Mapping[str, Any]) -> Dict[str, Any]:
    try:
        return context.bind(function, arguments)
    except BadArguments as error:
        raise InvalidParams("; ".join(error.problems)) from error


def _uri(context: RequestContext) -> str:
    from ...protocol.uris import uri_problem  # for servers that have resources

    uri = _text(context.params, "uri")
    most = context.session.limits.uri
    problem = uri_problem(uri) if len(uri) <= most else f"it has more than {most} characters"
    if problem:
        raise InvalidParams(f"params.uri is not a valid URI: {uri[:200]!r}: {problem}")
    return uri


def _subscribe(context: RequestContext, target: Target) -> Any:
    uri, _ = _resource(context, target)
    context.session.note_scopes(context.principal)
    context.session.subscribe(uri)
    context.session.runtime.subscribers.wait_told()
    return {}


def _unsubscribe(context: RequestContext, _: Target) -> Any:
    context.session.unsubscribe(_text(context.params, "uri"))
    return {}


# --- prompts ----------------------------------------------------------------------------------------


def _get_prompt(context: RequestContext, target: Target) -> Any:
    params, entry = context.params, target.entry
    name = params.get("name")
    if entry is None:
        raise _unknown(context, "prompt", name)
    kwargs = _bind_arguments(context, entry.function, _strings(params, "arguments"))
    del params  # a handler may wait for minutes, and the context forgets the params meanwhile

    def get() -> types.GetPromptResult:
        value = _call_handler(context, entry.function, kwargs)
        if isinstance(value, types.GetPromptResult):
            value = copy.copy(value)
            value.messages = prompt_messages(value.messages)
            return value
        return types.GetPromptResult(messages=prompt_messages(value), description=entry.definition.description)

    result = _guarded(context, f"prompt {name!r}", get)
    revision = context.session.revision
    # Copies, since a handler may return the same object again, and a downgrade for an older client must not change it.
    result.messages = [copy.copy(message) for message in result.messages]
    for message in result.messages:
        message.content = downgrade([message.content], revision)[0]
    return codec.encode(result, revision)


# --- completion -------------------------------------------------------------------------------------


def _complete(context: RequestContext, _: Target) -> Any:
    params = context.params
    catalog = context.runtime.catalog
    registry = visible_catalog(context).registry if catalog.hides else catalog.registry
    reference = params.get("ref")
    argument = params.get("argument")
    if not isinstance(reference, dict) or not isinstance(argument, dict):
        raise InvalidParams("params.ref and params.argument must be objects")
    if reference.get("type") == "ref/prompt":
        kind, named = "prompt", _text(reference, "name", "params.ref")
        known = registry.get("prompts", named) is not None
    elif reference.get("type") == "ref/resource":
        kind, named = "resource", _text(reference, "uri", "params.ref")
        known = registry.get("templates", named) is not None or registry.get("resources", named) is not None
    else:
        raise InvalidParams("params.ref.type must be 'ref/prompt' or 'ref/resource'")
    if not known:
        raise InvalidParams(f"Unknown {kind}: {named[:200]}")
    name = _text(argument, "name", "params.argument")
    value = _text(argument, "value", "params.argument")
    given = params.get("context")
    filled = _strings(given, "arguments") if isinstance(given, dict) else {}
    function = registry.completion(kind, named, name)
    if function is None:
        begun = value.casefold()
        answer = types.Completion([text for text in registry.choices(kind, named, name) if text.casefold().startswith(begun)])
    else:
        handler = function.function
        kwargs: Dict[str, Any] = dict(zip((parameter for parameter, _, _ in function.parameters), (value, filled)))
        if function.wants_context:
            kwargs[function.wants_context] = context
        answer = _guarded(context, f"completion of {named!r}", lambda: completion_of(handler(**kwargs)))
    return codec.encode(types.CompleteResult(completion=_capped(answer, context.session.limits.completions)),
                        context.session.revision)


def _capped(completion: types.Completion, most: int) -> types.Completion:
    """Return at most *most* values, and whether there were more (COMP-04)."""
    values, total = completion.values, completion.total
    if len(values) > most:
        return types.Completion(values=values[:most], total=len(values) if total is None else total, has_more=True)
    return types.Completion(values=values, total=total, has_more=bool(completion.has_more))


METHODS: Dict[str, Callable[[RequestContext, Target], Any]] = {
    "tools/call": _call_tool,
    "resources/read": _read_resource,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "prompts/get": _get_prompt,
    "completion/complete": _complete,
}
