"""doctor: what it finds at servers that are wrong in many ways, each at one place, and at one that is right."""

import json

import pytest

from mcplite.cli import command_line
from mcplite.cli.doctor_rules import RULES
from tests.support.authserver import AuthServer, Protected, refuse
from tests.support.issuers import RawClient, serving as serving_issuer
from tests.support.secure import Secure
from tests.support.webscript import WebScript

RESOURCE, AUTHORIZATION = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"


class Wrong:
    """Gives other answers at some paths; to be mixed in. ``answers`` has a function of the answer for each path."""

    def refuses(self, request, answer):
        path = request.path.partition("?")[0]
        if path in self.answers:
            self.answers[path](answer)
            return True
        return super().refuses(request, answer)


class WrongServer(Wrong, Protected):
    answers = {}


class WrongAuthServer(Wrong, AuthServer):
    answers = {}


@pytest.fixture
def auth():
    with WrongAuthServer() as auth:
        auth.answers = {}
        # The stand-in has all that the doctor wants to see.
        auth.metadata = {"grant_types_supported": ["authorization_code", "refresh_token"]}
        yield auth


@pytest.fixture
def server(auth):
    with WrongServer(auth) as server:
        server.answers = {}
        server.capabilities = {"tools": {}}
        server.on_tools_list = lambda request, answer: answer.json(server.result(request, {"tools": []}))
        yield server


@pytest.fixture
def doctor(capsys):
    """Run the command in this process; return the status, and what it printed as JSON."""
    def run(url, *words):
        status = command_line.run(["doctor", url, "--json", *words])
        return status, json.loads(capsys.readouterr().out)

    return run


def page(answer):
    answer.status(200, "<html>Log in", Content_Type="text/html")


def status(code, *body, **headers):
    return lambda answer: answer.status(code, *body, **headers)


def described(document):
    return lambda answer: answer.json(document)


def challenge(*header, code=401):
    """A fault: the challenge of each refusal, and its status."""
    def make(server, auth):
        named = [text.replace("METADATA", server.origin + RESOURCE + "/mcp") for text in header]

        def refuse(request, token):
            return code, *named

        server.on_request = refuse
        if not named:
            server.refuses = lambda request, answer: (answer.status(code), True)[1]

    return make


def resource(**changed):
    """A fault: members of the server's metadata."""
    return lambda server, auth: server.metadata.update(changed)


def issuer(**changed):
    """A fault: members of the authorization server's metadata; None removes one."""
    def make(server, auth):
        document = {**auth.description(), **changed}
        auth.answers[AUTHORIZATION] = described({name: value for name, value in document.items() if value is not None})

    return make


def at(which, path, answer):
    """A fault: what comes from one path of one of the two servers."""
    def make(server, auth):
        (server if which == "server" else auth).answers[path] = answer

    return make


def named_as(issuers):
    def make(server, auth):
        server.issuers = issuers(auth)

    return make


FAULTS = [
    # --- the server
    ("not-found", at("server", "/mcp", status(404))), ("not-found", at("server", "/mcp", status(405))),
    ("forbidden-without-token", at("server", "/mcp", status(403))), ("no-mcp", at("server", "/mcp", page)),
    ("no-mcp", at("server", "/mcp", status(500))), ("redirects", at("server", "/mcp", status(307, Location="/other"))),
    ("unreachable", lambda server, auth: setattr(server, "url", "http://127.0.0.1:1/mcp")),
    ("any-token", lambda server, auth: setattr(server, "on_request", lambda request, token: auth.tokens.update(
        {token: {"resource": server.url, "scopes": [], "family": None}}) if token else None)),
    ("bad-token-status", lambda server, auth: setattr(
        server, "on_request", lambda request, token: (400, "Bearer") if token else None)),
    ("bad-token-error", challenge('Bearer resource_metadata="METADATA"')),
    # --- the challenge
    ("no-challenge", challenge()), ("challenge-scheme", challenge('Basic realm="x"')),
    ("challenge-order", challenge('Basic realm="x", Bearer resource_metadata="METADATA"')),
    ("challenge-malformed", challenge('Bearer realm=my server, resource_metadata="METADATA"')),
    ("challenge-malformed", challenge('realm="x" Bearer')), ("challenge-no-metadata", challenge("Bearer")),
    ("challenge-metadata-url", challenge('Bearer resource_metadata="/metadata"')),
    ("challenge-metadata-url", challenge('Bearer resource_metadata="http://mcp.example/metadata"')),
    # --- the metadata of the server
    ("resource-none", at("server", RESOURCE + "/mcp", status(404))), ("resource-not-json", at("server", RESOURCE, page)),
    ("resource-not-json", at("server", RESOURCE + "/mcp", page)),
    ("resource-not-json", at("server", RESOURCE + "/mcp", described([1]))),
    ("resource-fails", at("server", RESOURCE + "/mcp", status(502))),
    ("metadata-kind", at("server", RESOURCE, status(200, "{}", Content_Type="text/plain"))),
    ("resource-member", at("server", RESOURCE + "/mcp", described({"authorization_servers": ["https://a.example"]}))),
    ("resource-other", resource(resource="https://other.example/mcp")), ("resource-other", resource(resource=7)),
    ("issuers-none", named_as(lambda auth: [])), ("issuers-none", resource(authorization_servers=None)),
    ("issuers-malformed", named_as(lambda auth: auth.issuer)), ("issuers-malformed", named_as(lambda auth: [{"url": "x"}])),
    ("bearer-methods", resource(bearer_methods_supported=["query"])), ("no-cors", resource()),
    # --- the metadata of the authorization server
    ("issuer-url", named_as(lambda auth: ["http://login.example"])), ("issuer-url", named_as(lambda auth: ["login.example"])),
    ("issuer-url", named_as(lambda auth: [auth.issuer + "/?tenant=1"])),
    ("server-none", at("auth", AUTHORIZATION, status(404))), ("server-not-json", at("auth", AUTHORIZATION, page)),
    ("server-fails", at("auth", AUTHORIZATION, status(503))),
    ("issuer-other", issuer(issuer="https://other.example")), ("issuer-other", issuer(issuer=None)),
    ("issuer-slash", named_as(lambda auth: [auth.issuer + "/"])), ("endpoint-missing", issuer(token_endpoint=None)),
    ("endpoint-missing", issuer(authorization_endpoint="")), ("endpoint-url", issuer(token_endpoint="http://login.example/token")),
    ("endpoint-url", issuer(authorization_endpoint="javascript:alert(1)")), ("endpoint-url", issuer(token_endpoint=7)),
    ("no-s256", issuer(code_challenge_methods_supported=["plain"])), ("no-s256", issuer(code_challenge_methods_supported=None)),
    ("no-code", issuer(response_types_supported=["id_token"])), ("no-registration", issuer(registration_endpoint=None)),
    ("no-public-clients", issuer(token_endpoint_auth_methods_supported=["client_secret_basic"])),
    ("no-refresh", issuer(grant_types_supported=["authorization_code"])),
    ("no-iss", issuer(authorization_response_iss_parameter_supported=None)),
]


@pytest.mark.parametrize("code, fault", FAULTS, ids=[f"{code}-{number}" for number, (code, _) in enumerate(FAULTS)])
def test_a_fault_is_found(doctor, server, auth, code, fault):
    fault(server, auth)
    exit_status, said = doctor(server.url)
    found = [finding for finding in said["findings"] if finding.get("code") == code]
    assert found, said
    assert all(finding["severity"] == RULES[code].severity and finding["rule"] and finding["clients"] for finding in found)
    graves = [finding for finding in said["findings"] if finding["severity"] == "error"]
    assert exit_status == bool(graves)


def test_a_right_server_is_in_order(doctor, server):
    exit_status, said = doctor(server.url)
    assert exit_status == 0 and said["counts"]["error"] == said["counts"]["warning"] == 0, said
    assert {finding.get("code") for finding in said["findings"]} == {None, "no-cors"}  # the stand-ins are for no web pages
    assert doctor(server.url, "--fail-on", "note")[0] == 1


def test_nothing_changes_at_the_server_without_an_option(doctor, server, auth):
    doctor(server.url)
    assert not auth.registered and not auth.asked and not auth.tokens


def test_registration(doctor, server, auth, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    said = doctor(server.url, "--register")[1]
    assert [finding["text"] for finding in said["findings"] if finding["step"] == "registration"] == [
        "a client was registered, client-1, which authenticates by none"]
    auth.on_register = lambda given, answer: refuse(answer, 400, "invalid_redirect_uri")
    exit_status, said = doctor(server.url, "--register")
    assert exit_status == 1 and said["findings"][-1]["code"] == "register-refused"
    assert "invalid_redirect_uri" in said["findings"][-1]["text"]


def test_a_person_is_asked_before_a_client_is_registered(terminal, server, auth):
    terminal.run("doctor", server.url, "--register").answer("It stays there", "n")
    assert terminal.status() == 0 and "you have not agreed" in terminal.screen and not auth.registered


def test_a_login_a_call_and_a_refresh(cli, server, auth):
    exit_status, out, err = cli("doctor", server.url, "--login")
    assert exit_status == 0, out + err
    assert f"{auth.issuer} gave a token to client-1" in out and "the refresh token got another access token" in out
    assert "script speaks 2025-11-25" in out
    assert [token for token in auth.tokens if token in out + err] == []
    auth.on_token = lambda fields, answer: (
        refuse(answer, 400, "invalid_grant") if fields["grant_type"] == "refresh_token" else NotImplemented)
    exit_status, out, err = cli("doctor", server.url, "--login")
    assert "refused the refresh token that it gave a moment ago" in out and "got another access token" not in out, out
    auth.on_token = lambda fields, answer: refuse(answer, 400, "invalid_grant")
    exit_status, out, err = cli("doctor", server.url, "--login", "--json")
    assert exit_status == 1 and json.loads(out)["findings"][-1]["code"] == "login-failed"


def test_a_server_of_our_own(cli):
    pytest.importorskip("authlib")
    with serving_issuer() as issuer:
        exit_status, out, err = cli("doctor", issuer.endpoint)
        assert exit_status == 0 and "0 errors, 0 warnings" in out, out
        token = RawClient(issuer).tokens()["access_token"]
        exit_status, out, err = cli("doctor", issuer.endpoint, "--header", f"Authorization: Bearer {token}")
        assert exit_status == 0 and "notes speaks 2025-03-26, " in out and "2 tools" in out and token not in out + err, out
        exit_status, out, err = cli("doctor", issuer.endpoint, "--header", "Authorization: Bearer another")
        assert exit_status == 1 and "with the Authorization header that was given" in out


def test_a_server_without_authorization(doctor):
    with WebScript() as script:
        script.capabilities = {}
        exit_status, said = doctor(script.url)
    texts = [finding["text"] for finding in said["findings"]]
    assert exit_status == 0 and any("it needs no token" in text for text in texts)
    assert any("script speaks" in text and "2025-11-25" in text for text in texts)


def about_mcp(request, answer):
    if request.does == "initialize":
        return answer.json(WebScript.result(request, {
            "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "secure", "version": "1"}}))
    return answer.status(202 if request.method == "POST" else 405)


@pytest.mark.parametrize("name, code", [("server", None), ("expired", "certificate"), ("named", "certificate")])
def test_the_certificate(doctor, folder, monkeypatch, name, code):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "ca.pem"))
    with Secure(folder / f"{name}.pem", folder / f"{name}.key", on_request=about_mcp) as script:
        exit_status, said = doctor(script.url)
    assert exit_status == bool(code) and said["findings"][0].get("code") == code
    assert ("valid until 20" if code is None else "is not accepted") in said["findings"][0]["text"]


def test_a_certificate_that_ends_soon(doctor, folder, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "ca.pem"))
    monkeypatch.setattr("mcplite.cli.doctor._CERTIFICATE_DAYS", 31)
    with Secure(folder / "server.pem", folder / "server.key", on_request=about_mcp) as script:
        assert doctor(script.url)[1]["findings"][0]["code"] == "certificate-ends"


@pytest.mark.parametrize("target", ["weather.py", "ftp://host/mcp", "https://"])
def test_what_is_no_url_is_refused(target, capsys):
    assert command_line.run(["doctor", target]) == 2
    assert "doctor: " in capsys.readouterr().err


def test_a_name_that_does_not_exist(doctor):
    exit_status, said = doctor("https://mcp.invalid/mcp")
    assert exit_status == 1 and [finding["code"] for finding in said["findings"]] == ["unreachable"]


def test_what_a_server_says_cannot_steer_the_terminal(cli, server):
    server.metadata["resource"] = "https://evil.example/\x1b[2J\u202e"
    exit_status, out, err = cli("doctor", server.url)
    assert exit_status == 1 and "\x1b" not in out and "\u202e" not in out and "evil.example" in out
