"""Who a client is at an authorization server: what it says of itself, what is kept of it, and for whom."""

import json
import logging

import pytest

import mcplite
from mcplite.auth.login.code_flow import check_document_url, client_metadata, find_registration, register
from mcplite.auth.login.discovery import AuthorizationServer
from mcplite.auth.login.stores import MemoryStore
from mcplite.auth.login.token_endpoint import ClientIdentity, choose_method
from mcplite.auth.login.web import Web
from tests.support.webscript import WebScript

REDIRECT = "http://127.0.0.1:8765/callback"
DOCUMENT = "https://app.example/client.json"


class Office(WebScript):
    """A registration endpoint that answers with ``status`` and ``said``."""

    status, said = 201, {"client_id": "c1"}

    def __init__(self):
        super().__init__(self._register)

    def _register(self, request, answer):
        said = self.said if isinstance(self.said, bytes) else json.dumps(self.said).encode()
        answer.status(self.status, said, Content_Type="application/json")

    def server(self, path="", **more):
        return AuthorizationServer(self.origin + path, f"{self.origin}/token",
                                   registration_endpoint=f"{self.origin}/register", **more)


@pytest.fixture
def office():
    with Office() as office:
        yield office


@pytest.fixture
def web(office):
    with Web(office.url) as web:
        yield web


@pytest.fixture
def store():
    return MemoryStore()


# --- what a client says -------------------------------------------------------------------------------

def test_a_client_metadata_document():
    document = client_metadata("Editor", [REDIRECT, "http://[::1]/callback"], url=DOCUMENT)
    assert (document["client_id"], document["client_name"], document["redirect_uris"]) == (
        DOCUMENT, "Editor", [REDIRECT, "http://[::1]/callback"])
    assert "scope" not in document and json.loads(json.dumps(document)) == document


@pytest.mark.parametrize("uris, kind", [
    ([REDIRECT], "native"), (["http://localhost/cb"], "native"), (["http://[::1]:1/cb"], "native"),
    (["com.example.app:/cb"], "native"), (["https://app.example/cb"], "web"), ([REDIRECT, "https://app.example/cb"], "web"),
    (["http://127.0.0.1.evil.example/cb"], "web"),
])
def test_the_application_type_follows_from_the_redirect_uris(uris, kind):
    assert client_metadata("x", uris)["application_type"] == kind
    assert client_metadata("x", uris, application_type="web")["application_type"] == "web"
    assert client_metadata("x", uris, application_type="native")["application_type"] == "native"


@pytest.mark.parametrize("url", [DOCUMENT, "https://app.example:8443/a/b?v=1", "https://app.example/a.b/..c"])
def test_urls_that_can_be_the_id_of_a_client(url):
    assert check_document_url(url) == url
    assert client_metadata("x", [REDIRECT], url=url)["client_id"] == url


@pytest.mark.parametrize("url", [
    "http://app.example/client.json", "http://localhost/client.json", "https://app.example", "https://app.example/",
    "https:///x", "https://app.example/x#y", "https://me@app.example/x", "https://app.example/a/../b",
    "https://app.example/./b", "https://app.example/a/..", "app.example/x", "", "ftp://app.example/x",
])
def test_urls_that_cannot_be_the_id_of_a_client(url):
    with pytest.raises(ValueError, match="client_metadata_url="):
        check_document_url(url)
    if url:
        with pytest.raises(ValueError, match="client_metadata_url="):
            client_metadata("x", [REDIRECT], url=url)


@pytest.mark.parametrize("supported, secret, method", [
    (["client_secret_basic"], True, "client_secret_basic"), (["client_secret_post"], True, "client_secret_post"),
    (["client_secret_post", "client_secret_basic", "none"], True, "client_secret_basic"),
    (["none", "client_secret_post"], True, "client_secret_post"), (["client_secret_basic", "none"], False, "none"),
    (["client_secret_post", "client_secret_basic"], False, "client_secret_post"),
    (["client_secret_basic", "client_secret_post"], False, "client_secret_post"),
    (["client_secret_basic"], False, "client_secret_basic"),
    (["client_secret_post"], False, "client_secret_post"),
])
def test_how_a_client_authenticates(supported, secret, method):
    assert choose_method(supported, secret, "https://as.example") == method


@pytest.mark.parametrize("supported, secret", [
    (["private_key_jwt"], True), (["tls_client_auth"], False), (["none"], True), ([], False), (["NONE"], False),
    (["x" * 10_000], True),
])
def test_a_server_without_a_supported_method(supported, secret):
    with pytest.raises(mcplite.errors.AuthError, match="https://as.example lets clients authenticate by .* only") as caught:
        choose_method(supported, secret, "https://as.example")
    assert "client_secret_basic" in str(caught.value) and len(str(caught.value)) < 500


# --- registering ---------------------------------------------------------------------------------------

def test_the_metadata_is_sent_unchanged(office, web, store):
    metadata = client_metadata("Editor", [REDIRECT])
    client = register(web, office.server(), metadata, store)
    request = office.requests[0]
    assert (request.method, request.path, request.message) == ("POST", "/register", metadata)
    assert request.headers["content-type"] == "application/json" and "authorization" not in request.headers
    assert client == ClientIdentity(office.origin, "c1", redirect_uris=[REDIRECT])
    assert len(office.requests) == 1


@pytest.mark.parametrize("status", [200, 201, 202, 203])
def test_the_registered_client(office, web, store, status):
    office.status, office.said = status, {
        "client_id": "c1", "client_secret": "s3cret", "token_endpoint_auth_method": "client_secret_post",
        "redirect_uris": [REDIRECT, 5], "client_secret_expires_at": 0, "registration_access_token": "s3cret",
        "unknown": [{}]}
    client = register(web, office.server(), client_metadata("Editor", [REDIRECT], method="client_secret_basic"), store)
    assert client == ClientIdentity(office.origin, "c1", "s3cret", "client_secret_post", [REDIRECT])
    assert not client.expired
    assert find_registration(store, office.origin, REDIRECT) == client


@pytest.mark.parametrize("said, secret, method", [
    ({}, None, "none"), ({"client_secret": ""}, None, "none"),
    ({"client_secret": "s"}, "s", "client_secret_basic"),
    ({"client_secret": "s", "token_endpoint_auth_method": None}, "s", "client_secret_basic"),
    ({"client_secret": "s", "token_endpoint_auth_method": ""}, "s", "client_secret_basic"),
    ({"client_secret": 5}, None, "none"),
    ({"token_endpoint_auth_method": "client_secret_basic"}, None, "none"),
    ({"token_endpoint_auth_method": None}, None, "none"),
    ({"token_endpoint_auth_method": "client_secret_basic", "client_secret": "s"}, "s", "client_secret_basic"),
    ({"token_endpoint_auth_method": "none", "client_secret": "s"}, "s", "none"),
])
def test_a_secret_is_used_as_it_was_registered(office, web, store, said, secret, method):
    office.said = {"client_id": "c1", **said}
    client = register(web, office.server(), client_metadata("x", [REDIRECT]), store)
    assert (client.secret, client.method) == (secret, method)


@pytest.mark.parametrize("methods, asked, method", [
    (["none", "client_secret_post"], "none", "client_secret_post"), (["none"], "none", "client_secret_basic"),
    (["none", "client_secret_post", "client_secret_basic"], "none", "client_secret_basic"),
    (["client_secret_post", "client_secret_basic"], "client_secret_post", "client_secret_post"),
])
def test_a_secret_without_a_method_is_used_as_the_server_can(office, web, store, methods, asked, method):
    office.said = {"client_id": "c1", "client_secret": "s"}
    client = register(web, office.server(methods=methods), client_metadata("x", [REDIRECT], method=asked), store)
    assert (client.secret, client.method, client.guessed) == ("s", method, True)
    assert find_registration(store, office.origin, REDIRECT) == client
    office.said["token_endpoint_auth_method"] = method
    named = register(web, office.server(methods=methods), client_metadata("x", [REDIRECT], method=asked), store)
    assert (named.method, named.guessed) == (method, None)


def test_scopes_that_are_refused_are_named(office, web, store):
    office.status, office.said = 400, {"error": "invalid_client_metadata", "error_description": "no such scope"}
    with pytest.raises(mcplite.errors.AuthError, match="no such scope; it was asked for the scopes read write: see scopes="):
        register(web, office.server(), client_metadata("x", [REDIRECT], scopes=["read", "write"]), store)


def test_a_huge_id_is_refused_and_not_kept(office, web, store):
    office.said = {"client_id": "c" * 4_000}
    assert register(web, office.server(), client_metadata("x", [REDIRECT]), store).client_id == "c" * 4_000
    store.delete(f"client {office.origin}")
    office.said = {"client_id": "c" * 200_000}
    with pytest.raises(mcplite.errors.AuthError, match="a client_id of 200000 characters") as caught:
        register(web, office.server(), client_metadata("x", [REDIRECT]), store)
    assert len(str(caught.value)) < 300 and store.keys() == []


@pytest.mark.parametrize("uris", [None, [], "x", [5], {"a": 1}])
def test_redirect_uris_default_to_the_requested_ones(office, web, store, uris):
    office.said = {"client_id": "c1", "redirect_uris": uris}
    assert register(web, office.server(), client_metadata("x", [REDIRECT]), store).redirect_uris == [REDIRECT]


@pytest.mark.parametrize("said", [{}, {"client_id": None}, {"client_id": ""}, {"client_id": 5}, [], b"<html>", b"",
                                  b'{"client_id": "\\ud800"}'])
def test_a_registration_without_an_id_is_an_error(office, web, store, said):
    office.said = said
    with pytest.raises(mcplite.errors.AuthError, match="answered a registration without a client_id"):
        register(web, office.server(), client_metadata("x", [REDIRECT]), store)
    assert store.keys() == []


@pytest.mark.parametrize("method", ["private_key_jwt", "tls_client_auth", 5, ["none"]])
def test_a_registration_for_an_unsupported_method_is_an_error(office, web, store, method):
    office.said = {"client_id": "c1", "token_endpoint_auth_method": method}
    with pytest.raises(mcplite.errors.AuthError, match="which it does not support"):
        register(web, office.server(), client_metadata("x", [REDIRECT]), store)
    assert store.keys() == []


@pytest.mark.parametrize("status, said, text, error", [
    (400, {"error": "invalid_redirect_uri", "error_description": "no  loop\nback"},
     f"invalid_redirect_uri: no loop back; it was asked for {REDIRECT}: see redirect_uri=", "invalid_redirect_uri"),
    (400, {"error": "invalid_client_metadata"}, "invalid_client_metadata; see client_name=, redirect_uri=",
     "invalid_client_metadata"),
    (403, {"error": "access_denied"}, "access_denied; it may want a client that was registered by hand: client_id=",
     "access_denied"),
    (401, b"", "status 401; it may want a client", ""), (404, b"<html>s3cret", "status 404; it may want", ""),
    (500, b"oops", "status 500; it may", ""),
    (200, {"error": "temporarily_unavailable"}, "temporarily_unavailable;", "temporarily_unavailable"),
    (201, {"client_id": "c1", "error": "x" * 5000}, "x" * 100 + ";", "x" * 100), (302, b"", "status 302", ""),
])
def test_a_refusal_says_why_and_what_to_try(office, web, store, status, said, text, error):
    office.status, office.said = status, said
    with pytest.raises(mcplite.errors.AuthError) as caught:
        register(web, office.server(), client_metadata("x", [REDIRECT]), store)
    assert f"{office.origin} did not register this client: {text}" in str(caught.value)
    assert caught.value.error == error and "s3cret" not in str(caught.value) and len(str(caught.value)) < 600
    assert store.keys() == [] and len(office.requests) == 1


def test_a_server_without_registration(office, web, store):
    server = AuthorizationServer("https://as.example", "https://as.example/token")
    with pytest.raises(mcplite.errors.AuthError, match="has no dynamic registration: .*issuer='https://as.example'"):
        register(web, server, client_metadata("x", [REDIRECT]), store)
    assert office.requests == []


# --- keeping -------------------------------------------------------------------------------------------

def test_each_issuer_has_a_registration_of_its_own(office, web, store):
    clients = {}
    for path in ("", "/a", "/a/", "/A"):
        office.said = {"client_id": f"c{path}", "client_secret": f"s{path}"}
        clients[path] = register(web, office.server(path), client_metadata("x", [REDIRECT]), store)
    for path, client in clients.items():
        assert find_registration(store, office.origin + path, REDIRECT) == client
        assert (client.issuer, client.client_id) == (office.origin + path, f"c{path}")
    assert find_registration(store, office.origin + "/b", None) is None
    store.delete(f"client {office.origin}/a")
    assert [path for path in clients if find_registration(store, office.origin + path, None) is not None] == ["", "/a/", "/A"]


def test_a_registration_holds_for_its_redirect_uris(office, web, store):
    office.said = {"client_id": "c1", "redirect_uris": [REDIRECT, "https://app.example/cb"]}
    client = register(web, office.server(), client_metadata("x", [REDIRECT]), store)
    for uri in (None, "https://app.example/cb"):
        assert find_registration(store, office.origin, uri) == client
    for other in ("http://127.0.0.1:8766/callback", f"{REDIRECT}/", "HTTP://127.0.0.1:8765/callback", ""):
        assert find_registration(store, office.origin, other) is None


@pytest.mark.parametrize("end", [b"0", b"-1", b"null", b'"soon"', b"true", b"[]", b"NaN", b"Infinity", b"-Infinity", b"1e400",
                                 b"1" + b"0" * 400, b"9" * 4000])
def test_a_malformed_expiry_is_ignored(office, web, store, end):
    office.said = b'{"client_id": "c1", "client_secret": "s", "client_secret_expires_at": ' + end + b"}"
    client = register(web, office.server(), client_metadata("x", [REDIRECT]), store)
    assert client.expires_at is None and not client.expired
    assert find_registration(store, office.origin, REDIRECT) == client


def test_a_record_of_another_version_is_ignored(store):
    for record in ({}, {"issuer": "https://as.example"}, {"issuer": "https://as.example", "client_id": "c", "new": 1},
                   {"issuer": "https://other.example", "client_id": "c"}):
        store.save("client https://as.example", record)
        assert find_registration(store, "https://as.example", None) is None


def test_a_registration_that_cannot_be_stored_is_an_error(office, web):
    class Full(MemoryStore):
        def save(self, key, record):
            raise mcplite.errors.AuthError("the disk is full")

    with pytest.raises(mcplite.errors.AuthError, match="the disk is full"):
        register(web, office.server(), client_metadata("x", [REDIRECT]), Full())


def test_no_secret_is_shown(office, web, store, caplog):
    caplog.set_level(logging.DEBUG)
    office.said = {"client_id": "c1", "client_secret": "s3cret", "registration_access_token": "s3cret"}
    client = register(web, office.server(), client_metadata("x", [REDIRECT], method="client_secret_basic"), store)
    assert client.secret == "s3cret"
    office.said = {"client_secret": "s3cret"}
    with pytest.raises(mcplite.errors.AuthError) as caught:
        register(web, office.server(), client_metadata("x", [REDIRECT]), store)
    for text in (repr(client), str(client), repr(store), caplog.text, str(caught.value), repr(caught.value)):
        assert "s3cret" not in text
