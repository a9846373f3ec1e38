"""Pages: what they show, and their headers."""

import base64
import hashlib
import re

import pytest

from mcplite.auth.issuer.pages import ClientInfo, GrantInfo, Pages
from tests.support.login_pages import ALL, DESK, LOOPBACK, WEB, consent, error, grants, logged_in, login, provider


@pytest.fixture
def pages():
    pages = Pages()
    pages.server = "Notes"
    return pages


# --- what they show -----------------------------------------------------------------------------------------------

def test_a_login_asks_for_name_and_password(pages):
    page = login(pages)
    assert page.status == 200 and "Log in to Notes" in page.text and "Desk wants to use Notes" in page.text
    form = page.one("form")
    assert form == {"method": "post", "action": "/authorize/login?t=1"}
    assert page.one("input", name="csrf", type="hidden")["value"] == "token"
    assert page.one("input", name="username")["autocomplete"] == "username"
    assert page.one("input", name="password", type="password")["autocomplete"] == "current-password"
    assert {found["for"] for found in page.all("label")} == {found["id"] for found in page.all("input") if "id" in found}


def test_the_field_to_fill_in_has_the_focus(pages):
    assert "autofocus" in login(pages).one("input", name="username")
    again = login(pages, name="ann", error="wrong_password")
    assert "autofocus" in again.one("input", name="password") and "autofocus" not in again.one("input", name="username")
    assert again.one("input", name="username")["value"] == "ann" and "value" not in again.one("input", name="password")


@pytest.mark.parametrize("reason, status, text", [
    ("wrong_password", 403, "The name or the password is wrong."), ("too_many_attempts", 429, "Wait 17 seconds"),
    ("users_unavailable", 503, "cannot be checked"), ("form_expired", 403, "no longer valid"),
])
def test_a_login_says_why_it_failed(pages, reason, status, text):
    page = login(pages, error=reason, seconds=17.2)
    assert page.status == status and text in page.text and page.one("p", role="alert")
    assert page.headers.get("retry-after") == ("17" if status == 429 else None)


def test_a_login_without_a_client_names_none(pages):
    assert "wants to use" not in login(pages, client=None).text


def test_a_consent_shows_who_asks_for_what_and_where_it_leads(pages):
    page = consent(pages, other_user="/login?t=1")
    for text in ("Allow access to Notes?", "Desk wants to use Notes", "logged in as Ann Example", "notes:read",
                 "Read your notes", "notes:write", "an app on this computer", "has chosen its name itself"):
        assert text in page.text
    assert [found["value"] for found in page.all("button", name="decision")] == ["deny", "allow"]
    assert page.one("a") == {"href": "/login?t=1"}


def test_a_consent_before_an_upstream_says_who_comes_next(pages):
    page = consent(pages, user=None, upstream="GitHub")
    assert "Next you log in with GitHub" in page.text and "Continue to GitHub" in page.text and "logged in as" not in page.text


def test_the_form_of_a_consent_may_lead_to_the_provider_and_at_once_to_the_client(pages):
    for uri, allowed in [("cursor://x/y", "'self' http: https: cursor:"), (LOOPBACK, "'self' http: https:"),
                         ("https://app.example/", None)]:
        assert consent(pages, redirect_uri=uri, upstream="GitHub").policy.get("form-action") == allowed
    assert provider(pages).policy["form-action"] == "'self' http: https:"


def test_a_login_at_a_provider_without_a_client(pages):
    page = provider(pages, error="form_expired")
    assert "Log in to Notes" in page.text and "Continue to GitHub" in page.text and page.status == 403


def test_a_consent_for_no_scopes(pages):
    assert "no particular permissions" in consent(pages, scopes=[]).text


@pytest.mark.parametrize("allowed, says", [
    ([("notes:read", "")], "It asks for more, which Ann Example may not allow:"),
    ([], "Ann Example may allow none of what it asks for:")])
def test_a_consent_names_what_the_user_may_not_grant(pages, allowed, says):
    page = consent(pages, scopes=allowed, refused=[("notes:burn", "Burn your <b>notes</b>")])
    assert says in page.text and "Burn your <b>notes</b>" in page.text and "no particular permissions" not in page.text
    assert len(page.all("ul")) == 1 + len(allowed) and page.one("ul", **{"class": "refused"})
    assert "may not" not in consent(pages).text


def test_a_client_with_a_metadata_document_is_shown_with_its_host(pages):
    page = consent(pages, client=WEB)
    assert "description of this app comes from app.example" in page.text and "chosen its name" not in page.text


@pytest.mark.parametrize("uri, shown", [
    ("http://127.0.0.1:43121/callback", "an app on this computer"),
    ("http://localhost/callback", "an app on this computer"),
    ("http://[::1]:80/callback", "an app on this computer"),
    ("https://claude.ai/api/callback", "claude.ai"),
    ("https://app.example:8443/x?host=bank.example", "app.example:8443"),
    ("https://bank.example@evil.example/x", "evil.example"),
    ("https://bank.example.evil.example/", "bank.example.evil.example"),
    ("https://" + "a" * 60 + "." + "b" * 60 + ".example/", "a" * 60 + "." + "b" * 60 + ".example"),
    ("https://xn--bnk-sla.example/", "xn--bnk-sla.example"),
    ("http://127.0.0.1.evil.example/", "127.0.0.1.evil.example"),
    ("https://localhost.evil.example/", "localhost.evil.example"),
    ("cursor://anysphere.mcp/callback", "the app on this device that opens cursor: links"),
    ("com.example.app:/callback", "the app on this device that opens com.example.app: links"),
])
def test_the_goal_is_what_a_browser_takes_for_it(pages, uri, shown):
    page = consent(pages, redirect_uri=uri)
    assert f"The access goes to {shown} The app" in page.text


@pytest.mark.parametrize("uri", [
    "https://evil.example\\@bank.example/", "https://b\u00e4nk.example/", "https://bank.example:port/", "https:///x",
    "bank.example", "https://[::1", "https://bank.example/<script>", "https://evil.example\t@bank.example/",
])
def test_an_address_that_is_read_in_two_ways_is_shown_whole(pages, uri):
    page = consent(pages, redirect_uri=uri)
    assert " ".join(uri.split()) in page.text and page.policy["form-action"] == "'self'"


def test_grants_can_be_ended_one_by_one(pages):
    two = [GrantInfo("g-1", DESK, ["notes:read"], 1.79e9, 1.795e9), GrantInfo("g-2", WEB, [], 1.79e9, 1.8e9)]
    page = grants(pages, grants=two)
    assert "Apps with access to Notes" in page.text and "Ann Example" in page.text and "2026-09-21" in page.text
    assert [found["value"] for found in page.all("input", name="grant")] == ["g-1", "g-2"]
    assert [found["aria-label"] for found in page.all("button", value="end")] == ["End access: Desk", "End access: Web App"]
    assert len(page.all("input", name="csrf", value="token")) == len(page.all("form")) == 3


def test_a_user_without_grants_and_one_who_has_ended_one(pages):
    assert "No app has access" in grants(pages, grants=[]).text
    assert "The access has ended." in grants(pages, grants=[], ended=True).text


def test_a_login_of_the_user_alone_leads_to_the_grants(pages):
    page = logged_in(pages)
    assert "logged in to Notes as Ann Example" in page.text and page.one("a")["href"] == "/grants"


def test_an_error_says_what_it_means(pages):
    page = error(pages)
    assert page.status == 400 and "Wrong link It does not work." in page.text and page.all("form") == []
    assert "<title>Wrong link</title>" in page.source


@pytest.mark.parametrize("client, name", [
    (ClientInfo("c"), "An app without a name"), (ClientInfo("c", " \u200b\u202e "), "An app without a name"),
    (ClientInfo("c", "", "app.example"), "app.example"), (ClientInfo("c", "x" * 1000), "x" * 59 + "\u2026"),
    (ClientInfo("c", "Desk\n\n\x00 \u202eevil\u2066\ufeff"), "Desk evil"),
])
def test_the_name_of_a_client_is_one_short_line(pages, client, name):
    assert f"{name} wants to use Notes" in consent(pages, client=client).text


# --- headers --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("show", ALL)
def test_each_page_has_all_security_headers(pages, show):
    page = show(pages)
    headers = page.headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["x-frame-options"] == "DENY" and headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin" and headers["cache-control"] == "no-store"
    policy = page.policy
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"] and "script-src" not in policy
    style = re.search("<style>(.*?)</style>", page.source, re.DOTALL).group(1)
    assert policy["style-src"] == f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"


@pytest.mark.parametrize("show", ALL)
def test_each_page_works_without_script_and_loads_nothing(pages, show):
    page = show(pages)
    assert not [tag for tag, _ in page.elements if tag in ("script", "iframe", "img", "object", "embed", "base")]
    assert not [name for _, found in page.elements for name in found if name.startswith("on") or name in ("style", "src")]
    assert [found["href"] for found in page.all("link")] == ["data:,"]
    assert page.one("html")["lang"] == "en" and page.one("meta", name="viewport") and len(page.all("h1")) == 1


@pytest.mark.parametrize("show", [show for show in ALL if show is not error])
def test_each_form_is_posted_with_its_token(pages, show):
    page = show(pages)
    assert page.all("form") and all(form["method"] == "post" for form in page.all("form"))
    assert len(page.all("input", name="csrf", type="hidden", value="token")) == len(page.all("form"))


@pytest.mark.parametrize("uri, allowed", [
    ("", "'self'"), (LOOPBACK, "'self' http: https:"), ("http://[::1]:8000/callback", "'self' http: https:"),
    ("cursor://x/y", "'self' cursor:"), ("com.example.app:/x", "'self' com.example.app:"),
    ("https://app.example/callback", None), ("javascript:alert(1)", "'self'"), ("data:text/html,x", "'self'"),
    ("x:/;script-src *", "'self'"), ("x; script-src *://y", "'self'"), ("x:/\r\nSet-Cookie: a=b", "'self'"),
])
def test_a_consent_leads_to_this_server_and_to_the_client(pages, uri, allowed):
    assert consent(pages, redirect_uri=uri).policy.get("form-action") == allowed


def test_a_password_is_sent_to_this_server_alone(pages):
    assert login(pages).policy["form-action"] == "'self'"
