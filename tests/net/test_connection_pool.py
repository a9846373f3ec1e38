"""Our own connections: what they send, when they are used again, and how they end."""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcplite.errors import ProtocolError
from mcplite.net import connection_pool
from mcplite.net.connection_pool import DirectSender, is_plain
from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.origin_client import OriginClient
from tests.support.webscript import WebScript

LIMIT = 30


@pytest.fixture
def script():
    with WebScript(lambda request, answer: answer.status(200, request.path)) as script:
        yield script


@pytest.fixture
def sender(script):
    sender = DirectSender(script.url, {"X-All": "1"}, None)
    yield sender
    sender.close()


def send(sender, url=None, method="GET", headers={}, body=None, exchange=None):
    return sender.send(exchange or Exchange(lambda: float(LIMIT)), method, url or sender.url, headers, body, LIMIT)


def read(reply):
    return reply.read(1 << 20)


@pytest.mark.parametrize("url", ["http://a/", "http://127.0.0.1:80/mcp", "http://[::1]:8/mcp", "http://a.b-c.d_e/x;y=1/~z?a=b&c=/?",
                                 "http://localhost:65535/a//b", "https://a/", "https://a:443/x",
                                 "http://a/.hidden", "http://a/.well-known/oauth-protected-resource/mcp", "http://a/x/...", "http://a/.a/..b"])
def test_plain_urls(url):
    import requests

    assert is_plain(url)
    assert requests.Request("GET", url).prepare().url == url


@pytest.mark.parametrize("url", [
    "http://a", "https://a", "http://A/", "http://a/%20", "http://a/ b", "http://a/#x", "http://me:pw@a/", "http://a/\u00e9",
    "http://\u00e9/", "http://a/./b", "http://a/../b", "http://a/b/..", "http://a/.", "http://a/.?x", "http://a/x/../.y",
    "http://a:080/", "http://a:0/",
    "http://a./", "http://a/?", "http://a//b", "http://a/x\n", "http://a/[x]", "http://-a/", "http://a:/", "ftp://a/", ""])
def test_urls_that_requests_may_write_in_another_way(url):
    assert not is_plain(url)


def test_what_is_sent(script, sender):
    read(send(sender, method="POST", headers={"x-all": "2", "Accept": "text/html"}, body=b"hello"))
    read(send(sender))
    first, second = script.requests
    assert (first.method, first.path, first.body) == ("POST", "/mcp", b"hello")
    assert first.headers == {"host": f"127.0.0.1:{script.port}", "x-all": "2", "accept": "text/html", "content-length": "5"}
    assert second.headers == {"host": f"127.0.0.1:{script.port}", "x-all": "1"}, "RFC 9110, 8.6"
    assert script.connections == 1


def test_requests_that_follow_each_other_have_their_own_heads(script, sender):
    headers, base = {"A": "1"}, {"host": f"127.0.0.1:{script.port}", "x-all": "1"}
    for body in (b"a", b"bcd", b""):
        read(send(sender, method="POST", headers=headers, body=body))
    headers["A"] = "2"  # the object of before
    read(send(sender, method="POST", headers=headers))
    read(send(sender, sender.url + "/x", "POST", headers))
    for body in (None, b"e", None):
        read(send(sender, method="DELETE", headers=headers, body=body))
    read(send(sender, headers={"Content-Length": "0"}))
    read(send(sender, headers={"Content-Length": "0"}, body=b"f"))
    assert [(seen.method, seen.path, seen.body, seen.headers) for seen in script.requests] == [
        (method, path, body, {**base, **own}) for method, path, body, own in (
            ("POST", "/mcp", b"a", {"a": "1", "content-length": "1"}),
            ("POST", "/mcp", b"bcd", {"a": "1", "content-length": "3"}),
            ("POST", "/mcp", b"", {"a": "1", "content-length": "0"}), ("POST", "/mcp", b"", {"a": "2", "content-length": "0"}),
            ("POST", "/mcp/x", b"", {"a": "2", "content-length": "0"}), ("DELETE", "/mcp", b"", {"a": "2"}),
            ("DELETE", "/mcp", b"e", {"a": "2", "content-length": "1"}), ("DELETE", "/mcp", b"", {"a": "2"}),
            ("GET", "/mcp", b"", {"content-length": "0"}), ("GET", "/mcp", b"f", {"content-length": "1"}))]


@pytest.mark.parametrize("path, target", [
    ("/x?a=b", "/x?a=b"), ("", "/"), ("/\u00e9 x", "/%C3%A9%20x"), ("/%2f%zz", "/%252F%25zz"), ("/%2fa", "/%2Fa"),
    ("//other/x", "/other/x"), ("/a?b#c", "/a?b"), ("/a/../b", "/a/../b")])
def test_targets_are_written_as_by_urllib3(script, sender, path, target):
    assert read(send(sender, script.origin + path)).decode() == target


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "https://127.0.0.1/x", "http://localhost/x", "/x"])
def test_nothing_is_sent_to_another_origin(script, sender, url):
    with pytest.raises(ValueError, match="another origin"):
        send(sender, url)
    assert script.connections == 0


@pytest.mark.parametrize("name, value", [("X-A", "a\r\nB: c"), ("X-A", "a\nb"), ("X-A", "a\rb"), ("X\r\nB", "c"),
                                         ("X-A", "a\0")])
def test_headers_cannot_become_two(script, sender, name, value):
    with pytest.raises(ValueError, match="line break"):
        send(sender, headers={name: value})
    assert script.connections == 0


def test_a_connection_that_has_said_something_in_between_is_not_used_again():
    # What an idle connection says would be taken for the answer to the next request.
    said = threading.Event()

    def play(request, answer):
        answer.status(200, "one")
        if not said.is_set():
            answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
            said.set()

    with WebScript(play) as script:
        sender = DirectSender(script.url, {}, None)
        assert read(send(sender)) == b"one"
        assert said.wait(LIMIT)
        assert [read(send(sender)) for _ in range(3)] == [b"one"] * 3
        assert script.connections == 2
        sender.close()


def test_a_connection_that_was_closed_in_between_is_not_used_again():
    closed = threading.Event()

    class Closing(WebScript):
        def _serve(self, sock):
            super()._serve(sock)
            closed.set()

    def play(request, answer):
        answer.status(200, "one")
        answer.cut()

    with Closing(play) as script:
        sender = DirectSender(script.url, {}, None)
        for number in range(3):
            exchange = Exchange(lambda: float(LIMIT))
            assert read(send(sender, exchange=exchange)) == b"one"
            assert not exchange.reused
            assert closed.wait(LIMIT)
            closed.clear()
        sender.close()


@pytest.mark.parametrize("said, used, given_up", [
    ("timeout=5", 3.9, 4.1), ("max=100, timeout=5", 3.9, 4.1), ("timeout = 1", 0.4, 0.6), ("timeout=0", None, 0.1)])
def test_a_connection_that_the_server_is_about_to_close_is_not_used_again(said, used, given_up, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(connection_pool, "monotonic", lambda: now[0])
    with WebScript(lambda request, answer: answer.status(200, "here", Keep_Alive=said)) as script:
        sender = DirectSender(script.url, {}, None)
        read(send(sender))
        if used is not None:
            now[0] += used
            read(send(sender))
            assert script.connections == 1
        now[0] += given_up
        read(send(sender))
        assert script.connections == 2
        sender.close()


@pytest.mark.parametrize("said", [None, "max=100", "timeout=soon", "timeout=12345678901"])
def test_a_connection_without_such_a_time_is_used_as_long_as_it_is_open(said, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(connection_pool, "monotonic", lambda: now[0])
    headers = {} if said is None else {"Keep_Alive": said}
    with WebScript(lambda request, answer: answer.status(200, "here", **headers)) as script:
        sender = DirectSender(script.url, {}, None)
        for _ in range(2):
            read(send(sender))
            now[0] += 3600.0
        assert script.connections == 1
        sender.close()


def test_idle_connections_are_bounded(script, monkeypatch):
    monkeypatch.setattr(connection_pool, "_IDLE_CONNECTIONS", 2)
    sender = DirectSender(script.url, {}, None)
    replies = [send(sender) for _ in range(5)]
    for reply in replies:
        read(reply)
    assert script.connections == 5 and len(sender._idle) == 2
    sender.close()
    assert not sender._idle


def test_a_connection_that_is_in_use_is_closed_after_the_sender(script, sender):
    reply = send(sender)
    sender.close()
    assert read(reply) == b"/mcp" and not sender._idle
    with pytest.raises(ConnectionError, match="closed"):
        send(sender)


def test_many_threads_share_one_sender(script, sender):
    def ask(number):
        return read(send(sender, f"{script.origin}/{number}")).decode() == f"/{number}"

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(400)))
    assert script.connections <= 16


def test_a_response_before_the_request_is_read_is_taken():
    # 413, say; the server closes its connection while the client still sends.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def refuse():
            sock, _ = listener.accept()
            with sock:
                sock.recv(1000)
                sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 20):
                    continue

        thread = threading.Thread(target=refuse)
        thread.start()
        sender = DirectSender(f"http://127.0.0.1:{listener.getsockname()[1]}/", {}, None)
        reply = send(sender, method="POST", body=b"x" * (8 << 20))
        assert reply.status == 413 and read(reply) == b"big"
        thread.join(LIMIT)
        sender.close()


def test_an_interrupt_ends_a_read_and_the_connection():
    with WebScript(lambda request, answer: answer.hold()) as script:
        client = OriginClient(script.url)
        # On Windows the read may end with its timeout alone, which all users of an exchange keep short.
        exchange = Exchange(lambda: float(LIMIT) if os.name == "posix" else 1.0)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.send, exchange, "GET", None, {})
            script.wait_for("GET")
            exchange.interrupt()
            with pytest.raises(Stopped):
                waiting.result(LIMIT)
        client.close()


@pytest.mark.parametrize("size", [0, 100, 70_000, 1 << 20])
def test_a_body_has_the_limit_of_its_reader(size):
    body = os.urandom(size)
    with WebScript(lambda request, answer: answer.status(200, body)) as script:
        sender = DirectSender(script.url, {}, None)
        assert send(sender).read(size) == body
        if size:
            with pytest.raises(ProtocolError, match=f"more than {size - 1} bytes"):
                send(sender).read(size - 1)
        sender.close()
