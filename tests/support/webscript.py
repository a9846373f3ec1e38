"""A scripted web server, down to the bytes, which records its requests."""

import contextlib
import json
import os
import socket
import threading

LIMIT = 30


class Request:
    """A request: ``method``, ``path``, ``headers`` (by name in lower case), ``body``, ``message`` (the body's JSON)."""

    def __init__(self, head, body):
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.body = body
        self.message = json.loads(body) if body.startswith((b"{", b"[")) else None

    @property
    def does(self):
        """The JSON-RPC method, or the HTTP method if the body is not a request."""
        return (self.message or {}).get("method", self.method) if isinstance(self.message, dict) else self.method


class Answer:
    """The response: each method sends at once. ``hold`` waits until the server is closed."""

    def __init__(self, sock, closing):
        self._sock = sock
        self._closing = closing
        self.kept = True

    def raw(self, data):
        self._sock.sendall(data)

    def status(self, code, body=b"", **headers):
        body = body if isinstance(body, bytes) else body.encode()
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.raw(f"HTTP/1.1 {code} Whatever\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def json(self, value, **headers):
        self.status(200, json.dumps(value), Content_Type="application/json", **headers)

    def events(self, *events, **headers):
        """Begin an event stream, and send events: strings unchanged, other values as JSON data."""
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.raw(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{lines}Transfer-Encoding: chunked\r\n\r\n".encode())
        self.more(*events)

    def more(self, *events):
        for event in events:
            data = (event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n").encode()
            self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self):
        self.raw(b"0\r\n\r\n")

    def cut(self):
        """Abort the connection."""
        self.kept = False

    def hold(self):
        self._closing.wait(LIMIT)
        self.cut()


class Listener:
    """Accepts connections, and serves each on a thread of its own; a context manager."""

    #: The address that it listens at.
    host = "127.0.0.1"

    def __init__(self):
        self.connections = 0
        self.closing = threading.Event()
        self._listener = socket.create_server((self.host, 0), family=socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        self.port = self._listener.getsockname()[1]
        self._socks, self._threads = [], []
        self._accepting = threading.Thread(target=self._accept)

    def __enter__(self):
        self._accepting.start()
        return self

    def __exit__(self, *exc):
        self.closing.set()
        try:
            socket.create_connection((self.host, self.port), LIMIT).close()  # accept() has nothing else to wake it
        finally:
            self._accepting.join(LIMIT)
            self._listener.close()
        for sock in self._socks:
            try:
                sock.shutdown(socket.SHUT_RDWR)
                if os.name == "nt":
                    socket.close(sock.fileno())  # under Wine a recv() of another thread does not end with the former
            except OSError:
                continue
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive()

    def _accept(self):
        while not self.closing.is_set():
            sock, _ = self._listener.accept()
            if self.closing.is_set():
                sock.close()
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._socks.append(sock)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock):
        raise NotImplementedError


class WebScript(Listener):
    """The server; a context manager. ``play(request, answer)`` is called for each request, on the connection's thread.

    Without *play* it is a small MCP server with a session. ``requests`` is what came, ``connections`` how many.
    """

    def __init__(self, play=None, path="/mcp"):
        super().__init__()
        self._play = play or self.play
        self.requests, self.failures = [], []
        self.arrived = threading.Condition()
        self.origin = f"http://127.0.0.1:{self.port}"
        self.url = self.origin + path

    def __exit__(self, *exc):
        super().__exit__(*exc)
        assert not self.failures, self.failures

    def _serve(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = Answer(sock, self.closing)
        with contextlib.suppress(OSError), sock, sock.makefile("rb") as stream:
            try:
                while answer.kept and not self.closing.is_set():
                    head = b""
                    while not head.endswith(b"\r\n\r\n"):
                        line = stream.readline()
                        if not line:
                            return
                        head += line
                    request = Request(head[:-4], b"")
                    size = int(request.headers.get("content-length", 0))
                    request = Request(head[:-4], stream.read(size))
                    with self.arrived:
                        self.requests.append(request)
                        self.arrived.notify_all()
                    if self.refuses(request, answer):
                        continue
                    scripted = getattr(self, "on_" + request.does.replace("/", "_"), None)
                    if scripted is None or scripted(request, answer) is NotImplemented:
                        self._play(request, answer)
            except OSError:
                return
            except Exception as error:
                self.failures.append(repr(error))

    def wait_for(self, does, count=1):
        """Wait until *count* matching requests came; return them."""
        def found():
            return [request for request in self.requests if request.does == does]

        with self.arrived:
            assert self.arrived.wait_for(lambda: len(found()) >= count, LIMIT), [r.does for r in self.requests[-20:]]
        return found()

    # --- a small MCP server -----------------------------------------------------------------------------

    session = "s1"
    version = "2025-11-25"
    capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}

    def play(self, request, answer):
        """Answer requests without a script ``on_<method>`` (underscores for slashes), and those that it did not handle."""
        if request.method == "GET":
            answer.status(405)
        elif request.method == "DELETE":
            answer.raw(b"HTTP/1.1 204 No Content\r\n\r\n")
        elif request.does == "initialize":
            answer.json(self.result(request, {"protocolVersion": self.version, "capabilities": self.capabilities,
                                              "serverInfo": {"name": "script", "version": "1"}}),
                        **({"Mcp_Session_Id": self.session} if self.session else {}))
        elif not isinstance(request.message, dict) or "id" not in request.message or "method" not in request.message:
            answer.status(202)
        else:
            answer.json(self.result(request, {}))

    def refuses(self, request, answer):
        """Hook that may refuse a request first; return whether it did."""
        return False

    @staticmethod
    def result(request, result):
        return {"jsonrpc": "2.0", "id": request.message["id"], "result": result}

    @classmethod
    def text(cls, request, text):
        """The answer to a tool call."""
        return cls.result(request, {"content": [{"type": "text", "text": text}]})
