"""Checks that a tool's handler may run in a fleet: each round of a call is run twice and compared."""

import io
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

__all__ = ["Replayed", "replay"]

_META = "io.modelcontextprotocol/"


class Replayed(NamedTuple):
    """The outcome of a call: the result as it was sent, and the questions of each round, by their keys."""

    result: Dict[str, Any]
    rounds: List[Dict[str, Any]]


def replay(server: Any, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
           answer: Callable[[str, Dict[str, Any]], Dict[str, Any]], rounds: int = 10, version: str = "") -> Replayed:
    """Call a tool as a client of a fleet does, and run each round twice; fail if the two differ.

    In a fleet a handler that asks starts again with each answer. So everything that it does before a question has to
    give the same result each time, or be wrapped in ``ctx.once``. A side effect outside of ``ctx.once`` happens here
    as often as in a fleet, and once more for each round.

    :param server: a ``Server(fleet=True, state_keys=[...])``, without a ``state_store``: each state is used twice.
    :param name: of the tool.
    :param arguments: JSON values by name.
    :param answer: called with the method and the params of each question; returns the client's answer, as on the wire.
    :param rounds: how many rounds of questions there may be; default 10.
    :param version: the revision to speak, one without a handshake; by default the server's newest.
    :returns: the result, and the questions of each round.
    :raises AssertionError: the two runs of a round differ, a question is asked again after its answer, there are more
        rounds than *rounds*, or the server refuses the call; then the text has the server's error.
    :raises TypeError: the server is not a fleet.
    """
    if not getattr(server, "fleet", False):
        raise TypeError(f"{server!r} is not a fleet: create it with Server(fleet=True, state_keys=[...])")
    version = version or str(server.revisions[-1])
    capabilities: Dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
    params: Dict[str, Any] = {"name": name, "arguments": dict(arguments or {}), "_meta": {
        _META + "protocolVersion": version, _META + "clientCapabilities": capabilities}}
    seen: List[Dict[str, Any]] = []
    application = server.wsgi()
    try:
        while len(seen) <= rounds:
            first, second = _post(application, params, version), _post(application, params, version)
            for result in (first, second):
                assert "result" in result, f"{name}: {json.dumps(result.get('error'))}"
            mine, again = _comparable(first["result"]), _comparable(second["result"])
            assert mine == again, (f"{name}: round {len(seen)} gives another result when it is run again:\n"
                                   f"{json.dumps(mine, indent=1)}\n{json.dumps(again, indent=1)}")
            questions = first["result"].get("inputRequests")
            if questions is None:
                return Replayed(first["result"], seen)
            assert questions not in seen, f"{name}: a question is asked again after its answer: {json.dumps(questions)}"
            seen.append(questions)
            params["inputResponses"] = {key: answer(question["method"], question.get("params", {}))
                                        for key, question in questions.items()}
            params["requestState"] = first["result"].get("requestState")
        raise AssertionError(f"{name}: there are still questions after {rounds} rounds")
    finally:
        application.close()


def _comparable(result: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in result.items() if key != "requestState"}


def _post(application: Any, params: Dict[str, Any], version: str) -> Dict[str, Any]:
    """Return the JSON-RPC response of a WSGI application to a call."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode("utf-8")
    environ = {
        "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": "/", "QUERY_STRING": "", "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "HTTP_HOST": "localhost", "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)), "HTTP_ACCEPT": "application/json, text/event-stream",
        "HTTP_MCP_PROTOCOL_VERSION": version, "HTTP_MCP_METHOD": "tools/call", "HTTP_MCP_NAME": _header(params["name"]),
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True, "wsgi.multiprocess": True, "wsgi.run_once": False,
    }

    def start(status: str, headers: List[Tuple[str, str]], error: Any = None) -> None:
        """Ignore the status and the headers: the body says whether the call was refused."""

    pieces = application(environ, start)
    try:
        text = b"".join(pieces).decode("utf-8")
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
    if not text.startswith("{"):
        # An event stream: its last event is the response.
        text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
    answer: Dict[str, Any] = json.loads(text)
    return answer


def _header(name: str) -> str:
    import base64  # for the few names that a header cannot carry as they are

    plain = name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?base64?")
    return name if plain else "=?base64?" + base64.b64encode(name.encode("utf-8")).decode("ascii") + "?="
