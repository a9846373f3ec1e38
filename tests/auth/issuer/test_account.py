"""The page of a user: login by a form, the grants and their end, logout, on a real server."""

from html import escape
from urllib.parse import urlencode

import pytest

import mcplite
from mcplite.auth.issuer import users as users_module
from mcplite.auth.issuer.users import PasswordFile, Users, change_user, remove_user
from tests.support.login_pages import PASSWORD, Account, FormBrowser


@pytest.fixture
def account(tmp_path, monkeypatch):
    monkeypatch.setattr(users_module, "_N", 16)
    path = str(tmp_path / "users.txt")
    for name in ("ann", "bob"):
        change_user(path, name, PASSWORD, new=True)
    return Account(PasswordFile(path))


@pytest.fixture
def server(account):
    with mcplite.serve(mcplite.Server("notes", auth=account)) as server:
        account.base = f"http://127.0.0.1:{server.port}"
        yield server


@pytest.fixture
def browser(server):
    return FormBrowser(server)


def test_a_user_logs_in_and_sees_their_own_grants(browser):
    assert "Password" in browser.get()
    status, text = browser.log_in()
    assert status == 200 and "Desk" in text and "Phone" in text and text.count('name="grant"') == 2
    assert browser.log_in("bob")[1].count('name="grant"') == 2  # the session of ann goes on


def test_a_grant_is_ended(browser, account):
    browser.log_in()
    status, text = browser.post(decision="end", grant="g-1")
    assert status == 200 and "The access has ended." in text and account.store.ids == ["g-2", "g-3"]
    assert "The access has ended." not in browser.get()


@pytest.mark.parametrize("fields", [
    {"decision": "end", "grant": "g-3"}, {"decision": "end", "grant": "none"}, {"decision": "end"}, {"decision": "other"}, {},
    {"decision": "End", "grant": "g-1"},
])
def test_a_post_that_ends_no_grant_of_this_user_changes_nothing(browser, account, fields):
    browser.log_in()
    status, text = browser.post(**fields)
    assert status == 200 and "has ended" not in text and account.store.ids == ["g-1", "g-2", "g-3"]


def test_a_logout_ends_the_session_and_a_second_user_may_come(browser):
    browser.log_in()
    assert "Password" in browser.post(decision="logout")[1]
    assert browser.log_in("bob")[1].count('name="grant"') == 1


@pytest.mark.parametrize("name, password", [("ann", "guess-1"), ("carol", PASSWORD), ("<b>", "guess-2")])
def test_a_wrong_password_is_said_and_the_name_alone_is_kept(browser, name, password):
    status, text = browser.log_in(name, password)
    assert status == 403 and "is wrong" in text and f'value="{escape(name)}"' in text and password not in text


def test_too_many_wrong_passwords(browser):
    statuses = [browser.log_in(password=f"wrong {number}")[0] for number in range(7)]
    assert statuses == [403] * 6 + [429]
    status, text, headers = browser.send("POST", {"csrf": browser.csrf, "username": "ann", "password": PASSWORD})
    assert status == 429 and "Wait" in text and 0 < int(headers["Retry-After"]) <= 30


def test_users_that_cannot_be_looked_up(browser, account, caplog):
    class Down(Users):
        def check(self, name, password):
            raise ConnectionError("no database")

    account.users = Down()
    status, text = browser.log_in()
    assert status == 503 and "cannot be checked" in text and "no database" not in text and "no database" in caplog.text


def test_a_user_who_is_gone_or_has_a_new_password_is_logged_out(browser, account):
    browser.log_in()
    assert 'name="grant"' in browser.get()
    change_user(account.users.path, "bob", "another password", new=False)
    assert 'name="grant"' in browser.get()
    change_user(account.users.path, "ann", "another password", new=False)
    assert "Password" in browser.get() and browser.log_in(password="another password")[0] == 200
    remove_user(account.users.path, "ann")
    status, text = browser.post(decision="end", grant="g-1")
    assert "Password" in text and "g-1" in account.store.ids


def test_users_of_a_provider_log_in_there(browser, account):
    account.users = None
    assert "Next you log in with <strong>GitHub</strong>" in browser.get()
    status, _, headers = browser.send("POST", {"csrf": browser.csrf})
    assert status == 303 and headers["Location"] == "https://github.com/login?state=1"
    status, text, _ = browser.send("POST", {"username": "ann", "password": PASSWORD})
    assert status == 403 and "no longer valid" in text


# --- requests of others ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("headers", [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1.evil.example"}, {}])
@pytest.mark.parametrize("csrf", [None, "", "guess", "other"])
def test_another_site_ends_no_grant_and_no_session(browser, account, server, headers, csrf):
    browser.log_in()
    other = FormBrowser(server)
    other.log_in("bob")
    for fields in ({"decision": "end", "grant": "g-1"}, {"decision": "logout"}):
        if csrf is not None:
            fields["csrf"] = other.csrf if csrf == "other" else csrf
        assert browser.send("POST", fields, **headers)[0] == 403
    assert len(account.store.ids) == 3 and 'name="grant"' in browser.get()


def test_our_own_origin_is_accepted(browser, account):
    browser.log_in()
    fields = {"csrf": browser.csrf, "decision": "end", "grant": "g-1"}
    assert browser.send("POST", fields, Origin=f"http://127.0.0.1:{browser.port}")[0] == 303
    assert account.store.ids == ["g-2", "g-3"]


def test_a_login_needs_the_token_of_its_form(browser, server):
    # Login CSRF: a page of an attacker logs the victim's browser in as the attacker.
    browser.get()
    other = FormBrowser(server)
    for fields in ({}, {"csrf": ""}, {"csrf": other.csrf}):
        status, text, _ = browser.send("POST", {"username": "ann", "password": PASSWORD, **fields})
        assert status == 403 and "no longer valid" in text
    assert 'name="grant"' not in browser.get()


def test_a_form_is_used_once_it_was_a_login(browser):
    token = browser.csrf
    assert browser.send("POST", {"csrf": token, "username": "ann", "password": PASSWORD})[0] == 303
    assert browser.send("POST", {"csrf": token, "username": "bob", "password": PASSWORD})[0] == 403
    assert 'value="g-1"' in browser.get()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_visit_changes_nothing(browser, account, method):
    browser.log_in()
    query = urlencode({"csrf": browser.csrf, "decision": "end", "grant": "g-1"})
    assert browser.send(method, path=f"/account?{query}")[0] == 200
    assert len(account.store.ids) == 3


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_other_methods_are_refused(browser, method):
    status, _, headers = browser.send(method)
    assert status == 405 and headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("body, kind", [
    (b"csrf=x", "text/plain"), (b"csrf=x", "multipart/form-data; boundary=x"), (b'{"csrf": "x"}', "application/json"),
    (b"csrf=a&csrf=b", "application/x-www-form-urlencoded"), (b"csrf=%ff", "application/x-www-form-urlencoded"),
    (b"\xff", "application/x-www-form-urlencoded"), (b"a=1&" * 51, "application/x-www-form-urlencoded"),
])
def test_what_is_no_form_is_refused(browser, body, kind):
    browser.get()
    status, text, _ = browser.send("POST", body, **{"Content-Type": kind})
    assert status == 400 and "cannot be read" in text


def test_a_form_that_is_too_large(browser):
    assert browser.send("POST", b"a=" + b"x" * 70_000)[0] == 413


def test_each_answer_has_the_security_headers(browser):
    for _ in range(2):
        _, _, headers = browser.send("GET")
        assert headers["X-Frame-Options"] == "DENY" and "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        browser.log_in()
