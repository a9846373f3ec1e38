"""The spans and metrics of clients and servers, by the semantic conventions for MCP.

Both sides send requests and answer them, since a client answers the questions of its server: each request is an
:class:`Operation`, with a span and a duration.
"""

import contextlib
import json
import time
import weakref
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

from opentelemetry import baggage, context as contexts, metrics, propagate, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ...client.call import Call
from ...client.sessions.base import ClientObserver, ClientSession
from ...errors import INTERNAL_ERROR, Cancelled, ConnectionClosed, InputNeeded, RemoteError, RequestTimeout, ResourceNotFound
from ...protocol.meta import checked_trace
from ...rpc.interfaces import Channel
from ...rpc.peer import Peer
from ...server.handling.context import RequestContext
from ...server.handling.http_request import HTTPRequest
from ...server.runtime.observer import ServedSession, ServerObserver
from ...version import __version__

__all__ = ["ClientTelemetry", "ServerTelemetry", "Telemetry"]

_SCOPE = __name__.partition(".")[0]
_SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
#: The bounds of the buckets for durations, in seconds, as the conventions have them.
_BOUNDARIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_DURATIONS = {
    "mcp.client.operation.duration": "The duration of a request as its sender observes it.",
    "mcp.server.operation.duration": "The duration of a request as its receiver observes it.",
    "mcp.client.session.duration": "The duration of a session as the client observes it.",
    "mcp.server.session.duration": "The duration of a session as the server observes it.",
}
#: Attributes that only spans have: they have too many different values for a metric.
_SPANS_ONLY = frozenset({"jsonrpc.request.id", "mcp.session.id", "mcp.resource.uri", "client.address", "client.port",
                         "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"})
_URI_METHODS = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
#: Characters of a name or a URI in a span.
_MOST_CHARACTERS = 1000
_TRACE, _BAGGAGE = TraceContextTextMapPropagator(), W3CBaggagePropagator()


class Telemetry:
    """The tracer and the metrics.

    :param tracer_provider: makes the tracer; None is the global provider.
    :param meter_provider: makes the meter; None is the global provider.
    :param content: whether spans have the arguments and the result of each tool.
    """

    def __init__(self, tracer_provider: Optional[trace.TracerProvider] = None,
                 meter_provider: Optional[metrics.MeterProvider] = None, content: bool = False) -> None:
        self.content = content
        self.tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider, _SCHEMA_URL)
        meter = metrics.get_meter(_SCOPE, __version__, meter_provider, _SCHEMA_URL)
        self._durations = {name: meter.create_histogram(name, unit="s", description=text,
                                                        explicit_bucket_boundaries_advisory=_BOUNDARIES)
                           for name, text in _DURATIONS.items()}

    def record(self, metric: str, begun: float, attributes: Mapping[str, Any]) -> None:
        """Record the seconds since *begun*, a time of ``time.monotonic``, with the attributes that metrics may have."""
        self._durations[metric].record(max(0.0, time.monotonic() - begun),
                                       {key: value for key, value in attributes.items() if key not in _SPANS_ONLY})


class Operation:
    """One request in progress: its span, and its duration.

    :param telemetry: where the span and the duration go.
    :param kind: ``CLIENT`` for the sender of the request, ``SERVER`` for its receiver.
    :param method: of the protocol.
    :param params: of the request.
    :param attributes: those that do not follow from method and params; None values are left out.
    :param known: whether the params name a tool or prompt that exists; other names would make too many series of a metric.
    """

    def __init__(self, telemetry: Telemetry, kind: trace.SpanKind, method: str, params: Optional[Mapping[str, Any]],
                 attributes: Mapping[str, Any], known: bool = True) -> None:
        self._telemetry = telemetry
        self._kind = kind
        self._name = method
        self.attributes: Dict[str, Any] = {"mcp.method.name": method, **_present(attributes)}
        params = params or {}
        name, uri = params.get("name"), params.get("uri")
        self._is_tool_call = method == "tools/call"
        if self._is_tool_call:
            self.attributes["gen_ai.operation.name"] = "execute_tool"
        if known and isinstance(name, str) and method in ("tools/call", "prompts/get"):
            name = name[:_MOST_CHARACTERS]
            self._name = f"{method} {name}"
            self.attributes["gen_ai.tool.name" if self._is_tool_call else "gen_ai.prompt.name"] = name
        if isinstance(uri, str) and method in _URI_METHODS:
            self.attributes["mcp.resource.uri"] = uri[:_MOST_CHARACTERS]
        if telemetry.content and self._is_tool_call and params.get("arguments") is not None:
            self.attributes["gen_ai.tool.call.arguments"] = _as_json(params["arguments"])
        self._span: trace.Span = trace.INVALID_SPAN
        #: Whether the outcome is known, so that an exception that leaves the block adds nothing.
        self._noted = False

    @contextlib.contextmanager
    def running(self, parent: Optional[contexts.Context] = None, current: bool = True,
                fail: Optional[Callable[[BaseException], None]] = None) -> Iterator[None]:
        """Return the block in which the operation runs; an exception that leaves it is the operation's error.

        :param parent: the remote parent, from :func:`extract`; None takes the current span. With a remote parent the
            current span is linked.
        :param current: whether the operation's span is the current one in the block.
        :param fail: notes the error, in place of :meth:`fail`.
        """
        ambient = trace.get_current_span().get_span_context()
        links = [trace.Link(ambient)] if parent is not None and ambient.is_valid else []
        begun = time.monotonic()
        span = self._span = self._telemetry.tracer.start_span(self._name, parent, self._kind, self.attributes, links)
        token = contexts.attach(trace.set_span_in_context(span, parent)) if current else None
        try:
            yield
        except BaseException as error:
            (fail or self.fail)(error)
            raise
        finally:
            if token is not None:
                contexts.detach(token)
            span.end()
            side = "client" if self._kind is trace.SpanKind.CLIENT else "server"
            self._telemetry.record(f"mcp.{side}.operation.duration", begun, self.attributes)

    @property
    def context(self) -> contexts.Context:
        """The current context with the operation's span in it, to be sent to the other side."""
        return trace.set_span_in_context(self._span)

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes; None values are left out."""
        present = _present(attributes)
        self.attributes.update(present)
        self._span.set_attributes(present)

    def finish(self, result: Any = None) -> None:
        """Note the result of the request; the result of a tool may be an error."""
        self._noted = True
        if not self._is_tool_call or not isinstance(result, dict):
            return
        if self._telemetry.content:
            self.set({"gen_ai.tool.call.result": _as_json(result.get("structuredContent", result.get("content")))})
        if result.get("isError") is True:
            self.set({"error.type": "tool_error"})
            self._span.set_status(trace.StatusCode.ERROR)

    def fail(self, error: BaseException, code: Optional[int] = None) -> None:
        """Note the error of the request.

        :param code: of the JSON-RPC error; by default that of a :class:`RemoteError`, and none for other errors.
        """
        if self._noted or isinstance(error, InputNeeded):
            return  # InputNeeded: the caller answers the questions and repeats the call
        self._noted = True
        if code is None and isinstance(error, RemoteError):
            code = error.code
        kind = "timeout" if isinstance(error, RequestTimeout) else type(error).__qualname__
        self.set({"error.type": kind if code is None else str(code),
                  "rpc.response.status_code": None if code is None else str(code)})
        message = error.message if isinstance(error, RemoteError) else str(error)
        self._span.set_status(trace.StatusCode.ERROR, message or None)


def channel_attributes(channel: Channel) -> Dict[str, Any]:
    """Return the attributes of the network connection of a channel, and the id of its session."""
    network = channel.network
    return {"network.transport": network.transport or None, "network.protocol.name": network.protocol or None,
            "network.protocol.version": network.version or None, "server.address": network.address or None,
            "server.port": network.port if network.address else None, "mcp.session.id": channel.session_id or None}


def injected(params: Optional[Mapping[str, Any]], context: contexts.Context) -> Optional[Dict[str, Any]]:
    """Return params with the trace context in their ``_meta``; without changes if there is no context to send."""
    carrier: Dict[str, str] = {}
    _TRACE.inject(carrier, context)
    _BAGGAGE.inject(carrier, context)
    fields = checked_trace(carrier)
    if not fields:
        return None if params is None else dict(params)
    given = params or {}
    meta = given.get("_meta")
    return {**given, "_meta": {**(meta if isinstance(meta, dict) else {}), **fields}}


def extract(meta: Any) -> Optional[contexts.Context]:
    """Return the context of a remote span from a ``_meta``, or from headers; None if it names none."""
    fields = checked_trace(meta) if isinstance(meta, Mapping) else {}
    remote = _TRACE.extract(fields)
    if not trace.get_current_span(remote).get_span_context().is_valid:
        return None
    # The span is added to the present context, whose other values stay.
    context = _TRACE.extract(fields, contexts.get_current())
    for key, value in baggage.get_all(_BAGGAGE.extract(fields)).items():
        context = baggage.set_baggage(key, value, context)
    return context


def _present(attributes: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


class ClientTelemetry(ClientObserver):
    """Observes any number of clients.

    :param telemetry: where spans and durations go.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        #: When each session was opened. Each change is one step in C, so that no lock is needed.
        self._opened: "weakref.WeakKeyDictionary[ClientSession, float]" = weakref.WeakKeyDictionary()

    def request(self, session: ClientSession, call: Call, send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
        id = session.peer.new_id()
        operation = Operation(self._telemetry, trace.SpanKind.CLIENT, call.method, call.params,
                              {**_attributes(session), "jsonrpc.request.id": str(id)})
        with operation.running():
            result = send(call._replace(id=id, params=injected(call.params, operation.context)))
            operation.finish(result)
            if call.method == "initialize":
                # The revision and the session come with the response.
                version = result.get("protocolVersion") if isinstance(result, dict) else None
                operation.set({"mcp.protocol.version": version if isinstance(version, str) else None,
                               "mcp.session.id": session.peer.channel.session_id or None})
        return result

    def question(self, session: ClientSession, method: str, params: Dict[str, Any], id: Any,
                 answer: Callable[[], Any]) -> Any:
        operation = Operation(self._telemetry, trace.SpanKind.SERVER, method, params,
                              {**_attributes(session), "jsonrpc.request.id": None if id is None else str(id)})
        with operation.running(extract(params.get("_meta"))):
            return answer()

    def headers(self) -> Mapping[str, str]:
        carrier: Dict[str, str] = {}
        propagate.inject(carrier)
        return carrier

    def opened(self, session: ClientSession) -> None:
        self._opened[session] = time.monotonic()

    def closed(self, session: ClientSession, error: Optional[Exception]) -> None:
        begun = self._opened.pop(session, None)
        if begun is not None:
            kind = None if error is None else type(error).__qualname__
            attributes = {**_attributes(session), "error.type": kind}
            self._telemetry.record("mcp.client.session.duration", begun,
                                   {key: value for key, value in attributes.items() if value is not None})


def _attributes(session: ClientSession) -> Dict[str, Any]:
    agreed = session.agreed
    return {**channel_attributes(session.peer.channel), "mcp.protocol.version": None if agreed is None else agreed.name}


#: By method: the kind of entry that its params name. The registry has the names of each kind.
_KINDS = {"tools/call": "tools", "prompts/get": "prompts"}


class ServerTelemetry(ServerObserver):
    """Observes one server.

    :param telemetry: where spans and durations go.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        #: When each session was opened, and its revision, or None if that is not known yet. Each change is one step in C, so
        #: that no lock is needed.
        self._opened: "weakref.WeakKeyDictionary[Peer, Tuple[float, Optional[str]]]" = weakref.WeakKeyDictionary()

    def request(self, context: RequestContext, proceed: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        session, version = context.session, context.protocol_version
        entry = self._opened.get(session.peer)
        if entry is not None and entry[1] != version:
            self._opened[session.peer] = entry[0], version
        http = context.http
        operation = Operation(self._telemetry, trace.SpanKind.SERVER, context.method, context.params,
                              {**_served_attributes(session), "jsonrpc.request.id": str(context.request_id), **_client(http)},
                              _is_known(context))
        parent = extract(context.trace_context)
        if parent is None and http is not None and not trace.get_current_span().get_span_context().is_valid:
            # The client names its span in the headers only, and the HTTP request has no span of its own.
            parent = propagate.extract(http.headers)
        with operation.running(parent, fail=lambda error: _fail(operation, context, error)):
            result = proceed()
            operation.finish(result)
        return result

    @contextlib.contextmanager
    def question(self, session: ServedSession, method: str, params: Optional[Dict[str, Any]], id: Optional[int]
                 ) -> Iterator[Optional[Dict[str, Any]]]:
        operation = Operation(self._telemetry, trace.SpanKind.CLIENT, method, params,
                              {**_served_attributes(session), "jsonrpc.request.id": None if id is None else str(id)})
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


def _served_attributes(session: ServedSession) -> Dict[str, Any]:
    return {**channel_attributes(session.peer.channel), "mcp.protocol.version": session.revision.name}


def _client(http: Optional[HTTPRequest]) -> Dict[str, Any]:
    """Return the attributes of the client's address; a WSGI host gives the address without the port."""
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
