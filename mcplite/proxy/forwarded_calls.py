"""Passes one request on to a mounted server over a connection, and its result back, in the revisions of both sides."""

import functools
from typing import Any, Dict, Mapping, Tuple

from ..client.call import Call
from ..errors import (
    INVALID_PARAMS,
    InputNeeded,
    InternalError,
    MissingCapability,
    RemoteError,
    ResourceNotFound,
    UrlElicitationRequired,
)
from ..protocol.meta import SERVER_INFO
from ..revisions import Revision
from ..server.catalog.cache_hints import CacheHint
from ..server.handling.context import RequestContext
from ..server.handling.questions import Elicit, Relayed
from ..types import NULL, CallToolResult, CompleteResult, GetPromptResult, ReadResourceResult, TextContent, codec
from ..types.content import downgrade
from ..types.tasks import RELATED_TASK
from .client_connections import OWN, Link, Links
from .question_relay import RelayedCall, adapted_answer, passed_on

__all__ = ["adapted_result", "answers_to", "error_for", "pass_call", "pass_over", "report_progress", "unaskable"]

#: Rounds of questions of one call (MRTR-29).
_ROUNDS = 10
_RESULTS: Dict[str, Any] = {"tools/call": CallToolResult, "prompts/get": GetPromptResult, "resources/read": ReadResourceResult,
            "completion/complete": CompleteResult}


class _Complete(Exception):
    """Carries the result of a call out of ``ctx.once``, which keeps only questions."""

    def __init__(self, result: Dict[str, Any]) -> None:
        super().__init__()
        self.result = result


def pass_call(links: Links, context: RequestContext, params: Dict[str, Any]) -> Tuple[Dict[str, Any], Revision]:
    """Return the result of a request of a client, as a mounted server gave it, and that server's revision.

    :param params: with the mounted server's own names, without ``_meta``.
    :raises RemoteError: an error for the client.
    :raises MCPError: there is no answer.
    """
    call = RelayedCall(context)
    with links.lease(call) as link:
        return pass_over(link, call, params), link.client.revision


def pass_over(link: Link, call: RelayedCall, params: Dict[str, Any], tasks: bool = False) -> Dict[str, Any]:
    """Return the result of a request as the mounted server gives it over one connection; see :func:`pass_call`.

    :param tasks: whether the result may say that the call has become a task, where the mounted server decides on that.
    """
    context = call.context
    given = context.meta
    meta = {key: value for key, value in given.items() if key != "progressToken" and not key.startswith(OWN)}
    if meta:
        params["_meta"] = meta
    report = functools.partial(report_progress, context) if "progressToken" in given else None
    request = Call(context.method, params, cancel=context.token, on_progress=report, rounds=False, fresh=True)
    try:
        return _exchange(link, context, request, tasks)
    except UrlElicitationRequired as error:
        if not _visited(context, error):
            raise
        return _exchange(link, context, request, tasks)
    finally:
        if context.session.revision.modern:
            # A question that is still open ends the client's present request: the client returns with another one.
            with call.asking:
                pass


def _visited(context: RequestContext, error: UrlElicitationRequired) -> bool:
    """Ask a client whose revision lacks the error that asks for visits of pages (URLE-15); return whether it visits all."""
    if context.session.revision.elicitation_ids or not context.can_elicit_url:
        return False
    pages = {f"page-{number}": Elicit(str(page.get("message") or error.message), url=str(page.get("url")))
             for number, page in enumerate(error.urls, 1)}
    return all(answer.accepted for answer in context.ask(pages).values())


def _exchange(link: Link, context: RequestContext, request: Call, tasks: bool) -> Dict[str, Any]:
    revision = link.client.revision
    if not revision.modern:
        return link.client.send(request)  # its questions come to the handlers of the connection
    for number in range(_ROUNDS + 1):
        # Each round declares what the client's present request declares.
        needed = _round(link, context, request._replace(sender=link.senders.members(context, revision, tasks)), number)
        if not isinstance(needed, InputNeeded):
            return needed  # type: ignore[no-any-return]
        if number == _ROUNDS:
            break
        params = {key: value for key, value in (request.params or {}).items()
                  if key not in ("inputResponses", "requestState")}
        if needed.requests:
            params["inputResponses"] = answers_to(context, needed.requests, revision)
        else:
            context.sleep(min(0.05 * 2.0 ** number, 5.0))
        if needed.state is not None:
            params["requestState"] = needed.state
        request = request._replace(params=params)
    raise InternalError(f"the mounted server still asked for input after {_ROUNDS} rounds")


def _round(link: Link, context: RequestContext, request: Call, number: int) -> Any:
    """Return the result of one request, or the questions that it needs answers to."""
    if context.session.runtime.fleet is None or not context.session.revision.modern or context.task_id is not None:
        try:
            return link.client.send(request)
        except InputNeeded as needed:
            return needed

    # In a fleet this runs again with each answer. What the server asked before is known then, and it is not called again.
    def send() -> Dict[str, Any]:
        try:
            raise _Complete(link.client.send(request))
        except InputNeeded as needed:
            return {"requests": needed.requests, "state": needed.state}

    try:
        asked = context.once(f"mcplite round {number}", send)
    except _Complete as complete:
        return complete.result
    return InputNeeded(requests=asked["requests"], state=asked["state"])


def answers_to(context: RequestContext, requests: Mapping[str, Dict[str, Any]], revision: Revision) -> Dict[str, Any]:
    """Return the answers of a client to questions of a mounted server, in the form of that server's revision."""
    questions = {key: Relayed(request["method"], request.get("params") or {}) for key, request in requests.items()}
    answers = context.ask(questions)
    return {key: adapted_answer(requests[key]["method"], answers[key], revision) for key in requests}


def report_progress(context: RequestContext, given: Dict[str, Any]) -> None:
    """Tell the client of a call of progress, given as on the wire."""
    if not context.cancelled:
        context.report_progress(given["progress"], given.get("total"), given.get("message"))


# --- results ------------------------------------------------------------------------------------------


def adapted_result(context: RequestContext, given: Dict[str, Any], revision: Revision, hint: CacheHint, wraps: bool
                   ) -> Dict[str, Any]:
    """Return the result of a mounted server in the form of the client's revision.

    :param given: the result as it came.
    :param revision: that it came in.
    :param hint: how long a resource may be kept, if the server does not say.
    :param wraps: whether structured content that is not an object is declared as ``{"result": value}`` to older clients.
    """
    result, own = dict(given), context.session.revision
    meta = result.pop("_meta", None)
    if isinstance(meta, dict):
        meta = {key: value for key, value in meta.items() if key not in (SERVER_INFO, RELATED_TASK)}
        if meta:
            result["_meta"] = meta
    result.pop("resultType", None)
    if own is not revision:
        result = _translated(context, result, own, wraps)
    if own.modern and context.method == "resources/read":
        result = {**hint.members(), **result}
    return result


def _translated(context: RequestContext, result: Dict[str, Any], own: Revision, wraps: bool) -> Dict[str, Any]:
    decoded: Any = codec.decode(_RESULTS[context.method], result)
    if isinstance(decoded, CallToolResult):
        decoded.content = downgrade(decoded.content, own)
        if "structuredContent" in result and result["structuredContent"] is None:
            decoded.structured_content = NULL
        if own.object_output_only and decoded.structured_content is not None and (
                wraps or not isinstance(decoded.structured_content, dict)):
            value = decoded.structured_content
            decoded.structured_content = {"result": None if value is NULL else value}
    elif isinstance(decoded, GetPromptResult):
        for message in decoded.messages:
            message.content = downgrade([message.content], own)[0]
    return codec.encode(decoded, own)  # type: ignore[no-any-return]


def unaskable(context: RequestContext, error: MissingCapability) -> Dict[str, Any]:
    """Return the result of a tool whose server asked a client that cannot be asked.

    :raises MissingCapability: that is an error of the protocol in the client's revision.
    """
    if context.method != "tools/call" or context.session.revision.capability_errors:
        raise passed_on(error) from error
    result = CallToolResult(content=[TextContent(text=error.message)], is_error=True)
    return codec.encode(result, context.session.revision)  # type: ignore[no-any-return]


def error_for(context: RequestContext, error: RemoteError) -> RemoteError:
    """Return an error of a mounted server for the client."""
    missing = context.method == "resources/read" and (isinstance(error, ResourceNotFound) or error.code == INVALID_PARAMS)
    if missing:
        return ResourceNotFound(error.message, code=context.session.revision.not_found,
                                data=error.data or {"uri": context.params.get("uri")})
    return passed_on(error)
