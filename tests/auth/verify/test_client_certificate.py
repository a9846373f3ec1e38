"""The certificate of a client as its principal, on a real connection."""

import contextlib
import json

import pytest
import requests

import mcplite
from mcplite.auth.verify.client_certificate import distinguished_name
from tests.support.rawhttp import BOTH, initialize
from tests.support.secure import folder  # noqa: F401 - a fixture

LIMIT = 30


@pytest.fixture
def served(folder):  # noqa: F811
    """``served(auth, **options)``: a protected server over TLS; gives the URL, and a function that connects a client."""
    with contextlib.ExitStack() as stack:
        def served(auth, **options):
            server = mcplite.Server("vault", auth=auth, options=mcplite.ServerOptions(hide_unauthorized=True))

            @server.tool()
            def whoami(ctx: mcplite.Context) -> list:
                principal = ctx.principal
                return [principal.subject, principal.issuer, sorted(principal.scopes)]

            server.add_tool(lambda: "keys", name="open_vault", scopes=["keys"])
            given = {"certfile": folder / "server.pem", "keyfile": folder / "server.key", "client_ca": folder / "ca.pem",
                     **options}
            url = stack.enter_context(mcplite.serve(server, **given)).url
            return url, lambda **more: mcplite.connect(url, timeout=LIMIT, options=mcplite.ClientOptions(
                verify=str(folder / "ca.pem"), cert=(str(folder / "client.pem"), str(folder / "client.key"))), **more)

        yield served


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_subject_of_the_certificate_is_the_principal(served, revision):
    _, connect = served(mcplite.auth.ClientCertificate())
    with connect(revision=revision) as client:
        subject, issuer, scopes = json.loads(client.call_tool("whoami").text)
        assert subject == "CN=client" and issuer.startswith("CN=") and scopes == []
        assert [tool.name for tool in client.list_tools()] == ["whoami"]


def test_a_function_gives_scopes(served):
    def principal(certificate):
        (name,) = [value for kind, value in certificate["subjectAltName"] if kind == "DNS"]
        return mcplite.Principal(name, scopes=["keys"], audience=mcplite.auth.ISSUED_HERE)

    _, connect = served(mcplite.auth.ClientCertificate(principal, scopes=["keys"]))
    with connect() as client:
        assert json.loads(client.call_tool("whoami").text) == ["client", "", ["keys"]]
        assert client.call_tool("open_vault").text == "keys"


def expired(certificate):
    return mcplite.Principal("late", audience=mcplite.auth.ISSUED_HERE, expires_at=1.0)


@pytest.mark.parametrize("auth, status", [
    (mcplite.auth.ClientCertificate(lambda certificate: None), 403),
    (mcplite.auth.ClientCertificate(lambda certificate: ""), 403), (mcplite.auth.ClientCertificate(expired), 403),
    (mcplite.auth.ClientCertificate(scopes=["keys"]), 403),
    (mcplite.auth.ClientCertificate(lambda certificate: 5), 500)])
def test_who_is_not_admitted_learns_of_no_token(served, folder, auth, status):  # noqa: F811
    url, _ = served(auth)
    answer = requests.post(url, json=initialize(), headers={"Accept": BOTH, "Authorization": "Bearer forged"}, timeout=LIMIT,
                           verify=str(folder / "ca.pem"), cert=(str(folder / "client.pem"), str(folder / "client.key")))
    assert answer.status_code == status and "www-authenticate" not in answer.headers


def test_without_client_ca_all_are_refused_and_the_log_says_what_is_missing(served, folder, caplog):  # noqa: F811
    url, _ = served(mcplite.auth.ClientCertificate(), client_ca=None)
    answer = requests.post(url, json=initialize(), headers={"Accept": BOTH}, verify=str(folder / "ca.pem"), timeout=LIMIT)
    assert answer.status_code == 403 and "client_ca=" in caplog.text


@pytest.mark.parametrize("name, text", [
    ((), ""),
    (((("countryName", "DE"),), (("organizationName", "Example"),), (("commonName", "ada"),)), "CN=ada,O=Example,C=DE"),
    (((("commonName", "ada"), ("userId", "7")),), "CN=ada+UID=7"), (((("emailAddress", "a@b"),),), "emailAddress=a@b"),
    (((("commonName", "ada,O=Evil"),),), "CN=ada\\,O=Evil"), (((("commonName", " a# "),),), "CN=\\ a#\\ "),
    (((("commonName", "#a+b"),),), "CN=\\#a\\+b"), (((("commonName", "a\0b"),),), "CN=a\\00b"),
    (((("commonName", "a\\"),),), "CN=a\\\\"), (((("commonName", ""),),), "CN="), (((("commonName", "a\\ "),),), "CN=a\\\\\\ "),
    (((("commonName", " "),),), "CN=\\ ")])
def test_names_as_texts(name, text):
    # RFC 4514; two names never have one text.
    assert distinguished_name(name) == text


def test_options():
    with pytest.raises(ValueError, match="principal= must be a function"):
        mcplite.auth.ClientCertificate("CN=ada")
    with pytest.raises(ValueError, match="not a scope"):
        mcplite.auth.ClientCertificate(scopes=['a"b'])
    assert repr(mcplite.auth.ClientCertificate()) == "<ClientCertificate>"
