"""ClientTelemetry: the spans and metrics of clients: their calls, the questions that they answer, and their sessions."""

import time
import weakref
from typing import Any, Callable, Dict, Mapping, Optional

from opentelemetry import propagate, trace

from ...client.call import Call
from ...client.sessions.base import ClientObserver, ClientSession
from .convention import Operation, Telemetry, channel_attributes, extract, injected

__all__ = ["ClientTelemetry"]


class ClientTelemetry(ClientObserver):
    """Observes any number of clients.

    :param telemetry: where spans and durations go.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        #: When each session was opened. Each change is one step in C.
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
