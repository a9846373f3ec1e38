"""Messages of the revision without a handshake, as any client would write them."""

import json

from mcplite.protocol.http.headers import Headers
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import make_endpoint

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"


def meta(version=MODERN, capabilities=None, info=None, level=None, **more):
    """Return the metadata of a request."""
    said = {PREFIX + "protocolVersion": version, PREFIX + "clientCapabilities": capabilities or {}}
    if info is not None:
        said[PREFIX + "clientInfo"] = info
    if level is not None:
        said[PREFIX + "logLevel"] = level
    return {**said, **more}


def message(method, params=None, id=1, **said):
    """Return a request. *said* goes to :func:`meta`."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**(params or {}), "_meta": meta(**said)}}


def call(name, arguments=None, id=1, params=None, **said):
    """Return a request that calls a tool."""
    return message("tools/call", {"name": name, "arguments": arguments or {}, **(params or {})}, id, **said)


def again(request, result, answers=None, id=2, **params):
    """Return a request once more, with the state that *result* came with and the answers to its questions.

    :param answers: by key; a function of the question's params answers all of them. By default all are accepted.
    """
    if answers is None:
        answers = accept
    if callable(answers):
        answers = {key: answers(asked.get("params", {})) for key, asked in result.get("inputRequests", {}).items()}
    more = {"inputResponses": answers, **params}
    if "requestState" in result:
        more.setdefault("requestState", result["requestState"])
    return {**request, "id": id, "params": {**request["params"], **more}}


def accept(params):
    """Return an answer that accepts a form and fills in its fields by their types."""
    fields = params.get("requestedSchema", {}).get("properties", {})
    values = {"string": "Rome", "integer": 2, "number": 2.5, "boolean": True}
    return {"action": "accept", "content": {name: values[field["type"]] for name, field in fields.items()}}


def headers(request):
    """Return the headers of a request over HTTP."""
    given = {"Host": "127.0.0.1:8000", "Content-Type": "application/json", "Accept": BOTH, "MCP-Protocol-Version": MODERN,
             "Mcp-Method": request["method"]}
    params = request.get("params") or {}
    name = params.get("uri") if request["method"] == "resources/read" else params.get("name")
    if isinstance(name, str):
        given["Mcp-Name"] = name
    return given


def encode(request):
    return json.dumps(request).encode()


class Pipe:
    """Sends requests to a server in memory."""

    def __init__(self, raw):
        self.raw = raw

    def send(self, request):
        """Return the answer, and the notifications before it."""
        self.raw.send(request)
        return self.raw.answer(request["id"]), self.raw.others

    def result(self, request):
        answer, _ = self.send(request)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, request):
        answer, _ = self.send(request)
        assert "error" in answer, answer
        return answer["error"]


class Web(Pipe):
    """Sends requests to the HTTP endpoint of a server, without a socket or a session."""

    def __init__(self, mcp, **options):
        self.mcp = mcp
        self.endpoint = make_endpoint(mcp.runtime, **options)
        self.status = None

    def respond(self, request, principal=None, network="", **changed):
        body = encode(request)
        given = {**headers(request), **{name.replace("_", "-"): value for name, value in changed.items()}}
        return self.endpoint.handle(HTTPRequest(
            "POST", "/mcp", Headers([pair for pair in given.items() if pair[1] is not None]), read=lambda limit: body,
            principal=principal, network=network))

    def send(self, request, principal=None):
        response = self.respond(request, principal)
        self.status = response.status
        if not response.streaming:
            return json.loads(response.content), []
        text = b"".join(response.body).decode()
        messages = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        return messages[-1], messages[:-1]

    def close(self):
        self.endpoint.close(0.1)
