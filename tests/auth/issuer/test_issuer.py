"""A server that issues its own tokens: logins, calls, refreshes, revocation, and what clients are told."""

import contextlib
import http.server
import io
import json
import threading
from urllib.parse import urlsplit

import pytest
import requests

import mcplite
from mcplite.auth import Issuer, MemoryStore, PasswordFile
from tests.support.issuers import REDIRECT, Clock, Person, RawClient, TestUsers, server_with, serving
from tests.support.processes import free_port
from tests.support.wsgi import serving_wsgi

pytest.importorskip("authlib")


@pytest.fixture
def issuer():
    with serving(clock=Clock()) as issuer:
        yield issuer


# --- our own client -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_our_client_logs_in_calls_refreshes_and_asks_for_more(issuer, revision):
    person, store = Person(), MemoryStore()
    auth = mcplite.OAuth(ask=mcplite.auth.Browser(open=person), store=store)
    with mcplite.connect(issuer.endpoint, auth=auth, revision=revision) as client:
        assert client.call_tool("hello").text == "ann ann@example.com notes"
        logins = len(person.pages)
        issuer._clock.ahead += 3601
        assert client.call_tool("hello").text.startswith("ann")
        assert len(person.pages) == logins  # it was refreshed
        assert client.call_tool("secret").text == "42"  # with a step up of the scopes, and another consent
    assert person.pages[-1].headers["location"].startswith("http://127.0.0.1:")


def test_a_client_of_2025_03_26_that_reads_no_metadata(issuer):
    # AUM: /authorize, /token and /register at the root of the server.
    client = RawClient(issuer)
    assert client.call(client.tokens(resource=None)["access_token"]) == "ann ann@example.com notes"


def test_a_user_who_does_not_agree(issuer):
    auth = mcplite.OAuth(ask=mcplite.auth.Browser(open=Person(decision="deny")), store=MemoryStore())
    with pytest.raises(mcplite.errors.AuthError, match="access_denied"), mcplite.connect(issuer.endpoint, auth=auth) as client:
        client.call_tool("hello")


def test_a_wrong_password_and_then_the_right_one(issuer):
    client, person = RawClient(issuer), Person(password="wrong")
    page = person.visit(client.request())
    assert page.status_code == 403 and "wrong" not in page.text.partition("<form")[2].partition("password")[2]
    person.password = "ann"
    page = person.submit(page, username="ann", password="ann")
    assert page.status_code == 303
    assert "code" in client.code(person)


# --- what clients are told ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [
    "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server/mcp"])
def test_the_metadata(issuer, path):
    answer = requests.get(issuer.url + path, headers={"Origin": "https://elsewhere.example"}, timeout=30)
    document = answer.json()
    assert answer.headers["access-control-allow-origin"] == "*"
    assert document["issuer"] == issuer.url and document["code_challenge_methods_supported"] == ["S256"]
    assert document["authorization_response_iss_parameter_supported"] is True
    assert document["scopes_supported"] == ["notes", "secret"]
    for name in ("authorization", "token", "registration", "revocation", "introspection"):
        assert document[f"{name}_endpoint"].startswith(issuer.url + "/")
    answer = requests.get(f"{issuer.url}/.well-known/oauth-protected-resource/mcp", timeout=30,
                          headers={"Origin": "https://elsewhere.example"})
    assert answer.headers["access-control-allow-origin"] == "*"
    resource = answer.json()
    assert resource["authorization_servers"] == [issuer.url] and resource["resource"] == issuer.endpoint


@pytest.fixture(params=["of the endpoint", "of a mount"])
def below(request):
    """An issuer whose URL has a path: it arrives with the requests, or a host takes it away."""
    port = free_port()
    issuer = Issuer(f"http://127.0.0.1:{port}/notes", users=TestUsers(), scopes="notes")
    issuer.endpoint = f"{issuer.url}/mcp"
    if request.param == "of the endpoint":
        with mcplite.serve(server_with(issuer), port=port, path="/notes/mcp"):
            yield issuer
        return
    with contextlib.closing(server_with(issuer).wsgi(path="/mcp")) as application:
        with serving_wsgi(mcplite.mount_wsgi(nothing, {"/notes": application}), port):
            yield issuer


def nothing(environ, start_response):
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return [b"nothing here"]


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
def test_an_issuer_whose_url_has_a_path(below, revision):
    person = Person()
    auth = mcplite.OAuth(ask=mcplite.auth.Browser(open=person), store=MemoryStore())
    with mcplite.connect(below.endpoint, auth=auth, revision=revision) as client:
        assert client.call_tool("hello").text == "ann ann@example.com notes"
    assert {urlsplit(page.url).path for page in person.pages} == {"/notes/authorize", "/notes/login", "/notes/consent"}
    assert 'name="grant"' in person.get(below.url + "/grants").text


def test_the_metadata_of_an_issuer_with_a_path_is_where_rfc_8414_says(below):
    origin = below.url[:-len("/notes")]
    for known in ("oauth-authorization-server", "openid-configuration"):
        document = requests.get(f"{origin}/.well-known/{known}/notes", timeout=30)
        assert document.status_code == 200 and document.json()["issuer"] == below.url
    assert requests.get(f"{origin}/.well-known/oauth-authorization-server/other", timeout=30).status_code == 404


def test_the_challenge_leads_to_the_metadata(issuer):
    answer = requests.post(issuer.endpoint, json={}, timeout=30)
    assert answer.status_code == 401
    assert f'resource_metadata="{issuer.url}/.well-known/oauth-protected-resource/mcp"' in answer.headers["www-authenticate"]


def test_web_pages_may_register_and_get_tokens_but_not_ask_about_them(issuer):
    page = {"Origin": "https://app.example"}
    asked = {**page, "Access-Control-Request-Method": "POST"}
    for path in ("/token", "/register", "/revoke"):
        answer = requests.options(issuer.url + path, headers=asked, timeout=30)
        assert answer.status_code == 204 and answer.headers["access-control-allow-origin"] == "*"
        answer = requests.post(issuer.url + path, data="{}", headers=page, timeout=30)
        assert answer.status_code == 400 and answer.headers["access-control-allow-origin"] == "*"
    for path in ("/introspect", "/login", "/consent", "/mcp"):
        assert requests.post(issuer.url + path, data="{}", headers=page, timeout=30).status_code == 403


# --- clients ------------------------------------------------------------------------------------------------------


def test_a_client_that_is_known_beforehand(issuer):
    given = [{"client_id": "desk", "client_secret": "s3cret-of-desk", "redirect_uris": [REDIRECT]}]
    with serving(clients=given, registration=False) as issuer:
        assert requests.post(f"{issuer.url}/register", json={"redirect_uris": [REDIRECT]}, timeout=30).status_code >= 400
        assert "registration_endpoint" not in requests.get(
            f"{issuer.url}/.well-known/oauth-authorization-server", timeout=30).json()
        client = RawClient.__new__(RawClient)
        client.url, client.redirect_uri, client.issuer = issuer.url, REDIRECT, issuer
        client.id, client.secret, client.verifier = "desk", "s3cret-of-desk", "v" * 50
        assert client.call(client.tokens()["access_token"]).startswith("ann")


@pytest.fixture
def document():
    """Serve the metadata document of a client; give the document, which a test can change, and its URL."""
    shown = {"client_name": "Desk", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none",
             "grant_types": ["authorization_code", "refresh_token"]}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(shown).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        shown["client_id"] = f"http://127.0.0.1:{server.server_port}/desk.json"
        yield shown
        server.shutdown()
        thread.join()


def test_a_client_with_a_metadata_document(issuer, document):
    client = RawClient(issuer)
    client.id = document["client_id"]
    person = Person(decision="deny")
    assert client.code(person)["error"] == "access_denied"
    assert urlsplit(client.id).netloc in next(page.text for page in person.pages if 'value="allow"' in page.text)
    tokens = client.tokens()
    assert client.call(tokens["access_token"]).startswith("ann")
    assert client.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize("changed", [
    {"client_id": "http://127.0.0.1/other.json"}, {"redirect_uris": []}, {"redirect_uris": ["javascript:alert(1)"]},
    {"token_endpoint_auth_method": "client_secret_post"}, {"client_name": "x" * 40_000},
])
def test_a_metadata_document_that_cannot_be_used(issuer, document, changed):
    client = RawClient(issuer)
    client.id = document["client_id"]
    document.update(changed)
    page = Person().visit(client.request())
    assert page.status_code == 400 and "location" not in page.headers


# --- tokens -------------------------------------------------------------------------------------------------------


# --- users --------------------------------------------------------------------------------------------------------


def test_a_user_grants_only_what_the_user_may(issuer):
    client = RawClient(issuer)
    tokens = client.tokens(Person("bob"), scope="notes secret")
    assert tokens["scope"] == "notes"
    assert client.call(tokens["access_token"], "secret") == "insufficient_scope"


def test_a_user_grants_what_a_scope_of_the_user_includes():
    with serving(TestUsers(mcplite.auth.User("eve", scopes=frozenset({"admin"}))), implies={"admin": ["notes"]}) as issuer:
        client = RawClient(issuer)
        tokens = client.tokens(Person("eve"), scope="notes secret")
        assert tokens["scope"] == "notes" and client.call(tokens["access_token"]).startswith("eve")
        tokens = client.refresh(tokens["refresh_token"]).json()
        assert tokens["scope"] == "notes" and client.call(tokens["access_token"]).startswith("eve")


def test_a_user_who_is_gone_or_has_less_or_is_not_known_at_present():
    users = TestUsers()
    with serving(users) as issuer:
        client = RawClient(issuer)
        tokens = client.tokens(scope="notes secret")
        users.away = True
        answer = client.refresh(tokens["refresh_token"])
        assert answer.status_code == 503 and answer.json()["error"] == "temporarily_unavailable"
        users.away = False
        users.known["ann"] = mcplite.auth.User("ann", scopes=frozenset({"notes"}))
        answer = client.refresh(tokens["refresh_token"]).json()
        assert answer["scope"] == "notes"
        del users.known["ann"]
        assert client.refresh(answer["refresh_token"]).json()["error"] == "invalid_grant"
        assert client.call(answer["access_token"]) == "refused"


def test_the_page_of_grants_ends_them(issuer):
    client, person = RawClient(issuer, client_name="Desk"), Person()
    tokens = client.tokens()
    page = person.get(f"{issuer.url}/grants")
    page = person.get(person.submit(page, username="ann", password="ann").headers["location"])
    assert "Desk" in page.text
    page = person.get(person.submit(page, decision="end").headers["location"])
    assert page.status_code == 200 and "Desk" not in page.text
    assert client.call(tokens["access_token"]) == "refused"
    assert 'name="password"' in person.get(person.submit(page, decision="logout").headers["location"]).text


# --- several processes, and options --------------------------------------------------------------------------------


def test_logins_outlive_the_process_with_sqlite(tmp_path):
    with serving(backend=f"sqlite:///{tmp_path / 'logins.db'}") as issuer:
        client = RawClient(issuer)
        tokens = client.tokens()
        port = int(issuer.url.rpartition(":")[2])
    stored = (tmp_path / "logins.db").read_bytes()
    assert tokens["access_token"].encode() not in stored and tokens["refresh_token"].partition(".")[2].encode() not in stored
    again = Issuer(f"http://127.0.0.1:{port}", users=TestUsers(), scopes="notes", backend=f"sqlite:///{tmp_path / 'logins.db'}")
    from tests.support.issuers import server_with

    with mcplite.serve(server_with(again), port=port):
        assert client.call(tokens["access_token"]).startswith("ann")
        assert client.refresh(tokens["refresh_token"]).status_code == 200
    again.close()


@pytest.mark.parametrize("options, says", [
    ({}, "needs users=.*or upstream="), ({"users": TestUsers(), "upstream": object()}, "not both"),
    ({"url": "http://notes.example", "users": TestUsers()}, "needs https"),
    ({"url": "https://notes.example/?a", "users": TestUsers()}, "leave out the query"),
    ({"users": TestUsers(), "access_seconds": 0}, "access_seconds= must be a positive number"),
    ({"users": TestUsers(), "scopes": "a\\b"}, "is not a scope"),
])
def test_wrong_options(options, says):
    with pytest.raises(ValueError, match=says):
        Issuer(options.pop("url", "https://notes.example"), **options)


def test_a_shared_backend_needs_keys(tmp_path):
    issuer = Issuer("https://notes.example", users=TestUsers(), backend="redis://127.0.0.1:1/0")
    with pytest.raises((ValueError, mcplite.MCPError), match="state_keys|redis"):
        mcplite.serve(mcplite.Server("n", auth=issuer), port=0)


@pytest.mark.parametrize("shared", [False, True])
def test_processes_that_share_nothing_are_told_at_the_first_login(tmp_path, shared, caplog):
    from tests.support.issuers import server_with

    backend = mcplite.extend.open_backend(f"sqlite:///{tmp_path / 'l.db'}" if shared else "memory:")
    issuer = Issuer("http://localhost", users=TestUsers(), backend=backend, state_keys=["k" * 40])
    status = []
    body = b"".join(server_with(issuer).wsgi()({
        "REQUEST_METHOD": "GET", "PATH_INFO": "/authorize", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
        "HTTP_HOST": "localhost", "wsgi.multiprocess": True, "wsgi.multithread": True, "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(), "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.errors": io.StringIO()},
        lambda line, headers, *rest: status.append(line)))
    backend.close()
    assert status[0][:3] == ("400" if shared else "500")
    assert ("backend='sqlite" in caplog.text) == (not shared) and (b"share no logins" in body) == (not shared)


def test_two_issuers_on_one_backend_know_nothing_of_each_other():
    backend = mcplite.extend.open_backend("memory:")
    with serving(backend=backend) as one, serving(backend=backend) as other:
        client = RawClient(one)
        tokens = client.tokens()
        assert requests.post(f"{other.url}/token", {
            "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": client.id},
            timeout=30).json()["error"] == "invalid_client"
        person = Person()
        page = person.get(f"{other.url}/grants")
        page = person.get(person.submit(page, username="ann", password="ann").headers["location"])
        assert 'name="grant"' not in page.text
        assert client.refresh(tokens["refresh_token"]).status_code == 200


def test_a_flood_of_logins_that_never_end_fills_no_store(issuer, monkeypatch):
    from mcplite.auth.issuer import client_registry

    monkeypatch.setitem(client_registry._MOST, "logins", (900, 3, 100))
    client = RawClient(issuer)
    said = [requests.get(client.request(), timeout=30) for _ in range(5)]
    assert [one.status_code for one in said] == [200, 200, 200, 429, 429] and 0 < int(said[4].headers["retry-after"]) <= 900
    issuer._clock.ahead += 900
    monkeypatch.setitem(client_registry._MOST, "logins", (900, 300, 2))  # of all addresses together
    assert [requests.get(client.request(), timeout=30).status_code for _ in range(3)] == [200, 200, 429]


def test_a_client_that_names_no_scope_gets_what_every_request_needs():
    for scopes, granted in (("notes", "notes"), ((), "")):
        with serving(scopes=scopes) as issuer:
            client = RawClient(issuer)
            tokens = client.tokens()
            assert tokens["scope"] == granted and client.call(tokens["access_token"]).startswith("ann")
            assert client.call(tokens["access_token"], "secret") == "insufficient_scope"
            assert client.call(client.tokens(scope="notes secret")["access_token"], "secret") == "42" or not scopes


def test_a_password_file(tmp_path):
    from mcplite.auth.issuer.users import change_user

    change_user(str(tmp_path / "users.txt"), "ann", "correct horse", new=True)
    with serving(PasswordFile(str(tmp_path / "users.txt"))) as issuer:
        client = RawClient(issuer)
        assert client.call(client.tokens(Person("ann", "correct horse"))["access_token"]).startswith("ann")


