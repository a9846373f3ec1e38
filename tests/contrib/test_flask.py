"""The adapter for Flask in one process, with Flask's test client; ``tests/frameworks/test_flask.py`` has real servers."""

import json
from importlib.metadata import version

import flask
import pytest

import mcplite
from mcplite.contrib.flask import mount_mcp

OPENING = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


class Site:
    """A site with one server, and its client."""

    def __init__(self, config=(), options=(), path="/mcp"):
        self.mcp = mcplite.Server("site")
        self.closed = []

        @self.mcp.tool()
        def own(ctx: mcplite.Context) -> list:
            flask.g.opened_here = "by the handler"
            return [ctx.principal and ctx.principal.subject, flask.g.opened_before]

        @self.mcp.tool()
        def remote(ctx: mcplite.Context) -> list:
            return [ctx.http.remote]

        self.app = flask.Flask("site")
        self.app.config.update(config)
        self.app.before_request(self._open)
        self.app.teardown_appcontext(self._close)
        self.view = mount_mcp(self.app, self.mcp, path, **dict(options))
        self.path = path

    def _open(self):
        flask.g.opened_before = "by the hook"

    def _close(self, error):
        self.closed.append(sorted(flask.g))

    def post(self, message, **more):
        headers = {"Accept": "application/json, text/event-stream", **more.pop("headers", {})}
        return self.app.test_client().post(self.path, json=message, headers=headers, **more)

    def call(self, name, **more):
        session = {"Mcp-Session-Id": self.post(OPENING, **more).headers["Mcp-Session-Id"]}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        return json.loads(self.post(message, headers=session, **more).json["result"]["content"][0]["text"])


@pytest.fixture
def make():
    sites = []

    def make(**options):
        sites.append(Site(**options))
        return sites[-1]

    yield make
    for site in sites:
        site.mcp.close()


def test_what_a_hook_opens_belongs_to_the_request_and_what_a_handler_opens_to_the_handler(make):
    site = make()
    site.post(OPENING)
    del site.closed[:]
    assert site.call("own")[1] == "by the hook"
    # The handshake, the handler, and its request; each closes its own.
    assert site.closed == [["opened_before"], ["opened_here"], ["opened_before"]]


def test_the_user_of_the_host_or_of_a_callable_is_the_principal(make):
    assert make().call("own", environ_overrides={"REMOTE_USER": "ada"})[0] == "ada"
    assert make(options={"principal": lambda: flask.request.headers["Host"]}).call("own")[0] == "localhost"

    def refuse():
        flask.abort(401)

    assert make(options={"principal": refuse}).post(OPENING).status_code == 401


def test_a_trusted_proxy_tells_the_address_of_a_client(make):
    behind = {"environ_overrides": {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.1"}}
    assert make().call("remote", **behind) == ["10.0.0.1"]
    assert make(options={"trusted_proxies": ["10.0.0.0/8"]}).call("remote", **behind) == ["192.0.2.1"]


@pytest.mark.parametrize("config, options, base, status", [
    ({}, {}, "http://localhost", 200), ({}, {}, "http://shop.example", 421),
    ({}, {"allowed_hosts": ["shop.example"]}, "http://shop.example", 200),
    ({"TRUSTED_HOSTS": [".example"]}, {}, "http://shop.example", 200),
    ({"TRUSTED_HOSTS": [".example"]}, {}, "http://shop.test", 400),
    ({"TRUSTED_HOSTS": [".example"]}, {"allowed_hosts": ["other.example"]}, "http://shop.example", 421)])
def test_trusted_hosts(make, config, options, base, status):
    if config and version("flask").startswith("3.0."):
        pytest.skip("Flask has TRUSTED_HOSTS from 3.1 on")
    assert make(config=config, options=options).post(OPENING, base_url=base).status_code == status


def test_the_path_and_the_name_of_the_view(make):
    site = make(path="/tools/mcp")
    with site.app.test_request_context():
        assert flask.url_for("tools_mcp") == "/tools/mcp"
    assert make(path="/").post(OPENING).status_code == 200
    with pytest.raises(ValueError, match="must begin with a slash"):
        mount_mcp(site.app, site.mcp, "mcp")


def test_other_methods(make):
    site = make()
    client = site.app.test_client()
    assert client.put("/mcp").status_code == 405
    assert client.get("/mcp", headers={"Accept": "text/event-stream"}).status_code in (400, 405)
    session = site.post(OPENING).headers["Mcp-Session-Id"]
    ended = client.delete("/mcp", headers={"Mcp-Session-Id": session})
    assert ended.status_code == 204 and "Content-Type" not in ended.headers
