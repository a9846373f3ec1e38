"""An API over a real socket, which keeps each request and answers as the test says; and servers made of documents."""

import contextlib
import http.server
import json
import threading
from urllib.parse import parse_qsl, urlsplit

import pytest

import mcplite
from mcplite.openapi import from_openapi


class Received:
    """One request as the API has received it."""

    def __init__(self, handler, body):
        self.method, self.target = handler.command, handler.path
        parts = urlsplit(handler.path)
        self.path, self.query = parts.path, parts.query
        self.pairs = parse_qsl(parts.query, keep_blank_values=True)
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)


class API:
    """The API. ``answer`` takes a request and returns status, headers and body, or a value for a JSON body."""

    def __init__(self):
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                received = Received(self, body)
                api.requests.append(received)
                answer = api.answer(received)
                if not isinstance(answer, tuple):
                    answer = 200, {"Content-Type": "application/json"}, json.dumps(answer).encode("utf-8")
                status, headers, data = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):  # the caller has left
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

            def log_message(self, *arguments):
                pass

        self.requests = []
        self.answer = lambda request: {"ok": True}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def last(self):
        return self.requests[-1]

    def close(self):
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def api():
    made = API()
    yield made
    made.close()


def document(paths, version="3.0.3", **more):
    """Return a document with these paths."""
    head = {"swagger": "2.0"} if version == "2.0" else {"openapi": version}
    return {**head, "info": {"title": "Shop", "version": "1.0"}, "paths": paths, **more}


@pytest.fixture
def connected(api):
    """Return a function that serves a document, whose API is at ``api.url``, and returns a client."""
    with contextlib.ExitStack() as stack:
        def connect(spec, **options):
            options.setdefault("base_url", api.url)
            mcp = from_openapi(spec, **options)
            stack.callback(mcp.close)
            return stack.enter_context(mcplite.connect(mcp))

        yield connect


@pytest.fixture
def called(connected, api):
    """Return a function that calls the only tool of an operation, and returns what the API has received."""
    def call(method, path, operation, arguments, version="3.0.3", **more):
        options = more.pop("options", {})
        client = connected(document({path: {method: {"responses": {}, **operation}}}, version, **more), **options)
        (tool,) = client.list_tools()
        result = client.call_tool(tool.name, arguments)
        assert not result.is_error, result.text
        return api.last

    return call
