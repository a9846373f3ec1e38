"""Attacks on the pages of an issuer and on the sessions of browsers: each is refused, or shows a harmless text.

The kinds: markup in foreign texts (XSS), texts that look like others, forms of other sites and of other sessions (CSRF), ids
that an attacker has set (fixation), consent without a decision, framing, redirects elsewhere, guessed passwords.
"""

import base64
import hashlib
import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest

import mcplite
from mcplite.auth.issuer import users as users_module
from mcplite.auth.issuer.pages import ClientInfo, GrantInfo, Pages
from mcplite.auth.issuer.users import PasswordFile, User, change_user
from tests.support.issuers import ANN, BOB, Person, RawClient, TestUsers, serving
from tests.support.login_pages import PASSWORD, Account, FormBrowser, Page, consent, error, grants, login

# --- markup in foreign texts --------------------------------------------------------------------------------------

MARKUP = [
    "<script>alert(1)</script>", "\"><script>alert(1)</script>", "'><img src=x onerror=alert(1)>",
    "</title><svg onload=alert(1)>", "</style><script>alert(1)</script>", "\" autofocus onfocus=alert(1) x=\"",
    "<!--", "--><b>", "<![CDATA[<b>]]>",
    "&lt;script&gt;", "&#60;script&#62;", "$csrf ${csrf} $$", "%(csrf)s {csrf} {0}", "\x00<b\x00>", "\ud800<b>",
    "<a href=//evil.example>click</a>", "javascript:alert(1)", "\r\nSet-Cookie: a=b\r\n\r\n<b>", "<base href=//evil.example>",
    "</form><form action=//evil.example>", "<meta http-equiv=refresh content='0;url=//evil.example'>", "\u2028<b>\u2029",
    "\uff1cscript\uff1e", "<plaintext>",
]
#: By where a foreign text is shown: the page with it.
PLACES = {
    "client name at the login": lambda pages, text: login(pages, client=ClientInfo("c", text)),
    "client name at the consent": lambda pages, text: consent(pages, client=ClientInfo("c", text)),
    "client name in the grants": lambda pages, text: grants(pages, grants=[GrantInfo("g", ClientInfo("c", text), [], 0, 0)]),
    "client domain": lambda pages, text: consent(pages, client=ClientInfo("c", "Desk", text or "d")),
    "scope": lambda pages, text: consent(pages, scopes=[(text, "x")]),
    "description": lambda pages, text: consent(pages, scopes=[("x", text or "x")]),
    "scope in the grants": lambda pages, text: grants(pages, grants=[GrantInfo("g", ClientInfo("c"), [text], 0, 0)]),
    "redirect uri": lambda pages, text: consent(pages, redirect_uri=text),
    "redirect uri with a host": lambda pages, text: consent(pages, redirect_uri="https://app.example/" + text),
    "user name": lambda pages, text: consent(pages, user=User("ann", text)),
    "entered name": lambda pages, text: login(pages, name=text or "x", error="wrong_password"),
    "action with a state": lambda pages, text: login(pages, action="/authorize?state=" + text),
    "csrf": lambda pages, text: login(pages, csrf=text),
    "grant id": lambda pages, text: grants(pages, grants=[GrantInfo(text, ClientInfo("c"), [], 0, 0)]),
    "title of an error": lambda pages, text: error(pages, title=text),
    "text of an error": lambda pages, text: error(pages, text=text),
    "upstream": lambda pages, text: consent(pages, user=None, upstream=text or "x"),
    "link to another login": lambda pages, text: consent(pages, other_user="/login?" + text),
    "server": lambda pages, text: login(_named(text)),
}


def _named(text):
    pages = Pages()
    pages.server = text
    return pages


def structure(page):
    """Return what a browser makes of a page: its elements, with the attributes that are no texts."""
    return [(tag, sorted(found), {name: found[name] for name in ("id", "class", "name", "type", "method") if name in found})
            for tag, found in page.elements]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", MARKUP)
def test_a_foreign_text_is_a_text(place, text):
    show = PLACES[place]
    page, plain = show(Pages(), text), show(Pages(), "harmless")
    assert structure(page) == structure(plain)
    assert page.headers.keys() == plain.headers.keys()
    assert not [value for value in page.headers.values() if "\r" in value or "\n" in value]


@pytest.mark.parametrize("text", [
    "Desk\u202egpj.exe", "\u2066Desk\u2069", "De\u200bsk", "Desk\ufeff", "De\u00adsk", "D\x1besk", "\u180eDesk"])
def test_characters_that_hide_or_turn_others_are_not_shown(text):
    page = consent(Pages(), client=ClientInfo("c", text), scopes=[(text, text)], user=User("a", text))
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\u180e\x1b]", page.source)


@pytest.mark.parametrize("uri, real", [
    ("https://bank.example@evil.example/", "evil.example"), ("https://bank.example:443@evil.example/", "evil.example"),
    ("https://evil.example/bank.example", "evil.example"), ("https://evil.example?bank.example", "evil.example"),
    ("https://evil.example#@bank.example", "evil.example"), ("https://bank.example.evil.example", "bank.example.evil.example"),
    ("HTTPS://EVIL.example/", "evil.example"), ("http://localhost@evil.example/", "evil.example"),
    ("http://127.0.0.1@evil.example/", "evil.example"), ("http://127.0.0.1.evil.example/", "127.0.0.1.evil.example"),
    ("http://0x7f.evil.example/", "0x7f.evil.example"),
])
def test_the_host_that_gets_the_code_is_shown(uri, real):
    page = consent(Pages(), client=ClientInfo("c", "bank.example"), redirect_uri=uri)
    shown = re.search('<p class="host">(.*?)</p>', page.source).group(1)
    assert shown == real


@pytest.mark.parametrize("uri", ["javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,<b>", "vbscript:x", "blob:x", "file:///etc"])
def test_a_form_never_leads_to_what_a_browser_would_run(uri):
    assert consent(Pages(), redirect_uri=uri).policy["form-action"] == "'self'"


# --- requests that others have made ---------------------------------------------------------------------------------

@pytest.fixture
def issuer():
    with serving(TestUsers(ANN, BOB)) as issuer:
        issuer.client = RawClient(issuer, client_name="Desk")
        yield issuer


class Browsing(Person):
    """A person whose browser is at a page of an issuer."""

    def open(self, url):
        """Go to a URL; return the first page that is no redirect of our own."""
        page = self.get(url)
        while page.is_redirect and page.headers["location"].startswith(page.url.partition("/authorize")[0].rpartition("/")[0]):
            page = self.get(page.headers["location"])
        return page

    def at_consent(self, client):
        """Log in for a client; return the page of its consent."""
        page = self.get(client.request())
        if 'name="password"' in page.text:
            page = self.get(self.submit(page, username=self.name, password=self.password).headers["location"])
        assert 'value="allow"' in page.text
        return page


def token(page):
    return re.search('name="csrf" value="([^"]+)"', page.text).group(1)


def action(page):
    return html.unescape(re.search(r'<form[^>]* action="([^"]*)"', page.text).group(1))


def code_of(response):
    """Return the code of a response to the client; None for any other."""
    query = parse_qs(urlsplit(response.headers.get("location", "")).query)
    return query.get("code", [None])[0]


@pytest.fixture
def victim(issuer):
    return Browsing("ann")


@pytest.fixture
def attacker(issuer):
    """A user of the same server, with sessions and forms of their own."""
    return Browsing("bob")


#: What an attacker puts into the form of a consent, of the tokens of the victim's page, of a page of their own, and of another
#: transaction of the victim.
FORGED = {
    "missing": lambda own, theirs, other: None, "empty": lambda own, theirs, other: "",
    "of another session": lambda own, theirs, other: theirs, "of another transaction": lambda own, theirs, other: other,
    "guessed": lambda own, theirs, other: "A" * 43, "with more": lambda own, theirs, other: own + "A",
    "cut": lambda own, theirs, other: own[:-1], "in another case": lambda own, theirs, other: own.swapcase(),
    "twice": lambda own, theirs, other: [own, own], "beside another": lambda own, theirs, other: ["x", own],
}


@pytest.mark.parametrize("decision", ["allow", "deny"])
@pytest.mark.parametrize("kind", FORGED)
def test_a_consent_needs_the_token_of_its_own_form(issuer, victim, attacker, kind, decision):
    page, other = victim.at_consent(issuer.client), victim.at_consent(RawClient(issuer, client_name="Other"))
    given = FORGED[kind](token(page), token(attacker.at_consent(issuer.client)), token(other))
    given = given if isinstance(given, list) else [] if given is None else [given]
    fields = [("decision", decision), *(("csrf", one) for one in given)]
    answer = victim.browser.post(action(page), fields, allow_redirects=False, headers={"Origin": issuer.url})
    assert answer.status_code in (400, 403) and not answer.is_redirect
    # The person can still answer for themselves.
    assert code_of(victim.submit(victim.get(action(page)), decision="allow"))


@pytest.mark.parametrize("method, status", [("GET", 200), ("HEAD", 405)])
def test_a_link_is_no_consent(issuer, victim, method, status):
    page = victim.at_consent(issuer.client)
    answer = victim.browser.request(method, f"{action(page)}&decision=allow&csrf={token(page)}", allow_redirects=False)
    assert answer.status_code == status and not answer.is_redirect


def test_a_consent_for_one_client_is_none_for_another(issuer, victim):
    first, second = victim.at_consent(issuer.client), victim.at_consent(RawClient(issuer, client_name="Evil"))
    answer = victim.browser.post(action(second), {"decision": "allow", "csrf": token(first)}, allow_redirects=False)
    assert answer.status_code == 403 and "Evil" in answer.text
    # Having allowed the first one is no answer for the second.
    assert code_of(victim.submit(first, decision="allow"))
    assert 'value="allow"' in victim.get(RawClient(issuer, client_name="Evil").request()).text


@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_a_form_is_used_once(issuer, victim, decision):
    page = victim.at_consent(issuer.client)
    assert victim.submit(page, decision=decision).is_redirect
    for again in ("allow", "deny"):
        answer = victim.submit(page, decision=again)
        assert answer.status_code == 400 and not answer.is_redirect
    assert victim.get(action(page)).status_code == 400


@pytest.mark.parametrize("decision", ["", "ALLOW", "allow ", "yes", None])
def test_anything_but_the_word_is_a_denial(issuer, victim, decision):
    page = victim.at_consent(issuer.client)
    answer = victim.submit(page, **({} if decision is None else {"decision": decision}))
    assert code_of(answer) is None and "error=access_denied" in answer.headers["location"]


@pytest.mark.parametrize("who", ["a stranger", "another user"])
def test_a_transaction_belongs_to_its_browser(issuer, victim, attacker, who):
    page = victim.at_consent(issuer.client)
    if who == "another user":
        attacker.at_consent(issuer.client)
    for answer in (attacker.get(action(page)), attacker.get(action(page).replace("/consent", "/login")),
                   attacker.submit(page, decision="allow")):
        assert answer.status_code == 400 and "another browser" in answer.text and not answer.is_redirect


def test_a_transaction_of_the_attacker_is_not_gone_on_with_by_the_victim(issuer, victim, attacker):
    # The attacker wants the victim to allow what the attacker has begun.
    page = attacker.at_consent(issuer.client)
    victim.at_consent(issuer.client)
    assert victim.get(action(page)).status_code == 400


def test_a_consent_of_before_the_logout_is_none_after_it(issuer, victim):
    page = victim.at_consent(issuer.client)
    grants = victim.get(issuer.url + "/grants")
    assert victim.submit(grants, decision="logout").is_redirect
    answer = victim.submit(page, decision="allow")
    assert answer.status_code in (400, 403) and code_of(answer) is None


def test_a_user_who_is_gone_or_has_fewer_scopes_allows_no_more_than_they_may_now(victim):
    users = TestUsers(ANN)
    with serving(users, scopes=["notes", "secret"]) as issuer:
        client = RawClient(issuer)
        page = victim.at_consent(client)
        users.known["ann"] = User("ann", scopes=frozenset({"notes"}))
        tokens = client.redeem(code_of(victim.submit(page, decision="allow"))).json()
        assert tokens["scope"] == "notes"
        page = victim.at_consent(client)
        del users.known["ann"]
        answer = victim.submit(page, decision="allow")
        assert code_of(answer) is None and 'name="password"' in answer.text
        users.away = True
        assert victim.submit(page, decision="allow").is_redirect is False


ORIGINS = ["https://evil.example", "null", "http://evil.example", "https://127.0.0.1.evil.example", "http://127.0.0.1@evil.example",
           "file://", "chrome-extension://abc"]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("path", ["/consent", "/login", "/grants"])
def test_a_page_of_another_site_is_refused_even_with_the_token(issuer, victim, origin, path):
    page = {"/consent": lambda: victim.at_consent(issuer.client), "/login": lambda: victim.get(issuer.client.request()),
            "/grants": lambda: victim.get(issuer.url + "/grants")}[path]()
    fields = {"csrf": token(page), "decision": "allow", "username": "ann", "password": "ann"}
    answer = victim.browser.post(action(page), fields, allow_redirects=False, headers={"Origin": origin})
    assert answer.status_code == 403 and not answer.is_redirect


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "localhost.evil.example"])
def test_a_name_that_was_bent_to_this_machine_sees_no_page(issuer, victim, host):
    assert victim.browser.get(issuer.client.request(), headers={"Host": host}).status_code == 421


# --- ids that an attacker has set -----------------------------------------------------------------------------------

def test_a_login_with_an_id_of_the_attacker_does_not_log_the_attacker_in(issuer, victim, attacker):
    page = attacker.get(issuer.client.request())
    victim.browser.cookies.update(attacker.browser.cookies)  # planted, as by another program on this machine
    consent = victim.get(victim.submit(page, username="ann", password="ann").headers["location"])
    assert 'value="allow"' in consent.text
    assert dict(victim.browser.cookies) != dict(attacker.browser.cookies)
    assert attacker.get(action(consent)).status_code == 400
    answer = attacker.submit(consent, decision="allow")
    assert answer.status_code == 400 and code_of(answer) is None
    assert 'name="password"' in attacker.get(issuer.url + "/grants").text


@pytest.mark.parametrize("value", ["", "a", "A" * 43, "A" * 44, "../../browser", "%00", "A" * 8000])
def test_an_invented_id_is_no_login(issuer, victim, attacker, value):
    victim.at_consent(issuer.client)
    (name, _), = victim.browser.cookies.items()
    attacker.browser.cookies.set(name, value)
    assert 'name="password"' in attacker.get(issuer.client.request()).text


def test_the_digest_that_is_stored_is_no_id(issuer, victim, attacker):
    victim.at_consent(issuer.client)
    (name, id), = victim.browser.cookies.items()
    digest = hashlib.sha256(id.encode()).hexdigest()
    for value in (digest, digest[:43], base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")):
        attacker.browser.cookies.set(name, value)
        assert 'name="password"' in attacker.get(issuer.client.request()).text


def test_a_cookie_beside_the_victims_does_not_replace_it(issuer, victim, attacker):
    attacker.at_consent(issuer.client)
    victim.at_consent(issuer.client)
    (name, theirs), = attacker.browser.cookies.items()
    (_, ours), = victim.browser.cookies.items()
    victim.browser.cookies.clear()
    for header in (f"{name}={theirs}; {name}={ours}", f"{name}={ours}; {name}={theirs}"):
        answer = victim.browser.get(issuer.client.request(), headers={"Cookie": header})
        assert 'name="password"' in answer.text


# --- where a login leads --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("query", ["next=https://evil.example", "return_to=//evil.example", "redirect_uri=https://evil.example",
                                   "url=javascript:alert(1)", "ended&x=//evil.example", "//evil.example"])
@pytest.mark.parametrize("path", ["/login", "/grants"])
def test_a_login_leads_to_our_own_page_whatever_its_link_says(issuer, victim, query, path):
    url = action(victim.get(issuer.client.request())) + f"&{query}" if path == "/login" else f"{issuer.url}/grants?{query}"
    answer = victim.submit(victim.get(url), username="ann", password="ann", next="//evil.example")
    assert answer.status_code == 303 and answer.headers["location"].startswith(
        issuer.url + ("/consent?transaction=" if path == "/login" else "/grants"))
    assert "evil" not in answer.headers["location"]


# --- passwords --------------------------------------------------------------------------------------------------------

@pytest.fixture
def account(tmp_path, monkeypatch):
    monkeypatch.setattr(users_module, "_N", 16)
    path = str(tmp_path / "users.txt")
    for name in ("ann", "bob"):
        change_user(path, name, PASSWORD, new=True)
    account = Account(PasswordFile(path))
    with mcplite.serve(mcplite.Server("notes", auth=account)) as server:
        account.base, account.port = f"http://127.0.0.1:{server.port}", server.port
        yield account


class _Answer:
    def __init__(self, status, text, headers):
        self.status, self.content, self.headers = status, text.encode(), [("content-security-policy", "x")]


@pytest.mark.parametrize("name", [
    "ann", "carol", "", "ann\x00", "ANN", "ann ", "\u0430nn", "ann:x", "*", "ann\u200b", "' or 1=1 --"])
def test_each_name_is_told_the_same(account, name):
    browser = FormBrowser(account)
    status, text = browser.log_in(name, "wrong password")
    other = FormBrowser(account)
    known = other.log_in("ann", "wrong password")
    assert (status, Page(_Answer(status, text, {})).text) == (known[0], Page(_Answer(*known, {})).text)


@pytest.mark.parametrize("header, value", [
    ("X-Forwarded-For", "198.51.100.{}"), ("Forwarded", "for=198.51.100.{}"), ("X-Real-IP", "198.51.100.{}"),
    ("True-Client-IP", "198.51.100.{}"),
])
def test_a_header_gives_no_more_attempts(account, header, value):
    browser = FormBrowser(account)
    statuses = []
    for number in range(8):
        headers = {header: value.format(number)}
        fields = {"csrf": browser.csrf, "username": "ann", "password": f"guess {number}"}
        statuses.append(browser.send("POST", fields, **headers)[0])
    assert statuses == [403] * 6 + [429] * 2


def test_a_new_session_gives_no_more_attempts(account):
    statuses = [FormBrowser(account).log_in(password=f"guess {number}")[0] for number in range(8)]
    assert statuses == [403] * 6 + [429] * 2


def test_many_names_from_one_address_are_bounded(account):
    browser = FormBrowser(account)
    statuses = [browser.log_in(f"user {number}", "password")[0] for number in range(32)]
    assert statuses == [403] * 30 + [429] * 2


def test_the_password_stands_in_no_log_and_no_store(account, caplog):
    caplog.set_level("DEBUG")
    browser = FormBrowser(account)
    browser.log_in(password="hunter2-hunter2")
    browser.log_in()
    stored = repr(account.backend._values)
    for secret in ("hunter2-hunter2", PASSWORD, *browser.cookies.values()):
        assert secret not in caplog.text and secret not in stored


# --- texts and templates of one's own ---------------------------------------------------------------------------------

@pytest.mark.parametrize("place", [place for place in PLACES if place != "server"])
def test_own_texts_do_not_change_what_is_escaped(place):
    pages = Pages(texts={"login_for": "<i>$client</i>", "consent_for": "<i>$client</i>", "consent_user": "<i>$user</i>"})
    plain, page = PLACES[place](pages, "harmless"), PLACES[place](pages, "<script>alert(1)</script>")
    assert structure(page) == structure(plain) and not page.all("i")


def test_the_grants_of_others_are_not_shown_and_not_ended(account):
    victim, attacker = FormBrowser(account), FormBrowser(account)
    assert victim.log_in()[0] == attacker.log_in("bob")[0] == 200
    assert "g-1" not in attacker.get() and "g-3" in attacker.get()
    status, _ = attacker.post(decision="end", grant="g-1")
    assert status == 200 and "g-1" in account.store.ids
