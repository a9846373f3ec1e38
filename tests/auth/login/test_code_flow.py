"""OAuth: who the client is at each authorization server, how the user is asked, and what its arguments may be."""

import io
import re
import socket
import threading
import time

import pytest
import requests

import mcplite
from mcplite.auth.login import user_agent
from tests.support.authserver import REDIRECT, follow, refuse

DOCUMENT = "https://client.example/about.json"
LIMIT = 30


def oauth(user, **options):
    return mcplite.OAuth(**{"ask": user, "redirect_uri": REDIRECT, **options})


def connect(script, grant):
    return mcplite.connect(script.url, auth=grant, options=mcplite.ClientOptions(era="legacy", listen=False), timeout=LIMIT)


def register_with_secret(auth, lasts=0):
    """Have registrations come with a secret, which ends after some seconds."""
    made = []

    def register(document, answer):
        name = f"secretive-{len(made) + 1}"
        made.append(name)
        auth.know(name, "s3cret-" + name, document["redirect_uris"], "client_secret_post")
        answer.json({**document, "client_id": name, "client_secret": "s3cret-" + name,
                     "token_endpoint_auth_method": "client_secret_post",
                     "client_secret_expires_at": int(time.time() + lasts) if lasts else 0})

    auth.on_register = register
    return made


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("kind", [ValueError, TypeError])
def test_the_error_of_the_callers_function_is_raised_unchanged(script, era, kind):
    def ask(url):
        raise kind("the window is closed")

    with pytest.raises(kind, match="^the window is closed$"):
        mcplite.connect(script.url, auth=oauth(ask), options=mcplite.ClientOptions(era=era, listen=False), timeout=LIMIT).open()


def test_the_metadata_of_a_registration(auth, script, user):
    # AUC-17, AUC-28, AUC-29, AUC-46
    oauth(user, client_name="My program", scopes=["read"]).login(script.url)
    document, = auth.registered
    assert document["client_name"] == "My program" and document["redirect_uris"] == [REDIRECT]
    assert document["application_type"] == "native" and document["grant_types"] == ["authorization_code", "refresh_token"]
    assert document["response_types"] == ["code"] and document["token_endpoint_auth_method"] == "none"
    # RFC 7591, section 2: those that a client may use are those that it has named, and there can be more.
    assert "scope" not in document


# --- who the client is --------------------------------------------------------------------------------------


def test_a_secret_that_has_expired_is_replaced_once(auth, script, user):
    # AUTH-33
    made = register_with_secret(auth, lasts=600)
    store = mcplite.auth.MemoryStore()
    oauth(user, store=store).login(script.url)
    key = f"client {auth.issuer}"
    store.save(key, {**store.load(key), "expires_at": time.time() - 5})
    later = oauth(user, store=store)
    later.login(script.url)
    later.login(script.url)
    assert made == ["secretive-1", "secretive-2"] and store.load(key)["client_id"] == "secretive-2"


@pytest.mark.parametrize("how", ["expired", "refused"])
def test_an_unknown_client_registers_again_after_a_refused_refresh(auth, script, user, how):
    made = register_with_secret(auth)
    store = mcplite.auth.MemoryStore()
    oauth(user, store=store).login(script.url)
    del auth.clients["secretive-1"]
    auth.end()
    if how == "expired":
        key = f"token {script.url}"
        store.save(key, {**store.load(key), "expires_at": time.time() - 5})
    auth.asked.clear()
    with connect(script, oauth(user, store=store)) as client:
        client.ping()
    assert made == ["secretive-1", "secretive-2"] and len(user.visits) == 2
    assert [fields["grant_type"] for fields in auth.asked] == ["refresh_token", "authorization_code"]


def test_an_unknown_client_registers_again_after_a_refused_login(auth, script, user):
    # The user came back from there, but the token endpoint knows better.
    store = mcplite.auth.MemoryStore()
    oauth(user, store=store).login(script.url)
    auth.on_token = lambda fields, answer: refuse(answer, 401, "invalid_client") if not auth.registered[1:] else NotImplemented
    user.visits.clear()
    oauth(user, store=store).login(script.url)
    assert len(auth.registered) == len(user.visits) == 2
    auth.on_token = lambda fields, answer: refuse(answer, 401, "invalid_client")
    with pytest.raises(mcplite.errors.AuthError, match="invalid_client"):
        oauth(user, store=store).login(script.url)
    assert len(auth.registered) == 3 and len(user.visits) == 4  # once
    assert store.load(f"client {auth.issuer}") is None


@pytest.mark.parametrize("code", ["invalid_client", "unauthorized_client"])
def test_an_unknown_client_registers_again_once_after_a_redirect_that_says_so(auth, script, user, code):
    store = mcplite.auth.MemoryStore()
    oauth(user, store=store).login(script.url)
    known = {"client-1"}

    def strict(fields, answer):
        if fields["client_id"] not in known:
            return NotImplemented
        return answer.status(302, Location=f"{REDIRECT}?state={fields['state']}&error={code}&iss={auth.issuer}")

    auth.on_authorize = strict
    user.visits.clear()
    window = Window(user)
    mcplite.OAuth(ask=window, store=store).login(script.url)
    assert len(auth.registered) == len(user.visits) == 2
    assert [entry if isinstance(entry, str) else entry[0] for entry in window.log] == [
        "begin", "failed", "closed", "begin", "succeeded", "closed"]
    assert window.log[1][1].startswith("another page opens to log in at, since ") and code in window.log[1][1]
    known |= {"client-2", "client-3"}
    with pytest.raises(mcplite.errors.AuthError, match=code):
        oauth(user, store=store).login(script.url)
    assert len(auth.registered) == 3 and len(user.visits) == 4


@pytest.mark.parametrize("answer", [(401, "invalid_client"), (400, "invalid_client"), (401, "unauthorized_client")])
def test_an_unknown_client_registers_again_after_a_logout(auth, script, user, answer):
    store = mcplite.auth.MemoryStore()
    grant = oauth(user, store=store)
    grant.login(script.url)
    auth.on_revoke = lambda fields, back: refuse(back, *answer)
    with pytest.raises(mcplite.errors.AuthError, match=answer[1]):
        grant.logout(script.url)
    assert store.keys() == []
    auth.clients.clear()
    grant.login(script.url)
    assert len(auth.registered) == 2 and len(user.visits) == 2


def test_a_registration_that_another_process_has_replaced_is_kept(auth, script, user):
    store = mcplite.auth.MemoryStore()
    oauth(user, store=store).login(script.url)
    key = f"client {auth.issuer}"
    store.save(key, {**store.load(key), "client_id": "another"})
    auth.know("another")
    del auth.clients["client-1"]
    auth.end()
    with connect(script, oauth(user, store=store)) as client:
        client.ping()
    assert len(auth.registered) == 1 and auth.asked[-1]["client_id"] == "another"


@pytest.mark.parametrize("failure", [mcplite.errors.AuthError("the window was closed"), "late"])
def test_a_stored_registration_is_not_used_again_when_the_user_did_not_come_back(auth, script, user, failure):
    # A server that does not know a client shows the user an error, and does not redirect.
    store = mcplite.auth.MemoryStore()
    oauth(user, store=store).login(script.url)
    closed = threading.Event()

    def lost(url):
        assert closed.wait(LIMIT) if failure == "late" else True
        raise mcplite.errors.AuthError("too late") if failure == "late" else failure

    user.does = lost
    with pytest.raises(mcplite.errors.AuthError if failure == "late" else type(failure)):
        oauth(user, store=store, timeout=0.3 if failure == "late" else LIMIT).login(script.url)
    closed.set()
    user.does = follow
    oauth(user, store=store).login(script.url)
    oauth(user, store=store).login(script.url)
    assert len(auth.registered) == 2


def test_scopes_that_are_not_registered_are_registered_once(auth, script, user):
    # The official Python SDK's servers grant none that a registration does not name.
    def strict(fields, answer):
        allowed = auth.registered[int(fields["client_id"].rpartition("-")[2]) - 1].get("scope", "").split()
        if set(fields.get("scope", "").split()) <= set(allowed) - {"never"}:
            return NotImplemented
        return answer.status(302, Location=f"{REDIRECT}?state={fields['state']}&error=invalid_scope&iss={auth.issuer}")

    auth.on_authorize = strict
    store = mcplite.auth.MemoryStore()
    oauth(user, store=store).login(script.url)  # without scopes
    assert len(auth.registered) == 1
    script.needs, script.needs_for = ["read"], {"tools/call": ["write"]}
    with connect(script, oauth(user, store=store)) as client:
        client.call_tool("t")
    assert [document.get("scope") for document in auth.registered] == [None, "read", "read write"]
    assert [" ".join(scopes) for scopes in user.scopes()] == ["", "read", "read", "read write", "read write"]
    script.needs = ["never"]
    user.visits.clear()
    with pytest.raises(mcplite.errors.AuthError, match="did not authorize: invalid_scope"):
        oauth(user, store=store).login(script.url)
    assert len(user.visits) == 2 and len(auth.registered) == 4
    auth.know("by-hand")
    auth.registered.append({})
    auth.on_authorize = lambda fields, answer: answer.status(
        302, Location=f"{REDIRECT}?state={fields['state']}&error=invalid_scope&iss={auth.issuer}")
    with pytest.raises(mcplite.errors.AuthError, match="invalid_scope"):
        oauth(user, client_id="by-hand", issuer=auth.issuer).login(script.url)
    assert len(user.visits) == 3


@pytest.mark.parametrize("long", ["client_id", "scope"])
def test_a_login_url_of_a_huge_length_is_an_error(auth, script, user, long):
    if long == "client_id":
        auth.on_register = lambda document, answer: answer.json({**document, "client_id": "c" * 200_000})
    else:
        script.metadata = {"scopes_supported": [f"scope-{number}" for number in range(20_000)]}
    with pytest.raises(mcplite.errors.AuthError, match=f"{long}.* characters") as caught:
        oauth(user).login(script.url)
    assert not user.visits and len(str(caught.value)) < 400


def test_a_client_that_was_registered_by_hand_is_not_dropped(auth, script, user):
    auth.know("by-hand", "s3cret-by-hand")
    grant = oauth(user, client_id="by-hand", client_secret="s3cret-by-hand", issuer=auth.issuer)
    grant.login(script.url)
    assert not auth.registered and auth.asked[-1].get("client_id") is None  # it says so in the header: AUC-50
    auth.clients["by-hand"]["secret"] = "changed"
    for _ in range(2):
        with pytest.raises(mcplite.errors.AuthError) as caught:
            grant.login(script.url)
        assert caught.value.error == "invalid_client" and "s3cret" not in str(caught.value)
    assert not auth.registered


@pytest.mark.parametrize("takes", [True, False])
def test_a_client_metadata_document_is_used_where_it_is_supported(auth, script, user, takes):
    # AUC-22, AUC-27
    auth.metadata = {"client_id_metadata_document_supported": takes}
    auth.know(DOCUMENT)
    oauth(user, client_metadata_url=DOCUMENT).login(script.url)
    assert auth.asked[0]["client_id"] == (DOCUMENT if takes else "client-1") and len(auth.registered) == (not takes)


# --- how the user is asked ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata, text", [
    ({"code_challenge_methods_supported": None}, "PKCE"), ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
    ({"authorization_endpoint": None}, "no page to log in at")])
def test_no_user_is_sent_where_a_login_is_not_safe_or_not_possible(auth, script, user, metadata, text):
    # AUC-12, AUTH-20
    auth.metadata = metadata
    with pytest.raises(mcplite.errors.AuthError, match=text):
        oauth(user).login(script.url)
    assert not user.visits and not auth.registered


class Window(user_agent.UserAgent):
    """A user agent of a host program, which notes what becomes of a login."""

    def __init__(self, does):
        self.does, self.log = does, []

    def begin(self, preferred, server):
        self.log.append(("begin", preferred, server))
        return _Shown(self)


class _Shown(user_agent.Visit):
    def __init__(self, window):
        super().__init__(REDIRECT)
        self._window = window

    def ask(self, url, state, wait):
        wait()
        return self._window.does(url)

    def succeeded(self):
        self._window.log.append("succeeded")

    def failed(self, text):
        self._window.log.append(("failed", text))

    def close(self):
        self._window.log.append("closed")


def test_the_user_agent_is_told_the_outcome(auth, script, user):
    window = Window(user)
    grant = mcplite.OAuth(ask=window)
    grant.login(script.url)
    place = script.url.split("/")[2]
    assert window.log == [("begin", None, place), "succeeded", "closed"]
    auth.denies = True
    del window.log[:]
    with pytest.raises(mcplite.errors.AuthError) as caught:
        grant.login(script.url)
    assert window.log == [("begin", REDIRECT, place), ("failed", str(caught.value)), "closed"]


def test_the_default_user_agent_is_that_of_the_machine(script, monkeypatch):
    monkeypatch.setattr("mcplite.auth.login.user_agent.default_user_agent", user_agent.NoUserAgent)
    with pytest.raises(mcplite.errors.AuthError, match="no user can be asked here"):
        mcplite.OAuth().login(script.url)


# --- arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, text", [
    ({"client_id": "c"}, "client_id= needs issuer="),
    ({"client_secret": "s3cret"}, "client_secret= needs client_id="),
    ({"client_metadata_url": "http://c.example/about"}, "https URL with a path"),
    ({"client_metadata_url": "https://c.example"}, "https URL with a path"),
    ({"client_metadata_url": "https://c.example/"}, "https URL with a path"),
    ({"client_metadata_url": "https://me@c.example/about"}, "https URL with a path"),
    ({"client_metadata_url": "https://c.example/a/../b"}, "dots"),
    ({"redirect_uri": "http://c.example/back"}, "https, or of this machine"),
    ({"redirect_uri": "http://127.0.0.1.c.example/back"}, "https, or of this machine"),
    ({"redirect_uri": "com.example:/back"}, "https, or of http on this machine"),
    ({"redirect_uri": "javascript:alert(1)"}, "https, or of http on this machine"),
    ({"redirect_uri": "http://127.0.0.1:1/back#x"}, "fragment"),
    ({"redirect_uri": "https://me:pw@c.example/back"}, "user name"),
    ({"application_type": "desktop"}, "'native' or 'web'"),
    ({"timeout": 0}, "timeout must be positive"),
    ({"timeout": -1.0}, "timeout must be positive"),
    ({"timeout": float("nan")}, "timeout must be positive"),
    ({"ask": lambda url: url}, "needs redirect_uri="),
    ({"ask": "browser"}, "ask= is"),
    ({"ask": mcplite.auth.Terminal}, "ask= is"),
    ({"store": "tokens.json"}, "store= is"),
    ({"store": mcplite.auth.FileStore}, "store= is"),
])
def test_arguments_that_cannot_be(options, text):
    with pytest.raises(ValueError, match=text) as caught:
        mcplite.OAuth(**options)
    assert "s3cret" not in str(caught.value) and "pw" not in str(caught.value)


@pytest.mark.parametrize("fault", ["503", "cut", "invalid_grant"])
def test_a_failure_after_the_users_consent_can_be_repeated(auth, script, user, fault):
    # AUC-44 is for users who said no: this one has agreed.
    script.needs_for = {"tools/call": ["write"]}
    failing = [True]

    def fail(fields, answer):
        if not failing or fields["grant_type"] != "authorization_code":
            return NotImplemented
        return {"503": lambda: answer.status(503), "cut": answer.cut,
                "invalid_grant": lambda: refuse(answer, 400, fault)}[fault]()

    grant = oauth(user, scopes=["read"])
    with connect(script, grant) as client:
        auth.on_token = fail
        for _ in range(2):
            with pytest.raises(mcplite.errors.AuthError, match="token"):
                client.call_tool("t")
        failing.clear()
        client.call_tool("t")
    assert len(user.visits) == 4


def test_a_user_who_refuses_more_scopes_is_not_asked_again_so_soon(auth, script, user):
    # AUC-44
    script.needs_for = {"tools/call": ["write"]}
    grant = oauth(user, scopes=["read"])
    with connect(script, grant) as client:
        auth.denies = True
        for text in ("access_denied", "asked for already", "asked for already"):
            with pytest.raises(mcplite.errors.AuthError, match=text):
                client.call_tool("t")
    assert len(user.visits) == 2


def test_a_redirect_uri_whose_port_is_taken_is_an_error_before_the_user_is_asked(auth, script):
    opened = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        redirect = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        grant = mcplite.OAuth(client_id="me", issuer=auth.issuer, redirect_uri=redirect,
                              ask=mcplite.auth.Browser(opened.append, out=io.StringIO()))
        with pytest.raises(mcplite.errors.AuthError, match=f"the browser cannot come back to {redirect}: its port is taken"):
            grant.login(script.url)
    assert opened == []


def test_a_redirect_uri_without_a_port_means_any(auth, script):
    # RFC 8252, section 7.3
    browser = mcplite.auth.Browser(lambda url: requests.get(url, timeout=LIMIT), out=io.StringIO())
    grant = mcplite.OAuth(redirect_uri="http://127.0.0.1/callback", ask=browser)
    assert grant.login(script.url).access_token in auth.tokens
    [registered] = auth.registered
    # A program that may listen at port 80 uses the URI as it stands.
    assert re.fullmatch(r"http://127\.0\.0\.1(:\d+)?/callback", registered["redirect_uris"][0])
