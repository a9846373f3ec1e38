"""Requests to authorization servers: accepted responses, time limits, and what is never sent."""

import base64

import pytest

from mcplite.auth.verify import fetch
from mcplite.auth.verify.fetch import FetchError, fetch_json
from tests.support.processes import free_port
from tests.support.webscript import WebScript

SECRET = "a-secret-that-must-not-be-shown"


def play(said):
    return WebScript(lambda request, answer: said(answer))


def failing(said, **options):
    with play(said) as script:
        with pytest.raises(FetchError) as raised:
            fetch_json(script.origin + "/x", "the thing", **options)
    assert "the thing" in str(raised.value)
    return str(raised.value)


def test_get_and_post():
    with play(lambda answer: answer.json({"a": 1})) as script:
        assert fetch_json(script.origin + "/x", "it") == (200, {"a": 1})
        assert fetch_json(script.origin + "/x", "it", {"token": "t&=", "b": "c"}, ("me", SECRET)) == (200, {"a": 1})
    got, posted = script.requests
    assert (got.method, got.body, got.headers["accept-encoding"]) == ("GET", b"", "identity")
    assert "authorization" not in got.headers
    assert (posted.method, posted.body) == ("POST", b"token=t%26%3D&b=c")
    assert base64.b64decode(posted.headers["authorization"].split()[1]).decode() == f"me:{SECRET}"


def test_credentials_of_netrc_are_not_sent(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with play(lambda answer: answer.json({})) as script:
        fetch_json(script.origin + "/x", "it")
    assert "authorization" not in script.requests[0].headers


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_the_body_of_an_error_is_not_read(status):
    with play(lambda answer: answer.status(status, "x" * 100)) as script:
        assert fetch_json(script.origin + "/x", "it") == (status, None)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status):
    # AUTH-07, AUTH-38
    with play(lambda answer: answer.json({"elsewhere": True})) as other:
        assert "redirects" in failing(lambda answer: answer.status(status, Location=other.url), form={"token": SECRET})
    assert other.requests == []


def test_large_responses_are_refused():
    text = failing(lambda answer: answer.status(200, b'"' + b"x" * (1 << 20) + b'"'))
    assert "more than 1048576 bytes" in text


@pytest.mark.parametrize("body", [b"<html>", b"", b"\xff", b"[" * 100_000, b"{"])
def test_responses_that_are_not_json_are_refused(body):
    assert "not JSON" in failing(lambda answer: answer.status(200, body))


def test_compressed_responses_are_refused():
    assert "compressed" in failing(lambda answer: answer.status(200, b"x", Content_Encoding="gzip"))


@pytest.mark.parametrize("slowly", [
    lambda answer: answer.hold(),
    lambda answer: (answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1"), answer.hold()),
    lambda answer: (answer.raw(b"HTTP/1.1 200 OK\r\nX: "), answer.hold()),
])
def test_the_whole_exchange_has_a_time_limit(monkeypatch, slowly):
    # AUTH-07; the timeout of one read is longer, so this is the limit of the whole exchange
    monkeypatch.setattr(fetch, "_SECONDS", 0.2)
    assert "did not answer within 0.2 s" in failing(slowly)


def test_a_response_byte_by_byte_ends_in_time(monkeypatch):
    monkeypatch.setattr(fetch, "_SECONDS", 0.3)

    def drip(answer):
        answer.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not answer._closing.wait(0.02):
            answer.raw(b"1\r\n \r\n")

    assert "did not answer within" in failing(drip)


def test_connection_errors():
    port = free_port()
    with pytest.raises(FetchError, match="ConnectionRefusedError") as raised:
        fetch_json(f"http://127.0.0.1:{port}/x", "the thing", {"token": SECRET}, ("me", SECRET))
    assert SECRET not in str(raised.value)
    assert "could not be fetched" in failing(lambda answer: answer.cut(), form={"token": SECRET})


@pytest.mark.parametrize("url", ["http://login.example/x", "ftp://login.example", "file:///etc/passwd",
                                 "https://user@login.example/x", "x"])
def test_only_https_and_loopback_are_fetched(url):
    with pytest.raises(FetchError, match="the thing"):
        fetch_json(url, "the thing")
