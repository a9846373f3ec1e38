"""The HTTP server used as one of ``http.server``: what a reader of the standard library expects of its names."""

import contextlib
import http.server
import io
import socket
import socketserver
import ssl
import threading

import pytest

import mcplite
from mcplite.server.transports.connection import Connection
from mcplite.server.transports.httpd import HTTPServer
from tests.support.children import wait_until
from tests.support.rawhttp import LIMIT, Wire, begin, call, request


def make(**options):
    mcp = mcplite.Server("standard")

    @mcp.tool
    def add(a: int, b: int) -> int:
        return a + b

    return HTTPServer(mcp.runtime, port=0, **options)


@pytest.fixture
def made():
    """Make servers that nothing serves yet; they are closed after the test."""
    with contextlib.ExitStack() as stack:

        def made(**options):
            server = make(**options)
            stack.callback(server.server_close)
            return server

        yield made


def add(server):
    with Wire(server.server_port) as wire:
        reply = wire.post(call("add", a=1, b=2), begin(wire))
        return reply.json["result"]["content"][0]["text"] if reply.status == 200 else reply.status


@contextlib.contextmanager
def serving(server):
    """Serve in a thread, as programs do with servers of the standard library."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield thread
    finally:
        server.shutdown()
        thread.join(LIMIT)
        assert not thread.is_alive()


def ask(server, path="/x", method="GET", **options):
    with Wire(server.server_port) as wire:
        return wire.ask(method, path, **options)


# --- the server ---------------------------------------------------------------------------------------------------------


def test_it_is_a_server_of_the_standard_library(made):
    server = made()
    assert isinstance(server, http.server.HTTPServer) and isinstance(server, socketserver.TCPServer)
    assert server.server_address == server.socket.getsockname() == ("127.0.0.1", server.server_port)
    assert server.fileno() == server.socket.fileno() and server.port == server.server_port
    assert server.server_name == "127.0.0.1" and server.RequestHandlerClass is Connection
    assert issubclass(Connection, http.server.BaseHTTPRequestHandler)


def test_serve_forever_in_a_thread_until_shutdown(made):
    server = made()
    with serving(server) as thread:
        assert add(server) == "3" and thread.is_alive()
    # The port is open, and nothing serves.
    with Wire(server.server_port) as waiting:
        waiting.send(request("GET", "/nothing"))
        waiting.sock.settimeout(0.1)
        with pytest.raises(socket.timeout):
            waiting.sock.recv(1)
        waiting.sock.settimeout(LIMIT)
        with serving(server):
            assert waiting.reply().status == 404
            assert add(server) == "3"
    server.server_close()
    assert server.fileno() == -1
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.server_port), LIMIT)


def test_a_shutdown_before_serve_forever_is_not_lost(made):
    server = made()
    server.shutdown()
    server.serve_forever()
    with serving(server):
        assert add(server) == "3"


def test_shutdown_stops_background_threads_and_start_begins_again(made):
    server = made().start()
    assert add(server) == "3"
    server.shutdown()
    server.shutdown()
    with Wire(server.server_port) as waiting:
        waiting.send(request("GET", "/nothing"))
        server.start()
        assert waiting.reply().status == 404 and add(server) == "3"


def test_a_request_that_has_begun_is_served_to_its_end_after_shutdown(made):
    begun, go = threading.Event(), threading.Event()

    def slow(asked):
        begun.set()
        assert go.wait(LIMIT)
        return 200, "text/plain", b"slow"

    server = made(routes={"/slow": slow})
    with Wire(server.server_port) as wire:
        with serving(server):
            wire.send(request("GET", "/slow"))
            assert begun.wait(LIMIT)
        go.set()
        assert wire.reply().body == b"slow"
        with serving(server):
            assert wire.ask("GET", "/slow").body == b"slow", "the connection waits for the next request meanwhile"


def test_a_handler_may_shut_the_server_down(made):
    def end(asked):
        asked.handler.server.shutdown()
        return 200, "text/plain", b"bye"

    server = made(routes={"/x": end})
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    assert ask(server).body == b"bye"
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_a_socket_wrapped_by_ssl_is_refused(made):
    server = made()
    server.socket = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(server.socket, server_side=True)
    with pytest.raises(RuntimeError, match="give the server certfile= and keyfile="):
        server.serve_forever()


def test_handle_request_serves_one_request(made):
    server = made(routes={"/x": lambda asked: (200, "text/plain", b"one")})
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    assert ask(server).body == b"one"
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_verify_request_refuses_and_service_actions_are_called(monkeypatch):
    called = threading.Event()

    class Guarded(HTTPServer):
        def verify_request(self, request, client_address):
            return client_address[0] != "127.0.0.1"

        def service_actions(self):
            called.set()

    with Guarded(mcplite.Server("guarded").runtime, port=0) as server:
        with Wire(server.port) as wire:
            assert wire.ended()
        assert called.wait(LIMIT)


def test_handle_error_is_called_for_what_a_handler_raises():
    errors = []

    class Noting(HTTPServer):
        def handle_error(self, request, client_address):
            errors.append((isinstance(request, socket.socket), client_address[0]))

    class Failing(Connection):
        def do_GET(self):
            raise KeyError("no")

    with Noting(mcplite.Server("noting").runtime, port=0, handler=Failing) as server:
        with Wire(server.port) as wire:
            wire.send(request("GET", "/x"))
            assert wire.ended()
        assert ask(server, method="POST").status == 404
    assert errors == [(True, "127.0.0.1")]


@pytest.mark.parametrize("handler", [http.server.SimpleHTTPRequestHandler, http.server.BaseHTTPRequestHandler, object, 5,
                                     "Connection", lambda *given: None])
def test_a_handler_that_would_hold_a_thread_is_refused(handler):
    with pytest.raises(TypeError, match=r"give a subclass of mcplite\.server\.transports\.connection\.Connection"):
        make(handler=handler)


# --- the handler --------------------------------------------------------------------------------------------------------


def test_a_subclass_with_log_message_gets_each_request(made):
    lines = []

    class Logging(Connection):
        def log_message(self, format, *args):
            lines.append((self.client_address[0], format % args))

    with made(handler=Logging) as server:
        add(server)
        assert wait_until(lambda: len(lines) == 3)  # a line is written when the response has been sent
        with Wire(server.port) as wire:
            assert wire.send(b"rubbish\r\n\r\n").reply().status == 400
        assert wait_until(lambda: len(lines) == 4)
    assert {address for address, _ in lines} == {"127.0.0.1"}
    assert [line.split(" ms")[0].rsplit(" ", 1)[0] for _, line in lines[:3]] == [
        "POST '/mcp' 200", "POST '/mcp' 202", "POST '/mcp' 200"]
    assert lines[3][1] == "- 400"


def test_a_subclass_with_methods_of_its_own(made):
    class Own(Connection):
        def setup(self):
            super().setup()
            self.served = 0

        def do_GET(self):
            self.served += 1
            if self.path != "/own?x=1":
                super().do_GET()
                return
            self.send_response(200, "Fine")
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(f"{self.command} {self.path} {self.request_version} {self.served}".encode())

        def do_PURGE(self):
            self.send_error(405, explain="never <that>")

    with made(handler=Own) as server:
        with Wire(server.port) as wire:
            assert wire.ask("GET", "/other").status == 404
        reply = ask(server, "/own?x=1")
        assert (reply.status, reply.body) == (200, b"GET /own?x=1 HTTP/1.1 1")
        assert reply.headers["server"] == "mcplite" and reply.headers["connection"] == "close"
        refused = ask(server, method="PURGE")
        assert refused.status == 405 and refused.body == b"never &lt;that&gt;\n"
        assert add(server) == "3"


def test_finish_is_called_once(made):
    ended = []

    class Ending(Connection):
        def finish(self):
            ended.append(self.client_address)

    with made(handler=Ending) as server:
        assert ask(server).status == 404
        assert wait_until(lambda: len(ended) == 1)
    assert len(ended) == 1


# --- a function of routes -----------------------------------------------------------------------------------------------


def test_a_route_that_uses_wfile(made):
    def download(asked):
        handler = asked.handler
        handler.send_response(201)
        handler.send_header("X-Client", handler.client_address[0])
        handler.end_headers()
        for number in range(3):
            handler.wfile.write(b"%d\n" % number)
        handler.wfile.flush()

    with made(routes={"/x": download}) as server, Wire(server.port) as wire:
        reply = wire.send(request("GET", "/x")).reply()
        assert (reply.status, reply.headers["x-client"], reply.body) == (201, "127.0.0.1", b"0\n1\n2\n")
        assert reply.headers["date"].endswith(" GMT") and wire.ended()


def test_what_a_route_sees_of_its_request(made):
    seen = {}

    def route(asked):
        handler = asked.handler
        seen.update(command=handler.command, path=handler.path, version=handler.request_version, line=handler.requestline,
                    agent=handler.headers["User-Agent"], missing=handler.headers["X-No"], length=handler.headers.get(
                        "content-length"), twice=handler.headers.get_all("X-Two"), body=handler.rfile.read(3),
                    rest=handler.rfile.read(), connection=handler.connection is handler.request,
                    server=handler.server is server, name=handler.address_string())
        return 200, "text/plain", b""

    with made(routes={"/x": route}) as server, Wire(server.port) as wire:
        wire.send(b"POST /x?a=%20b HTTP/1.1\r\nHost: localhost\r\nUser-Agent: me\r\nX-Two: 1\r\nx-two: 2\r\n"
                  b"Content-Length: 5\r\n\r\nhello")
        assert wire.reply().status == 200
        name = "%s:%d" % wire.sock.getsockname()
        assert seen == {"command": "POST", "path": "/x?a=%20b", "version": "HTTP/1.1", "line": "POST /x?a=%20b HTTP/1.1",
                        "agent": "me", "missing": None, "length": "5", "twice": ["1", "2"], "body": b"hel", "rest": b"lo",
                        "connection": True, "server": True, "name": name}
        # The next request on the connection has its own fields and its own body.
        wire.send(b"GET /x HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n")
        assert wire.reply().status == 200
        assert (seen["command"], seen["agent"], seen["body"], seen["version"]) == ("GET", None, b"", "HTTP/1.0")


def test_a_body_that_a_route_reads_has_the_limits_of_messages(made):
    server = made(routes={"/x": lambda asked: (200, "text/plain", asked.handler.rfile.read())})
    limit = server.limits.message_bytes
    with server, Wire(server.port) as wire:
        assert wire.send(request(path="/x", headers={"Content-Length": str(limit + 1)})).reply().status == 413


def test_a_route_that_fails_behind_its_head_ends_the_connection(made, caplog):
    def broken(asked):
        asked.handler.send_response(200)
        asked.handler.end_headers()
        raise KeyError("no")

    with made(routes={"/x": broken}) as server:
        reply = ask(server)
        assert (reply.status, reply.body) == (200, b"")
        assert add(server) == "3"
    assert "GET '/x' failed" in caplog.text


@pytest.mark.parametrize("name, value", [
    ("X-A", "1\r\nX-B: 2"), ("X-A", "\0"), ("X A", "1"), ("X-A\r\nX-B", "1"), ("X-A", "\n"), ("", "1"), ("Connection", "\n"),
])
def test_a_route_cannot_split_its_response(made, name, value):
    def route(asked):
        asked.handler.send_response(200)
        asked.handler.send_header(name, value)

    with made(routes={"/x": route}) as server:
        assert ask(server).status == 500


def test_a_response_that_its_client_does_not_read_waits_without_the_others(made):
    size = 8 << 20

    def large(asked):
        asked.handler.send_response(200)
        asked.handler.end_headers()
        asked.handler.wfile.write(io.BytesIO(b"x" * size).getbuffer())

    with made(routes={"/x": large}) as server, Wire(server.port) as wire:
        wire.send(request("GET", "/x"))
        assert add(server) == "3"
        assert len(wire.reply().body) == size
