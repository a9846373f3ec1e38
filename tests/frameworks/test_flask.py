"""``mcplite.contrib.flask`` with the real framework: under waitress and gunicorn, in processes of their own."""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

import mcplite
from tests.support.processes import serving

pytest.importorskip("flask_login", reason="flask-login is in the extra stack")

HERE = Path(__file__).resolve().parent
LIMIT = 60
HOSTS = {"waitress": ["-m", "waitress", "--listen=127.0.0.1:PORT", "--threads=16", "--channel-request-lookahead=1"]}
if os.name == "posix":
    HOSTS["gunicorn"] = ["-m", "gunicorn", "--bind=127.0.0.1:PORT", "--worker-class=gthread", "--threads=16", "--workers=1",
                         "--graceful-timeout=5"]
REVISIONS = ["2025-03-26", "2025-11-25", "2026-07-28"]


@pytest.fixture(scope="module", params=list(HOSTS))
def site(request):
    with serving([sys.executable, *HOSTS[request.param], "flask_site:app"], HERE) as url:
        yield url


@pytest.fixture(params=REVISIONS)
def revision(request):
    return request.param


@pytest.fixture
def connect(site, revision):
    def connect(**headers):
        headers = {"X-Call": "one", **{f"X-{name}": value for name, value in headers.items()}}
        return mcplite.connect(site + "mcp", revision=revision, headers=headers, timeout=LIMIT,
                               elicitation_handler=lambda request: True)

    return connect


def expected(site, user=None, **more):
    return {"app": "hello", "call": "one", "header": "one", "url": "/mcp", "home": site, "user": user, "row": 1, **more}


def data(result):
    return json.loads(result.raise_for_error().text)


def counts(site):
    return requests.get(site + "counts").json()


def test_handlers_use_the_context_of_flask(site, connect, revision):
    with connect(User="ada") as client:
        assert data(client.call_tool("plain")) == expected(site, "ada", json="tools/call")
        assert data(client.call_tool("on_a_worker")) == expected(site, "ada", principal="ada", environ="one")
    with connect() as client:
        assert data(client.call_tool("on_a_worker")) == expected(site, principal=None, environ="one")
    assert requests.get(site).text == "the site"


def test_handlers_that_stream_and_ask_keep_the_context(site, connect, revision):
    if revision < "2025-06":
        pytest.skip("this revision cannot ask")
    progress = []
    before = counts(site)
    with connect(User="ada") as client:
        found = client.call_tool("streams", {"steps": 5}, on_progress=progress.append)
        assert data(found) == ["one"] * 5 and len(progress) == 5
        assert data(client.call_tool("asks")) == {
            "before": expected(site, "ada"), "action": "accept", "after": expected(site, "ada")}
    after = counts(site)
    # Each handler has had one connection, although it asked in the middle, and it was closed.
    assert after["opened"] - before["opened"] == 2
    assert after["closed"] - before["closed"] == 2


def test_many_calls_at_once_have_a_context_each(site, revision):
    def call(number):
        with mcplite.connect(site + "mcp", revision=revision, headers={"X-Call": f"n{number}"}, timeout=LIMIT) as client:
            return client.call_tool("streams", {"steps": 3}).text

    with ThreadPoolExecutor(8) as threads:
        for number, text in enumerate(threads.map(call, range(16))):
            assert text == f'["n{number}","n{number}","n{number}"]'


def test_hooks_run_and_can_refuse(site, connect):
    before = counts(site)["before"]
    with connect() as client:
        client.call_tool("plain")
    assert counts(site)["before"] >= before + 2
    with pytest.raises(mcplite.errors.HTTPStatusError) as caught, connect(User="mallory"):
        pass
    assert caught.value.status == 403


def test_a_hook_may_have_read_the_body(connect):
    with connect(Early="yes") as client:
        assert not client.call_tool("plain").is_error


def test_a_session_belongs_to_the_user_that_opened_it(site):
    headers = {"X-Call": "one", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
    opened = requests.post(site + "mcp", json=opening, headers={**headers, "X-User": "ada"})
    headers["Mcp-Session-Id"] = opened.headers["Mcp-Session-Id"]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for user, status in (({"X-User": "ada"}, 200), ({"X-User": "eve"}, 404), ({}, 404)):
        assert requests.post(site + "mcp", json=ping, headers={**headers, **user}).status_code == status
    assert requests.delete(site + "mcp", headers={**headers, "X-User": "ada"}).status_code == 204


def test_cancelled_calls_and_chunked_bodies(site, connect, revision):
    if revision < "2025-06":
        pytest.skip("this revision cannot ask")
    token, waits = mcplite.CancelToken(), threading.Event()

    def ask(request):
        waits.set()
        token.cancel("enough")
        return None

    before = counts(site)
    with mcplite.connect(site + "mcp", revision=revision, headers={"X-Call": "one"}, timeout=LIMIT,
                         elicitation_handler=ask) as client:
        with pytest.raises(mcplite.Cancelled):
            client.call_tool("asks", cancel=token)
        assert waits.is_set()
        client.call_tool("plain").raise_for_error()
    ping = b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{' \
           b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "X-Call": "one",
               "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}
    for early in ({}, {"X-Early": "yes"}):
        answer = requests.post(site + "mcp", data=iter([ping[:9], ping[9:]]), headers={**headers, **early})
        assert answer.status_code == 200 and answer.json()["result"]["supportedVersions"], answer.text
    assert counts(site)["opened"] > before["opened"]


def test_a_server_on_a_blueprint_requires_its_tokens(site):
    refused = requests.post(site + "api/tools", json={})
    metadata = "http://localhost/api/tools/.well-known/oauth-protected-resource"
    assert refused.status_code == 401 and f'resource_metadata="{metadata}"' in refused.headers["WWW-Authenticate"]
    for path in ("api/tools/.well-known/oauth-protected-resource", ".well-known/oauth-protected-resource/api/tools"):
        assert requests.get(site + path).json()["resource"] == "http://localhost/api/tools", path
    with mcplite.connect(site + "api/tools", auth=mcplite.Bearer("the-token-of-ada"), headers={"X-Call": "one"}) as client:
        assert client.call_tool("who").text == "ada api /api/tools one"


def test_foreign_hosts_and_origins_are_refused(site):
    refused = requests.post(site + "mcp", json={}, headers={"Origin": "https://evil.example"})
    assert refused.status_code == 403 and "allowed_origins" in refused.text
    refused = requests.post(site + "mcp", json={}, headers={"Host": "evil.example"})
    assert refused.status_code == 421 and "allowed_hosts" in refused.text
