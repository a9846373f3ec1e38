"""Telemetry with OpenTelemetry: spans and metrics of clients and servers, by its semantic conventions for MCP.

``instrument_server`` and ``instrument_client`` switch it on for one object. Needs the extra ``otel``.
"""

from typing import Optional, TypeVar, Union

try:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
except ImportError as missing:
    raise ImportError("OpenTelemetry's API is not installed: pip install 'mcplite[otel]', and opentelemetry-sdk to export"
                      " what it records") from missing

from ...client.client import Client
from ...client.group import Group
from ...server.app import Server
from .telemetry import ClientTelemetry, ServerTelemetry, Telemetry

__all__ = ["instrument_client", "instrument_server"]

C = TypeVar("C", bound=Union[Client, Group])


def instrument_server(server: Server, *, content: bool = False, tracer_provider: Optional[TracerProvider] = None,
                      meter_provider: Optional[MeterProvider] = None) -> Server:
    """Record a span and a duration for each request that a handler serves and each question, and a duration for each session.

    Call it once, before or after the server begins to serve. The span of a request is the current one in its handler, and
    in the server's middleware. If the client names a span in the request's ``_meta``, that one is the parent, and the span has
    a link to the current span, such as that of the HTTP request. If it names none, the current span is the parent; without a
    current span, the one in the HTTP headers.

    :param server: what to observe; it is returned.
    :param content: whether spans have the arguments and the result of each tool, which may be secrets. Default False.
    :param tracer_provider: makes the tracer; by default the global provider.
    :param meter_provider: makes the meter; by default the global provider.
    """
    server.observe(ServerTelemetry(Telemetry(tracer_provider, meter_provider, content)))
    return server


def instrument_client(client: C, *, content: bool = False, tracer_provider: Optional[TracerProvider] = None,
                      meter_provider: Optional[MeterProvider] = None) -> C:
    """Record a span and a duration for each call and each question that the client answers, and a duration for each session.

    Call it once, before or after the client is opened. The trace context travels in each request's ``_meta`` and in the
    headers of each message over HTTP.

    :param client: what to observe, a client or the group that ``connect_all`` returns; it is returned.
    :param content: whether spans have the arguments and the result of each tool, which may be secrets. Default False.
    :param tracer_provider: makes the tracer; by default the global provider.
    :param meter_provider: makes the meter; by default the global provider.
    """
    client.observe(ClientTelemetry(Telemetry(tracer_provider, meter_provider, content)))
    return client
