"""The pages of an issuer in a real browser: what a person does, what other sites cannot do, and how the pages look."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

import mcplite
from mcplite.auth import Issuer
from mcplite.auth.issuer import users as users_module
from mcplite.auth.issuer.users import PasswordFile, change_user
from tests.support.chromium import CHROMIUM, LIMIT, Chromium
from tests.support.credentials import mint  # noqa: F401 - a fixture
from tests.support.issuers import Person, RawClient, TestUsers, server_with, serving
from tests.support.login_pages import PASSWORD
from tests.support.processes import free_port
from tests.support.provider_logins import Bridge
from tests.support.providers import provider  # noqa: F401 - a fixture
from tests.support.secure import folder  # noqa: F401 - a fixture

pytestmark = [pytest.mark.interop,
              pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; tests/interop/install.sh installs it")]


class Site:
    """A web site on this machine: a client that the browser comes back to, or a page of another site."""

    def __init__(self):
        #: By path: a page, or where to lead on.
        self.pages, self.leads = {}, {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.partition("?")[0]
                body = site.pages.get(path, "<p>You are back.</p>").encode()
                self.send_response(302 if path in site.leads else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                if path in site.leads:
                    self.send_header("Location", site.leads[path])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def url(self, path="/", host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    def close(self):
        self._server.shutdown()
        self._thread.join(LIMIT)
        self._server.server_close()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture
def account(tmp_path, monkeypatch, site):
    """A server with its own users, and a client of it that waits at a page of this machine."""
    monkeypatch.setattr(users_module, "_N", 16)
    path = str(tmp_path / "users.txt")
    change_user(path, "ann", PASSWORD, new=True)
    with serving(PasswordFile(path), scopes=["notes", "secret"], descriptions={"notes": "Read your notes"}) as issuer:
        issuer.client = RawClient(issuer, site.url("/callback"), client_name="Desk")
        yield issuer


def asks(issuer, **metadata):
    """Return the URL that a client sends a browser to; with metadata, that of another client."""
    if not metadata:
        return issuer.client.request()
    return RawClient(issuer, metadata.pop("redirect_uri", issuer.client.redirect_uri), **metadata).request()


def at_the_client(tab, issuer):
    """Wait until the browser is back at the client; return what the client is told."""
    return dict(parse_qsl(urlsplit(tab.expect_url(issuer.client.redirect_uri)).query))


def log_in(tab, password=PASSWORD, name="ann"):
    tab.type("input[name=username]", name)
    tab.type("input[name=password]", password)
    tab.click("button.primary")


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_person_logs_in_and_allows_a_client(chromium, account, scripts):
    tab = chromium.tab(scripts=scripts)
    tab.visit(asks(account))
    log_in(tab, "wrong")
    tab.expect("The name or the password is wrong.")
    assert tab.evaluate("document.querySelector('[name=username]').value") == "ann"
    tab.evaluate("document.querySelector('[name=username]').select()")
    log_in(tab)
    tab.expect("Allow access to notes?")
    for text in ("Desk wants to use notes", "logged in as ann", "Read your notes", "secret", "an app on this computer"):
        assert text in tab.text
    tab.click("button[value=allow]")
    told = at_the_client(tab, account)
    tokens = account.client.redeem(told["code"]).json()
    assert told["state"] == "st4te" and told["iss"] == account.url
    assert account.client.call(tokens["access_token"]).startswith("ann")
    # The status of the refused login is a line of the browser's own; the pages add none.
    ours = [entry["entry"] for entry in tab.complaints if account.url in entry["entry"].get("url", account.url)]
    assert [entry["source"] for entry in ours] == ["network"]
    paths = [urlsplit(url).path for url in tab.requests if url.startswith(account.url)]
    assert paths == ["/authorize", "/login", "/login", "/consent", "/consent"]


def test_a_person_denies(chromium, account):
    tab = chromium.tab()
    tab.visit(asks(account))
    log_in(tab)
    tab.expect("Allow access")
    tab.click("button[value=deny]")
    told = at_the_client(tab, account)
    assert told["error"] == "access_denied" and "code" not in told


def test_the_keyboard_is_enough(chromium, account):
    tab = chromium.tab()
    tab.visit(asks(account))
    assert tab.evaluate("document.activeElement.name") == "username"
    tab.call("Input.insertText", text="ann")
    tab.press("Tab")
    tab.call("Input.insertText", text=PASSWORD)
    tab.press("Enter")
    tab.expect("Allow access")
    names = []
    for _ in range(3):
        tab.press("Tab")
        names.append(tab.evaluate("document.activeElement.value || document.activeElement.innerText"))
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "3px"
    assert names == ["Log in as another user", "deny", "allow"]
    tab.press("Enter")
    assert "code" in at_the_client(tab, account)


def test_a_client_may_lead_on_elsewhere(chromium, account, site):
    # Chromium applies form-action to every redirect that follows a form, and blocks without a word to the user.
    site.leads = {"/callback": site.url("/end", "done.example")}
    tab = chromium.tab()
    tab.visit(asks(account))
    log_in(tab)
    tab.expect("Allow access")
    tab.click("button[value=allow]")
    assert tab.expect_url(site.url("/end", "done.example"))


def test_a_program_of_a_scheme_of_its_own_is_told(chromium, account):
    tab = chromium.tab()
    tab.visit(asks(account, redirect_uri="example-app://callback"))
    log_in(tab)
    tab.expect("the app on this device that opens example-app: links")
    tab.click("button[value=allow]")
    # There is no such program here: the browser stays, and has asked for it.
    tab.wait(lambda: any("example-app" in str(report["params"]) and "code=" in str(report["params"])
                         for report in tab.reports), "the request for the program")
    assert not any("form-action" in str(report["params"]) for report in tab.reports if report["method"] == "Log.entryAdded")


def test_a_form_never_leads_to_a_scheme_that_is_not_the_clients(chromium, account, site):
    site.leads = {"/callback": "other-app://x"}
    tab = chromium.tab()
    tab.visit(asks(account))
    log_in(tab)
    tab.expect("Allow access")
    tab.click("button[value=allow]")
    tab.wait(lambda: any("form-action" in entry["entry"]["text"] for entry in tab.complaints), "the refusal")


def test_a_person_ends_a_grant_and_logs_out(chromium, account):
    tokens = account.client.tokens(Person("ann", PASSWORD))
    assert account.client.call(tokens["access_token"]).startswith("ann")
    tab = chromium.tab()
    tab.visit(account.url + "/grants")
    log_in(tab)
    tab.expect("Apps with access to notes")
    tab.click("button[aria-label='End access: Desk']")
    tab.expect("The access has ended.")
    assert "No app has access" in tab.text and account.client.call(tokens["access_token"]) == "refused"
    assert account.client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    tab.click("button[value=logout]")
    tab.expect("Password")
    assert tab.complaints == []


def test_over_https_the_cookie_is_of_this_host_alone(folder, tmp_path, site):  # noqa: F811
    port = free_port()
    issuer = Issuer(f"https://127.0.0.1:{port}", users=TestUsers(), clients=[
        {"client_id": "desk", "client_name": "Desk", "redirect_uris": [site.url("/callback")],
         "token_endpoint_auth_method": "none"}])
    files = {"certfile": str(folder / "server.pem"), "keyfile": str(folder / "server.key")}
    challenge = {"code_challenge": "A" * 43, "code_challenge_method": "S256"}
    query = urlencode({"response_type": "code", "client_id": "desk", "redirect_uri": site.url("/callback"), **challenge})
    with mcplite.serve(server_with(issuer), port=port, **files), \
            Chromium(tmp_path / "profile", "--ignore-certificate-errors") as browser:
        tab = browser.tab()
        tab.visit(f"{issuer.url}/authorize?{query}")
        asked = tab.cookies
        log_in(tab, "ann")
        tab.expect("Allow access")
        cookies = tab.cookies
        tab.click("button[value=allow]")
        assert "code=" in tab.expect_url(site.url("/callback"))
        assert tab.complaints == []
    for (cookie,) in (asked, cookies):
        assert cookie["name"].startswith("__Host-") and cookie["path"] == "/" and cookie["domain"] == "127.0.0.1"
        assert cookie["secure"] and cookie["httpOnly"] and cookie["sameSite"] == "Lax" and cookie["session"]
    assert asked[0]["value"] != cookies[0]["value"]


@pytest.mark.parametrize("scheme", ["http", "example-app"])
def test_a_login_at_a_provider_comes_back_at_once(chromium, provider, site, scheme):  # noqa: F811
    # The person has a session there and has agreed before: consent, provider, callback and client are one chain of redirects.
    uri = site.url("/callback") if scheme == "http" else f"{scheme}://callback"
    with Bridge(provider) as bridge:
        tab = chromium.tab()
        tab.visit(RawClient(SimpleNamespace(url=bridge.issuer, endpoint=bridge.url), uri, client_name="Desk").request())
        tab.expect("Next you log in with GitHub")
        tab.click("button[value=allow]")
        if scheme != "http":
            tab.wait(lambda: any(f"{uri}?code=" in str(report["params"]) for report in tab.reports), "the call of the program")
            assert "form-action" not in str(tab.complaints)
            return
        assert "code=" in tab.expect_url(uri)
        tab.visit(bridge.issuer + "/grants")
        tab.expect("Apps with access to notes")
        tab.click("button[value=logout]")
        tab.expect("Next you log in with GitHub")
        tab.click("button.primary")
        tab.expect("Apps with access to notes")
        assert "form-action" not in str(tab.complaints)


# --- what other sites cannot do ---------------------------------------------------------------------------------

CSRF = """<form id=f method=post action="{url}/grants"><input name=decision value=end><input name=grant value="{grant}">
<input name=csrf value="{csrf}"></form><script>f.submit()</script>"""


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1"])
def test_a_form_of_another_site_ends_no_grant(chromium, account, site, host):
    tokens = account.client.tokens(Person("ann", PASSWORD))
    tab = chromium.tab()
    tab.visit(account.url + "/grants")
    log_in(tab)
    tab.expect("Desk")
    grant = tab.evaluate("document.querySelector('[name=grant]').value")
    site.pages["/evil"] = CSRF.format(url=account.url, grant=grant, csrf="A" * 43)
    tab.visit(site.url("/evil", host))
    tab.expect_url(account.url)
    assert account.client.call(tokens["access_token"]).startswith("ann")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1"])
def test_a_link_of_another_site_is_no_consent(chromium, account, site, host):
    tab = chromium.tab()
    tab.visit(asks(account))
    log_in(tab)
    tab.expect("Allow access")
    token = tab.evaluate("document.querySelector('[name=csrf]').value")
    site.pages["/evil"] = f"<a href='{tab.url}&decision=allow&csrf={token}'>a prize</a>"
    tab.visit(site.url("/evil", host))
    tab.click("a")
    tab.expect("Allow access")  # the question again, and no answer
    assert tab.url.startswith(account.url)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1"])
def test_no_page_can_frame_ours(chromium, account, site, host):
    site.pages["/frame"] = f"<p>Click here</p><iframe src='{asks(account)}' width=600 height=600></iframe>"
    tab = chromium.tab()
    tab.visit(site.url("/frame", host))
    tab.wait(lambda: any("frame-ancestors" in entry["entry"]["text"] or "X-Frame-Options" in entry["entry"]["text"]
                         for entry in tab.complaints), "the refusal")


def test_what_a_client_calls_itself_runs_and_loads_nothing(chromium, account):
    tab = chromium.tab()
    tab.visit(asks(account, client_name="<script>window.hit=1</script><img src=x onerror='window.hit=1'>"))
    log_in(tab, "wrong", "\"><svg/onload=window.hit=1>")
    tab.expect("is wrong")
    assert tab.evaluate("window.hit") is None and tab.evaluate("document.querySelectorAll('script, img, svg').length") == 0
    assert tab.evaluate("document.querySelector('[name=username]').value") == "\"><svg/onload=window.hit=1>"


# --- how they look ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("width, scheme", [(360, "light"), (320, "dark"), (1200, "light")])
def test_pages_fit_and_follow_the_preference(chromium, account, width, scheme):
    long = {"client_name": "Superlongapplicationnamewithoutanyblankinit" * 2,
            "redirect_uri": "https://" + ".".join(["a-rather-long-label-of-a-host" * 2] * 3) + ".example/callback"}
    tab = chromium.tab(width=width, scheme=scheme)
    for url in (asks(account, **long), account.url + "/grants", account.url + "/authorize"):
        tab.visit(url)
        if "Password" in tab.text:
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            log_in(tab)
            tab.wait(lambda: tab.evaluate("!document.querySelector('[name=password]')"), "the next page")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        background = tab.evaluate("getComputedStyle(document.querySelector('main')).backgroundColor")
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(25, 30, 37)"}[scheme]
        assert all(tab.evaluate("[...document.querySelectorAll('button')].map(one => one.offsetHeight >= 40)"))
