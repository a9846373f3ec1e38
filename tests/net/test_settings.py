"""TLS on our own connections: the same answers, errors and hints as through ``requests``, from a real server."""

import re
import shutil
import socket
import ssl
import threading
import warnings

import pytest
import urllib3
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import InsecureRequestWarning

import mcplite
from mcplite.net.connection_pool import DirectSender
from mcplite.net.exchange import Exchange
from mcplite.net.origin_client import OriginClient
from mcplite.net.session_sender import SessionSender
from mcplite.net.settings import TLS, HTTPSettings
from tests.support.secure import Secure

LIMIT = 30
#: The same credentials twice: those of the second kind are made for requests, and go through it.
WAYS = {DirectSender: ("me", "pw"), SessionSender: HTTPBasicAuth("me", "pw")}


@pytest.fixture(autouse=True)
def no_bundles(monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def secure(folder, certificate="server", **options):
    return Secure(folder / f"{certificate}.pem", folder / f"{certificate}.key", **options)


def ask_for_certificate(folder):
    def change(context):
        # Before the handshake ends, so that the refusal is part of it for the client as well.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")

    return change


def get(url, way=DirectSender, path=None, **options):
    """Return the body of one response, or the error, without what differs between two connections."""
    client = OriginClient(url, HTTPSettings(auth=WAYS[way], **options))
    assert type(client._sender) is way
    try:
        return client.send_authorized(Exchange(lambda: 1.0, lambda: float(LIMIT)), "GET", path, {}).read(1_000_000)
    except mcplite.MCPError as error:
        # The line of a C source differs between two places that fail in one way.
        return type(error), re.sub(r" \(_ssl\.c:\d+\)", "", str(error))
    finally:
        client.close()


def both(url, **options):
    """Return what both ways answer, which has to be the same."""
    direct, adapter = (get(url, way, **options) for way in (DirectSender, SessionSender))
    # urllib3 1.26 compares names itself, and has other words for a handshake that takes too long.
    assert direct == adapter or urllib3.__version__.startswith("1.") and direct[0] is adapter[0] is mcplite.TransportError
    return direct


def refused(outcome, *texts):
    kind, text = outcome
    assert kind is mcplite.TransportError and text.startswith("cannot reach https://127.0.0.1:")
    for expected in texts:
        assert expected in text
    return True


def test_an_authority_of_ones_own(folder):
    with secure(folder) as script:
        assert both(script.url, verify=str(folder / "ca.pem")) == b"here"
        assert both(script.url, verify=folder / "ca.pem") == b"here"
        assert both(script.url, verify=str(folder / "hashed")) == b"here"
        assert script.protocol == "http/1.1"


def test_an_unknown_authority_is_refused_with_a_hint(folder):
    with secure(folder) as script:
        for options in ({}, {"verify": True}, {"verify": str(folder / "other-ca.pem")}):
            assert refused(both(script.url, **options), "certificate verify failed", "verify='/path/to/ca.pem'")
        assert script.requests == []


@pytest.mark.parametrize("certificate, texts", [
    ("named", ["certificate verify failed", "127.0.0.1"]),
    ("common", ["certificate verify failed", "127.0.0.1"]),  # a common name is no name
    ("expired", ["certificate has expired"])])
def test_a_certificate_for_another_name_or_time_is_refused(folder, certificate, texts):
    with secure(folder, certificate) as script:
        assert refused(both(script.url, verify=str(folder / "ca.pem")), *texts)
        assert script.requests == []


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_an_authority_of_the_environment(folder, name, monkeypatch):
    with secure(folder) as script:
        monkeypatch.setenv(name, str(folder / "ca.pem"))
        assert both(script.url) == b"here"
        assert both(script.url, verify=True) == b"here"
        assert refused(both(script.url, verify=str(folder / "other-ca.pem")))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "other-ca.pem"))
        assert refused(both(script.url))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "nowhere.pem"))
        assert refused(both(script.url), "invalid path", "nowhere.pem")


def test_without_another_word_the_bundle_of_certifi_is_used(folder, monkeypatch):
    with secure(folder) as script:
        monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(folder / "ca.pem"))
        assert both(script.url) == b"here"


def test_files_that_cannot_be_used(folder):
    missing = str(folder / "missing.pem")
    pair = str(folder / "client.pem"), str(folder / "locked.key")
    trust = str(folder / "ca.pem")
    with secure(folder, change=ask_for_certificate(folder)) as script:
        assert refused(both(script.url, verify=missing), "invalid path", "missing.pem")
        assert refused(both(script.url, verify=str(folder / "broken.pem")))
        assert refused(both(script.url, verify=trust, cert=missing), "missing.pem")
        assert refused(both(script.url, verify=trust, cert=(pair[0], missing)), "missing.pem")
        assert refused(both(script.url, verify=trust, cert=pair), "Client private key is encrypted, password is required")
        assert refused(both(script.url, verify=trust, cert=(pair[0], str(folder / "server.key"))))
        assert script.requests == []


def test_a_certificate_of_the_client(folder):
    pair = str(folder / "client.pem"), str(folder / "client.key")
    whole = folder / "whole.pem"
    whole.write_text((folder / "client.pem").read_text() + (folder / "client.key").read_text())
    trust = str(folder / "ca.pem")
    with secure(folder, change=ask_for_certificate(folder)) as script:
        assert both(script.url, verify=trust, cert=pair) == b"here"
        assert both(script.url, verify=trust, cert=str(whole)) == b"here"
        for way in WAYS:  # which of two signs of the end is met first is chance
            assert get(script.url, way, verify=trust)[0] is mcplite.TransportError


def test_a_certificate_that_was_renewed_is_taken_by_the_next_connection(folder, tmp_path):
    trust = tmp_path / "trust.pem"
    shutil.copy(folder / "other-ca.pem", trust)
    with secure(folder) as script:
        client = OriginClient(script.url, HTTPSettings(verify=str(trust)))
        assert type(client._sender) is DirectSender
        with pytest.raises(mcplite.TransportError):
            client.send(Exchange(lambda: 1.0), "GET", None, {})
        shutil.copy(folder / "ca.pem", trust)
        assert client.send(Exchange(lambda: 1.0), "GET", None, {}).read(100) == b"here"
        client.close()


def test_without_verification_there_is_a_warning(folder):
    with secure(folder, "named") as script:
        for way in WAYS:
            with pytest.warns(InsecureRequestWarning):
                assert get(script.url, way, verify=False) == b"here"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert both(script.url, verify=str(folder / "other-ca.pem"))[0] is mcplite.TransportError


def test_old_versions_are_refused(folder):
    def change(context):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
            context.set_ciphers("ALL:@SECLEVEL=0")

    with secure(folder, change=change) as script:
        for way in WAYS:
            assert get(script.url, way, verify=str(folder / "ca.pem"))[0] is mcplite.TransportError
        assert script.requests == []


def test_the_context_is_as_strict_as_that_of_urllib3(folder):
    from urllib3.util.ssl_ import create_urllib3_context

    ours, theirs = TLS(str(folder / "ca.pem"), None)._create_context(), create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    assert ours.verify_mode is ssl.CERT_REQUIRED and ours.check_hostname
    assert ours.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert (ours.options, ours.verify_flags) == (theirs.options, theirs.verify_flags)
    # urllib3 1.26 has a list of its own, which is longer than that of the system.
    assert {cipher["name"] for cipher in ours.get_ciphers()} <= {cipher["name"] for cipher in theirs.get_ciphers()}


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_connection_is_kept_and_replaced_when_the_server_has_closed_it(folder, version):
    # In TLS 1.3 the server's tickets come after the handshake: they must not count as the end of the connection.
    def change(context):
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]

    def on_request(request, answer):
        answer.status(200, b"x" * 200_000)
        if request.path.endswith("last"):
            answer.cut()

    with secure(folder, change=change, on_request=on_request) as script:
        client = OriginClient(script.url, HTTPSettings(verify=str(folder / "ca.pem")))
        for path in ("1", "2", "3", "last"):
            exchange = Exchange(lambda: 1.0)
            assert len(client.send(exchange, "POST", f"{script.origin.replace('http:', 'https:')}/{path}", {}, b"y" * 100_000)
                       .read(1_000_000)) == 200_000
        assert script.connections == 1
        assert client._sender._idle[-1].has_input(LIMIT * 1000)  # the end has come
        assert client.send(Exchange(lambda: 1.0), "GET", None, {}).read(1_000_000)
        assert script.connections == 2 and script.requests[-1].headers["host"] == f"127.0.0.1:{script.port}"
        client.close()


def test_a_server_without_tls_behind_https(folder):
    def answer():
        for _ in range(2):
            with listener.accept()[0] as sock:
                sock.recv(65_536)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        kind, text = both(f"https://127.0.0.1:{listener.getsockname()[1]}/mcp", verify=str(folder / "ca.pem"))
        thread.join(LIMIT)
    assert kind is mcplite.TransportError and "cannot reach" in text
