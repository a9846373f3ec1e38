"""Calls over HTTP: the origin, redirects, time, cancellation, limits, and the session of the user."""

import gzip
import threading
import zlib

import pytest
import requests

import mcplite
from mcplite.errors import RegistrationError
from mcplite.openapi import OpenAPIProvider, from_openapi

from .conftest import API, document

SPEC = document({"/x": {"get": {"operationId": "read"}, "post": {"operationId": "write"}}})


@pytest.fixture
def other():
    made = API()
    yield made
    made.close()


@pytest.mark.parametrize("tool, status, followed", [
    ("read", 302, True), ("read", 307, True), ("write", 307, True), ("write", 308, True), ("write", 302, False),
    ("write", 303, False)])
def test_a_redirect_within_the_origin_is_followed_if_it_keeps_the_method(connected, api, tool, status, followed):
    api.answer = lambda request: (status, {"Location": "/y?a=1"}, b"") if request.path == "/x" else {"here": True}
    result = connected(SPEC).call_tool(tool)
    assert [request.target for request in api.requests] == (["/x", "/y?a=1"] if followed else ["/x"])
    assert result.structured_content == {"here": True} if followed else "/y?a=1" in result.text


def test_a_redirect_to_another_origin_or_to_nothing_is_not_followed(connected, api, other):
    client = connected(SPEC, headers={"Authorization": "Bearer secret"})
    for target in (other.url + "/steal", "http://["):
        api.answer = lambda request: (302, {"Location": target}, b"")
        assert client.call_tool("read").text == f"302 Found: {target}" and other.requests == []


def test_redirects_in_a_circle_end(connected, api):
    api.answer = lambda request: (302, {"Location": "/x"}, b"")
    assert "circle" in connected(SPEC).call_tool("read").text and len(api.requests) == 5


def test_operations_of_other_servers_are_left_out(api, other, caplog):
    paths = {"/a": {"get": {"operationId": "a"}, "put": {"operationId": "b", "servers": [{"url": other.url}]},
                    "post": {"operationId": "c", "servers": [{"url": "/v2"}]}},
             "/d": {"servers": [{"url": api.url + "/v3"}], "get": {"operationId": "d"}}}
    with mcplite.connect(from_openapi(document(paths, servers=[{"url": api.url + "/v1"}]))) as client:
        assert [tool.name for tool in client.list_tools()] == ["a", "c", "d"]
        for name in "acd":
            client.call_tool(name)
    assert [request.path for request in api.requests] == ["/v1/a", "/v2/a", "/v3/d"]
    assert "another origin" in caplog.text
    OpenAPIProvider(document(paths), base_url=api.url, include="/e")
    assert "include='/e' chooses none" in caplog.text


def test_the_server_of_the_document_stands_for_the_base_url(connected, api):
    paths = {"/a": {"servers": [{"url": "https://a.example/v1"}], "get": {"operationId": "same"},
                    "put": {"operationId": "own", "servers": [{"url": "https://a.example/v2"}]}}}
    client = connected(document(paths, servers=[{"url": "https://a.example/v1"}]), base_url=api.url + "/test")
    client.call_tool("same")
    client.call_tool("own")
    assert [request.path for request in api.requests] == ["/test/a", "/v2/a"]


def test_a_response_that_takes_too_long(connected, api):
    release = threading.Event()
    api.answer = lambda request: release.wait(30)
    try:
        result = connected(SPEC, timeout=0.3).call_tool("write")
    finally:
        release.set()
    assert result.is_error and "did not answer within 0.3 s; it may have done" in result.text


def test_a_call_that_is_cancelled_ends_its_request(connected, api):
    reached, release = threading.Event(), threading.Event()

    def answer(request):
        reached.set()
        release.wait(30)
        return {}

    api.answer = answer
    client = connected(SPEC)
    token = mcplite.CancelToken()
    failed = []

    def run():
        try:
            client.call_tool("read", cancel=token)
        except mcplite.errors.Cancelled as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert reached.wait(10)
        token.cancel("enough")
        thread.join(10)
        assert not thread.is_alive() and failed
    finally:
        release.set()
        thread.join()


def test_a_response_that_is_too_large(connected, api):
    api.answer = lambda request: (200, {"Content-Type": "text/plain"}, b"x" * 2000)
    assert "more than 1000 bytes" in connected(SPEC, response_bytes=1000).call_tool("read").text


def two_parts(data):
    return gzip.compress(data[:10]) + gzip.compress(data[10:])


@pytest.mark.parametrize("coding, pack", [("gzip", gzip.compress), ("deflate", zlib.compress), ("gzip", two_parts)])
def test_a_response_that_is_compressed_although_that_was_not_asked_for(connected, api, coding, pack):
    api.answer = lambda request: (200, {"Content-Type": "text/plain", "Content-Encoding": coding}, pack(b"x" * 5000))
    assert connected(SPEC).call_tool("read").text == "x" * 5000
    assert api.last.headers["accept-encoding"] == "identity"


def test_a_compressed_response_does_not_grow_beyond_the_limit(connected, api):
    api.answer = lambda request: (200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 10_000_000))
    assert "more than 1000 bytes" in connected(SPEC, response_bytes=1000).call_tool("read").text


@pytest.mark.parametrize("coding, body, words", [
    ("gzip", b"no such thing", "broken"), ("br", b"no such thing", "compressed by 'br'"),
    ("gzip", gzip.compress(b"x" * 500, mtime=0)[:-9], "broken: it ends too early"),
    ("gzip", gzip.compress(b"x", mtime=0) + b"y", "broken")])
def test_a_compressed_response_that_cannot_be_read(connected, api, coding, body, words):
    api.answer = lambda request: (200, {"Content-Encoding": coding}, body)
    assert words in connected(SPEC).call_tool("read").text


def test_a_server_that_is_not_there(api):
    api.close()
    with mcplite.connect(from_openapi(SPEC, base_url=api.url)) as client:
        assert "cannot reach" in client.call_tool("read").text
    api.__init__()


def test_the_session_of_the_user_sends_each_request(connected, api):
    class Session(requests.Session):
        sent = []

        def request(self, method, url, **options):
            self.sent.append((method, url))
            return super().request(method, url, **options)

    with Session() as session:
        session.headers["X-Session"] = "mine"
        session.auth = ("ada", "pw")
        session.params = {"key": "k"}
        client = connected(SPEC, session=session)
        assert client.call_tool("read").structured_content == {"ok": True}
        client.call_tool("write")
    assert Session.sent == [("GET", api.url + "/x"), ("POST", api.url + "/x")]
    assert api.last.headers["x-session"] == "mine" and api.last.headers["authorization"].startswith("Basic ")
    assert api.last.query == "key=k"


def test_a_document_that_is_loaded(api):
    files = {"/docs/api.json": document({"/x": {"get": {"operationId": "read", "parameters": [{"$ref": "more.json#/Q"}]}}},
                                        servers=[{"url": "/v1"}]),
             "/docs/more.json": {"Q": {"name": "q", "in": "query", "schema": {"type": "string"}}}}
    api.answer = lambda request: files.get(request.path, {"ok": True})
    with mcplite.connect(from_openapi(api.url + "/docs/api.json")) as client:
        client.call_tool("read", {"q": "x"})
    assert [request.target for request in api.requests] == ["/docs/api.json", "/docs/more.json", "/v1/x?q=x"]


@pytest.mark.parametrize("answer, words", [
    ((404, {}, b"no"), "404"), ((200, {}, b"<html>"), "OpenAPI|YAML"),
    ((302, {"Location": "https://b.example/"}, b""), "b.example")])
def test_a_document_that_cannot_be_loaded(api, answer, words):
    api.answer = lambda request: answer
    with pytest.raises(RegistrationError, match=words):
        from_openapi(api.url + "/api.json")


@pytest.mark.parametrize("options, words", [
    ({}, "give base_url="), ({"base_url": "ftp://x"}, "give base_url="), ({"base_url": "http://"}, "base_url="),
    ({"base_url": "http://["}, "give base_url="), ({"base_url": "http://{host}"}, "give base_url="),
    ({"base_url": "http://x", "response_bytes": "1"}, "response_bytes="), ({"base_url": "http://x", "headers": 5}, "headers="),
    ({"base_url": "http://x", "timeout": 0}, "timeout="), ({"base_url": "http://x", "output_schemas": "all"}, "output_schemas"),
    ({"base_url": "http://x", "session": requests.Session(), "application": print}, "one of them")])
def test_options_that_cannot_be_used(options, words):
    with pytest.raises(RegistrationError, match=words):
        OpenAPIProvider(SPEC, **options)


@pytest.mark.parametrize("head, url", [
    ({"servers": [{"url": "{scheme}://{host}/v1",
                   "variables": {"scheme": {"default": "https"}, "host": {"default": "a.example"}}}]}, "https://a.example/v1"),
    ({"swagger": "2.0", "host": "a.example", "basePath": "/v2", "schemes": ["http"]}, "http://a.example/v2"),
    ({"swagger": "2.0", "host": "a.example", "schemes": ["http", "https"]}, "https://a.example"),
    ({"servers": [{"url": "http://a.example/{b}", "variables": {"b": 5}}]}, "http://a.example/{b}"),
])
def test_the_server_of_the_document(head, url):
    spec = {**document({}), **head}
    if "swagger" in head:
        del spec["openapi"]
    assert OpenAPIProvider(spec)._calls.base_url == url


def test_cookies_of_the_program_and_of_an_argument_are_sent_together(connected, api):
    parameters = [{"name": "lang", "in": "cookie", "schema": {"type": "string"}}]
    client = connected(document({"/x": {"get": {"operationId": "read", "parameters": parameters}}}),
                       headers={"cookie": "sid=1"})
    for arguments, cookie in (({}, "sid=1"), ({"lang": "de"}, "sid=1; lang=de")):
        client.call_tool("read", arguments)
        assert api.last.headers["cookie"] == cookie
