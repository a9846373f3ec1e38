"""An MCP server beside a web application: real frameworks, on real WSGI servers, in processes of their own."""

import sys
from pathlib import Path

import pytest
import requests

import mcplite
from tests.support.processes import serving

HERE = Path(__file__).resolve().parent
WAITRESS = ["-m", "waitress", "--listen=127.0.0.1:PORT", "--threads=16"]


@pytest.fixture(params=["flask", "django", "wsgiref"])
def site(request):
    """The URL of an application's own page; the MCP server is at ``/mcp`` below it."""
    command = {"flask": [*WAITRESS, "flask_app:application"], "django": [*WAITRESS, "django_app:application"],
               "wsgiref": ["wsgiref_app.py", "PORT"]}[request.param]
    with serving([sys.executable, *command], HERE) as url:
        yield url


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_application_and_the_server_share_a_process(site, revision):
    assert requests.get(site).text == "tea costs 3"
    assert requests.get(site + "elsewhere").status_code == 404
    with mcplite.connect(site + "mcp", revision=revision, elicitation_handler=lambda request: True) as client:
        assert [tool.name for tool in client.list_tools()] == ["price", "order"]
        assert client.call_tool("price", {"article": "coffee"}).text == "6"
        assert client.call_tool("order", {"article": "tea"}).text == "tea: accept"
        assert requests.get(site).text == "tea costs 3"
    with mcplite.connect(site + "mcp", revision=revision, elicitation_handler=lambda request: False) as client:
        assert client.call_tool("order", {"article": "tea"}).text == "tea: decline"


def test_foreign_hosts_and_origins_are_refused_in_frameworks(site):
    refused = requests.post(site + "mcp", json={}, headers={"Origin": "https://evil.example"})
    assert refused.status_code == 403 and "allowed_origins" in refused.text
    refused = requests.post(site + "mcp", json={}, headers={"Host": "evil.example"})
    # Django refuses on its own pages only; the server below it looks for itself.
    assert refused.status_code == 421 and "allowed_hosts" in refused.text
