"""From a request to its response: middleware, the handler, errors. One function for each method; tools/call is in tools.py.

The sessions of both eras return :func:`answer_request` as the task of a request; it then runs on a worker or on the
thread that received the request.
"""

from __future__ import annotations

import contextvars
import copy
import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from ... import types
from ...errors import Cancelled, InternalError, InvalidParams, MissingCapability, RemoteError, ResourceNotFound
from ...protocol.jsonrpc import Encoded, object_of
from ...rpc.fair_queue import COSTLY
from ...rpc.tracing import get_logger
from ...types import codec
from ...types.content import downgrade
from ..catalog.registry import suggestions
from ..functions.function import BadArguments
from .context import CURRENT, LEVELS
from .session import RequestFacts

# What a start and a list do not need is imported by the functions that use it.
if TYPE_CHECKING:
    from ..catalog.catalog import Target
    from ..functions.function import Function
    from .http_request import Around
    from .request_context import RequestContext

__all__ = ["answer_request", "dispatch", "load_tools"]

_log = get_logger(__name__)
Result = Dict[str, Any]


def answer_request(context: RequestContext, target: Target) -> None:
    """Answer one request on the present thread.

    It runs in a copy of the context variables of the thread that brought the request, whichever thread this is. What a
    handler sets is gone when the thread takes the next request (REL-67).

    :param target: what the request is about.
    """
    facts: Optional[RequestFacts] = context.incoming.facts
    http = None if facts is None else facts.http
    if http is None:  # on a pipe, whose reading thread this is, or a worker
        variables, around = contextvars.copy_context(), context.session.runtime.around
    else:
        variables, around = http.variables.copy(), http.around
    variables.run(_answer_in_context, context, target, around)


def _answer_in_context(context: RequestContext, target: Target, around: "Optional[Around]") -> None:
    CURRENT.set(context)
    try:
        result = _result(context, target) if around is None else around(functools.partial(_result, context, target))
        # If the handler has waited for an answer, this is another request than before.
        context.incoming.respond(result)
    finally:
        if context.turn is not None:
            context.turn.end()


def _result(context: RequestContext, target: Target) -> Any:
    result: Any
    try:
        if target.custom_handler is None and not context.session.runtime.catalog.middleware:
            result = _METHODS[context.incoming.method](context, target)
        else:
            result = dispatch(context, target)
    except RemoteError as error:
        if context.question_result is None:
            translated = context.session.translate_error(error)
            if translated is error:
                raise
            raise translated from error
        result = None
    except BaseException:
        if context.question_result is None:
            raise
        result = None
    # The handler was ended to ask questions: the client gets them, whatever the handler raised or returned after that.
    if context.question_result is not None:
        result = context.question_result
    if context.held_progress is not None:
        context.send_held_progress()
    # If the handler has waited for an answer, this is another session than before.
    if type(result) is not Encoded:  # a page of a list, or the text of a tool's result, has the members that it adds
        result = context.session.complete_result(result)
    return result


def dispatch(context: RequestContext, target: Target) -> Result:
    """Return the result of one request, encoded for its revision.

    :param target: what the request is about.
    :raises RemoteError: the error for the client.
    """
    middleware = context.runtime.catalog.middleware
    if not middleware:
        return _handle(context, target)

    # Middleware may change the params.
    proceed: Callable[[], Result] = functools.partial(_resolved, context)
    for one in reversed(middleware):
        proceed = functools.partial(one, context, proceed)
    return proceed()


def _resolved(context: RequestContext) -> Result:
    return _handle(context, context.runtime.catalog.resolve(context.incoming.method, context.params))


def _handle(context: RequestContext, target: Target) -> Result:
    return _METHODS[context.incoming.method](context, target) if target.custom_handler is None else _own(context, target)


def _own(context: RequestContext, target: Target) -> Result:
    own = target.custom_handler
    assert own is not None
    run = functools.partial(_answered, own, context)
    if target.entry is not None and context.incoming.method == "tools/call" and context.runtime.tool_hooks:
        from .tools import call_hooked

        run = functools.partial(call_hooked, context, target.entry, run)
    result = _guarded(context, context.method, run)
    if target.entry is not None and own == target.entry.handler:
        size = _characters(result)
        if size >= COSTLY:
            context.begin_turn(size)
        return result  # type: ignore[no-any-return]  # the provider has encoded it
    return {} if result is None else codec.encode(result, context.session.revision)


def _answered(own: Callable[..., Any], context: RequestContext) -> Any:
    result = own(context.params, context)
    if result is not None and not isinstance(result, (dict, types.Model, Encoded)):
        raise TypeError(f"the handler of {context.method!r} returns a dict or None, not {type(result).__name__}")
    return result


def _characters(result: Any) -> int:
    """Return how many characters the items of a result have that a provider has encoded."""
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
        from .tools import UNASKABLE, log_failure  # which the first handler that fails loads

        if not isinstance(error, RemoteError) or error.received:
            log_failure(context, what, error)
            raise InternalError("Internal error") from error
        if isinstance(error, MissingCapability):
            _log.info(UNASKABLE, what, error)
        raise


# --- lists ------------------------------------------------------------------------------------------


def _list(kind: str, key: str) -> Callable[[RequestContext, Target], Result]:
    def handle(context: RequestContext, _: Target) -> Result:
        cursor = context.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise InvalidParams("params.cursor must be a string")
        session, catalog = context.session, context.runtime.catalog
        extensions = () if catalog.extensions is None else catalog.extensions.declared_by(session.client_capabilities)
        page: Result = catalog.listing(kind, key, cursor, session.revision, extensions)
        return page

    return handle


# --- resources --------------------------------------------------------------------------------------


def _read_resource(context: RequestContext, target: Target) -> Result:
    uri = _uri(context)
    if target.entry is None:
        raise _missing(context, uri)
    _, resource_result, call_until_complete = _load_reading()
    found = target.entry

    def read() -> types.ReadResourceResult:
        kwargs = _bind_arguments(context, found.function, target.values or {})
        size = 0 if found.size is None else found.size(**kwargs)
        if size >= COSTLY:
            context.begin_turn(size, done=False)
        value = call_until_complete(context, found.function, kwargs)
        if isinstance(value, (str, bytes)) and len(value) >= COSTLY:
            context.begin_turn(len(value))
        result: types.ReadResourceResult = resource_result(value, uri, found.mime_type)
        return result

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
        hint = context.session.runtime.catalog.hint_for(found.cache)
        result.ttl_ms, result.cache_scope = hint.milliseconds, hint.scope
    return codec.encode(result, context.session.revision)  # type: ignore[no-any-return]


def _missing(context: RequestContext, uri: str) -> ResourceNotFound:
    return ResourceNotFound(f"Resource not found: {uri[:200]}", code=context.session.revision.not_found, data={"uri": uri})


def _bind_arguments(context: RequestContext, function: Function, arguments: Mapping[str, Any]) -> Dict[str, Any]:
    try:
        return context.bind(function, arguments)
    except BadArguments as error:
        raise InvalidParams("; ".join(error.problems)) from error


@functools.lru_cache(maxsize=None)
def _load_reading() -> Any:
    """Return what reads resources. The first request for one loads it; even of what is loaded an import takes a microsecond."""
    from ...protocol.uris import uri_problem
    from ..functions.results import resource_result
    from .tools import call_until_complete

    return uri_problem, resource_result, call_until_complete


def _uri(context: RequestContext) -> str:
    uri_problem, _, _ = _load_reading()
    uri, most = _text(context.params, "uri"), context.session.limits.uri
    problem = uri_problem(uri) if len(uri) <= most else f"it has more than {most} characters"
    if problem:
        raise InvalidParams(f"params.uri is not a valid URI: {uri[:200]!r}: {problem}")
    return uri


def _subscribe(context: RequestContext, target: Target) -> Result:
    uri = _uri(context)
    if target.entry is None:
        raise _missing(context, uri)
    context.session.subscribe(uri)
    context.session.runtime.wait_subscribed()
    return {}


def _unsubscribe(context: RequestContext, _: Target) -> Result:
    context.session.unsubscribe(_text(context.params, "uri"))
    return {}


# --- prompts ----------------------------------------------------------------------------------------


def _get_prompt(context: RequestContext, target: Target) -> Result:
    params, entry = context.params, target.entry
    name = _text(params, "name")
    if entry is None:
        known: List[str] = list(context.runtime.catalog.registry.all("prompts"))
        raise InvalidParams(f"Unknown prompt: {name[:200]}{suggestions(name, known)}")
    arguments = _strings(params, "arguments")
    kwargs = _bind_arguments(context, entry.function, arguments)
    del params  # a handler may wait for minutes, and the context forgets them then
    from ..functions.results import prompt_messages
    from .tools import call_until_complete

    def get() -> types.GetPromptResult:
        value = call_until_complete(context, entry.function, kwargs)
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
    return codec.encode(result, revision)  # type: ignore[no-any-return]


# --- completion and logging -------------------------------------------------------------------------


def _complete(context: RequestContext, _: Target) -> Result:
    params, registry = context.params, context.runtime.catalog.registry
    reference, argument = params.get("ref"), params.get("argument")
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
    name, value = _text(argument, "name", "params.argument"), _text(argument, "value", "params.argument")
    given = params.get("context")
    filled = _strings(given, "arguments") if isinstance(given, dict) else {}
    function = registry.completion(kind, named, name)
    if function is None:
        return {"completion": {"values": [], "hasMore": False}}
    kwargs: Dict[str, Any] = {}
    names = [parameter for parameter, _, _ in function.parameters]
    if names:
        kwargs[names[0]] = value
    if len(names) > 1:
        kwargs[names[1]] = filled
    if function.wants_context:
        kwargs[function.wants_context] = context
    from ..functions.results import completion_of

    answer = _guarded(context, f"completion of {named!r}", lambda: completion_of(function.function(**kwargs)))
    return codec.encode(types.CompleteResult(completion=_capped(answer, context.session.limits.completions)),  # type: ignore[no-any-return]
                        context.session.revision)


def _capped(completion: types.Completion, most: int) -> types.Completion:
    """Return at most *most* values, and whether there were more (COMP-04)."""
    if len(completion.values) > most:
        total = completion.total if completion.total is not None else len(completion.values)
        return types.Completion(values=completion.values[:most], total=total, has_more=True)
    if completion.has_more is None:
        completion = types.Completion(values=completion.values, total=completion.total, has_more=False)
    return completion


def _set_level(context: RequestContext, _: Target) -> Result:
    level = context.params.get("level")
    if level not in LEVELS:
        raise InvalidParams(f"params.level must be one of {', '.join(LEVELS)}")
    context.session.set_level(level)
    return {}


def load_tools() -> None:
    """Load what runs tools. A server over HTTP does so before it serves: without free descriptors no module loads (REL-39)."""
    from .tools import run_tool

    _METHODS["tools/call"] = run_tool


def _run_first_tool(context: RequestContext, target: Target) -> Any:
    load_tools()
    return _METHODS["tools/call"](context, target)


_METHODS: Dict[str, Callable[[RequestContext, Target], Result]] = {
    "tools/list": _list("tools", "tools"),
    "tools/call": _run_first_tool,
    "resources/list": _list("resources", "resources"),
    "resources/templates/list": _list("templates", "resourceTemplates"),
    "resources/read": _read_resource,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "prompts/list": _list("prompts", "prompts"),
    "prompts/get": _get_prompt,
    "completion/complete": _complete,
    "logging/setLevel": _set_level,
}
