"""ServerTelemetry: the spans and metrics of a server: requests to handlers, the questions that these ask, and sessions."""

import contextlib
import time
import weakref
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from opentelemetry import propagate, trace

from ...errors import INTERNAL_ERROR, Cancelled, ConnectionClosed, RemoteError, ResourceNotFound
from ...rpc.peer import Peer
from ...server.handling.context import RequestContext
from ...server.handling.http_request import HTTPRequest
from ...server.runtime.observer import ServedSession, ServerObserver
from .convention import Operation, Telemetry, channel_attributes, extract, injected

__all__ = ["ServerTelemetry"]

#: Where the registry has the names of what a method is about.
_KINDS = {"tools/call": "tools", "prompts/get": "prompts"}


class ServerTelemetry(ServerObserver):
    """Observes one server.

    :param telemetry: where spans and durations go.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        #: When each session was opened, and its revision as far as it is known. Each change is one step in C.
        self._opened: "weakref.WeakKeyDictionary[Peer, Tuple[float, Optional[str]]]" = weakref.WeakKeyDictionary()

    def request(self, context: RequestContext, proceed: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        session, version = context.session, context.protocol_version
        entry = self._opened.get(session.peer)
        if entry is not None and entry[1] != version:
            self._opened[session.peer] = entry[0], version
        http = context.http
        operation = Operation(self._telemetry, trace.SpanKind.SERVER, context.method, context.params,
                              {**_attributes(session), "jsonrpc.request.id": str(context.request_id), **_client(http)},
                              _is_known(context))
        parent = extract(context.trace_context)
        if parent is None and http is not None and not trace.get_current_span().get_span_context().is_valid:
            parent = propagate.extract(http.headers)  # of a client that writes headers only, where no span stands for HTTP
        with operation.running(parent):
            try:
                result = proceed()
            except BaseException as error:
                _fail(operation, context, error)
                raise
            operation.finish(result)
        return result

    @contextlib.contextmanager
    def question(self, session: ServedSession, method: str, params: Optional[Dict[str, Any]], id: Optional[int]
                 ) -> Iterator[Optional[Dict[str, Any]]]:
        operation = Operation(self._telemetry, trace.SpanKind.CLIENT, method, params,
                              {**_attributes(session), "jsonrpc.request.id": None if id is None else str(id)})
        with operation.running(current=False):
            yield params if id is None else injected(params, operation.context)

    def session_opened(self, session: ServedSession) -> None:
        self._opened[session.peer] = time.monotonic(), None

    def session_closed(self, session: ServedSession, error: Exception) -> None:
        begun, version = self._opened.pop(session.peer, (None, None))
        if begun is not None:
            # Every session ends with an error; the usual ones say that the client has left.
            kind = None if isinstance(error, ConnectionClosed) else type(error).__qualname__
            attributes = {**channel_attributes(session.peer.channel), "mcp.protocol.version": version, "error.type": kind}
            self._telemetry.record("mcp.server.session.duration", begun,
                                   {key: value for key, value in attributes.items() if value is not None})


def _attributes(session: ServedSession) -> Dict[str, Any]:
    return {**channel_attributes(session.peer.channel), "mcp.protocol.version": session.revision.name}


def _client(http: Optional[HTTPRequest]) -> Dict[str, Any]:
    """Return the attributes of the client's address; a WSGI host tells it without the port."""
    if http is None or not http.remote:
        return {}
    address, _, port = http.remote.rpartition(":") if http.environ is None else (http.remote, "", "")
    return {"client.address": address, "client.port": int(port) if port.isdigit() else None}


def _is_known(context: RequestContext) -> bool:
    kind, name = _KINDS.get(context.method), context.params.get("name")
    registry = context.session.runtime.catalog.registry
    return kind is None or (isinstance(name, str) and registry.get(kind, name) is not None)


def _fail(operation: Operation, context: RequestContext, error: BaseException) -> None:
    if context.question_result is not None:
        operation.finish()  # in a fleet: the handler has ended with a question, which is the result
        return
    if isinstance(error, ResourceNotFound):
        error = context.session.translate_error(error)  # its code differs between revisions
    if isinstance(error, (RemoteError, Cancelled)):
        operation.fail(error)
    else:
        operation.fail(error, INTERNAL_ERROR)
