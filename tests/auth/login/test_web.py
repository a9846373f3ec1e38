"""Requests to authorization servers: what they may cost, where they may go, and what stays secret."""

import base64
import gzip
import json
import logging
import socket
import threading
from urllib.parse import parse_qs

import pytest

import mcplite
from mcplite.auth.login import web as web_module
from mcplite.auth.login.web import Answer, Web
from mcplite.net.exchange import Stopped
from mcplite.net.settings import HTTPSettings
from tests.support.webscript import WebScript

LIMIT = 30
WHAT = "the metadata of the test"
PUBLIC = "93.184.216.34"


class Pages(WebScript):
    """A web server of JSON documents, statuses and functions by path; what has none is answered with 404."""

    def __init__(self, **pages):
        super().__init__(self._page)
        self.pages = {f"/{name}": page for name, page in pages.items()}

    def _page(self, request, answer):
        page = self.pages.get(request.path, 404)
        if callable(page):
            page(request, answer)
        elif isinstance(page, int):
            answer.status(page, "the body, which is not to be quoted")
        else:
            answer.json(page)

    @property
    def asked(self):
        return [f"{request.method} {request.path}" for request in self.requests]


class Seconds:
    """A ``check`` that raises once ``over`` is set."""

    def __init__(self):
        self.over, self.calls = threading.Event(), 0

    def __call__(self):
        self.calls += 1
        if self.over.is_set():
            raise Stopped


def fetch(script, path="page", **options):
    with Web(script.url, **options) as web:
        return web.get(f"{script.origin}/{path}", WHAT)


def says(body, kind="application/json"):
    return lambda request, answer: answer.status(200, body, Content_Type=kind)


@pytest.fixture
def resolver(monkeypatch):
    """A function by which a test says what names mean; connections are refused and noted in ``resolver.met``."""
    real, names = socket.getaddrinfo, {}

    def lookup(host, port, *arguments, **options):
        host = host.decode("ascii") if isinstance(host, bytes) else host
        if host not in names:
            assert not any(letter in host for letter in "ghijklmnopqrstuvwyz"), f"{host} was looked up"
            return real(host, port, *arguments, **options)
        return [(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                for address in names[host]]

    def connect(self, address):
        resolver.met.append(address)
        raise ConnectionRefusedError("no connection is made here")

    def resolver(name, *addresses):
        names[name] = addresses

    resolver.met = []
    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setattr(socket.socket, "connect", connect)
    return resolver


# --- what comes back ---------------------------------------------------------------------------------

def test_a_json_object_is_returned():
    with Pages(page={"issuer": "x", "more": [1, None, "\u00fc"]}) as script:
        assert fetch(script) == {"issuer": "x", "more": [1, None, "\u00fc"]}
    headers = script.requests[0].headers
    assert (headers["accept"], headers["accept-encoding"]) == ("application/json", "identity")
    assert "authorization" not in headers and "cookie" not in headers


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 429, 499])
def test_a_status_of_4xx_is_none(status):
    with Pages(page=status) as script:
        assert fetch(script) is None


@pytest.mark.parametrize("status", [201, 203, 206, 300, 302, 304, 500, 502, 503, 599])
def test_another_status_is_an_error_that_does_not_quote_the_body(status):
    with Pages(page=lambda request, answer: answer.status(status, "" if status == 304 else "business")) as script:
        said = f"{WHAT}, {script.origin}/page, was answered with {status}"
        with pytest.raises(mcplite.errors.AuthError, match=said) as caught:
            fetch(script)
    assert "business" not in str(caught.value)


@pytest.mark.parametrize("body", [
    b"", b"<!doctype html><title>Hello</title>", b"[]", b'"text"', b"1", b"null", b'{"issuer": ', b"{} {}", b"\xff\xfe\xfd",
    b'{"a": "\xc3"}', b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", b"[" * 500_000, b'{"a":' * 100_000,
    b'{"a": ' + b"1" * 10_000 + b"}",
], ids=["empty", "HTML", "list", "string", "number", "null", "cut", "two objects", "bytes", "Latin-1", "deep list in an object",
        "deep list", "deep object", "long number"])
def test_a_body_that_is_not_a_json_object_is_an_error(body):
    with Pages(page=says(body, "text/html")) as script, pytest.raises(mcplite.errors.AuthError, match="is not a JSON object"):
        fetch(script)


def test_text_with_lone_surrogates_is_refused():
    # A lone surrogate has no bytes: as a scope or a client's id it would break the next request instead.
    for body in (b'{"scopes_supported": ["\\ud800"]}', b'{"\\udfff": 1}'):
        with Pages(page=says(body)) as script, pytest.raises(mcplite.errors.AuthError, match="is not a JSON object"):
            fetch(script)
    with Pages(page=says(b'{"name": "\\ud83d\\ude00"}')) as script:
        assert fetch(script) == {"name": "\U0001f600"}


# --- how much, how long -------------------------------------------------------------------------------


def test_a_longer_document_is_refused():
    with Pages(page={"a": "x" * (1 << 20)}) as script:
        with pytest.raises(mcplite.errors.AuthError, match=f"^{WHAT} could not be read.*1048576"):
            fetch(script)
        with Web(script.url) as web, pytest.raises(mcplite.errors.AuthError, match=f"^{WHAT} could not be read.*1048576"):
            web.post_json(f"{script.origin}/page", WHAT, {})


def test_an_endless_refusal_is_not_read():
    def endless(request, answer):
        answer.raw(b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not script.closing.is_set():
            answer.raw(b"10000\r\n" + b" " * 65_536 + b"\r\n")

    with Pages(page=endless) as script:
        assert fetch(script) is None


def test_a_compressed_document_is_refused():
    bomb = gzip.compress(b"{" + b" " * 5_000_000 + b"}")
    with Pages(page=lambda request, answer: answer.status(200, bomb, Content_Encoding="gzip")) as script:
        with pytest.raises(mcplite.errors.AuthError, match="could not be read.*compressed"):
            fetch(script)


def drip(first, piece):
    """Return what sends *first* and then a piece again and again."""
    def dripping(request, answer):
        answer.raw(first)
        while not dripping.closing.wait(0.02):
            answer.raw(piece)

    return dripping


@pytest.mark.parametrize("first, piece", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{", b" "),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"), (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    (b"HTTP/1.1 2", b"0"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n"), (b"", b""),
], ids=["body", "chunks", "headers", "status", "continue", "silence"])
@pytest.mark.slow
def test_an_answer_that_drips_is_given_up_in_time(monkeypatch, first, piece):
    monkeypatch.setattr(web_module, "_SECONDS", 0.3)
    page = drip(first, piece)
    with Pages(page=page) as script:
        page.closing = script.closing
        with pytest.raises(mcplite.errors.AuthError, match=rf"^{WHAT}, {script.origin}/page, was not answered within 0\.3 s"):
            fetch(script)


def test_the_time_limit_includes_all_redirects(monkeypatch):
    monkeypatch.setattr(web_module, "_SECONDS", 0.3)

    def on(request, answer):
        script.closing.wait(0.2)
        answer.status(302, Location="/page")

    with Pages(page=on) as script, pytest.raises(mcplite.errors.AuthError, match="was not answered|could not be reached"):
        fetch(script)
    assert len(script.requests) < 5


# --- giving up ---------------------------------------------------------------------------------------

def test_nothing_is_sent_when_the_caller_has_left():
    check = Seconds()
    check.over.set()
    with Pages(page={}) as script, pytest.raises(Stopped):
        fetch(script, check=check)
    assert script.requests == []


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-",
                                  b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"a'],
                         ids=["before", "headers", "body"])
def test_a_read_ends_when_the_caller_leaves(sent):
    check, closed = Seconds(), threading.Event()

    def page(request, answer):
        answer.raw(sent)
        check.over.set()
        try:
            assert answer._sock.recv(1) == b""
        except ConnectionError:
            pass  # it has closed with bytes unread
        closed.set()
        answer.cut()

    with Pages(page=page) as script:
        with pytest.raises(Stopped):
            fetch(script, check=check)
        assert closed.wait(LIMIT)


# --- where to -----------------------------------------------------------------------------------------

def test_redirects_within_the_origin_are_followed():
    with Pages(page=lambda request, answer: answer.status(302, Location="/other"), other={"a": 1}) as script:
        assert fetch(script) == {"a": 1}
    assert script.asked == ["GET /page", "GET /other"]


def test_no_redirect_leads_elsewhere():
    with Pages(page={"a": 1}) as other:
        for target in (f"{other.origin}/page", f"http://localhost:{other.port}/page", "https://127.0.0.1/page", "ftp://x/",
                       "file:///etc/passwd", "http://user@127.0.0.1:1/", "//evil.example/page"):
            with Pages(page=lambda request, answer: answer.status(307, Location=target)) as script:
                with pytest.raises(mcplite.errors.AuthError, match="redirects to another origin") as caught:
                    fetch(script)
                assert caught.value.status == 307
                with Web(script.url) as web, pytest.raises(mcplite.errors.AuthError, match="redirects to another origin"):
                    web.post_form(f"{script.origin}/page", WHAT, {"code": "s3cret"})
    assert other.requests == []


def test_a_redirect_makes_no_get_of_a_post():
    with Pages(page=lambda request, answer: answer.status(302, Location="/other"), other={}) as script:
        with Web(script.url) as web, pytest.raises(mcplite.errors.AuthError, match="redirect"):
            web.post_form(f"{script.origin}/page", WHAT, {"code": "s3cret"})
    assert script.asked == ["POST /page"]


@pytest.mark.parametrize("url", [
    "http://as.example/x", "http://127.0.0.1.evil.example/", "http://localhost./x", "http://0x7f.1/", "http://2130706433/",
    "ftp://as.example/", "https://user:s3cret@as.example/", "file:///etc/passwd", "https://", "as.example", "https://a b/",
])
def test_urls_that_may_not_be_used_are_not_requested(resolver, url):
    with Web("https://mcp.example/mcp") as web:
        for ask, *more in ((web.get,), (web.post_form, {}), (web.post_json, {})):
            with pytest.raises(mcplite.errors.AuthError, match=WHAT) as caught:
                ask(url, WHAT, *more)
            assert "s3cret" not in str(caught.value)
    assert resolver.met == []


@pytest.mark.parametrize("host", [".as.example", "a..example", "x" * 64 + ".example", "-", "...", "."])
def test_malformed_hosts_are_errors_of_ours(monkeypatch, host):
    real = socket.getaddrinfo

    def lookup(name, *arguments, **options):
        name.encode("idna")  # as the real one does first
        if name != "mcp.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(PUBLIC, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with Web("https://mcp.example/mcp") as web, pytest.raises(mcplite.errors.AuthError, match=WHAT):
        web.get(f"https://{host}/x", WHAT)


@pytest.mark.parametrize("host", [
    "10.0.0.1", "169.254.169.254", "127.0.0.1", "localhost", "[::1]", "[::ffff:10.0.0.1]", "[::ffff:a00:1]", "0x7f.1",
    "2130706433", "0x7f000001", "017700000001", "127.1", "0", "0.0.0.0", "[::]", "[64:ff9b::a00:1]", "[2002:a00:1::]",
    "[2001:0:a00:1::]", "[2606:4700::5efe:a00:1]", "[fe80::1]", "[fd00::1]", "100.64.0.1", "inner.example", "mixed.example",
])
def test_a_public_server_cannot_send_us_into_a_private_network(resolver, host):
    resolver("mcp.example", PUBLIC)
    resolver("localhost", "127.0.0.1")
    resolver("inner.example", "10.0.0.1")
    resolver("mixed.example", PUBLIC, "10.0.0.1")
    with Web("https://mcp.example/mcp") as web:
        with pytest.raises(mcplite.errors.AuthError, match="a private network, where a public server has nothing"):
            web.get(f"https://{host}/x", WHAT)
        with pytest.raises(mcplite.errors.AuthError, match="a private network") as caught:
            web.post_form(f"https://{host}:8443/x", WHAT, {"code": "s3cret"})
    assert resolver.met == []
    if host.endswith(".example"):
        assert "10.0.0.1" not in str(caught.value)  # the server must not learn what a name means in our network


def test_a_server_that_listens_at_one_of_its_addresses_is_found(monkeypatch):
    real = socket.getaddrinfo

    def lookup(host, port, *arguments, **options):
        if host == "localhost":  # as on most machines, where "::1" comes first
            return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
                    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        return real(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with Pages(page={"a": 1}) as script, Web(script.url) as web:
        assert web.get(f"http://localhost:{script.port}/page", WHAT) == {"a": 1}


def test_nothing_for_this_machine_goes_through_a_proxy_of_the_environment(monkeypatch):
    # AUTH-35: it needs no TLS as long as it stays here.
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Pages() as proxy, Pages(page={"a": 1}) as script:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
        with Web(script.url) as web:
            assert web.get(f"{script.origin}/page", WHAT) == {"a": 1}
            assert web.post_form(f"{script.origin}/page", WHAT, {"code": "c0de"}).document == {"a": 1}
    assert proxy.requests == []


@pytest.mark.parametrize("answer", [[PUBLIC, "10.0.0.1"], [PUBLIC, "127.0.0.1"], ["127.0.0.1"]],
                         ids=["mixed", "mixed here", "here"])
def test_a_name_that_also_leads_here_sends_nothing_to_this_machine(monkeypatch, answer):
    # AUTH-36: what was a public server is looked up once more, and has other addresses by then.
    real = socket.getaddrinfo

    def lookup(host, port, *arguments, **options):
        found = answer if host == "evil.example" else [host]
        return [info for address in found for info in real(address, port, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with Pages(page={}) as script, Web("https://evil.example/mcp") as web:
        with pytest.raises(mcplite.errors.AuthError, match="a private network"):
            web.post_json(f"{script.origin}/page", WHAT, {"a": 1})
        assert script.connections == 0


def test_a_proxy_is_used_where_one_is_given():
    with Pages() as proxy:
        proxy.pages["http://localhost:1/page"] = {"a": 1}
        with Web("http://localhost:1/mcp", HTTPSettings(proxies={"http": proxy.origin})) as web:
            assert web.get("http://localhost:1/page", WHAT) == {"a": 1}


def test_an_unreachable_server_is_an_error():
    with Pages() as script:
        url = f"{script.origin}/page"
    with Web(url) as web, pytest.raises(mcplite.errors.AuthError, match=f"{WHAT} could not be reached: cannot reach {url}"):
        web.get(url, WHAT)


# --- posting -----------------------------------------------------------------------------------------

def test_a_form_is_posted_without_the_fields_that_are_none():
    fields = {"grant_type": "x y", "code": "a&b=c/+\u00fc", "scope": None, "empty": ""}
    with Pages(page={"access_token": "t"}) as script, Web(script.url) as web:
        answer = web.post_form(f"{script.origin}/page", WHAT, fields, {"Authorization": "Basic eA=="})
    assert (answer.status, answer.document, answer.error) == (200, {"access_token": "t"}, "")
    request = script.requests[0]
    assert parse_qs(request.body.decode("ascii"), keep_blank_values=True) == {
        "grant_type": ["x y"], "code": ["a&b=c/+\u00fc"], "empty": [""]}
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert (request.headers["accept"], request.headers["authorization"]) == ("application/json", "Basic eA==")


def test_a_json_object_is_posted():
    said = b'{"client_id": "c"}'
    with Pages(page=lambda request, answer: answer.status(201, said)) as script, Web(script.url) as web:
        answer = web.post_json(f"{script.origin}/page", WHAT, {"client_name": "\u00fc"})
    assert (answer.status, answer.document) == (201, {"client_id": "c"})
    assert json.loads(script.requests[0].body) == {"client_name": "\u00fc"}
    assert script.requests[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 429, 500, 503])
@pytest.mark.parametrize("body", [b"", b"<html>no</html>", b"[1]",
                                  b'{"error": "invalid_grant", "error_description": "no\\nmore"}'])
def test_the_answer_to_a_post_is_returned_whatever_its_status(status, body):
    with Pages(page=lambda request, answer: answer.status(status, body)) as script, Web(script.url) as web:
        answer = web.post_form(f"{script.origin}/page", WHAT, {})
    assert answer.status == status
    if b"invalid_grant" in body:
        assert (answer.error, answer.explain()) == ("invalid_grant", "invalid_grant: no more")
    else:
        assert (answer.error, answer.document, answer.explain()) == ("", {}, f"status {status}")


@pytest.mark.parametrize("document, error, text", [
    ({"error": 5, "error_description": ["x"]}, "", "status 400"),
    ({"error": None, "error_description": "why"}, "", "why"),
    ({"error": "e" * 5000, "error_description": "d" * 5000}, "e" * 100, "e" * 100 + ": " + "d" * 200),
    ({"error": "invalid_client"}, "invalid_client", "invalid_client"),
])
def test_an_error_description_is_cut(document, error, text):
    answer = Answer(400, document, {})
    assert (answer.error, answer.explain()) == (error, text)


def test_an_error_description_has_no_control_characters():
    said = Answer(400, {"error": "x\x1b[2J\r\ny", "error_description": "\x1b]0;title\x07 \x9b2J \u2028z"}, {}).explain()
    assert said.isprintable() and said.startswith("x") and "title" in said and said.endswith("z")


# --- to the end --------------------------------------------------------------------------------------

def test_an_uninterrupted_request_completes_when_the_caller_leaves():
    check = Seconds()
    with Pages(page={"a": 1}) as script, Web(script.url, check=check) as web:
        check.over.set()
        with web.uninterrupted():
            assert web.get(f"{script.origin}/page", WHAT) == {"a": 1}
            assert web.post_form(f"{script.origin}/page", WHAT, {}).document == {"a": 1}
        with pytest.raises(Stopped):
            web.get(f"{script.origin}/page", WHAT)
        with pytest.raises(KeyError), web.uninterrupted():
            raise KeyError
        with pytest.raises(Stopped):
            web.get(f"{script.origin}/page", WHAT)
    assert len(script.requests) == 2


# --- secrets -----------------------------------------------------------------------------------------

def test_an_answer_shows_none_of_its_tokens():
    answer = Answer(200, {"access_token": "s3cret", "refresh_token": "s3cret"},
                    {"Set-Cookie": "s3cret", "DPoP-Nonce": "s3cret"})
    assert "s3cret" not in repr(answer) and "s3cret" not in str(answer) and "200" in repr(answer)


def test_no_secret_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    basic = "Basic " + base64.b64encode(b"me:s3cret").decode()
    with Pages(page={"access_token": "s3cret"}, broken=500, gone=lambda request, answer: answer.cut()) as script:
        with Web(script.url) as web:
            for page in ("page", "broken", "none"):
                web.post_form(f"{script.origin}/{page}", WHAT, {"code": "s3cret"}, {"Authorization": basic})
                web.post_json(f"{script.origin}/{page}", WHAT, {"client_secret": "s3cret"})
            with pytest.raises(mcplite.errors.AuthError) as caught:
                web.post_form(f"{script.origin}/gone", WHAT, {"code": "s3cret"}, {"Authorization": basic})
    for text in (caplog.text, str(caught.value), repr(caught.value), repr(web)):
        assert "s3cret" not in text and basic[6:] not in text


def test_no_query_is_in_an_error():
    with Pages(**{"page?key=s3cret": 500}) as script, Web(script.url) as web:
        with pytest.raises(mcplite.errors.AuthError) as caught:
            web.get(f"{script.origin}/page?key=s3cret", WHAT)
    assert "s3cret" not in str(caught.value)


def test_no_cookie_is_kept():
    with Pages(page=lambda request, answer: answer.status(200, b"{}", Set_Cookie="a=b")) as script:
        with Web(script.url) as web:
            for _ in range(2):
                web.get(f"{script.origin}/page", WHAT)
    assert "cookie" not in script.requests[1].headers


# --- what it passes on -----------------------------------------------------------------------------------


def test_an_error_description_repeats_no_secret():
    # AUTH-19
    def refuse(request, answer):
        answer.json({"error": "invalid_grant", "error_description": "no code of-mine for a-secret at scope-x"})

    fields = {"code": "of-mine", "client_secret": "a-secret", "scope": "scope-x", "refresh_token": None, "token": ""}
    with Pages(token=refuse) as script, Web(script.url) as web:
        answer = web.post_form(f"{script.origin}/token", WHAT, fields)
    assert answer.document["error_description"] == "no code *** for *** at scope-x"
    assert answer.explain() == "invalid_grant: no code *** for *** at scope-x"
    assert answer.headers["content-type"] == "application/json"


def test_where_the_server_was_met_and_what_the_caller_gave_count(resolver):
    resolver("server.example", "10.0.0.1")
    resolver("login.internal", "10.0.0.2")
    for options, admitted in (({}, True), ({"address": PUBLIC}, False),
                              ({"address": PUBLIC, "given": ["https://login.internal"]}, True)):
        with Web("https://server.example/mcp", **options) as web, pytest.raises(mcplite.errors.AuthError) as caught:
            web.get("https://login.internal/x", WHAT)
        assert ("private network" in str(caught.value)) is not admitted
