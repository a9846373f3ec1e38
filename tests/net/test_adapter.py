"""Connections that are looked at before they are made, and time that stands while a person is asked."""

import shutil
import socket
import ssl
import subprocess

import pytest

import mcplite
from mcplite.net.adapter import Adapter
from mcplite.net.exchange import Exchange
from mcplite.net.link import Link
from mcplite.net.settings import HTTPSettings
from tests.support.webscript import WebScript

LIMIT = 30
NAME = "mcp.example"


class Guard:
    """Says where to connect to, and notes what it was asked."""

    def __init__(self, *addresses):
        self.addresses, self.asked = list(addresses), []

    def __call__(self, host, port):
        self.asked.append((host, port))
        if not self.addresses:
            raise OSError(f"{host} is out of bounds")
        return self.addresses


def get(url, guard, **options):
    """Send one request and return the body of the answer."""
    link = Link(url, HTTPSettings(**options), guard)
    try:
        return link.fetch(Exchange(lambda: 1.0, lambda: float(LIMIT)), "GET", None, {}).read(1000)
    finally:
        link.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A folder with a key and a certificate for NAME, which is its own authority."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
         "key.pem",
         "-out", "cert.pem", "-subj", f"/CN={NAME}", "-days", "30", "-addext", f"subjectAltName=DNS:{NAME}",
         "-addext", "keyUsage=critical,digitalSignature,keyCertSign"],
        cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


class Secure(WebScript):
    """The scripted server behind TLS; ``named`` is what clients called it when they began."""

    def __init__(self, folder):
        super().__init__(lambda request, answer: answer.status(200, "here"))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self._context.sni_callback = lambda sock, name, context: self.named.append(name)
        self.named = []

    def _serve(self, sock):
        sock.settimeout(LIMIT)
        try:
            secure = self._context.wrap_socket(sock, server_side=True)
        except OSError:
            sock.close()  # the client did not like us
            return
        self._socks[self._socks.index(sock)] = secure
        super()._serve(secure)


@pytest.fixture
def script():
    with WebScript(lambda request, answer: answer.status(200, "here")) as script:
        yield script


# --- the guard ---------------------------------------------------------------------------------------

def test_a_connection_goes_where_the_guard_says_and_keeps_its_name(script):
    guard = Guard("127.0.0.1")
    assert get(f"http://{NAME}:{script.port}/x", guard) == b"here"
    assert guard.asked == [(NAME, script.port)]
    assert script.requests[0].headers["host"] == f"{NAME}:{script.port}"


def test_no_name_is_looked_up_behind_the_guard(script, monkeypatch):
    real, asked = socket.getaddrinfo, []

    def lookup(host, *arguments, **options):
        asked.append(host)
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert get(f"http://{NAME}:{script.port}/x", Guard("127.0.0.1")) == b"here"
    assert NAME not in asked


def test_the_certificate_is_held_against_the_name(certificate):
    with Secure(certificate) as script:
        pem = str(certificate / "cert.pem")
        assert get(f"https://{NAME}:{script.port}/x", Guard("127.0.0.1"), verify=pem) == b"here"
        assert script.named == [NAME] and script.requests[0].headers["host"] == f"{NAME}:{script.port}"
        with pytest.raises(mcplite.TransportError, match="certificate verify failed"):
            get(f"https://other.example:{script.port}/x", Guard("127.0.0.1"), verify=pem)
        assert script.named == [NAME, "other.example"] and len(script.requests) == 1


def test_what_the_guard_refuses_is_not_connected_to(script):
    with pytest.raises(mcplite.TransportError, match=f"{NAME} is out of bounds"):
        get(f"http://{NAME}:{script.port}/x", Guard())
    with pytest.raises(mcplite.TransportError, match="127.0.0.1 is out of bounds"):
        get(script.url, Guard())
    assert script.connections == 0


def test_the_next_address_is_tried_when_one_does_not_answer(script):
    # The server is at the IPv4 address alone; so is many a server on the developer's own machine.
    guard = Guard("::1", "127.0.0.1")
    assert get(f"http://localhost:{script.port}/x", guard) == b"here"
    assert guard.asked == [("localhost", script.port)]
    assert script.requests[0].headers["host"] == f"localhost:{script.port}"


def test_an_address_that_does_not_answer_is_an_error_with_the_name():
    with WebScript() as script:
        url = f"http://{NAME}:{script.port}/x"
    with pytest.raises(mcplite.TransportError, match=f"cannot reach {url}"):
        get(url, Guard("127.0.0.1", "127.0.0.1"))


def test_each_connection_is_looked_at_and_no_request_besides():
    def play(request, answer):
        answer.status(200, "here", **({"Connection": "close"} if request.path == "/last" else {}))

    with WebScript(play) as script:
        guard = Guard("127.0.0.1")
        link = Link(f"http://{NAME}:{script.port}/x", guard=guard)
        for path, connections in (("/x", 1), ("/y", 1), ("/last", 1), ("/z", 2)):
            exchange = Exchange(lambda: 1.0)
            assert link.fetch(exchange, "GET", f"http://{NAME}:{script.port}{path}", {}).read(1000) == b"here"
            assert len(guard.asked) == connections
        link.close()


def test_a_proxy_is_not_looked_at(script):
    # It looks up the names itself, and may well be in a private network.
    guard = Guard()
    assert get(f"http://{NAME}:1/x", guard, proxies={"http": script.origin}) == b"here"
    assert guard.asked == [] and script.requests[0].path == f"http://{NAME}:1/x"


def test_without_a_guard_names_are_looked_up_as_ever(script):
    assert get(f"http://localhost:{script.port}/x", None) == b"here"
    Adapter().close()


# --- the address that was met ----------------------------------------------------------------------------

def test_an_exchange_knows_whom_it_has_talked_to_when_that_is_over(script):
    # Who breaks off behind the answer would not be known any more, and could have itself looked up anew.
    link, exchange = Link(f"http://localhost:{script.port}/x", guard=Guard("127.0.0.1")), Exchange(lambda: 1.0)
    exchange.records_address = True
    assert exchange.address is None
    reply = link.fetch(exchange, "GET", None, {})
    assert exchange.address == "127.0.0.1"
    assert reply.read(1000) == b"here"
    reply.close()
    link.close()
    assert exchange.address == "127.0.0.1"


def test_what_was_broken_off_behind_the_answer_has_an_address():
    def play(request, answer):
        answer.status(401, "go away")
        answer.cut()

    with WebScript(play) as script:
        link, exchange = Link(script.url), Exchange(lambda: 1.0)
        exchange.records_address = True
        reply = link.fetch(exchange, "GET", None, {})
        assert reply.excerpt() == "go away"
        assert exchange.address == "127.0.0.1"
        link.close()


# --- time that stands --------------------------------------------------------------------------------

class Clock:
    def __init__(self):
        self.said = []

    def pause(self):
        self.said.append("pause")

    def resume(self):
        self.said.append("resume")


def test_the_clock_stands_for_as_long_as_a_person_is_asked():
    clock = Clock()
    exchange = Exchange(lambda: 1.0, clock=clock)
    with exchange.paused():
        assert clock.said == ["pause"]
    assert clock.said == ["pause", "resume"]


def test_the_clock_goes_on_when_the_person_gives_up():
    clock = Clock()
    with pytest.raises(KeyboardInterrupt), Exchange(lambda: 1.0, clock=clock).paused():
        raise KeyboardInterrupt
    assert clock.said == ["pause", "resume"]


def test_time_that_cannot_be_stopped_goes_on():
    with Exchange(lambda: 1.0).paused():
        pass
