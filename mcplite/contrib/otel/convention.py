"""The semantic conventions for MCP: the names and attributes of spans and metrics, trace context, and errors.

A module of its own, since both sides send requests and answer them: a client answers the questions of its server.
"""

import contextlib
import json
import time
from typing import Any, Dict, Iterator, Mapping, Optional

from opentelemetry import baggage, context as contexts, metrics, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ...errors import InputNeeded, RemoteError, RequestTimeout
from ...protocol.meta import checked_trace
from ...rpc.interfaces import Channel
from ...version import __version__

__all__ = ["Operation", "Telemetry", "channel_attributes", "extract", "injected"]

_SCOPE = __name__.partition(".")[0]
_SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
#: In seconds; those of the conventions.
_BOUNDARIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_DURATIONS = {
    "mcp.client.operation.duration": "The duration of a request as its sender observes it.",
    "mcp.server.operation.duration": "The duration of a request as its receiver observes it.",
    "mcp.client.session.duration": "The duration of a session as the client observes it.",
    "mcp.server.session.duration": "The duration of a session as the server observes it.",
}
#: The attributes that spans have beyond those of the metric: they have too many values.
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

    :param telemetry: where they go.
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
    def running(self, parent: Optional[contexts.Context] = None, current: bool = True) -> Iterator[None]:
        """Return the block in which the operation runs; an exception that leaves it is the operation's error.

        :param parent: the remote parent, from :func:`extract`; None takes the current span. With a remote parent the
            current span is linked.
        :param current: whether the operation's span is the current one in the block.
        """
        ambient = trace.get_current_span().get_span_context()
        links = [trace.Link(ambient)] if parent is not None and ambient.is_valid else []
        begun = time.monotonic()
        span = self._span = self._telemetry.tracer.start_span(self._name, parent, self._kind, self.attributes, links)
        token = contexts.attach(trace.set_span_in_context(span, parent)) if current else None
        try:
            yield
        except BaseException as error:
            self.fail(error)
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
        """Note the result of the request: one of a tool may be an error."""
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

        :param code: of the JSON-RPC error, if it is not the error's own.
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
    """Return the attributes of what carries the messages, with the session's id."""
    network = channel.network
    return {"network.transport": network.transport or None, "network.protocol.name": network.protocol or None,
            "network.protocol.version": network.version or None, "server.address": network.address or None,
            "server.port": network.port if network.address else None, "mcp.session.id": channel.session_id or None}


def injected(params: Optional[Mapping[str, Any]], context: contexts.Context) -> Optional[Dict[str, Any]]:
    """Return params with the trace context in their ``_meta``; the same params if there is none to send."""
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
    # In the present context, whose other values stay.
    context = _TRACE.extract(fields, contexts.get_current())
    for key, value in baggage.get_all(_BAGGAGE.extract(fields)).items():
        context = baggage.set_baggage(key, value, context)
    return context


def _present(attributes: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
