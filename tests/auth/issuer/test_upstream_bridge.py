"""A server whose users log in at a provider, from outside: our client, a person with a browser, and a stand-in."""

import re
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests

import mcplite
from mcplite.errors import AuthError, MCPError
from tests.support.authserver import REDIRECT
from tests.support.issuers import Clock, Person, RawClient
from tests.support.provider_logins import Bridge
from tests.support.providers import SECRET, each, log_in


@pytest.fixture
def person():
    return Person()


@pytest.fixture
def bridge(provider):
    with Bridge(provider) as bridge:
        yield bridge


@each("github", "entra", "google", "discord")
def test_a_user_logs_in_at_the_provider_and_is_the_principal(bridge, provider, person):
    with bridge.connect(person) as client:
        found = client.call_tool("whoami").structured_content
        assert found["subject"].startswith(provider.kind + ":") and found["claims"]["upstream"] == provider.kind
        asked = client.call_tool("ask_provider", {"provider": provider.kind, "url": provider.origin + provider._paths[2]})
        assert asked.structured_content["status"] == 200
    # The consent for this client comes before the provider is asked (confused deputy).
    hosts = [urlsplit(page.url).netloc for page in person.pages]
    assert hosts[0] == urlsplit(bridge.issuer).netloc and person.forms == 1 and provider.login().title in person.pages[0].text
    assert hosts.index(urlsplit(provider.origin).netloc) >= 1


@each("github", "entra")
def test_no_token_of_the_provider_reaches_the_client(bridge, provider, person):
    seen = []
    person.browser.hooks["response"] = lambda response, **_: seen.append(f"{response.headers} {response.text}")
    store = mcplite.auth.MemoryStore()
    with bridge.connect(person, store=store) as client:
        client.call_tool("whoami")
        said = repr(client.call_tool("whoami").structured_content) + repr(vars(store)) + "".join(seen)
    assert provider.tokens
    for secret in (*provider.tokens, *provider.refreshable, SECRET):
        assert secret not in said


@each("github", "okta", "entra")
def test_a_refresh_asks_the_provider_again(provider, person):
    clock = Clock()
    groups = {"github": lambda claims: ["read", "admin"] if claims["type"] == "Boss" else ["read"]}.get(
        provider.kind, lambda claims: ["read", "admin"] if "boss" in claims["groups"] else ["read"])
    with Bridge(provider, {"access_seconds": 600, "clock": clock}, groups=groups) as bridge, bridge.connect(
            person, scopes=["read"]) as client:
        first = client.call_tool("whoami").structured_content
        assert first["scopes"] == ["read"] and person.forms == 1
        provider.user.update(name="Ada King", type="User", groups=["staff"])
        clock.ahead += 700
        second = client.call_tool("whoami").structured_content
        assert second["subject"] == first["subject"] and second["claims"]["name"] == "Ada King"
        assert person.forms == 1  # the user was not asked again


@each("github", "okta")
def test_an_account_that_was_closed_ends_with_the_next_refresh(provider, person):
    clock = Clock()
    with Bridge(provider, {"access_seconds": 600, "clock": clock}) as bridge, bridge.connect(person) as client:
        client.call_tool("whoami")
        provider.end()
        provider.response = {"error": "access_denied"}
        clock.ahead += 700
        with pytest.raises(AuthError, match="access_denied"):
            client.call_tool("whoami")
        assert person.forms == 2  # the client began a new login, which the provider refused


@each("okta")
def test_a_handler_whose_provider_has_ended_the_login_ends_the_grant(provider, person):
    provider.expires_in = 100
    clock = Clock()
    where = {"provider": "okta", "url": provider.origin + provider._paths[2]}
    with Bridge(provider, {"clock": clock}) as bridge, bridge.connect(person) as client:
        assert client.call_tool("ask_provider", where).structured_content["status"] == 200
        provider.end()
        clock.ahead += 101
        failed = client.call_tool("ask_provider", where)
        assert failed.is_error and "up-" not in str(failed)
        # The next call finds no grant, and the user logs in again.
        provider.expires_in = 3600
        assert client.call_tool("ask_provider", where).structured_content["status"] == 200
        assert person.forms == 2


@each("github")
def test_a_provider_that_is_down_delays_a_refresh_and_ends_nothing(provider, person):
    clock = Clock()
    with Bridge(provider, {"access_seconds": 600, "clock": clock}) as bridge, bridge.connect(person) as client:
        client.call_tool("whoami")
        provider.on_path = lambda path, answer: answer.status(503)
        clock.ahead += 700
        with pytest.raises(MCPError):
            client.call_tool("whoami")
        provider.on_path = lambda path, answer: NotImplemented
        assert client.call_tool("whoami").structured_content["subject"] == "github:583231"
        assert person.forms == 1


@each("entra")
def test_groups_are_scopes_that_a_user_can_grant(provider, person):
    def groups(claims):
        return ["read", "admin"] if "g-admins" in claims["groups"] else ["read"]

    with Bridge(provider, groups=groups) as bridge:
        with bridge.connect(person) as client, pytest.raises(MCPError):
            client.call_tool("administer")
        provider.user["groups"] = ["g-admins"]
        with bridge.connect(person) as client:
            assert client.call_tool("administer").text == "done"


@each("google")
def test_a_user_who_may_not_log_in_is_told_so(provider, person):
    def groups(claims):
        raise PermissionError("only accounts of our company may log in")

    with Bridge(provider, groups=groups) as bridge:
        with pytest.raises(AuthError, match="only accounts of our company may log in") as raised:
            bridge.connect(person).open()
    assert raised.value.error == "access_denied"


@each("github", "entra")
def test_a_provider_that_refuses_is_told_to_the_client(bridge, provider, person):
    provider.response = {"error": "access_denied", "error_description": "The user has denied your application access."}
    with pytest.raises(AuthError, match="denied your application") as raised:
        bridge.connect(person).open()
    assert raised.value.error == "access_denied"


# --- attacks through the browser ------------------------------------------------------------------------------


def begin(bridge, person, client="client"):
    """Have a client that has registered itself begin a login; return its URL, and where the provider sends the browser."""
    about = {"client_name": client, "redirect_uris": [REDIRECT]}
    client = requests.post(bridge.issuer + "/register", json=about, timeout=30).json()
    url = f"{bridge.issuer}/authorize?" + urlencode({
        "response_type": "code", "client_id": client["client_id"], "redirect_uri": REDIRECT, "state": "of-the-client",
        "code_challenge": "x" * 43, "code_challenge_method": "S256"})
    return url, person.visit(url, bridge.callback)


def refused(response):
    assert response.status_code in (400, 403) and "text/html" in response.headers["Content-Type"]
    assert "Location" not in response.headers and "code=" not in response.text
    return response.text


@each("github", "okta")
def test_a_response_in_another_browser(bridge, provider, person):
    # The attacker logs in with their own account, and has the victim's browser finish that (login CSRF); or the other way.
    _, response = begin(bridge, person)
    with requests.Session() as victim:
        assert "another browser" in refused(victim.get(response, allow_redirects=False, timeout=30))
        # A browser with a session, and even with a login of its own under way.
        other = Person()
        _, own = begin(bridge, other)
        assert "another browser" in refused(other.browser.get(response, allow_redirects=False, timeout=30))
        # The honest login goes on.
        assert other.visit(own, REDIRECT).startswith(REDIRECT + "?code=")
    assert [form["grant_type"] for form in provider.asked] == ["authorization_code"]


@each("github", "okta")
def test_a_response_is_taken_once(bridge, provider, person):
    _, response = begin(bridge, person)
    assert "code=" in person.visit(response, REDIRECT)
    refused(person.browser.get(response, allow_redirects=False, timeout=30))
    assert len(provider.asked) == 1


@each("github", "okta")
@pytest.mark.parametrize("change", [
    {"state": "x" * 22}, {"state": ""}, {"state": None}, {"iss": "https://evil.example"}, {"code": None}, {"code": ""}])
def test_a_changed_response(bridge, provider, person, change):
    _, response = begin(bridge, person)
    query = {**dict(parse_qsl(urlsplit(response).query)), **change}
    changed = bridge.callback + "?" + urlencode({name: value for name, value in query.items() if value is not None})
    refused(person.browser.get(changed, allow_redirects=False, timeout=30))
    assert provider.asked == []


@each("github")
def test_parameters_that_come_twice(bridge, provider, person):
    _, response = begin(bridge, person)
    refused(person.browser.get(response + "&code=other", allow_redirects=False, timeout=30))
    refused(person.browser.get(response + "&state=other", allow_redirects=False, timeout=30))
    assert provider.asked == []


@each("github")
def test_a_code_of_the_attackers_account(bridge, provider, person):
    _, response = begin(bridge, person)
    attacker = Person()
    _, stolen = begin(bridge, attacker)
    query = {**dict(parse_qsl(urlsplit(response).query)), "code": dict(parse_qsl(urlsplit(stolen).query))["code"]}
    back = person.visit(bridge.callback + "?" + urlencode(query), REDIRECT)
    assert "error=server_error" in back and "code=" not in back  # the verifier is another one


@each("github")
def test_a_second_client_needs_a_consent_of_its_own(bridge, provider, person):
    url, response = begin(bridge, person, "honest")
    person.visit(response, REDIRECT)
    assert person.forms == 1
    # The browser is logged in here and at the provider; the attacker's client still gets nothing without a click.
    stranger = requests.post(bridge.issuer + "/register", json={
        "client_name": "evil", "redirect_uris": ["https://evil.example/cb"]}, timeout=30).json()
    url = f"{bridge.issuer}/authorize?" + urlencode({
        "response_type": "code", "client_id": stranger["client_id"], "redirect_uri": "https://evil.example/cb", "state": "s",
        "code_challenge": "x" * 43, "code_challenge_method": "S256"})
    page = person.browser.get(url, allow_redirects=False, timeout=30)
    assert page.status_code == 200 and "evil.example" in page.text and "Location" not in page.headers
    # Nor does the provider's answer for the first client serve for the second.
    assert len(provider.asked) == 1


@each("github")
def test_the_provider_is_not_asked_before_the_consent(bridge, provider, person):
    client = requests.post(bridge.issuer + "/register", json={"redirect_uris": [REDIRECT]}, timeout=30).json()
    url = f"{bridge.issuer}/authorize?" + urlencode({
        "response_type": "code", "client_id": client["client_id"], "redirect_uri": REDIRECT, "state": "s",
        "code_challenge": "x" * 43, "code_challenge_method": "S256"})
    page = person.browser.get(url, allow_redirects=False, timeout=30)
    id = re.search(r"transaction=([A-Za-z0-9_-]+)", page.text)[1]
    code = log_in(provider.login().begin({}, bridge.callback, id))  # as of an attacker who knows the transaction
    refused(person.browser.get(bridge.callback + "?" + urlencode(code), allow_redirects=False, timeout=30))
    # And a consent without the token of its form is none.
    posted = person.browser.post(f"{bridge.issuer}/consent?transaction={id}", {"decision": "allow"}, allow_redirects=False,
                                 headers={"Origin": bridge.issuer}, timeout=30)
    assert "Location" not in posted.headers and provider.asked == []


@each("github")
def test_a_user_who_does_not_agree_is_not_sent_to_the_provider(bridge, provider):
    person = Person(decision="deny")
    with pytest.raises(AuthError) as raised:
        bridge.connect(person).open()
    assert raised.value.error == "access_denied" and provider.requests == []


# --- the user's own page --------------------------------------------------------------------------------------


@each("github", "keycloak")
def test_a_user_ends_what_a_client_may_do_and_the_providers_tokens_with_it(bridge, provider, person):
    where = {"provider": provider.kind, "url": provider.origin + provider._paths[2]}
    with bridge.connect(person) as client:
        assert client.call_tool("ask_provider", where).structured_content["status"] == 200
        other = Person()
        response = other.visit(bridge.issuer + "/grants", bridge.callback)
        assert urlsplit(other.browser.get(response, timeout=30).url).path == "/grants"
        page = other.browser.get(bridge.issuer + "/grants", timeout=30)
        grant = re.search(r'name="grant" value="([^"]+)"', page.text)[1]
        csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)[1]
        # A form of another site has no token.
        headers = {"Origin": bridge.issuer}
        forged = other.browser.post(page.url, {"decision": "end", "grant": grant}, headers=headers, timeout=30)
        assert forged.status_code == 403
        ended = other.browser.post(page.url, {"decision": "end", "grant": grant, "csrf": csrf}, headers=headers, timeout=30)
        assert ended.status_code == 200 and grant not in ended.text
        assert client.call_tool("ask_provider", where).structured_content["status"] == 200
        assert person.forms == 2  # after a new login


@each("github")
def test_a_user_sees_no_grants_of_another(bridge, provider, person):
    with bridge.connect(person) as client:
        client.call_tool("whoami")
    provider.user["id"] = 2
    other = Person()
    response = other.visit(bridge.issuer + "/grants", bridge.callback)
    page = other.browser.get(response, timeout=30)
    assert urlsplit(page.url).path == "/grants" and 'name="grant"' not in page.text


@each("github")
def test_a_login_for_the_users_page_gives_no_client_a_code(bridge, provider, person):
    client_url, of_client = begin(bridge, person)
    of_page = person.visit(bridge.issuer + "/grants", bridge.callback)
    mixed = {**dict(parse_qsl(urlsplit(of_client).query)), "code": dict(parse_qsl(urlsplit(of_page).query))["code"]}
    back = person.visit(bridge.callback + "?" + urlencode(mixed), REDIRECT)
    assert "error=" in back and "code=" not in back


def test_a_consent_is_remembered_for_the_user_of_the_provider_who_gave_it(bridge, provider):
    client = RawClient(SimpleNamespace(url=bridge.issuer, endpoint=bridge.url), "https://app.example/cb")
    person = Person(client.redirect_uri)

    def log_in(goal=client.redirect_uri):
        found = dict(parse_qsl(urlsplit(person.visit(client.request(), goal)).query))
        answer = client.redeem(found["code"])
        assert answer.status_code == 200
        with mcplite.connect(bridge.url, auth=mcplite.Bearer(answer.json()["access_token"])) as connected:
            return connected.call_tool("whoami").structured_content["subject"]

    first = log_in()
    assert person.forms == 1
    assert log_in() == first and person.forms == 1
    # The browser has another account at the provider by now, whose user has agreed to nothing.
    provider.user.update({name: "4711" for name in ("id", "sub", "oid") if name in provider.user})
    if "id" in provider.user:
        provider.user["id"] = 4711
    second = log_in()
    assert second != first and person.forms == 2
    assert log_in() == second and person.forms == 2
