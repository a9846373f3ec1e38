"""Our client logs in at the authorization servers of the official SDK for Python and of FastMCP."""

import time

import pytest
import requests

import mcplite
from tests.interop.authorization.conftest import HERE

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
REDIRECT = "http://127.0.0.1:8765/callback"
ENVIRONMENTS = {"mcp1": "official", "mcp2": "official", "fastmcp4": "fastmcp"}
#: None for the newest one that both know.
REVISIONS = ["2025-11-25", None]


@pytest.fixture(params=list(ENVIRONMENTS))
def start(request, installed, running):
    """``start(*scopes, port=0, clients=())``: the server, as a process."""

    def start(*scopes, port=0, clients=()):
        script = [installed.python(request.param), str(HERE / "python_server.py"), ENVIRONMENTS[request.param]]
        return running([*script, str(port), ",".join(scopes) or "none", *clients], ours=False)

    return start


class Visitor:
    """A user who agrees; ``pages`` has what each page said: "code", or an error."""

    def __init__(self):
        self.pages = []

    def __call__(self, url):
        answer = requests.get(url, allow_redirects=False, timeout=60)
        back = answer.headers.get("Location", "")
        self.pages.append(back.partition("error=")[2].partition("&")[0] or "code" if back else str(answer.status_code))
        if not back:
            raise mcplite.errors.AuthError("the user has closed the page")
        return back


@pytest.fixture
def visitor():
    return Visitor()


def oauth(visitor, store, **options):
    return mcplite.OAuth(ask=visitor, redirect_uri=REDIRECT, store=store, **options)


def call(server, auth, revision=None):
    with mcplite.connect(server.url, auth=auth, revision=revision) as client:
        assert [tool.name for tool in client.list_tools()] == ["whoami"]
        return client.call_tool("whoami").text


def expire(store, server):
    key = f"token {server.url}"
    store.save(key, {**store.load(key), "expires_at": time.time() - 5})
    return store.load(key)["access_token"]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("registered, pages", [
    ((), ["invalid_scope", "code"]), (("read",), ["code"]), (("write",), ["invalid_scope", "code"]),
    (("read", "write"), ["code"]),
])
def test_from_the_login_to_the_logout(start, visitor, revision, registered, pages):
    server, store = start(*registered), mcplite.auth.MemoryStore()
    assert call(server, oauth(visitor, store), revision) == "read"
    assert visitor.pages == pages
    for _ in range(2):  # a refresh token is used once there
        old = expire(store, server)
        assert call(server, oauth(visitor, store), revision) == "read"
        assert store.load(f"token {server.url}")["access_token"] != old
    revoked = store.load(f"token {server.url}")["access_token"]
    assert oauth(visitor, store).logout(server.url) is True
    assert visitor.pages == pages
    with pytest.raises(mcplite.errors.AuthError, match="401"):
        call(server, revoked)
    assert call(server, oauth(visitor, store), revision) == "read"
    assert visitor.pages == [*pages, "code"]


def test_more_scopes_are_registered_when_they_are_asked_for(start, visitor):
    server, store = start(), mcplite.auth.MemoryStore()
    assert call(server, oauth(visitor, store)) == "read"
    store.delete(f"token {server.url}")
    assert call(server, oauth(visitor, store, scopes="read write")) == "read write"
    assert visitor.pages == ["invalid_scope", "code"] * 2


def test_a_server_that_has_forgotten_its_clients_registers_them_again(start, visitor):
    server, store = start("read"), mcplite.auth.MemoryStore()
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    assert call(server, oauth(visitor, store)) == "read"
    first = store.load(f"token {server.url}")["client"]["client_id"]
    server.end()
    server = start("read", port=port)
    assert call(server, oauth(visitor, store)) == "read"
    second = store.load(f"token {server.url}")["client"]["client_id"]
    assert visitor.pages == ["code"] * 2 and first != second
    server.end()
    server = start("read", port=port)
    with pytest.raises(mcplite.errors.AuthError, match="did not revoke"):
        oauth(visitor, store).logout(server.url)
    assert call(server, oauth(visitor, store)) == "read"
    assert visitor.pages == ["code"] * 3
    assert oauth(visitor, store).logout(server.url) is True
    server.end()
    server = start("read", port=port)
    # With nothing but a registration, only the page shows that it is not known; the next login has another.
    with pytest.raises(mcplite.errors.AuthError, match="closed the page"):
        call(server, oauth(visitor, store))
    assert call(server, oauth(visitor, store)) == "read"
    assert visitor.pages == [*["code"] * 3, "400", "code"]


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_client_that_was_registered_by_hand(start, visitor, method):
    server, store = start(clients=[f"by-hand:s3cret-s3cret:{method}"]), mcplite.auth.MemoryStore()
    issuer = mcplite.auth.find_authorization(server.url).issuers[0]
    known = {"client_id": "by-hand", "issuer": issuer}
    assert call(server, oauth(visitor, store, client_secret="s3cret-s3cret", **known)) == "read"
    expire(store, server)
    assert call(server, oauth(visitor, store, client_secret="s3cret-s3cret", **known)) == "read"
    assert visitor.pages == ["code"] and store.keys() == [f"token {server.url}"]
    with pytest.raises(mcplite.errors.AuthError, match="invalid_client|unauthorized_client") as caught:
        call(server, oauth(visitor, mcplite.auth.MemoryStore(), client_secret="another-s3cret", **known))
    assert "s3cret" not in str(caught.value)
