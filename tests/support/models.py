"""APIs of models that are scripted: an HTTP server with canned replies, and the replies; and a server with tools for them."""

import base64
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import mcplite
from mcplite.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

#: Seconds for anything that takes less than one.
LIMIT = 60
#: The smallest image.
PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
WAV = "UklGRg=="
PDF = "JVBERg=="


class CannedAPI:
    """What a scripted API has heard, and where it is."""

    def __init__(self, replies):
        self.replies = list(replies)
        #: Paths and decoded bodies, in order.
        self.requests = []
        self.url = ""

    @property
    def bodies(self):
        return [body for _, body in self.requests]


@contextlib.contextmanager
def answering(answer):
    """Answer each POST until the end of the block; give the URL.

    :param answer: called with the path and the decoded body; returns the status, the media type and the text.
    """
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            status, kind, text = answer(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format, *arguments):
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(LIMIT)
        server.server_close()


@contextlib.contextmanager
def canned_api(replies):
    """Answer each POST until the end of the block.

    :param replies: one for each request, and then status 500; or a function of path and body.
    """
    api = CannedAPI(() if callable(replies) else replies)

    def answer(path, body):
        api.requests.append((path, body))
        found = replies(path, body) if callable(replies) else api.replies.pop(0) if api.replies else None
        if found is None:
            return 500, "application/json", json.dumps({"error": {"message": "no reply is left"}})
        return 200, "application/json", json.dumps(found)

    with answering(answer) as api.url:
        yield api


def make_tools():
    """Return a server whose tools return what models may be given."""
    server = mcplite.Server("weather")

    @server.tool(name="weather.forecast")
    def forecast(city: str, days: int = 3) -> str:
        """The forecast for a city."""
        return f"{city}: sun for {days} days"

    @server.tool()
    def chart(city: str) -> list:
        """A chart of the last day."""
        return [f"Chart of {city}", mcplite.Image(base64.b64decode(PNG), "image/png")]

    @server.tool()
    def fails(city: str) -> str:
        """A tool that fails."""
        raise mcplite.ToolError(f"no station in {city}")

    @server.tool()
    def everything() -> CallToolResult:
        """One content of each kind."""
        return CallToolResult([
            TextContent("words"), ImageContent(PNG, "image/png"), AudioContent(WAV, "audio/wav"),
            EmbeddedResource(BlobResourceContents("file:///a/report.pdf", PDF, "application/pdf")),
            ResourceLink("file:///a/log.txt", "log", mime_type="text/plain")])

    @server.tool()
    def nothing() -> None:
        """No parameters, no result."""

    return server


# --- replies -----------------------------------------------------------------------------------------


def anthropic_reply(*uses, text="Here you are."):
    """Return a message that asks for calls, ``(id, name, input)``, or one that ends the turn."""
    blocks = [{"type": "tool_use", "id": id, "name": name, "input": input} for id, name, input in uses]
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None,
            "content": [{"type": "text", "text": text}, *blocks], "stop_reason": "tool_use" if uses else "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1}}


def completion(*uses, text="Here you are."):
    """Return a completion of Chat Completions likewise."""
    calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(input)}}
             for id, name, input in uses]
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt", "choices": [
        {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]}


def response(*uses, text="Here you are."):
    """Return a response of the Responses API likewise."""
    calls = [{"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": json.dumps(input),
              "status": "completed"} for id, name, input in uses]
    said = {"type": "message", "id": "m1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}
    return {"id": "r1", "object": "response", "created_at": 1, "model": "gpt", "status": "completed",
            "output": calls or [said], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0}


def gemini_reply(*uses, text="Here you are."):
    """Return a response of Gemini likewise."""
    calls = [{"functionCall": {"id": id, "name": name, "args": input}} for id, name, input in uses]
    content = {"role": "model", "parts": calls or [{"text": text}]}
    return {"candidates": [{"index": 0, "finishReason": "STOP", "content": content}]}


def model_of_any_api(path, body):
    """Answer like a model that asks for one forecast and then says what it has read, in the form of the request's API."""
    use, said = ("t1", "weather__forecast", {"city": "Rome"}), "No: Rome: sun for 3 days"
    told = "Rome: sun for 3 days" in json.dumps(body) or not body.get("tools")
    make = next(make for ending, make in (("/messages", anthropic_reply), ("/completions", completion),
                                          ("/responses", response), (":generateContent", gemini_reply))
                if path.partition("?")[0].endswith(ending))
    return make(text=said) if told else make(use)
