"""The way to an origin: TLS with one's own authorities, and what errors say and do not say.

Whether parts of requests were replaced for the whole process.
"""

import contextlib
import functools
import ssl
import sys
from unittest import mock

import pytest
import requests
import urllib3

import mcplite
from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.origin_client import OriginClient, requests_is_patched
from mcplite.net.settings import HTTPSettings
from mcplite.protocol.error_text import shown
from tests.support import connecting
from tests.support.authserver import REDIRECT, AuthServer, Protected, follow
from tests.support.secure import Secure
from tests.support.webscript import WebScript

LIMIT = 30


@contextlib.contextmanager
def secure(folder, **options):
    """A scripted MCP server behind TLS."""
    with Secure(folder / "server.pem", folder / "server.key", **options) as script:
        script._play = script.play
        yield script


def ask_for_certificate(folder):
    def change(context):
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")

    return change


def with_verify(session, folder):
    session.verify, session.cert = str(folder / "ca.pem"), (str(folder / "client.pem"), str(folder / "client.key"))


def with_context(session, folder):
    class Adapter(requests.adapters.HTTPAdapter):
        def init_poolmanager(self, *arguments, **options):
            context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            context.check_hostname = False  # urllib3 1.26 gives the context no name for an address
            context.load_cert_chain(str(folder / "client.pem"), str(folder / "client.key"))
            return super().init_poolmanager(*arguments, ssl_context=context, **options)

    session.mount("https://", Adapter())


@pytest.mark.parametrize("trust", [with_verify, with_context])
def test_certificates_of_a_session(folder, trust, monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)  # requests takes them before the session's
    with secure(folder, change=ask_for_certificate(folder)) as script, requests.Session() as session:
        with pytest.raises(mcplite.TransportError):
            mcplite.connect(script.url, session=session, timeout=LIMIT).open()
        trust(session, folder)
        with mcplite.connect(script.url, session=session, timeout=LIMIT) as client:
            client.ping()


@pytest.mark.parametrize("by_session", [False, True])
def test_reads_end_behind_tls_as_well(folder, by_session):
    with secure(folder) as script, requests.Session() as session:
        script.on_ping = lambda request, answer: answer.hold()
        options = {"session": session} if by_session else {}
        with connecting.connect(script.url, verify=str(folder / "ca.pem"), timeout=LIMIT, **options) as client:
            with pytest.raises(mcplite.RequestTimeout):
                client.ping(timeout=0.3)
            token = mcplite.CancelToken()
            token.cancel("enough")
            with pytest.raises(mcplite.Cancelled):
                client.call_tool("t", cancel=token)


@pytest.mark.parametrize("url", ["ftp://example.com/", "https://", "http:///mcp", "example.com/mcp"])
def test_urls_that_are_not_server_urls(url):
    with pytest.raises(ValueError, match="is not a server URL"):
        OriginClient(url)


def test_a_url_is_shown_without_secrets():
    assert shown("https://user:secret@example.com:8443/mcp?token=secret#x") == "https://example.com:8443/mcp"


def test_secrets_are_in_no_error():
    with WebScript(lambda request, answer: answer.status(500, "oops")) as script:
        url = script.url.replace("//", "//me:secret@") + "?key=secret"
        with pytest.raises(mcplite.errors.HTTPStatusError) as caught:
            mcplite.connect(url, headers={"X-Key": "secret"}).open()
        assert "secret" not in str(caught.value) and script.url in str(caught.value)
    with pytest.raises(mcplite.TransportError) as caught:
        mcplite.connect(url).open()
    assert "secret" not in str(caught.value)


def test_an_exchange_that_was_interrupted_before_it_began():
    with WebScript() as script:
        client = OriginClient(script.url)
        exchange = Exchange(lambda: 1.0)
        exchange.interrupt()
        with pytest.raises(Stopped):
            client.send_authorized(exchange, "GET", None, {})
        client.close()
    assert script.requests == []


@pytest.mark.parametrize("status", [200, 401, 403, 500])
def test_a_reply_knows_the_address_it_came_from_where_tokens_are_used(status):
    # AUTH-36: also when its connection is over.
    with WebScript(lambda request, answer: (answer.status(status, "x"), answer.cut())) as script:
        client = OriginClient(script.url, HTTPSettings(auth=mcplite.OAuth(ask=follow, redirect_uri=REDIRECT)))
        reply = client.send(Exchange(lambda: 1.0), "GET", None, {})
        assert reply.excerpt() == "x" and reply.address == "127.0.0.1"
        client.close()


def test_behind_a_proxy_no_address_is_known():
    with WebScript(lambda request, answer: answer.status(401, "x")) as proxy:
        client = OriginClient("http://mcp.example/mcp", HTTPSettings(proxies={"http": proxy.origin}))
        exchange = Exchange(lambda: 1.0)
        exchange.records_address = True
        reply = client.send(exchange, "GET", None, {})
        assert reply.excerpt() == "x" and reply.address is None
        client.close()


def test_tokens_for_a_server_on_this_machine_go_through_no_proxy_of_the_environment(monkeypatch):
    # AUTH-35, AUTH-39: they need no TLS as long as they stay here.
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with WebScript(lambda request, answer: answer.status(502)) as proxy, AuthServer() as auth, \
            Protected(auth) as script:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
        options = dict(auth=mcplite.OAuth(ask=follow, redirect_uri=REDIRECT), era="legacy", timeout=LIMIT, listen=False)
        for url in (script.url, script.url.replace("127.0.0.1", "localhost")):
            script.url = url  # it goes by this name
            with connecting.connect(url, **options) as client:
                client.ping()
        assert proxy.requests == [] and len(auth.asked) == 2


def test_a_proxy_that_is_given_is_used_on_this_machine_as_well():
    # The session keeps its connection open, and is closed before the server.
    with WebScript(lambda request, answer: answer.status(200, "by proxy")) as proxy, requests.Session() as session:
        session.proxies = {"http": proxy.origin}
        for options in ({"proxies": {"http": proxy.origin}}, {"session": session}):
            grant = mcplite.OAuth(ask=follow, redirect_uri=REDIRECT)
            client = OriginClient("http://127.0.0.1:1/mcp", HTTPSettings(auth=grant, **options))
            assert client.send_authorized(Exchange(lambda: 1.0), "GET", None, {}).read(100) == b"by proxy"
            client.close()


class Other(requests.Session):
    def send(self, request, **options):
        return super().send(request, **options)


class Wrapper:
    """An object that looks like what it wraps, as those of tracing libraries do."""

    def __init__(self, wrapped):
        self.__wrapped__ = wrapped

    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)


def wrapped(function):
    @functools.wraps(function)
    def replacement(*arguments, **options):
        return function(*arguments, **options)

    return replacement


PLACES = [(requests.Session, "request"), (requests.Session, "send"), (requests.Session, "get_adapter"),
          (requests.adapters.HTTPAdapter, "send"), (urllib3.connectionpool.HTTPConnectionPool, "urlopen")]


@pytest.mark.parametrize("owner, name", PLACES, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("replace", [wrapped, Wrapper, mock.MagicMock])
def test_a_method_was_replaced(monkeypatch, owner, name, replace):
    assert not requests_is_patched()
    monkeypatch.setattr(owner, name, replace(getattr(owner, name)))
    assert requests_is_patched()


def test_the_class_was_replaced(monkeypatch):
    monkeypatch.setattr(requests, "Session", Other)
    assert requests_is_patched()


def test_the_connections_were_replaced(monkeypatch):
    class Recording(urllib3.connection.HTTPConnection):
        pass

    monkeypatch.setattr(urllib3.connectionpool.HTTPConnectionPool, "ConnectionCls", Recording)
    assert requests_is_patched()


@pytest.mark.parametrize("missing", ["requests", "urllib3.connectionpool"])
def test_what_is_not_loaded_was_not_replaced(monkeypatch, missing):
    monkeypatch.delitem(sys.modules, missing)
    assert not requests_is_patched()
    assert missing not in sys.modules
