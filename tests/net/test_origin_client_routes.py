"""Which way requests go: over our own connections, or through requests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from requests.auth import HTTPDigestAuth

import mcplite
from mcplite.net.connection_pool import DirectSender
from mcplite.net.origin_client import OriginClient
from mcplite.net.session_sender import SessionSender
from mcplite.net.settings import Bearer, HTTPSettings
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


@pytest.mark.parametrize("options", [
    {"url": "https://inside.example/mcp", "auth": lambda request: request},
    {"auth": HTTPDigestAuth("me", "pw")}, {"auth": lambda request: request}, {"auth": Signed("t")},
    {"proxies": {"http": "socks5://proxy:1"}}, {"proxies": {"all": "SOCKS5H://proxy:1"}},
    {"url": "https://inside.example/mcp", "proxies": {"https": "https://proxy:1"}}], ids=named(None))
def test_through_requests(options):
    assert way(**options) is SessionSender


@pytest.mark.parametrize("proxies, proxy", [
    ({"http": "http://proxy:1"}, "http://proxy:1"), ({"all": "HTTP://proxy"}, "http://proxy"), ({"http": "proxy:1"}, "http://proxy:1"),
    ({"http://inside.example": "http://me:pw@[::1]:1/"}, "http://[::1]:1"), ({"http": "", "https": "http://proxy:1"}, None),
    ({"http://other.example": "http://proxy:1"}, None), ({"http": None}, None)], ids=str)
def test_through_a_proxy(proxies, proxy):
    client = OriginClient(URL, HTTPSettings(proxies=proxies))
    client.close()
    assert type(client._sender) is DirectSender
    assert (client._sender._proxy and client._sender._proxy.name) == proxy


@pytest.mark.parametrize("proxy", ["http://", "http://:3128", "http://proxy:x", "http://proxy:70000", "http://me:secret@:1"])
def test_a_proxy_that_is_no_url(proxy):
    with pytest.raises(ValueError, match="write the proxy as 'http://host:port', not ") as caught:
        way(proxies={"http": proxy})
    assert "secret" not in str(caught.value)


def test_a_session_is_used_always():
    with requests.Session() as session:
        assert way(session=session) is SessionSender
        assert way("https://inside.example/mcp", session=session, auth="t") is SessionSender


@pytest.mark.parametrize("url", [URL, "https://inside.example/mcp"])
@pytest.mark.parametrize("options", [{}, {"auth": "t"}, {"proxies": {"http": "http://proxy:1"}}], ids=str)
def test_a_library_that_replaced_parts_of_requests_sees_the_requests(monkeypatch, url, options):
    monkeypatch.setattr(requests.Session, "send", lambda session, request, **options: None)
    assert way(url, **options) is SessionSender


@pytest.mark.parametrize("url, written, credentials", [
    ("https://me:p%20w@inside.example/mcp", "https://me:p%20w@inside.example/mcp", "Basic bWU6cCB3"),
    ("http://inside.example", "http://inside.example/", None),
    ("http://INSIDE.example/mcp#x", "http://inside.example/mcp", None),
    ("http://inside.example/m%63p", "http://inside.example/mcp", None),
    ("http://b\xfccher.example/\xfc?q=\xe4", "http://xn--bcher-kva.example/%C3%BC?q=%C3%A4", None)])
def test_urls_that_requests_writes(url, written, credentials):
    client = OriginClient(url)
    client.close()
    assert type(client._sender) is DirectSender and client.url == written
    assert client._sender.headers.get("authorization") == credentials


@pytest.mark.parametrize("environment, proxied", [
    ({"http_proxy": "http://proxy:1"}, True), ({"HTTP_PROXY": "http://proxy:1"}, True), ({"ALL_PROXY": "proxy:1"}, True),
    ({"https_proxy": "http://proxy:1"}, False), ({"http_proxy": ""}, False), ({"no_proxy": "inside.example"}, False),
    ({"http_proxy": "http://proxy:1", "no_proxy": "inside.example"}, False),
    ({"http_proxy": "http://proxy:1", "NO_PROXY": ".example"}, False),
    ({"http_proxy": "http://proxy:1", "no_proxy": "*"}, False),
    ({"http_proxy": "http://proxy:1", "no_proxy": "other.example"}, True)], ids=str)
def test_proxies_of_the_environment(monkeypatch, environment, proxied):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = OriginClient(URL)
    client.close()
    assert type(client._sender) is DirectSender and client._sender.proxied is proxied


def test_a_request_to_this_machine_with_a_token_stays_here(monkeypatch):
    # AUTH-35, AUTH-39: it needs no TLS as long as it does.
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    for options, proxied in (({}, True), ({"auth": mcplite.OAuth()}, False)):
        client = OriginClient("http://127.0.0.1:1/mcp", HTTPSettings(**options))
        client.close()
        assert client._sender.proxied is proxied


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
