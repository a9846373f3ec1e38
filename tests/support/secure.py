"""The scripted web server behind TLS, and certificates for it and its clients."""

import shutil
import ssl
import subprocess

import pytest

from tests.support.webscript import LIMIT, WebScript


class Secure(WebScript):
    """A scripted server behind TLS.

    :param pair: the files of its certificate and its key.
    :param change: called with its context.
    """

    def __init__(self, *pair, change=None, on_request=None):
        super().__init__(on_request or (lambda request, answer: answer.status(200, "here")))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*pair)
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        self._context.sni_callback = lambda sock, name, context: self.named.append(name)
        if change is not None:
            change(self._context)
        self.url = self.url.replace("http:", "https:")
        #: What clients called it when they began, and what the last connection has agreed to speak.
        self.named, self.protocol = [], None

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


@pytest.fixture(scope="session")
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
    for name, alternative, days in (("server", "IP:127.0.0.1,IP:::1", "30"), ("named", "DNS:other.example", "30"),
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
