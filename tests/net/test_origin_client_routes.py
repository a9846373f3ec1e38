"""Which way requests go: over our own connections, or through requests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from requests.auth import HTTPDigestAuth

import mcplite
from mcplite.net.adapter_sender import AdapterSender
from mcplite.net.connections import DirectSender
from mcplite.net.origin_client import OriginClient
from mcplite.net.session_sender import SessionSender
from mcplite.net.settings import HTTPSettings
from mcplite.net.tokens import Bearer
from tests.support.names import named
from tests.support.webscript import WebScript

LIMIT = 30
URL = "http://inside.example/mcp"
ROOT = Path(mcplite.__file__).resolve().parent.parent


class Signed(Bearer):
    """A subclass may look at the whole request."""


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def way(url=URL, **options):
    client = OriginClient(url, HTTPSettings(**options))
    client.close()
    return type(client._sender)


@pytest.mark.parametrize("options", [
    {}, {"auth": "t"}, {"auth": Bearer("t")}, {"auth": ("me", "pw")}, {"auth": mcplite.OAuth()}, {"headers": {"A": "b"}},
    {"proxies": {"https": "http://proxy:1"}}, {"proxies": {}}, {"verify": False}], ids=str)
def test_over_our_own_connections(options):
    assert way("http://127.0.0.1:1/mcp", **options) is DirectSender
    if "proxies" not in options or not options["proxies"]:
        assert way("https://127.0.0.1:1/mcp", **options) is DirectSender


def test_another_tls_of_urllib3_is_left_to_it(monkeypatch):
    monkeypatch.setattr("urllib3.util.ssl_.IS_PYOPENSSL", True)
    assert way("https://inside.example/mcp") is AdapterSender
    assert way() is DirectSender


@pytest.mark.parametrize("options", [
    {"url": "https://inside.example/mcp", "proxies": {"https": "http://proxy:1"}},
    {"url": "https://inside.example/mcp", "auth": lambda request: request},
    {"auth": HTTPDigestAuth("me", "pw")}, {"auth": lambda request: request}, {"auth": Signed("t")},
    {"proxies": {"http": "http://proxy:1"}}, {"proxies": {"all": "http://proxy:1"}},
    {"proxies": {"http://inside.example": "http://proxy:1"}}], ids=named(None))
def test_through_requests(options):
    assert way(**options) is AdapterSender


def test_a_session_is_used_always():
    with requests.Session() as session:
        assert way(session=session) is SessionSender
        assert way("https://inside.example/mcp", session=session, auth="t") is SessionSender


@pytest.mark.parametrize("url", [URL, "https://inside.example/mcp"])
@pytest.mark.parametrize("options", [{}, {"auth": "t"}, {"proxies": {"http": "http://proxy:1"}}], ids=str)
def test_a_library_that_replaced_parts_of_requests_sees_the_requests(monkeypatch, url, options):
    monkeypatch.setattr(requests.Session, "send", lambda session, request, **options: None)
    assert way(url, **options) is SessionSender
    # Our connections go to the addresses that were checked, and to no others.
    client = OriginClient(url, HTTPSettings(**options), guard=lambda host, port: [])
    client.close()
    assert type(client._sender) is AdapterSender


@pytest.mark.parametrize("url", ["https://me:pw@inside.example/mcp", "http://me:pw@inside.example/mcp", "http://inside.example",
                                 "http://INSIDE.example/mcp", "http://inside.example/m%63p"])
def test_urls_that_requests_writes(url):
    assert way(url) is AdapterSender


@pytest.mark.parametrize("environment, expected", [
    ({"http_proxy": "http://proxy:1"}, AdapterSender), ({"HTTP_PROXY": "http://proxy:1"}, AdapterSender),
    ({"ALL_PROXY": "http://proxy:1"}, AdapterSender), ({"https_proxy": "http://proxy:1"}, DirectSender),
    ({"http_proxy": ""}, DirectSender), ({"no_proxy": "inside.example"}, DirectSender),
    ({"http_proxy": "http://proxy:1", "no_proxy": "inside.example"}, DirectSender),
    ({"http_proxy": "http://proxy:1", "NO_PROXY": ".example"}, DirectSender),
    ({"http_proxy": "http://proxy:1", "no_proxy": "*"}, DirectSender),
    ({"http_proxy": "http://proxy:1", "no_proxy": "other.example"}, AdapterSender)], ids=str)
def test_proxies_of_the_environment(monkeypatch, environment, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert way() is expected


def test_a_plain_url_loads_nothing_of_requests():
    code = ("import sys, mcplite\n"
            "with mcplite.connect(sys.argv[1], timeout=30) as client:\n"
            "    client.ping()\n"
            "heavy = set(sys.argv[2:])\n"
            "print(sorted(name for name in sys.modules if name in heavy or name.partition('.')[0] in heavy))\n")
    heavy = ["requests", "urllib3", "idna", "asyncio", "encodings.idna"]
    if os.name == "posix" and sys.platform != "darwin":
        heavy += ["http", "email", "ssl"]  # urllib.request, which reads the proxies of the other systems' settings, loads them
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with WebScript() as script:
        # Without site-packages, which may load modules of their own.
        ran = subprocess.run([sys.executable, "-S", "-c", code, script.url, *heavy], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=LIMIT, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"
