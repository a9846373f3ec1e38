"""Runs a tool: binds the arguments, asks declared questions, calls the handler, makes the result.

The dispatcher calls it for ``tools/call``. It also uses :func:`call_until_complete` for prompts and resources.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Optional

from ...errors import (
    Cancelled,
    InternalError,
    InvalidParams,
    MCPError,
    MissingCapability,
    RemoteError,
    ToolError,
    UrlElicitationRequired,
)
from ...protocol.jsonrpc import Encoded
from ...revisions import Revision
from ...rpc.fair_queue import COSTLY
from ...rpc.tracing import get_logger
from ...types import CallToolResult, Model, TextContent, codec
from ...types.content import downgrade
from ..catalog.catalog import Target
from ..catalog.registry import ToolEntry, suggestions
from ..functions.function import BadArguments, Function
from ..functions.results import BadOutput, Write, content_items, result_writer, tool_result
from ..functions.signature import Output
from .questions import Elicit, InputRequired
from .request_context import RequestContext
from .timeout import Timeout

__all__ = ["Declined", "UNASKABLE", "ask_declared", "call_bound", "call_hooked", "call_until_complete", "log_failure",
           "run_tool", "tool_error"]

_log = get_logger(__name__)
_ROUNDS = 10
#: The line of the log for a handler that asked a client which cannot be asked.
UNASKABLE = ("%s was not answered: %s; a handler that can do without asks ctx.can_elicit, ctx.can_sample or ctx.can_list_roots"
             " first")


class Declined(Exception):
    """A declared question was declined or cancelled, so the handler does not run."""


def run_tool(context: RequestContext, target: Target) -> Any:
    """Return the encoded result of one ``tools/call``: an object, or its text as :class:`jsonrpc.Encoded` without middleware.

    :param target: its entry is the tool; None if there is no tool of this name.
    :raises InvalidParams: there is no such tool (TOOL-30), the arguments are not an object (TOOL-31), or
        they break the schema in a revision where that is a protocol error (TOOL-32).
    :raises Cancelled: the request was cancelled.
    """
    entry: Optional[ToolEntry] = target.entry
    if entry is None:
        raise _unknown(context, context.params.get("name"))
    if context.runtime.tool_hooks:
        return call_hooked(context, entry, lambda: _run_found(context, entry))
    return _run_found(context, entry)


def call_hooked(context: RequestContext, entry: Any, run: Callable[[], Any]) -> Any:
    """Return the encoded result of a call of a tool that runs within the hooks of extensions.

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


def _run_found(context: RequestContext, entry: ToolEntry) -> Any:
    params = context.params
    arguments = params.get("arguments")
    if not arguments and (arguments is None or arguments == []):
        arguments = {}
    elif not isinstance(arguments, dict):
        raise InvalidParams("params.arguments must be an object")
    try:
        if context.incoming.size < COSTLY:  # without one more call, for most
            kwargs = entry.function.bind(arguments)
        else:
            kwargs = context.bind(entry.function, arguments)
    except BadArguments as error:
        text = f"Invalid arguments for tool {entry.name}: {'; '.join(error.problems)}"
        if context.session.revision.bad_arguments == "error":
            raise InvalidParams(text) from error
        return tool_error(context, text)
    del params, arguments  # a handler may wait for minutes, and the context forgets them then
    if entry.timeout is None:
        return _run(context, entry.name, entry.function, kwargs)
    return call_bound(context, entry, kwargs)


def call_bound(context: RequestContext, entry: ToolEntry, kwargs: Dict[str, Any]) -> Any:
    """Call a tool whose arguments are bound, within its timeout, and return the encoded result as :func:`run_tool` does.

    :raises RemoteError: the error for the client.
    :raises Cancelled: the request was cancelled.
    """
    name, function = entry.name, entry.function
    if entry.timeout is None:
        return _run(context, name, function, kwargs)
    text = f"Tool {name} did not finish within {entry.timeout:g} s"

    def respond() -> None:
        _log.warning("tool %r ran for more than its timeout of %g s", name, entry.timeout)
        context.respond(tool_error(context, text))

    timeout = Timeout(entry.timeout, respond, lambda reason: context.token.cancel(reason))
    context.limit_time(timeout)
    timeout.start()
    try:
        return _run(context, name, function, kwargs)
    finally:
        timeout.stop()
        context.limit_time(None)


def _unknown(context: RequestContext, name: Any) -> InvalidParams:
    if not isinstance(name, str):
        return InvalidParams("params.name must be a string")
    known = list(context.runtime.catalog.registry.all("tools"))
    return InvalidParams(f"Unknown tool: {name[:200]}{suggestions(name, known)}")


def _writer(output: Output, revision: Revision) -> Write:
    """Return the writer of a tool's results in one revision, for the first of them; it is kept for the others."""
    write = output.writers[revision] = result_writer(output, revision)
    return write


def _run(context: RequestContext, name: str, function: Function, kwargs: Dict[str, Any]) -> Any:
    try:
        value = call_until_complete(context, function, kwargs)
        session = context.session  # another one, if the handler has waited for an answer
        revision = session.revision
        if not (session.runtime.catalog.middleware or context.result_is_read):  # which reads and changes results
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
            log_failure(context, f"tool {name!r}", error)
            return _failed(context, name, error)
        if isinstance(error, MissingCapability):
            _log.info(UNASKABLE, f"tool {name!r}", error)
            if not context.session.revision.capability_errors:
                return tool_error(context, error.message)
        raise  # raised on purpose, for the client to read
    except ToolError as error:
        return _raised(context, name, error)
    except BadOutput as error:
        # TOOL-37: an invalid result is never sent as a valid one.
        _log.error("tool %r returned what its output schema does not allow: %s", name, error)
        return tool_error(context, f"Tool {name} returned an invalid result: {error}")
    except Exception as error:
        log_failure(context, f"tool {name!r}", error)
        return _failed(context, name, error)


def log_failure(context: RequestContext, what: str, error: Exception) -> None:
    """Log that a handler failed: with the traceback, unless the client's answer to a question is why.

    :param what: the handler, for the line.
    """
    if isinstance(error, MCPError) and error.asked:
        _log.info("%s got no answer from its client: %s", what, error)
    else:
        _log.exception("%s failed", what)


def _raised(context: RequestContext, name: str, error: ToolError) -> Dict[str, Any]:
    """Return the result for a ToolError; its content may be anything that tools return."""
    revision = context.session.revision
    items = ([error.message] if error.message or not error.content else []) + error.content
    try:
        content = downgrade(content_items(items), revision)
    except (TypeError, ValueError) as problem:
        _log.exception("tool %r raised a ToolError whose content cannot be sent", name)
        return _failed(context, name, problem)
    return codec.encode(CallToolResult(content=content, is_error=True), revision)  # type: ignore[no-any-return]


def _failed(context: RequestContext, name: str, error: Exception) -> Dict[str, Any]:
    if context.runtime.mask_errors:
        return tool_error(context, f"Tool {name} failed")
    return tool_error(context, _message_of(error))


def _message_of(error: Exception) -> str:
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


def call_until_complete(context: RequestContext, function: Function, kwargs: Dict[str, Any]) -> Any:
    """Call a handler, again with the answers if it returns ``InputRequired``; return its value.

    Declared questions are asked first. The handler is called again ten times at most.

    :raises InternalError: it still asks after ten rounds.
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
            if context.session.revision.elicitation_ids or not context.can_elicit_url:
                raise
            unvisited, value = error, _visits(error)
        if not isinstance(value, InputRequired):
            return value
        if entered == _ROUNDS:
            break
        context.asked_by_return = True
        context.input_responses = context.ask(value.requests)
        context.asked_by_return = False
        if unvisited is not None and not all(answer.accepted for answer in context.input_responses.values()):
            raise unvisited  # a user who refuses to visit a page is not asked again
        context.round += 1
        context.state = value.state
    raise InternalError(f"the handler still asked for input after {_ROUNDS} rounds")


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
        message = question.message
        for key, value in kwargs.items():
            # Plain replacement, since format() would give the text access to the attributes of arguments.
            message = message.replace("{" + key + "}", value if isinstance(value, str) else str(value))
        outcome = context.elicit(message, answer_type if question.schema is None else question.schema)
        if not outcome.accepted:
            raise Declined(f"The user answered {outcome.action!r} to: {message}")
        kwargs[name], contents[name] = outcome.data, outcome.content
    return contents
