"""What browsers and clients may try at a login, and what becomes of it."""

import html
import re
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import pytest
import requests

from tests.support.issuers import REDIRECT, Clock, Person, RawClient, serving

pytest.importorskip("authlib")
OUR_OWN = ["https://app.example/cb", "com.example.app:/cb", "http://localhost/cb", "https://app.example/cb?x=1"]


@pytest.fixture
def issuer():
    with serving(clock=Clock()) as issuer:
        yield issuer


@pytest.fixture
def client(issuer):
    return RawClient(issuer)


# --- where a redirect leads -----------------------------------------------------------------------------------------


@pytest.fixture
def web_client(issuer):
    return RawClient(issuer, redirect_uris=OUR_OWN)


@pytest.mark.parametrize("uri", [
    "https://evil.example/cb", "https://app.example.evil.example/cb", "https://app.example/cb/", "https://app.example/cb/../x",
    "https://app.example/CB", "https://APP.example/cb", "http://app.example/cb", "https://app.example:443/cb",
    "https://app.example:8443/cb", "https://user@app.example/cb", "https://app.example@evil.example/cb",
    "https://app.example\\@evil.example/cb", "https://app.example/cb#x", "https://app.example/cb?x=2", "https://app.example/cb?",
    "//app.example/cb", "/cb", "app.example/cb", "", "javascript:alert(1)", "data:text/html,x", "com.example.app:/cb2",
    "com.example.app://cb", "http://localhost/cb2", "http://127.0.0.1/cb", "http://localhost:3@evil.example/cb",
    "http://localhost.evil.example/cb", "http://localhost:99999999/cb", "https://app.example/cb\r\nX: y", "https://app.example/%63b",
    "https://app.example/cb https://evil.example/", "https://xn--app.example/cb", "https://app\u2024example/cb",
])
def test_a_redirect_uri_that_is_not_registered_gets_nothing(web_client, uri):
    answer = requests.get(web_client.request(redirect_uri=uri), allow_redirects=False, timeout=30)
    assert answer.status_code == 400 and "location" not in answer.headers
    assert "evil" not in answer.text


@pytest.mark.parametrize("uri", [*OUR_OWN, "http://localhost:43123/cb"])
def test_a_registered_redirect_uri_gets_the_code(issuer, web_client, uri):
    found = web_client.code(redirect_uri=uri)
    assert found["iss"] == issuer.url and found["state"] == "st4te" and found["code"]
    answer = web_client.redeem(found["code"], redirect_uri=uri)
    assert answer.status_code == 200


@pytest.mark.parametrize("changed", [
    {"response_type": "token"}, {"response_type": None}, {"response_type": "code token"}, {"code_challenge": None},
    {"code_challenge": "short"}, {"code_challenge_method": None}, {"code_challenge_method": "plain"},
    {"code_challenge_method": "s256"}, {"scope": "unknown"}, {"resource": "https://other.example/mcp"},
    {"resource": "not a url"}, {"request": "e30.e30."}, {"request_uri": "https://evil.example/r"},
])
def test_an_error_goes_to_the_client_and_names_the_issuer(issuer, client, changed):
    answer = requests.get(client.request(**changed), allow_redirects=False, timeout=30)
    assert answer.status_code == 303 and answer.headers["location"].startswith(REDIRECT + "?")
    told = {name: value for name, (value,) in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    assert told["error"] and "code" not in told
    assert told["iss"] == issuer.url and told["state"] == changed.get("state", "st4te")  # RFC 9207


@pytest.mark.parametrize("client_id", [None, "", "unknown", "x" * 5000, "../../x", "client\x00", "http://127.0.0.1:1/x.json",
                                       "https://127.0.0.1:1/", "https://user@app.example/c.json"])
def test_an_unknown_client_gets_a_page(issuer, client, client_id):
    answer = requests.get(client.request(client_id=client_id), allow_redirects=False, timeout=30)
    assert answer.status_code == 400 and "location" not in answer.headers


@pytest.mark.parametrize("name, value", [("redirect_uri", "https://evil.example/"), ("client_id", "x"), ("state", "2"),
                                         ("scope", "secret"), ("code_challenge_method", "plain")])
def test_a_parameter_that_is_there_twice(client, name, value):
    answer = requests.get(client.request(scope="notes") + "&" + urlencode({name: value}), allow_redirects=False, timeout=30)
    assert answer.status_code == 400 and "location" not in answer.headers


# --- forms ------------------------------------------------------------------------------------------------------------


def at_consent(client, **changed):
    """Return a person who has logged in, and the page that asks."""
    person = Person()
    page = person.submit(person.get(client.request(**changed)), username="ann", password="ann")
    page = person.get(urljoin(page.url, page.headers["location"]))
    assert 'value="allow"' in page.text
    return person, page


def action_of(page):
    return html.unescape(re.search(r'<form[^>]* action="([^"]*)"', page.text)[1])


def test_json_is_no_consent(issuer, client):
    person, page = at_consent(client)
    answer = person.browser.post(action_of(page), json={"decision": "allow"}, headers={"Origin": issuer.url},
                                 allow_redirects=False, timeout=30)
    assert answer.status_code in (200, 400, 403) and "location" not in answer.headers


def test_another_user_may_log_in_on_the_same_browser(client):
    person, page = at_consent(client)
    other = html.unescape(re.search(r'<a href="([^"]*other=1)"', page.text)[1])
    person.name = person.password = "bob"
    page = person.submit(person.get(other), username="bob", password="bob")
    page = person.get(urljoin(page.url, page.headers["location"]))
    assert "bob" in page.text
    assert "code=" in person.submit(page, decision="allow").headers["location"]


def test_passwords_are_limited(issuer):
    client, person = RawClient(issuer), Person("bob", "guess")
    page = person.get(client.request())
    said = [person.submit(page, username="bob", password=f"guess{at}").status_code for at in range(12)]
    assert said[0] == 403 and said[-1] == 429


def test_methods(issuer):
    for path in ("/token", "/register", "/revoke", "/introspect"):
        assert requests.get(issuer.url + path, timeout=30).status_code == 405
    for path in ("/authorize", "/login", "/consent", "/callback"):
        assert requests.delete(issuer.url + path, timeout=30).status_code == 405


# --- a consent that was given before ----------------------------------------------------------------------------------


@pytest.fixture
def person():
    return Person()


def consents(person):
    return sum('value="allow"' in page.text for page in person.pages)


@pytest.fixture
def allowed(issuer, person):
    """Return a client on the web that has access."""
    client = RawClient(issuer, "https://app.example/cb", redirect_uris=OUR_OWN)
    tokens = client.tokens(person, scope="notes")
    assert consents(person) == 1
    return client, tokens


def test_who_has_agreed_is_not_asked_again_while_the_app_has_access(issuer, person, allowed):
    client, tokens = allowed
    for changed in ({}, {"scope": "notes"}, {"redirect_uri": "https://app.example/cb?x=1"}):
        found = client.code(person, **changed)
        assert found["state"] == "st4te" and found["iss"] == issuer.url
    assert consents(person) == 1 and client.redeem(client.code(person)["code"]).json()["scope"] == "notes"
    assert len(person.browser.cookies) == 1


@pytest.mark.parametrize("changed", [
    {"scope": "notes secret"}, {"prompt": "consent"}, {"prompt": "login consent"}, {"redirect_uri": "http://localhost:5/cb"},
    {"redirect_uri": "com.example.app:/cb"}])
def test_more_than_before_is_asked_for(person, allowed, changed):
    client, _ = allowed
    for asked in (2, 3):  # a program on the user's machine each time
        client.redirect_uri = changed.get("redirect_uri", client.redirect_uri)
        assert client.redeem(client.code(person, **{"scope": "notes", **changed})["code"]).status_code == 200
        assert consents(person) == (2 if asked == 3 and "secret" in changed.get("scope", "") else asked)


def test_another_client_another_user_and_another_browser_are_asked(issuer, person, allowed):
    client, _ = allowed
    RawClient(issuer, "https://app.example/cb").code(person)
    assert consents(person) == 2
    other = Person("bob")
    client.code(other, scope="notes")
    assert consents(other) == 1
    again = Person()
    client.code(again, scope="notes")  # a login in another browser, which is by the same user
    assert consents(again) == 0 and again.forms == 1


@pytest.mark.parametrize("how", ["page", "revocation", "reuse"])
def test_a_consent_ends_with_the_access(issuer, person, allowed, how):
    client, tokens = allowed
    if how == "page":
        page = person.get(f"{issuer.url}/grants")
        person.submit(page, decision="end")
    elif how == "revocation":
        client.post("/revoke", token=tokens["refresh_token"], client_id=client.id)
    else:
        client.refresh(tokens["refresh_token"])
        client.refresh(tokens["refresh_token"])
    client.code(person, scope="notes")
    assert consents(person) == 2


def test_a_user_who_may_grant_less_by_now_grants_less(issuer, person, allowed):
    from mcplite.auth import User

    client, _ = allowed
    client.tokens(person, scope="notes secret")
    issuer._users.known["ann"] = User("ann", scopes=frozenset({"notes"}))
    assert client.tokens(person, scope="notes secret")["scope"] == "notes" and consents(person) == 2
    # The page of a consent names the scope that the user may not grant any more.
    client.code(person, scope="notes secret", prompt="consent")
    asked = next(page.text for page in reversed(person.pages) if 'value="allow"' in page.text)
    granted, refused = asked.split("may not allow:")
    assert "notes" in granted and "secret" not in granted and "secret" in refused
