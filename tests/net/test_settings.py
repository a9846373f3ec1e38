"""TLS on our own connections: the same answers, errors and hints as through ``requests``, from a real server."""

import re
import shutil
import socket
import ssl
import subprocess
import threading
import warnings

import pytest
import urllib3
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import InsecureRequestWarning

import mcplite
from mcplite.net.adapter_sender import AdapterSender
from mcplite.net.connections import DirectSender
from mcplite.net.exchange import Exchange
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import TLS, HTTPSettings
from tests.support.webscript import WebScript

LIMIT = 30
#: The same credentials twice: those of the second kind are made for requests, and go through it.
WAYS = {DirectSender: ("me", "pw"), AdapterSender: HTTPBasicAuth("me", "pw")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an authority, and what it has signed: for 127.0.0.1, for another name, of the past, for a client."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]

    def run(*arguments):
        subprocess.run([openssl, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    for name in ("ca", "other-ca"):
        run("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", "30",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for name, alternative, days in (("server", "IP:127.0.0.1", "30"), ("named", "DNS:other.example", "30"),
                                    ("common", "DNS:other.example", "30"), ("expired", "IP:127.0.0.1", "-1"),
                                    ("client", "DNS:client", "30")):
        subject = "/CN=127.0.0.1" if name == "common" else f"/CN={name}"
        run("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        (folder / f"{name}.ext").write_text(f"subjectAltName={alternative}\nauthorityKeyIdentifier=keyid\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", days,
            "-out", f"{name}.pem", "-extfile", f"{name}.ext")
    run("ec", "-in", "client.key", "-aes128", "-passout", "pass:secret", "-out", "locked.key")
    (folder / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    (folder / "hashed").mkdir()
    shutil.copy(folder / "ca.pem", folder / "hashed")
    run("rehash", "hashed")
    return folder


@pytest.fixture(autouse=True)
def no_bundles(monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


class Secure(WebScript):
    """The scripted server behind TLS.

    :param certificate: the name of its files.
    :param change: called with its context.
    """

    def __init__(self, folder, certificate="server", change=None, on_request=None):
        super().__init__(on_request or (lambda request, answer: answer.status(200, "here")))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / f"{certificate}.pem", folder / f"{certificate}.key")
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        if change is not None:
            change(self._context)
        self.url = self.url.replace("http:", "https:")
        #: What the last connection has agreed to speak.
        self.protocol = None

    def _serve(self, sock):
        sock.settimeout(LIMIT)
        try:
            secure = self._context.wrap_socket(sock, server_side=True)
        except OSError:
            sock.close()  # one side did not like the other
            return
        self.protocol = secure.selected_alpn_protocol()
        self._socks[self._socks.index(sock)] = secure
        super()._serve(secure)


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
    direct, adapter = (get(url, way, **options) for way in (DirectSender, AdapterSender))
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
    with Secure(folder) as script:
        assert both(script.url, verify=str(folder / "ca.pem")) == b"here"
        assert both(script.url, verify=folder / "ca.pem") == b"here"
        assert both(script.url, verify=str(folder / "hashed")) == b"here"
        assert script.protocol == "http/1.1"


def test_an_unknown_authority_is_refused_with_a_hint(folder):
    with Secure(folder) as script:
        for options in ({}, {"verify": True}, {"verify": str(folder / "other-ca.pem")}):
            assert refused(both(script.url, **options), "certificate verify failed", "verify='/path/to/ca.pem'")
        assert script.requests == []


def test_a_certificate_for_another_name_is_refused(folder):
    for certificate in ("named", "common"):  # a common name is no name
        with Secure(folder, certificate) as script:
            assert refused(both(script.url, verify=str(folder / "ca.pem")), "certificate verify failed", "127.0.0.1")
            assert script.requests == []


def test_an_expired_certificate_is_refused(folder):
    with Secure(folder, "expired") as script:
        assert refused(both(script.url, verify=str(folder / "ca.pem")), "certificate has expired")
        assert script.requests == []


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_an_authority_of_the_environment(folder, name, monkeypatch):
    with Secure(folder) as script:
        monkeypatch.setenv(name, str(folder / "ca.pem"))
        assert both(script.url) == b"here"
        assert both(script.url, verify=True) == b"here"
        assert refused(both(script.url, verify=str(folder / "other-ca.pem")))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "other-ca.pem"))
        assert refused(both(script.url))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "nowhere.pem"))
        assert refused(both(script.url), "invalid path", "nowhere.pem")


def test_without_another_word_the_bundle_of_certifi_is_used(folder, monkeypatch):
    with Secure(folder) as script:
        monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(folder / "ca.pem"))
        assert both(script.url) == b"here"


def test_files_that_cannot_be_used(folder):
    missing = str(folder / "missing.pem")
    pair = str(folder / "client.pem"), str(folder / "locked.key")
    trust = str(folder / "ca.pem")
    with Secure(folder, change=ask_for_certificate(folder)) as script:
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
    with Secure(folder, change=ask_for_certificate(folder)) as script:
        assert both(script.url, verify=trust, cert=pair) == b"here"
        assert both(script.url, verify=trust, cert=str(whole)) == b"here"
        for way in WAYS:  # which of two signs of the end is met first is chance
            assert get(script.url, way, verify=trust)[0] is mcplite.TransportError


def test_a_certificate_that_was_renewed_is_taken_by_the_next_connection(folder, tmp_path):
    trust = tmp_path / "trust.pem"
    shutil.copy(folder / "other-ca.pem", trust)
    with Secure(folder) as script:
        client = OriginClient(script.url, HTTPSettings(verify=str(trust)))
        assert type(client._sender) is DirectSender
        with pytest.raises(mcplite.TransportError):
            client.send(Exchange(lambda: 1.0), "GET", None, {})
        shutil.copy(folder / "ca.pem", trust)
        assert client.send(Exchange(lambda: 1.0), "GET", None, {}).read(100) == b"here"
        client.close()


def test_without_verification_there_is_a_warning(folder):
    with Secure(folder, "named") as script:
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

    with Secure(folder, change=change) as script:
        for way in WAYS:
            assert get(script.url, way, verify=str(folder / "ca.pem"))[0] is mcplite.TransportError
        assert script.requests == []


def test_the_context_is_as_strict_as_that_of_urllib3(folder):
    from urllib3.util.ssl_ import create_urllib3_context

    ours, theirs = TLS(str(folder / "ca.pem"), None)._create_context(), create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    assert ours.verify_mode is ssl.CERT_REQUIRED and ours.check_hostname
    assert ours.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert (ours.options, ours.verify_flags) == (theirs.options, theirs.verify_flags)
    assert ours.get_ciphers() == theirs.get_ciphers()


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_connection_is_kept_and_replaced_when_the_server_has_closed_it(folder, version):
    # In TLS 1.3 the server's tickets come after the handshake: they must not count as the end of the connection.
    def change(context):
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]

    def on_request(request, answer):
        answer.status(200, b"x" * 200_000)
        if request.path.endswith("last"):
            answer.cut()

    with Secure(folder, change=change, on_request=on_request) as script:
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
