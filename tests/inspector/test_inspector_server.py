"""Who may use the page, what it can send, and that it ends."""

import pytest

from mcplite import Server
from mcplite.inspector import page_server
from mcplite.revisions import REVISIONS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files of a page."""
    (tmp_path / "index.html").write_text("<title>inspector</title>")
    (tmp_path / "page.js").write_text("1")
    (tmp_path / "notes.txt").write_text("no part of the page")
    monkeypatch.setattr(page_server, "_FOLDER", str(tmp_path))


def test_the_token_becomes_a_cookie_once(inspect, folder):
    page = inspect(it=Server("x"))
    answer = page.entered
    assert answer.status_code == 303 and answer.headers["Location"] == f"/#key={page.key}"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and str(page.inspector.port) in cookie
    assert page.get("/").text == "<title>inspector</title>"
    for token in ("wrong", "", page.inspector.url.rpartition("=")[2]):
        page.http.cookies.clear()
        assert page.get(f"/?token={token}", 401).json()["error"].startswith("open the address with the token")


def test_files_of_the_page_have_a_policy_and_nothing_beside_them_is_served(inspect, folder):
    page = inspect(it=Server("x"))
    answer = page.get("/page/page.js")
    assert answer.headers["Content-Type"].startswith("text/javascript")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and answer.headers["X-Content-Type-Options"] == "nosniff"
    for path in ("/page/notes.txt", "/page/none.js",
                 "/page/..%2finspector_server.py", "/page/", "/page/sub/page.js", "/x", "/api/x"):
        page.get(path, 200 if path == "/page/" else 404)


def test_the_state_names_servers_and_revisions(inspect):
    page = inspect(it=Server("x"))
    state = page.get("/api/state").json()
    assert [one["name"] for one in state["servers"]] == ["it"]
    assert state["revisions"] == [one.name for one in reversed(REVISIONS)]
    assert state["servers"][0]["transport"] == "memory"
