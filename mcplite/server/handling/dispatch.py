"""From a request to its response: middleware, the method, errors. The methods that run handlers are in handler_calls.py.

The sessions of both eras return :func:`answer_request` as the job of a request; it then runs on a worker or on the thread
that received the request::

    session.on_request --> answer_request --> dispatch: middleware --> the method --> the handler
                               |                                  (handler_calls)
                               '-- incoming.respond(result)
"""

from __future__ import annotations

import contextvars
import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from ...errors import InternalError, InvalidParams, RemoteError, ToolError
from ...protocol.jsonrpc import Encoded
from .context import CURRENT, LEVELS, NeedsWorker, RequestFacts, visible_catalog

# Modules that neither the start of a server nor a list needs are imported by the functions that use them.
if TYPE_CHECKING:
    from ..catalog.catalog import Target
    from .context import RequestContext
    from .http_request import Around, HTTPRequest

__all__ = ["answer_request", "dispatch", "load_handler_calls"]

#: A result, encoded for its revision.
Result = Dict[str, Any]


def answer_request(context: RequestContext) -> None:
    """Answer one request on the present thread.

    Over HTTP it runs in a copy of the context variables of the thread that brought the request, on a pipe in a copy of those of
    the present thread. So a variable that a handler sets is gone when the thread takes the next request (REL-67).
    """
    facts: Optional[RequestFacts] = context.incoming.facts
    http = None if facts is None else facts.http
    if http is None:  # on a pipe: this is its reading thread, or a worker
        contextvars.copy_context().run(_answer_in_context, context, context.session.runtime.around)
        return
    try:
        http.variables.copy().run(_answer_in_context, context, http.around)
    except NeedsWorker:
        _run_on_worker(context, http)


def _answer_in_context(context: RequestContext, around: "Optional[Around]") -> None:
    CURRENT.set(context)
    try:
        result = _result(context) if around is None else around(functools.partial(_result, context))
        # If the handler has waited for an answer, ``incoming`` is now the request that brought the answer.
        context.incoming.respond(result)
    finally:
        if context.turn is not None:
            context.turn.end()


def _run_on_worker(context: RequestContext, http: HTTPRequest) -> None:
    incoming, http.inline = context.incoming, False
    if context.target is not None:
        context.target.may_run_inline = False  # later calls begin on a worker
    incoming.wait_for_slot(functools.partial(answer_request, context), 0)
    if not context.session.runtime.workers.enqueue(incoming):
        incoming.refuse()


def _result(context: RequestContext) -> Any:
    """Return the result that answers the request, with the members that every result of its era has."""
    result: Any = None
    target = context.target
    try:
        if target is None or target.custom_handler is not None or context.session.runtime.catalog.middleware:
            result = dispatch(context, target)
        else:  # most requests: without the time of one more call
            result = _METHODS[context.incoming.method](context, target)
    except BaseException as error:
        if context.question_result is None:
            translated = context.session.translate_error(error) if isinstance(error, RemoteError) else error
            if translated is error:
                raise
            raise translated from error
    # The handler was ended to ask questions: the client gets them, whatever the handler raised or returned after that.
    if context.question_result is not None:
        result = context.question_result
    if context.held_progress is not None:
        context.send_held_progress()
    # If the handler has waited for an answer, ``session`` is now that of the request that brought the answer.
    if type(result) is not Encoded:  # a page of a list, or the text of a tool's result, has these members already
        result = context.session.complete_result(result)
    return result


def dispatch(context: RequestContext, target: Optional[Target], run: Optional[Callable[[], Result]] = None) -> Result:
    """Return the result of one request, encoded for its revision; middleware runs around it.

    A tool that passes its calls on calls this again for the tool that is called, so that middleware runs once.

    :param target: what the request is about.
    :param run: answers it in place of its method.
    :raises RemoteError: the error for the client.
    """
    middleware = context.runtime.catalog.middleware
    if not middleware or target is not None and target.entry is not None and target.entry.passes_on:
        return _run_method(context, target) if run is None else run()
    proceed: Callable[[], Result] = run or functools.partial(_run_method, context)
    for one in reversed(middleware):
        proceed = functools.partial(_run_middleware, one, context, proceed)
    return proceed()


def _run_middleware(one: Callable[..., Result], context: RequestContext, proceed: Callable[[], Result]) -> Result:
    try:
        return one(context, proceed)
    except ToolError as error:
        if context.method != "tools/call":
            raise InternalError(error.message) from error  # only the results of tools have errors for the model
        from .handler_calls import raised_result

        return raised_result(context, str(context.params.get("name")), error)


def _run_method(context: RequestContext, target: Optional[Target] = None) -> Result:
    if target is None:  # middleware may have changed the params
        target = visible_catalog(context).resolve(context.incoming.method, context.params)
    if target.custom_handler is None:
        return _METHODS[context.incoming.method](context, target)
    from .handler_calls import call_custom

    result: Result = call_custom(context, target)
    return result


def _list(kind: str, key: str) -> Callable[[RequestContext, Target], Result]:
    def handle(context: RequestContext, _: Target) -> Result:
        cursor = context.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise InvalidParams("params.cursor must be a string")
        session = context.session
        catalog = context.runtime.catalog
        if catalog.hides:
            catalog = visible_catalog(context)
        return catalog.listing(  # type: ignore[no-any-return]
            kind, key, cursor, session.revision,
            () if catalog.extensions is None else catalog.extensions.declared_by(session.client_capabilities))

    return handle


def _set_level(context: RequestContext, _: Target) -> Result:
    level = context.params.get("level")
    if level not in LEVELS:
        raise InvalidParams(f"params.level must be one of {', '.join(LEVELS)}")
    context.session.set_level(level)
    return {}


def load_handler_calls() -> None:
    """Load the code that runs handlers. An HTTP server does so before it serves: without free descriptors no module loads."""
    from .handler_calls import METHODS

    _METHODS.update(METHODS)


def _call_first(context: RequestContext, target: Target) -> Any:
    """Load the code that runs handlers, and run the first one; ``tools/call`` is ``handler_calls._call_tool`` from now on."""
    load_handler_calls()
    return _METHODS[context.incoming.method](context, target)


#: The function of each method. The start of a server and lists do not need the code that runs handlers, so the first method
#: that runs one loads it.
_METHODS: Dict[str, Callable[[RequestContext, Target], Result]] = {
    "tools/list": _list("tools", "tools"),
    "resources/list": _list("resources", "resources"),
    "resources/templates/list": _list("templates", "resourceTemplates"),
    "prompts/list": _list("prompts", "prompts"),
    "logging/setLevel": _set_level,
    **dict.fromkeys(("tools/call", "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/get",
                     "completion/complete"), _call_first),
}
