"""The port that the browser comes back to: who is let in, who is not, and who cannot hold up the others.

What browsers are told: fixed pages, in which nothing runs and from which nothing leaks.
"""

import contextlib
import html.parser
import os
import socket
import threading

import pytest

from mcplite.auth.login.loopback import LoopbackListener, has_state, wait_ready
from tests.support import rawhttp

STATE = "St4te-of_this~login"
TARGET = f"/callback?code=c0de&state={STATE}&iss=https%3A%2F%2Fa.example"
LIMIT = 30


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


def port_of(listener):
    return int(listener.redirect_uri.split(":")[-1].split("/")[0])


class Waiting:
    """A thread that waits for an answer at a listener."""

    def __init__(self, listener, state=STATE):
        self.listener, self.port, self.url = listener, port_of(listener), None
        self._state, self._stop = state, False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while self.url is None and not self._stop:
            self.url = self.listener.serve(self._state, 0.05)

    def result(self):
        """Wait for the answer."""
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        return self.url

    def knock(self, data, host="127.0.0.1"):
        """Send a request on a connection of its own and return the response."""
        with rawhttp.Wire(self.port, host) as wire:
            return wire.send(data).reply("HEAD" if data.startswith(b"HEAD") else "GET")

    def close(self):
        self._stop = True
        self._thread.join(LIMIT)
        self.listener.close()


@contextlib.contextmanager
def waiting(*arguments, **options):
    there = Waiting(LoopbackListener(*arguments, **options))
    try:
        yield there
    finally:
        there.close()


def get(port, target=TARGET, host="127.0.0.1", **headers):
    return rawhttp.request("GET", target, headers={"Host": f"{host}:{port}", **headers})


def comes_back(there, target=TARGET, address="127.0.0.1", host="127.0.0.1"):
    """Come back as the browser does, and see the page."""
    with rawhttp.Wire(there.port, address) as wire:
        wire.send(get(there.port, target, host))
        assert there.result() == f"http://{host}:{there.port}{target}"
        there.listener.send_page(200, "You are logged in")
        reply = wire.reply("GET")
        assert reply.status == 200 and b"You are logged in" in reply.body and wire.ended()


# --- the answer ------------------------------------------------------------------------------------


def test_the_page_is_sent_when_the_outcome_is_known():
    with waiting() as there, rawhttp.Wire(there.port) as wire:
        wire.send(get(there.port))
        there.result()
        assert wait_ready([wire.sock], 0) == set()
        there.listener.send_page(400, "The login has failed", "no")
        there.listener.send_page(200, "You are logged in")
        reply = wire.reply("GET")
        assert reply.status == 400 and b"You are logged in" not in reply.body and wire.ended()


def test_after_the_answer_no_connection_is_accepted():
    with waiting() as there, rawhttp.Wire(there.port) as early, rawhttp.Wire(there.port) as wire:
        early.send(get(there.port)[:20])
        wire.send(get(there.port))
        there.result()
        assert rawhttp.refuses(there.port)
        assert early.ended()
        with pytest.raises(ValueError, match="this listener is closed"):
            there.listener.serve(STATE, 0)


def test_of_two_answers_one_is_accepted():
    with waiting() as there, rawhttp.Wire(there.port) as one, rawhttp.Wire(there.port) as other:
        one.send(get(there.port))
        with contextlib.suppress(ConnectionError):
            other.send(get(there.port))
        there.result()
        there.listener.send_page(200, "You are logged in")
        assert sorted(wire.rest()[:12] for wire in (one, other)) == [b"", b"HTTP/1.0 200"]


def test_a_browser_that_did_not_wait_for_its_page_is_no_error():
    with waiting() as there:
        with rawhttp.Wire(there.port) as wire:
            wire.send(get(there.port))
            there.result()
            wire.reset()
        there.listener.send_page(200, "You are logged in")


def test_close_closes_all_sockets_and_is_idempotent():
    listener = LoopbackListener()
    with rawhttp.Wire(port_of(listener)) as wire:
        listener.serve(STATE, LIMIT)
        listener.close()
        listener.close()
        assert wire.ended() and rawhttp.refuses(port_of(listener))


# --- who is not let in ----------------------------------------------------------------------------

def request(method="GET", target=TARGET, version="1.1", **headers):
    """Return a request with PORT for the listener's port."""
    return rawhttp.request(method, target, version=version, headers={"Host": "127.0.0.1:PORT", **headers})


REFUSED = {
    "another state": (request(target="/callback?code=c&state=other"), 400),
    "a state with more behind it": (request(target=TARGET.replace(STATE, STATE + "x")), 400),
    "a state with less": (request(target=TARGET.replace(STATE, STATE[:-1])), 400),
    "a state in capitals": (request(target=TARGET.replace(STATE, STATE.upper())), 400),
    "an empty state": (request(target="/callback?code=c&state="), 400),
    "no state": (request(target="/callback?code=c"), 400),
    "no query": (request(target="/callback"), 400),
    "two states": (request(target=TARGET + f"&state={STATE}"), 400),
    "a state that is no text": (request(target="/callback?code=c&state=%ff%fe"), 400),
    "very many parameters": (request(target=TARGET + "&a=b" * 60), 400),
    "POST": (request("POST"), 405),
    "HEAD": (request("HEAD"), 405),
    "OPTIONS": (request("OPTIONS"), 405),
    "the favicon": (request(target="/favicon.ico"), 404),
    "the root": (request(target=f"/?code=c&state={STATE}"), 404),
    "a longer path": (request(target=TARGET.replace("/callback", "/callback/")), 404),
    "another case": (request(target=TARGET.replace("/callback", "/Callback")), 404),
    "an escaped path": (request(target=TARGET.replace("/callback", "/%63allback")), 404),
    "the target of a proxy": (request(target="http://127.0.0.1:PORT" + TARGET), 404),
    "a host that leads here": (request(Host="evil.example:PORT"), 421),
    "a host without the port": (request(Host="127.0.0.1"), 421),
    "a host with another port": (request(Host="127.0.0.1:1"), 421),
    "the other name of this machine": (request(Host="localhost:PORT"), 421),
    "a malformed host": (request(Host="127.0.0.1:PORT/x"), 421),
    "an empty host": (request(Host=""), 421),
    "no host": (request(Host=None), 421),
    "no host in the old version": (request(version="1.0", Host=None), 421),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nHost: 127.0.0.1:PORT\r\n\r\n", 421),
    "what is no request": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "a newer version": (request(version="2.0"), 505),
    "a long line": (request(target=TARGET + "x" * 20_000), 414),
    "a long line without an end": (b"GET /callback?" + b"x" * 70_000, 414),
    "long headers": (request(Cookie="x" * 70_000), 431),
    "many headers": (request(**{f"H{number}": "x" for number in range(101)}), 431),
}


@pytest.mark.parametrize("data, status", REFUSED.values(), ids=REFUSED)
def test_other_requests_are_refused_and_the_answer_is_still_accepted(data, status):
    with waiting() as there:
        reply = there.knock(data.replace(b"PORT", str(there.port).encode()))
        assert reply.status == status
        assert reply.headers["content-security-policy"].startswith("default-src 'none'")
        assert STATE.encode() not in reply.body and b"c0de" not in reply.body
        assert (reply.body == b"") == data.startswith(b"HEAD")
        comes_back(there)


def test_nothing_of_the_answer_is_logged(caplog, capsys):
    caplog.set_level(0)
    with waiting() as there:
        there.knock(get(there.port, TARGET.replace(STATE, "other")))
        comes_back(there)
    assert caplog.text == "" and capsys.readouterr() == ("", "")


# --- who cannot hold up the others ----------------------------------------------------------------

@pytest.mark.parametrize("beginning", [b"", b"G", TARGET.encode(), b"GET /callback HTTP/1.1\r\nHost:"])
def test_many_incomplete_requests_do_not_delay_the_answer(beginning):
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(waiting(connection_seconds=1000))
        slow = [stack.enter_context(rawhttp.Wire(there.port)) for _ in range(12)]
        for wire in slow:
            with contextlib.suppress(ConnectionError):  # the first have had to make room
                wire.send(beginning)
        assert wait_ready([wire.sock for wire in slow], LIMIT)  # an early one has had to make room
        comes_back(there)
        assert all(wire.ended() for wire in slow)


@pytest.mark.parametrize("beginning", [b"", b"GET /callback HTTP/1.1\r\n"])
def test_an_incomplete_request_is_dropped_after_a_while(beginning):
    with waiting(connection_seconds=0.2) as there, rawhttp.Wire(there.port) as wire:
        assert wire.send(beginning).ended()
        comes_back(there)


@pytest.mark.skipif(os.name != "posix", reason="needs limits of the process")
def test_without_descriptors_it_waits_until_there_are_some():
    import resource

    listener = LoopbackListener()
    try:
        with rawhttp.Wire(port_of(listener)) as wire:
            wire.send(get(port_of(listener)))
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                assert listener.serve(STATE, LIMIT) is None
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            url = None
            while url is None:
                url = listener.serve(STATE, 0.05)
            assert url.endswith(TARGET)
    finally:
        listener.close()


# --- where it listens ----------------------------------------------------------------------------

def addresses(listener):
    return {server.server_address[:2] for server in listener._servers}


@contextlib.contextmanager
def listening(*arguments, **options):
    listener = LoopbackListener(*arguments, **options)
    try:
        yield listener
    finally:
        listener.close()


@pytest.mark.parametrize("rest", ["/callback", "/", "", "/a/b?c=d"])
def test_the_preferred_redirect_uri_is_used_to_the_letter(rest):
    with listening() as free:
        preferred = f"http://127.0.0.1:{port_of(free)}{rest}"
    with waiting(preferred=preferred) as there:
        assert there.listener.redirect_uri == preferred
        target = (rest or "/") + ("&" if "?" in rest else "?") + f"code=c&state={STATE}"
        there.port = int(preferred[17:].split("/")[0])
        comes_back(there, target)


@needs_ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_when_the_preferred_port_is_taken_another_one_of_the_same_host_is_used(host):
    address = "::1" if host == "[::1]" else "127.0.0.1"
    with listening(address) as other:
        with listening(preferred=f"http://{host}:{port_of(other)}/a?b=c") as listener:
            assert listener.redirect_uri == f"http://{host}:{port_of(listener)}/a?b=c"
            assert port_of(listener) != port_of(other)


@pytest.mark.parametrize("preferred", [
    "https://127.0.0.1:8000/callback", "http://127.0.0.2:8000/callback", "http://host.example:8000/callback",
    "http://127.0.0.1.evil.example:8000/callback", "http://user@127.0.0.1:8000/callback", "http://127.0.0.1:8000/callback#x",
    "http://127.0.0.1:0/callback", "http://127.0.0.1:99999/callback", "http://[::1/callback", "app:/callback", "nothing", "",
])
def test_a_preferred_redirect_uri_of_another_machine_is_ignored(preferred):
    with listening(preferred=preferred) as listener:
        assert listener.redirect_uri == f"http://127.0.0.1:{port_of(listener)}/callback"


@needs_ipv6
@pytest.mark.parametrize("host, listens, address", [
    ("127.0.0.1", ["127.0.0.1"], "127.0.0.1"), ("::1", ["::1"], "::1"),
    ("localhost", ["127.0.0.1", "::1"], "127.0.0.1"), ("localhost", ["127.0.0.1", "::1"], "::1"),
])
def test_only_this_machine_can_connect(host, listens, address):
    with waiting(host) as there:
        shown = "[::1]" if host == "::1" else host
        assert there.listener.redirect_uri == f"http://{shown}:{there.port}/callback"
        assert addresses(there.listener) == {(listened, there.port) for listened in listens}
        assert there.knock(get(there.port, host="example.com"), address).status == 421
        comes_back(there, address=address, host=shown)


@needs_ipv6
def test_localhost_is_not_shared_with_another_program():
    with listening("::1") as other:
        with pytest.raises(OSError):
            LoopbackListener("localhost", port_of(other))


# --- its parts ------------------------------------------------------------------------------------

@pytest.mark.skipif(os.name != "posix", reason="descriptors of sockets only")
def test_waiting_for_a_descriptor_beyond_the_first_thousand():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    reader, writer = os.pipe()
    try:
        os.dup2(reader, 1999)
        assert wait_ready([1999], 0) == set()
        os.write(writer, b"x")
        assert wait_ready([1999], LIMIT) == {1999}
    finally:
        os.close(1999)
        os.close(reader)
        os.close(writer)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("query, state, whether", [
    ("state=a", "a", True), ("code=b&state=a&c", "a", True), ("state=%61", "a", True), ("state=a+b", "a b", True),
    ("state=a&state=a", "a", False), ("state=", "", False), ("", "", False), ("State=a", "a", False),
    ("state=\u00e9", "\u00e9", True), ("state=%C3%A9", "\u00e9", True), ("state=a;code=b", "a", False),
])
def test_a_query_carries_the_state_once(query, state, whether):
    assert has_state(query, state) is whether


EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=y>\r\nSet-Cookie: a=b"


class Reader(html.parser.HTMLParser):
    """Notes the elements of a page, and its text outside of the style."""

    def __init__(self):
        super().__init__()
        self.elements, self.text, self._style = [], "", False

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self._style = tag == "style"

    def handle_endtag(self, tag):
        self._style = False

    def handle_data(self, data):
        self.text += "" if self._style else data


@pytest.fixture
def page():
    """Return a function that has the browser come back, and returns the status, the headers and the page that it sees."""

    def see(*shown, wanted=None):
        with waiting() as there, rawhttp.Wire(there.port) as wire:
            wire.send(get(there.port, *(wanted or ())))
            if wanted is None:
                there.result()
                there.listener.send_page(*shown)
            reply = wire.reply("GET")
        reader = Reader()
        reader.feed(reply.body.decode("utf-8"))
        return reply.status, reply.headers, reader, reply.body

    return see


@pytest.mark.parametrize("shown, wanted", [((200, EVIL, EVIL), None), ((400, "x", EVIL, EVIL), None), ((), ("/x",))])
def test_nothing_of_a_page_runs_is_kept_or_comes_from_elsewhere(page, shown, wanted):
    _, headers, reader, body = page(*shown, wanted=wanted)
    assert headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["connection"] == "close"
    assert headers["content-length"] == str(len(body))
    assert "set-cookie" not in headers and "server" not in headers
    assert set(reader.elements) == {"html", "head", "meta", "title", "style", "body", "h1", "p"}
    assert b"url(" not in body and b"@import" not in body


def test_foreign_texts_are_escaped(page):
    _, _, reader, body = page(400, "<b>weather</b>", EVIL)
    assert "<b>weather</b>" in reader.text
    assert "<script>alert(1)</script>\"'&<img src=x onerror=y> Set-Cookie: a=b" in reader.text
    assert b"<script" not in body and b"<img" not in body and b'"\'&' not in body


def test_a_long_text_is_cut(page):
    _, _, reader, body = page(400, "weather", "x" * (1 << 20))
    assert max(reader.text.split(), key=len) == "x" * 200
    assert len(body) < 2000


def test_a_refusal_reveals_nothing_about_the_login(page):
    status, headers, reader, _ = page(wanted=("/callback?code=c&state=other",))
    assert status == 400 and "allow" not in headers
    assert "Logging in" not in reader.text and "complete" not in reader.text
    with waiting() as there:
        assert there.knock(rawhttp.request("POST", "/callback", headers={"Host": f"127.0.0.1:{there.port}"})
                           ).headers["allow"] == "GET"
