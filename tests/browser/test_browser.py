"""A real browser: pages of others cannot reach a server on this machine, a page that is let in can (HTTP-32 to HTTP-34)."""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest

import mcplite

PAGE = (Path(__file__).resolve().parent / "page.html").read_bytes()
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LIMIT = 60
pytestmark = [pytest.mark.interop,
              pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; tests/interop/install.sh installs it")]


class Site:
    """A web site on this machine that serves the page and takes its reports."""

    def __init__(self):
        self.reports = queue.Queue()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self._answer(PAGE if self.path.startswith("/?") else b"")

            def do_POST(self):
                site.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self._answer(b"")

            def _answer(self, body):
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join(LIMIT)
        self._server.server_close()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture
def visit(site, tmp_path):
    """Have the browser open the page under a host name; return what the page reports."""

    def visit(host, target, role):
        url = f"http://{host}:{site.port}/?" + urlencode({"target": target, "as": role})
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   "--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}",
                   "--host-resolver-rules=MAP *.example 127.0.0.1", url]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as browser:
            try:
                return site.reports.get(timeout=LIMIT)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(browser.pid, 9)

    return visit


@pytest.fixture
def acts():
    """What the server's tool has done."""
    return []


def serve(acts, **options):
    mcp = mcplite.Server("desk")

    @mcp.tool()
    def act(ctx: mcplite.Context) -> str:
        acts.append("acted")
        ctx.report_progress(1)
        return "done"

    return mcplite.serve(mcp, **options)


@pytest.mark.parametrize("page, name", [
    ("evil.example", "127.0.0.1"),         # another site's page, straight to this machine
    ("127.0.0.1", "127.0.0.1"),            # another server's page on this very machine
    ("evil.example", "rebound.example"),   # a name that suddenly means this machine
], ids=["another site", "another port", "rebound name"])
def test_a_foreign_page_cannot_reach_the_server(visit, acts, page, name):
    with serve(acts) as server:
        found = visit(page, f"http://{name}:{server.port}/mcp", "stranger")
        assert len(server.endpoint.sessions) == 0
    blocked = {"json": "TypeError", "stream": "TypeError", "end": "TypeError", "source": "error"}
    if page == "127.0.0.1":
        # A name of our own is no stranger's; still it may not read a thing, since it was not named.
        assert found.items() >= blocked.items()
    else:
        assert found.items() >= blocked.items()
    assert found["simple"] in ("opaque", "TypeError") and found["form"] in ("opaque", "TypeError")
    assert acts == []


def test_a_page_of_an_allowed_origin_can_use_the_server(visit, site, acts):
    with serve(acts, allowed_origins=[f"http://app.example:{site.port}"]) as server:
        found = visit("app.example", server.url, "friend")
    assert found == {"session": 200, "events": ["text/event-stream", True, True], "stream": 200, "end": 204}
    assert acts == ["acted"]


def test_a_page_of_an_origin_that_is_not_allowed_cannot_use_the_server(visit, site, acts):
    with serve(acts, allowed_origins=[f"http://app.example:{site.port}"]) as server:
        found = visit("evil.example", server.url, "friend")
        assert len(server.endpoint.sessions) == 0
    assert found["session"] == found["events"] == "TypeError"
    assert acts == []
