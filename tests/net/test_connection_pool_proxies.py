"""Our own connections through a forward proxy: whole URLs for http, CONNECT for https."""

import contextlib
import os
import socket
import threading
from base64 import b64encode

import pytest
from requests.auth import HTTPBasicAuth

import mcplite
from mcplite.net import connection_pool
from mcplite.net.connection_pool import DirectSender
from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import HTTPSettings
from mcplite.rpc.deadline import Deadline
from tests.support.processes import free_port
from tests.support.secure import Secure
from tests.support.webscript import Listener, WebScript

LIMIT = 30


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


class ForwardProxy(Listener):
    """A proxy that forwards as it is asked to; ``asked`` has the heads of the requests to it.

    :param answer: bytes that it sends in place of forwarding; empty to close, None to forward.
    :param credentials: the value of Proxy-Authorization that it wants.
    :param hangs: whether it never answers.
    """

    def __init__(self, answer=None, credentials=None, hangs=False):
        super().__init__()
        self.asked, self.hung = [], threading.Event()
        self.url = f"http://127.0.0.1:{self.port}"
        self._answer, self._credentials, self._hangs = answer, credentials, hangs

    def _serve(self, sock):
        with contextlib.suppress(OSError), sock, sock.makefile("rb") as stream:
            while True:
                first = stream.readline().decode()
                if not first:
                    return
                method, target, _ = first.split(" ")
                lines = iter(lambda: stream.readline().decode().rstrip("\r\n"), "")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = stream.read(int(headers.get("content-length", 0)))
                self.asked.append((method, target, headers))
                if self._hangs:
                    self.hung.set()
                    self.closing.wait(LIMIT)
                    return
                if self._credentials not in (None, headers.get("proxy-authorization")):
                    sock.sendall(b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
                    continue
                if self._answer is not None:
                    sock.sendall(self._answer)
                    return
                address = target if method == "CONNECT" else target.partition("://")[2].partition("/")[0]
                host, _, port = address.rpartition(":")
                with socket.create_connection((host.strip("[]"), int(port)), LIMIT) as server:
                    if method == "CONNECT":
                        sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        back = threading.Thread(target=copy, args=(server, sock))
                        back.start()
                        copy(sock, server)
                        back.join(LIMIT)
                        return
                    path = "/" + target.partition("://")[2].partition("/")[2]
                    kept = "".join(f"{name}: {value}\r\n" for name, value in headers.items()
                                   if name not in ("connection", "proxy-authorization"))
                    server.sendall(f"{method} {path} HTTP/1.1\r\n{kept}Connection: close\r\n\r\n".encode() + body)
                    server.shutdown(socket.SHUT_WR)
                    head = b""
                    with server.makefile("rb") as answer:
                        while not head.endswith(b"\r\n\r\n"):
                            head += answer.readline()
                        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                        sock.sendall(head + answer.read(length))


def copy(source, target):
    """Pass bytes on until their end, and that as well."""
    with contextlib.suppress(OSError):
        data = source.recv(65_536)
        while data:
            target.sendall(data)
            data = source.recv(65_536)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture(params=["http", "https"])
def make_server(request, folder):
    """Return a function that makes the server behind the proxy, of both kinds; ``verify`` is what trusts it."""

    def make():
        def on_request(request, answer):
            answer.status(200, request.body or "here")

        server = (WebScript(on_request) if request.param == "http" else
                  Secure(folder / "server.pem", folder / "server.key", on_request=on_request))
        server.verify = str(folder / "ca.pem")
        return server

    return make


@pytest.fixture
def server(make_server):
    with make_server() as server:
        yield server


def client_of(server, proxy, **options):
    """Return a client whose requests go through a proxy: a server, or a URL."""
    url = proxy if isinstance(proxy, str) else proxy.url
    return OriginClient(server.url, HTTPSettings(verify=server.verify, proxies={"all": url}, **options))


def get(server, proxy, exchange=None, body=None, **options):
    """Send one request and return the body of the answer."""
    client = client_of(server, proxy, **options)
    try:
        exchange = exchange or Exchange(lambda: float(LIMIT), lambda: float(LIMIT))
        return client.send(exchange, "POST" if body else "GET", None, {}, body).read(1_000_000)
    finally:
        client.close()


def refusal(server, proxy, **options):
    """Return the text of the error of a request that fails before it has reached the server."""
    with pytest.raises(mcplite.TransportError) as caught:
        get(server, proxy, **options)
    text = str(caught.value)
    assert text.startswith(f"cannot reach {server.url}: the proxy http://127.0.0.1:") and "secret" not in text
    assert server.requests == []
    return text.partition(": ")[2]


def test_requests_go_through_a_proxy_and_its_connection_is_kept(server):
    with ForwardProxy() as proxy:
        client = client_of(server, proxy)
        assert type(client._sender) is DirectSender
        for body in (None, b"x", b"y" * 200_000):
            exchange, method = Exchange(lambda: float(LIMIT)), "POST" if body else "GET"
            reply = client.send(exchange, method, server.url + "?a=b", {"X-A": "1"}, body)
            assert reply.read(1_000_000) == (body or b"here") and reply.address is None
        client.close()
        assert proxy.connections == 1
        authority = f"127.0.0.1:{server.port}"
        if server.url.startswith("https:"):
            assert proxy.asked == [("CONNECT", authority, {"host": authority})] and server.connections == 1
        else:
            assert {(target, headers["host"]) for _, target, headers in proxy.asked} == {(f"{server.url}?a=b", authority)}
        assert {(request.path, request.headers["x-a"]) for request in server.requests} == {("/mcp?a=b", "1")}


def test_a_client_through_a_proxy(folder):
    answers = WebScript()
    with Secure(folder / "server.pem", folder / "server.key", on_request=answers.play) as server, ForwardProxy() as proxy:
        options = mcplite.ClientOptions(era="legacy", listen=False, verify=str(folder / "ca.pem"),
                                        proxies={"https": proxy.url})
        with mcplite.connect(server.url, timeout=LIMIT, auth="t0ken", options=options) as client:
            client.ping()
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer t0ken"}
        assert all("authorization" not in headers for _, _, headers in proxy.asked)
    answers._listener.close()


@pytest.mark.parametrize("user, sent", [("me:secret", "me:secret"), ("m%40e:se%3Acret", "m@e:se:cret"), ("me", "me:"),
                                        ("me:", "me:"), ("m%C3%BC:%E2%82%AC", None)])
def test_credentials_in_the_url_of_the_proxy(server, user, sent):
    value = None if sent is None else "Basic " + b64encode(sent.encode()).decode()
    with ForwardProxy(credentials=value) as proxy:
        url = proxy.url.replace("//", f"//{user}@")
        if sent is None:
            with pytest.raises(ValueError):
                client_of(server, url)
            return
        assert get(server, url) == b"here"
        assert [headers["proxy-authorization"] for _, _, headers in proxy.asked] == [value]
        assert "proxy-authorization" not in server.requests[0].headers


@pytest.mark.parametrize("user, text", [("", "give its user name and password in its URL, as in http://user:password@127.0.0.1:"),
                                        ("me:secret@", "it does not accept the user name and password in its URL")])
def test_a_proxy_that_wants_to_know_who_asks(server, user, text):
    with ForwardProxy(credentials="Basic other") as proxy:
        said = refusal(server, proxy.url.replace("//", "//" + user))
        assert "wants to know who asks (407): " + text in said


@pytest.mark.parametrize("answer, text", [
    (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
     "does not connect to 127.0.0.1:{}: it answered with 403 Forbidden"),
    (b"HTTP/1.0 502 Bad Gateway\r\n\r\n", "does not connect to 127.0.0.1:{}: it answered with 502 Bad Gateway"),
    (b"HTTP/1.1 504\r\n\r\n", "does not connect to 127.0.0.1:{}: it answered with 504"),
    (b"HTTP/1.1 302 Found\r\nLocation: http://login/\r\n\r\n", "does not connect to 127.0.0.1:{}: it answered with 302 Found"),
    (b"", "broke off: it closed the connection without a response"),
    (b"HTTP/1.1 200 OK\r\n", "broke off: it closed the connection"),
    (b"SSH-2.0-x\r\n\r\n", "broke off: malformed status line")])
def test_a_proxy_that_does_not_connect(folder, answer, text):
    with Secure(folder / "server.pem", folder / "server.key") as server, ForwardProxy(answer) as proxy:
        server.verify = str(folder / "ca.pem")
        assert text.format(server.port) in refusal(server, proxy)


def test_what_a_proxy_answers_to_a_request_for_http_is_an_answer():
    with WebScript() as server, ForwardProxy(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno") as proxy:
        with pytest.raises(mcplite.errors.HTTPStatusError, match="502: no"):
            options = mcplite.ClientOptions(era="legacy", listen=False, proxies={"http": proxy.url})
            mcplite.connect(server.url, timeout=LIMIT, options=options).open()


def test_a_proxy_that_is_not_there(server):
    assert "cannot be reached: " in refusal(server, f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("ends", ["deadline", "interrupt", "limit"])
def test_a_proxy_that_hangs(make_server, ends, monkeypatch):
    deadline = Deadline(0.3 if ends == "deadline" else LIMIT)

    def next_timeout():
        if deadline.expired:
            raise Stopped
        return min(1.0, deadline.remaining() or 0.001)

    exchange = Exchange(next_timeout, deadline.remaining)
    with make_server() as server, ForwardProxy(hangs=True) as proxy:
        if ends == "limit":
            if not server.url.startswith("https:"):
                return  # the exchange's own deadline holds for the answer to a request
            monkeypatch.setattr(connection_pool, "_TUNNEL_SECONDS", 0.2)
            assert "did not answer within 0.2 s" in refusal(server, proxy, exchange=exchange)
            return
        if ends == "interrupt":
            threading.Thread(target=lambda: (proxy.hung.wait(LIMIT), exchange.interrupt())).start()
        with pytest.raises(Stopped):
            get(server, proxy, exchange)
        assert server.requests == []


def test_the_certificate_of_the_server_is_checked_behind_the_proxy(folder):
    with Secure(folder / "named.pem", folder / "named.key") as server, ForwardProxy() as proxy:
        server.verify = str(folder / "ca.pem")
        with pytest.raises(mcplite.TransportError, match="certificate verify failed"):
            get(server, proxy)
        assert server.requests == []


def test_a_host_of_ipv6(make_server, monkeypatch):
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("this machine has no IPv6")
    with ForwardProxy() as proxy:
        with monkeypatch.context() as patch:
            patch.setattr(Listener, "host", "::1")
            server = make_server()
        server.host = "::1"
        server.url = server.url.replace("127.0.0.1", "[::1]")
        with server:
            assert get(server, proxy) == b"here"
            assert server.requests[0].headers["host"] == f"[::1]:{server.port}"
            assert proxy.asked[0][1] in (f"[::1]:{server.port}", server.url)


@pytest.mark.parametrize("excluded", ["127.0.0.1", "127.0.0.0/8", "*", None])
def test_the_proxies_of_the_environment(server, monkeypatch, excluded):
    with ForwardProxy() as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        if excluded is not None:
            monkeypatch.setenv("NO_PROXY", excluded)
        client = OriginClient(server.url, HTTPSettings(verify=server.verify))
        assert client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).read(100) == b"here"
        client.close()
        assert proxy.connections == (1 if excluded is None else 0)


def test_authentication_made_for_requests_goes_through_the_proxy_as_well(server):
    with ForwardProxy() as proxy:
        client = client_of(server, proxy, auth=HTTPBasicAuth("me", "pw"))
        assert client.send_authorized(Exchange(lambda: float(LIMIT)), "GET", None, {}).read(100) == b"here"
        client.close()
        assert proxy.connections == 1 and server.requests[0].headers["authorization"] == "Basic bWU6cHc="
