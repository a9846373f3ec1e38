"""One token for all threads, clients and processes of a user: who gets it, who waits, and what comes of failures."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import mcplite
from mcplite.auth.login import discovery, grant_base, web as web_module
from mcplite.auth.login.discovery import AuthorizationServer
from mcplite.auth.login.user_agent import NoUserAgent
from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import HTTPSettings
from tests.support import connecting
from tests.support.authserver import REDIRECT, AuthServer, refuse
from tests.support.webscript import WebScript

LIMIT = 30
ROOT = Path(mcplite.__file__).resolve().parent.parent
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
#: A process that uses a server from many threads, once it is told to.
MANY = """
import sys, threading
import mcplite

url, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def refuse(url):
    raise AssertionError("no user is to be asked")

grant = mcplite.OAuth(ask=refuse, redirect_uri="http://127.0.0.1:8765/callback", store=mcplite.auth.FileStore(path))
wrong = []

def use(client):
    try:
        client.ping()
    except BaseException as error:
        wrong.append(repr(error))

print("ready", flush=True)
sys.stdin.readline()
with mcplite.connect(url, auth=grant, options=mcplite.ClientOptions(era="legacy", listen=False), timeout=30) as client:
    threads = [threading.Thread(target=use, args=(client,)) for _ in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(wrong or "done", flush=True)
"""
#: A process that forks while a thread of it is at the user's; exits with the child's code.
FORK = """
import os, sys, threading
import mcplite
from tests.support.authserver import REDIRECT, follow
from mcplite.net.exchange import Exchange
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import HTTPSettings

url, path = sys.argv[1], sys.argv[2]
parent, asked, may = os.getpid(), threading.Event(), threading.Event()

def ask(url):
    if os.getpid() == parent:
        asked.set()
        assert may.wait(30)
    return follow(url)

store = mcplite.auth.FileStore(path) if path else mcplite.auth.MemoryStore()
grant = mcplite.OAuth(ask=ask, redirect_uri=REDIRECT, store=store)

def use():
    client = OriginClient(url, HTTPSettings(auth=grant))
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    client.send_authorized(Exchange(lambda: 30.0), "POST", None, headers,
                           b'{"jsonrpc":"2.0","id":1,"method":"ping"}').excerpt()
    client.close()
    done.append(1)

done = []
thread = threading.Thread(target=use)
thread.start()
assert asked.wait(30)
pid = os.fork()
if pid == 0:
    child = threading.Thread(target=use, daemon=True)
    child.start()
    child.join(15)
    os._exit(0 if done else 9)
sys.stdin.readline()
may.set()
thread.join()
sys.exit(os.waitpid(pid, 0)[1] or not done)
"""


def connect(script, grant, **options):
    return connecting.connect(script.url, auth=grant, **{"timeout": LIMIT, "era": "legacy", "listen": False, **options})


@contextlib.contextmanager
def linked(script, grant):
    client = OriginClient(script.url, HTTPSettings(auth=grant))
    try:
        yield lambda exchange=None: client.send_authorized(
            exchange or Exchange(lambda: LIMIT), "POST", None, JSON, PING).excerpt()
    finally:
        client.close()


def begin(works, name=None):
    """Run each on a thread of its own; return a function that waits for them and returns what each returned or raised."""
    outcomes = [None] * len(works)

    def run(number, work):
        try:
            outcomes[number] = work()
        except Exception as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=pair, name=name) for pair in enumerate(works)]
    for thread in threads:
        thread.start()

    def end():
        for thread in threads:
            thread.join(LIMIT)
        assert not any(thread.is_alive() for thread in threads)
        return outcomes

    return end


def token_of(grant, script):
    return grant.store.load(f"token {script.url}")


def change(store, script, **members):
    """Change what is stored for a server; None takes a member away."""
    record = {**store.load(f"token {script.url}"), **members}
    store.save(f"token {script.url}", {name: value for name, value in record.items() if value is not None})


def logged_in(auth, script, user, **options):
    """Log in, and return a grant that knows of it from its store only."""
    store = options.pop("store", None) or mcplite.auth.MemoryStore()
    make = dict(ask=user, redirect_uri=REDIRECT, store=store, **options)
    mcplite.OAuth(**make).login(script.url)
    user.visits.clear()
    auth.asked.clear()
    auth.requests.clear()
    script.sent.clear()
    return mcplite.OAuth(**make)


# --- many threads -----------------------------------------------------------------------------------------


def test_one_login_does_for_all_threads(auth, script, user, grant):
    # AUC-51, AUTH-46: all of them are refused before the user comes back.
    user.may.clear()
    with linked(script, grant) as ping:
        end = begin([ping] * 32)
        script.wait_for("ping", 32)
        user.may.set()
        outcomes = end()
    assert all(isinstance(outcome, str) for outcome in outcomes), outcomes
    assert len(user.visits) == 1 and len(auth.registered) == 1 and auth.count("authorization_code") == 1
    assert script.sent.count(None) == 32 and len(set(script.sent)) == 2


def test_an_expired_token_is_refreshed_once_for_all_threads_and_never_sent(auth, script, user):
    grant = logged_in(auth, script, user)
    change(grant.store, script, expires_at=time.time() - 5)
    old = token_of(grant, script)["access_token"]
    with linked(script, grant) as ping:
        outcomes = begin([ping] * 32)()
    assert all(isinstance(outcome, str) for outcome in outcomes), outcomes
    assert not user.visits and [fields["grant_type"] for fields in auth.asked] == ["refresh_token"]
    assert old not in script.sent and len(set(script.sent)) == 1


def test_a_refused_token_is_refreshed_once_for_all_threads(auth, script, user):
    grant = logged_in(auth, script, user)
    old = token_of(grant, script)["access_token"]
    held = threading.Event()

    def wait(fields, answer):
        assert held.wait(LIMIT)
        return NotImplemented

    auth.end()
    auth.on_token = wait
    with linked(script, grant) as ping:
        end = begin([ping] * 32)
        script.wait_for("ping", 32)
        held.set()
        outcomes = end()
    assert all(isinstance(outcome, str) for outcome in outcomes), outcomes
    assert not user.visits and auth.count("refresh_token") == len(auth.asked) == 1
    assert script.sent.count(old) == 32 and len(set(script.sent)) == 2 and auth.reuses == 0


def test_a_login_that_fails_fails_for_all_and_the_user_is_asked_once(auth, script, user, grant):
    # Requests that were already sent are refused afterwards: they do not ask the user again either.
    auth.denies = True
    failed, first = threading.Event(), threading.Event()

    def hold(request, token):
        if first.is_set():
            assert failed.wait(LIMIT)
        first.set()

    script.on_request = hold
    user.may.clear()
    with linked(script, grant) as ping:
        end_first = begin([ping])
        user.wait_for(1)
        end = begin([ping] * 31)
        script.wait_for("ping", 32)
        user.may.set()
        outcomes = end_first()
        failed.set()
        outcomes += end()
    assert len(user.visits) == 1
    assert {(type(outcome), str(outcome), outcome.error) for outcome in outcomes} == {
        (mcplite.errors.AuthError, str(outcomes[0]), "access_denied")}


class _Told(Exchange):
    """An exchange that tells when its thread waits for the login of another."""

    def __init__(self):
        super().__init__(lambda: LIMIT)
        self.waits = threading.Event()
        self._paused = False

    def paused(self):
        self._paused = True
        return super().paused()

    def next_timeout(self):
        if self._paused:
            self.waits.set()
        return super().next_timeout()


def begin_to_wait(ping, count):
    """Begin requests that need what another thread is getting; return what gives their outcomes when all of them wait."""
    exchanges = [_Told() for _ in range(count)]
    outcomes = begin([lambda exchange=exchange: ping(exchange) for exchange in exchanges])
    for exchange in exchanges:
        assert exchange.waits.wait(LIMIT)
    return outcomes


@pytest.mark.parametrize("error", [ValueError("no window"), mcplite.errors.AuthError("gave up")])
def test_a_user_agent_that_fails_is_tried_once_for_all(script, user, grant, error):
    def broken(url):
        raise error

    user.may.clear()
    user.does = broken
    with linked(script, grant) as ping:
        first = begin([ping])
        user.wait_for(1)
        others = begin_to_wait(ping, 5)
        user.may.set()
        assert first()[0] is error
        outcomes = others()
    assert len(user.visits) == 1
    assert {type(outcome) for outcome in outcomes} == {mcplite.errors.AuthError}
    assert all(str(error) in str(one) for one in outcomes)


def test_another_thread_takes_over_when_the_one_that_logs_in_is_cancelled(auth, script, user, grant):
    user.may.clear()
    with linked(script, grant) as ping:
        exchange, other = _Told(), _Told()
        leader = begin([lambda: ping(exchange)])
        user.wait_for(1)
        follower = begin([lambda: ping(other)])
        assert other.waits.wait(LIMIT)
        exchange.interrupt()
        assert isinstance(leader()[0], Stopped)  # in the middle of the login
        user.wait_for(2)
        user.may.set()
        assert isinstance(follower()[0], str)
    assert auth.count("authorization_code") == 1


def test_a_failed_step_up_does_not_fail_other_calls(auth, script, user):
    # A user who denies more scopes to one call has said nothing about the token of another that waits meanwhile.
    script.needs_for = {"tools/call": ["write"]}
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read"])
    with connect(script, grant) as client:
        user.may.clear()
        auth.denies = True
        step = begin([lambda: client.call_tool("t")])
        user.wait_for(2)
        auth.end()
        other = _Told()
        with linked(script, grant) as ping:
            follower = begin([lambda: ping(other)])
            assert other.waits.wait(LIMIT)
            user.may.set()
            assert isinstance(step()[0], mcplite.errors.AuthError)
            assert isinstance(follower()[0], str)
    assert auth.count("refresh_token") == 1 and len(user.visits) == 2


def test_a_caller_that_leaves_during_a_refresh_does_not_lose_the_new_token(auth, script, user, monkeypatch):
    # AUTH-34: the refresh token is used up by the request, so that its answer is waited for in any case.
    monkeypatch.setattr(web_module, "_SLICE_SECONDS", 0.01)
    ticks = _Ticks()
    monkeypatch.setattr(web_module, "time", ticks)
    grant = logged_in(auth, script, user)
    change(grant.store, script, expires_at=time.time() - 5)
    exchange = Exchange(lambda: LIMIT)

    def leave(fields, answer):
        if auth.count("refresh_token") == 1:
            exchange.interrupt()
            ticks.wait_for(3)
        return NotImplemented

    auth.on_token = leave
    with linked(script, grant) as ping:
        assert isinstance(begin([lambda: ping(exchange)])()[0], Stopped)
        ping()
    assert auth.count("refresh_token") == 1 and auth.reuses == 0 and not user.visits
    assert token_of(grant, script)["access_token"] in auth.tokens


class _Ticks:
    """A clock that counts how often it is read, which each slice of a wait does."""

    def __init__(self):
        self._count, self._looked = 0, threading.Condition()

    def monotonic(self):
        with self._looked:
            self._count += 1
            self._looked.notify_all()
        return time.monotonic()

    def wait_for(self, more):
        with self._looked:
            end = self._count + more
            self._looked.wait_for(lambda: self._count >= end, 2)  # else who left looks no more, which the test is about


# --- many processes ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def processes(script, path, threads, count):
    command = [sys.executable, "-c", MANY, script.url, str(path), str(threads)]
    running = [subprocess.Popen(command, cwd=str(ROOT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for _ in range(count)]
    try:
        for process in running:
            assert process.stdout.readline() == "ready\n"
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait(LIMIT)
            process.stdin.close()
            process.stdout.close()


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


def test_processes_refresh_once_and_never_with_a_rotated_token(auth, script, user, tmp_path):
    # AUTH-34; a token to refresh with that comes twice would end all tokens of this login.
    path = tmp_path / "private" / "credentials.json"
    store = mcplite.auth.FileStore(path)
    grant = logged_in(auth, script, user, store=store)
    change(store, script, expires_at=time.time() - 5)
    script.requests.clear()
    with processes(script, path, 32, 2) as running:
        for process in running:
            go(process)
        assert [process.stdout.readline() for process in running] == ["done\n"] * 2
    assert auth.count("refresh_token") == len(auth.asked) == 1 and auth.reuses == 0
    assert sum(request.does == "ping" for request in script.requests) == 64
    assert token_of(grant, script)["access_token"] in auth.tokens


def test_a_process_takes_over_when_the_one_that_refreshes_is_killed(auth, script, user, tmp_path):
    path = tmp_path / "private" / "credentials.json"
    store = mcplite.auth.FileStore(path)
    logged_in(auth, script, user, store=store)
    change(store, script, expires_at=time.time() - 5)
    arrived, hangs = threading.Event(), threading.Event()

    def hang(fields, answer):
        if arrived.is_set():
            return NotImplemented
        arrived.set()
        assert hangs.wait(LIMIT)  # the server has not done anything yet
        return answer.cut()

    auth.on_token = hang
    with processes(script, path, 4, 2) as (doomed, other):
        go(doomed)
        assert arrived.wait(LIMIT)
        go(other)
        doomed.kill()
        doomed.wait(LIMIT)
        assert other.stdout.readline() == "done\n"
        hangs.set()
    assert auth.count("refresh_token") == 2 and auth.reuses == 0
    assert len({fields["refresh_token"] for fields in auth.asked}) == 1


def test_waiting_for_a_process_that_was_stopped_ends(script, user, tmp_path, monkeypatch):
    # Such as a login on a terminal that its user has suspended.
    monkeypatch.setattr(grant_base, "_MOST_SECONDS", 0.1)
    path = tmp_path / "private" / "credentials.json"
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, store=mcplite.auth.FileStore(path))
    with linked(script, grant) as ping:
        with mcplite.auth.FileStore(path).lock(f"token {script.url}", bool):
            error, = begin([ping])()
        assert isinstance(error, mcplite.errors.AuthError) and "another process has been getting a token" in str(error)
        assert script.url in str(error) and not user.visits
        ping()
    assert len(user.visits) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_process_that_is_forked_during_a_login_is_not_stuck(auth, script, tmp_path, kind):
    # REL-42: the thread that is at the user's does not come along.
    path = "" if kind == "memory" else str(tmp_path / "private" / "credentials.json")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", FORK, script.url, path]
    with subprocess.Popen(command, cwd=str(ROOT), env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        script.wait_for("ping", 2)  # both are refused before the user comes back
        _, errors = process.communicate("\n", LIMIT)
    assert process.returncode == 0, errors
    # A store that both have lets one login do.
    assert auth.count("authorization_code") == (2 if kind == "memory" else 1)


def test_the_token_of_another_process_is_used_and_refreshed(auth, script, user):
    grant = logged_in(auth, script, user)
    with connect(script, grant) as client:
        # Another process has logged in since, so long ago that its token, too, has ended; its expiry is not known.
        other = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, store=grant.store)
        other.login(script.url)
        auth.end()
        change(grant.store, script, expires_at=None)
        user.visits.clear()
        auth.asked.clear()
        client.ping()
    assert not user.visits and auth.count("refresh_token") == len(auth.asked) == 1


def test_a_logout_by_another_process_leads_to_a_login(auth, script, user):
    grant = logged_in(auth, script, user)
    with connect(script, grant) as client:
        mcplite.OAuth(store=grant.store).logout(script.url)
        auth.end()
        client.ping()
    assert len(user.visits) == 1 and auth.count("refresh_token") == 0


# --- refusals without an end ----------------------------------------------------------------------------


def test_a_token_that_is_never_accepted_costs_one_login_and_not_one_each_call(auth, script, user, grant, monkeypatch):
    # AUTH-48
    now = [0.0]
    monkeypatch.setattr(discovery, "time", _Time(now))
    with connect(script, grant) as client:
        script.on_request = lambda request, token: (
            (401, script.challenge(error="invalid_token")) if request.does == "ping" else None)
        auth.asked.clear()
        with pytest.raises(mcplite.errors.AuthError, match="does not accept the token"):
            client.ping()
        assert [fields["grant_type"] for fields in auth.asked] == ["refresh_token", "authorization_code"]
        pings = [token for request, token in zip([r for r in script.requests if not r.path.startswith("/.well")], script.sent)
                 if request.does == "ping"]
        assert len(pings) == len(set(pings)) == 3
        for _ in range(4):
            with pytest.raises(mcplite.errors.AuthError, match="the token that a login has just given") as caught:
                client.ping()
        assert auth.issuer in str(caught.value) and len(user.visits) == 2
        # An explicit login asks the user, and its token is tried once.
        grant.login(script.url)
        with pytest.raises(mcplite.errors.AuthError, match="does not accept the token"):
            client.ping()
        asked = len(user.visits)
        now[0] += 601.0
        with pytest.raises(mcplite.errors.AuthError, match="does not accept the token"):
            client.ping()
        assert len(user.visits) == asked + 1
        script.on_request = lambda request, token: None
        client.ping()
    assert len(user.visits) == asked + 1


def test_403_for_scopes_that_were_granted(auth, script, user):
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read", "write"])
    script.on_request = lambda request, token: (
        (403, script.challenge("write", error="insufficient_scope")) if token and request.does == "ping" else None)
    with connect(script, grant) as client:
        for _ in range(2):
            with pytest.raises(mcplite.errors.AuthError, match="write.*all of them were granted") as caught:
                client.ping()
            assert caught.value.error == "insufficient_scope" and "write" in caught.value.challenge
    assert len(user.visits) == 1


def test_more_scopes_are_asked_for_together_with_the_granted_ones(auth, script, user):
    # AUC-42, AUC-43
    script.needs, script.needs_for = ["read"], {"tools/call": ["write"]}
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["mine"])
    with connect(script, grant) as client:
        client.call_tool("t")
        client.ping()
    assert [set(scopes) for scopes in user.scopes()] == [{"read", "mine"}, {"read", "mine", "write"}]
    assert set(token_of(grant, script)["scopes"]) == {"read", "mine", "write"}
    assert auth.count("refresh_token") == 0  # which would bring the same scopes


def test_threads_that_need_more_scopes_ask_once(auth, script, user):
    script.needs_for = {"tools/call": ["write"]}
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read"])
    stepped = threading.Event()

    def hold(request, token):
        # Half of them hear of it when others have the scopes already.
        if request.does == "tools/call" and "late" in str(request.message) and token == early[0]:
            assert stepped.wait(LIMIT)

    with connect(script, grant) as client:
        early = [token_of(grant, script)["access_token"]]
        script.on_request = hold
        user.may.clear()
        end = begin([lambda name=name: client.call_tool(name) for name in ["early", "late"] * 8])
        script.wait_for("tools/call", 16)
        user.wait_for(2)
        user.may.set()
        script.wait_for("tools/call", 17)  # one has come with the new token
        stepped.set()
        outcomes = end()
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    assert len(user.visits) == 2


def test_scopes_that_are_never_granted_are_not_asked_for_again(auth, script, user, monkeypatch):
    # AUC-44
    script.needs_for = {"tools/call": ["admin"]}
    auth.grants = lambda scopes: [scope for scope in scopes if scope != "admin"]
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read"])
    now = [0.0]
    monkeypatch.setattr(discovery, "time", _Time(now))
    with connect(script, grant) as client:
        for _ in range(3):
            with pytest.raises(mcplite.errors.AuthError, match="admin"):
                client.call_tool("t")
            client.ping()
        assert len(user.visits) == 2
        now[0] += 601.0
        with pytest.raises(mcplite.errors.AuthError, match="admin"):
            client.call_tool("t")
    assert len(user.visits) == 3


class _Time:
    def __init__(self, now):
        self._now = now

    def monotonic(self):
        return 1000.0 + self._now[0]

    time = staticmethod(time.time)


def test_a_cancelled_step_up_can_be_repeated(auth, script, user):
    script.needs_for = {"tools/call": ["write"]}
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read"])
    with connect(script, grant) as client:
        user.may.clear()
        token = mcplite.CancelToken()
        end = begin([lambda: client.call_tool("t", cancel=token)])
        user.wait_for(2)
        token.cancel("not now")
        assert isinstance(end()[0], mcplite.Cancelled)
        user.may.set()
        client.call_tool("t")
    assert len(user.visits) == 3


def test_a_server_that_does_not_say_which_scopes_it_wants(auth, script, user, grant):
    with connect(script, grant) as client:
        script.on_request = lambda request, token: (403, script.challenge(error="insufficient_scope")) if token else None
        with pytest.raises(mcplite.errors.AuthError, match="does not say which"):
            client.ping()
        script.on_request = lambda request, token: (403, "") if token else None
        with pytest.raises(mcplite.errors.HTTPStatusError, match="403"):
            client.ping()  # that is no matter of scopes
        script.on_request = lambda request, token: None
    assert len(user.visits) == 1


def test_scopes_that_are_granted_narrower_are_noted(auth, script, user):
    # AUTH-49
    auth.grants = lambda scopes: ["read"]
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read", "write"])
    assert grant.login(script.url).scopes == ["read"]
    assert token_of(grant, script)["scopes"] == ["read"]


# --- refresh ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["expired", "refused"])
@pytest.mark.parametrize("status, said", [
    (400, '{"error": "invalid_request"}'), (401, '{"error": "invalid_token"}'), (400, '{"error": "unsupported_grant_type"}'),
    (403, '{"error": "access_denied"}'), (400, '{"error": "\u00fcbel"}'), (400, '{"error": null}'), (400, '{"error": 5}'),
    (401, '[{"message": "Bad credentials"}]'), (400, "<h1>Bad Request</h1>"), (404, ""), (410, "{}"), (422, "null"), (400, "{"),
    (200, '{"error": "bad_refresh_token"}'), (400, '{"error": "invalid_grant"}'), (400, '{"error": "unauthorized_client"}'),
])
def test_a_refresh_that_is_refused_in_any_words_leads_to_one_login(auth, script, user, how, status, said):
    grant = logged_in(auth, script, user)
    auth.end()
    if how == "expired":
        change(grant.store, script, expires_at=time.time() - 5)
    auth.on_token = lambda fields, answer: (
        answer.status(status, said) if fields["grant_type"] == "refresh_token" else NotImplemented)
    with linked(script, grant) as ping:
        outcomes = begin([ping] * 8)()
        ping()
    assert all(isinstance(outcome, str) for outcome in outcomes), outcomes
    assert [fields["grant_type"] for fields in auth.asked] == ["refresh_token", "authorization_code"]
    assert len(user.visits) == 1 and not auth.registered[1:]


@pytest.mark.parametrize("how", ["expired", "refused"])
def test_without_a_user_the_error_says_once_that_the_login_has_ended(auth, script, user, how, tmp_path):
    store = mcplite.auth.FileStore(tmp_path / "private" / "credentials.json")
    logged_in(auth, script, user, store=store)
    auth.end()
    if how == "expired":
        change(store, script, expires_at=time.time() - 5)
    auth.on_token = lambda fields, answer: refuse(answer, 400, "invalid_request", error_description="too old")
    errors = []
    for _ in range(2):
        grant = mcplite.OAuth(ask=NoUserAgent(), store=store)
        with linked(script, grant) as ping:
            for _ in range(2):
                with pytest.raises(mcplite.errors.AuthError, match="no user can be asked here.*mcplite login URL") as caught:
                    ping()
                errors.append(str(caught.value))
    ended = f"the login at {auth.issuer} has ended ({auth.issuer} gave no token: invalid_request: too old): "
    assert [error.startswith(ended) for error in errors] == [True, False, False, False]
    assert auth.count("refresh_token") == 1 and "refresh_token" not in store.load(f"token {script.url}")


BUSY = [(status, lambda answer, status=status: refuse(answer, status, "invalid_grant")) for status in (408, 429, 500, 502, 503)]


@pytest.mark.parametrize("how", ["expired", "refused"])
@pytest.mark.parametrize("status, fail", [
    *BUSY, (503, lambda answer: answer.status(503, "down")), (None, lambda answer: answer.cut()),
    (None, lambda answer: answer.status(200, "<html>"))])
def test_a_refresh_that_fails_on_the_way_can_be_done_later(auth, script, user, how, status, fail):
    grant = logged_in(auth, script, user)
    if how == "expired":
        change(grant.store, script, expires_at=time.time() - 5)
    auth.end()
    before = token_of(grant, script)
    auth.on_token = lambda fields, answer: fail(answer)
    with linked(script, grant) as ping:
        with pytest.raises(mcplite.errors.AuthError, match="gave no token" if status else "token") as caught:
            ping()
        assert status is None or caught.value.status == status
        assert token_of(grant, script) == before and not user.visits
        auth.on_token = lambda fields, answer: NotImplemented
        ping()
    assert not user.visits and auth.reuses == 0


def test_an_expired_token_without_a_refresh_token_leads_to_a_login(auth, script, user):
    # AUC-48
    auth.refreshes = False
    grant = logged_in(auth, script, user)
    assert "refresh_token" not in token_of(grant, script)
    with linked(script, grant) as ping:
        ping()
        auth.end()
        ping()
    assert [fields["grant_type"] for fields in auth.asked] == ["authorization_code"] and len(user.visits) == 1


def test_a_refresh_token_that_is_not_rotated_is_kept(auth, script, user):
    # AUC-49
    def same(fields, answer):
        if fields["grant_type"] != "refresh_token":
            return NotImplemented
        return auth.give(answer, fields["client_id"], script.url, [], None)

    auth.on_token = same
    grant = logged_in(auth, script, user)
    kept = token_of(grant, script)["refresh_token"]
    with linked(script, grant) as ping:
        for _ in range(2):
            auth.end()
            ping()
    assert [fields.get("refresh_token") for fields in auth.asked] == [kept] * 2 and not user.visits
    assert token_of(grant, script)["refresh_token"] == kept


def test_a_refresh_does_not_go_to_this_machine_because_a_name_leads_here_now(monkeypatch, user):
    # AUTH-36: this process has not met the server yet, so that only its name says where it is.
    url, real = "https://evil.example/mcp", socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *arguments, **options: real(
        "127.0.0.1" if host == "evil.example" else host, *arguments, **options))
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT)
    grant.store.save(f"token {url}", {
        "issuer": "https://evil.example", "resource": url, "access_token": "a", "refresh_token": "b", "expires_at": 1,
        "client": {"issuer": "https://evil.example", "client_id": "c"}})
    with WebScript(lambda request, answer: answer.status(404)) as script:
        grant.tokens_for(url).issuer_server = AuthorizationServer("https://evil.example", f"{script.origin}/token")
        with pytest.raises(mcplite.errors.AuthError, match="a private network"):
            grant.token(url)
        assert script.connections == 0


# --- what the store says ------------------------------------------------------------------------------------


class Full(mcplite.auth.MemoryStore):
    """A store that cannot keep tokens when it is full."""

    full = False
    error = mcplite.errors.AuthError("cannot write the store: no space")

    def save(self, key, record):
        if self.full and key.startswith("token "):
            raise self.error
        super().save(key, record)


@pytest.mark.parametrize("error", [mcplite.errors.AuthError("no space"), OSError("no space")])
def test_a_token_that_cannot_be_kept_is_not_used(auth, script, user, error):
    # AUTH-34
    store = Full()
    store.full, store.error = True, error
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, store=store)
    with linked(script, grant) as ping:
        with pytest.raises(type(error), match="no space"):
            ping()
        assert script.sent == [None]
        store.full = False
        ping()
    assert len(user.visits) == 2


# --- another authorization server ---------------------------------------------------------------------------


def test_nothing_goes_to_another_authorization_server(auth, script, user):
    # AUC-33, AUTH-30
    auth.on_register = lambda document, answer: (
        auth.know("dynamic", "s3cret-of-registration", document["redirect_uris"], "client_secret_post"), answer.status(
            201, json.dumps({**document, "client_id": "dynamic", "client_secret": "s3cret-of-registration",
                             "token_endpoint_auth_method": "client_secret_post"}), Content_Type="application/json"))[1]
    grant = logged_in(auth, script, user)
    auth.secrets.update({token_of(grant, script)["access_token"], token_of(grant, script)["refresh_token"]})
    with AuthServer() as second, connect(script, grant) as client:
        auth.end()
        script.issuers, script.auth = [second.issuer], second
        client.ping()
        assert len(second.registered) == 1 and second.count("authorization_code") == 1 and len(user.visits) == 1
        assert not [text for text in [*auth.secrets, "dynamic"] if text in second.everything]
        assert auth.count("refresh_token") == 0
        assert token_of(grant, script)["issuer"] == second.issuer
    # What the first one has given is kept for it.
    assert grant.store.load(f"client {auth.issuer}")["client_id"] == "dynamic"


def test_a_client_that_was_registered_by_hand_stays_where_it_is_known(auth, script, user):
    # AUC-34
    auth.know("by-hand", "s3cret-by-hand")
    grant = logged_in(auth, script, user, client_id="by-hand", client_secret="s3cret-by-hand", issuer=auth.issuer)
    with AuthServer() as second, linked(script, grant) as ping:
        auth.end()
        script.issuers, script.auth = [second.issuer], second
        with pytest.raises(mcplite.errors.AuthError) as caught:
            ping()
        assert second.issuer in str(caught.value) and auth.issuer in str(caught.value)
        assert not second.requests and not user.visits


def test_an_authorization_server_that_was_used_is_used_again(auth, script, user):
    with AuthServer() as second:
        script.issuers = [second.issuer, auth.issuer]
        grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, issuer=auth.issuer)
        grant.login(script.url)
        auth.end()
        auth.refreshable.clear()
        with linked(script, mcplite.OAuth(ask=user, redirect_uri=REDIRECT, store=grant.store)) as ping:
            ping()
        assert not second.requests and len(user.visits) == 2


def test_a_resource_with_a_new_name_needs_a_new_token(auth, script, user):
    grant = logged_in(auth, script, user)
    record = token_of(grant, script)
    auth.end()
    script.metadata = {"resource": script.origin}  # the whole host now
    with linked(script, grant) as ping, pytest.raises(mcplite.errors.AuthError, match="does not accept the token"):
        ping()  # the script still wants the other one
    assert auth.count("refresh_token") == 0 and record["refresh_token"] not in auth.everything
    assert auth.asked[-1]["resource"] == script.origin


def test_a_server_that_wants_ever_more_scopes_is_given_up(auth, script, user):
    # AUTH-29
    calls = []

    def refuse_always(request, token):
        if request.does != "ping" or not token:
            return None
        calls.append(1)
        return 403, script.challenge(f"more-{len(calls)}", error="insufficient_scope")

    script.on_request = refuse_always
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT)
    with mcplite.connect(script.url, auth=grant, options=mcplite.ClientOptions(era="legacy", listen=False),
                         timeout=LIMIT) as client:
        for _ in range(6):
            with pytest.raises(mcplite.errors.AuthError):
                client.ping()
    assert len(user.visits) == 1 + 3


def test_a_token_that_some_requests_accept_is_replaced_by_a_login_when_it_ends(auth, script, user, grant):
    auth.refreshes = False
    with connect(script, grant) as client:
        script.on_request = lambda request, token: (
            (401, script.challenge(error="invalid_token")) if request.does == "tools/call" else None)
        with pytest.raises(mcplite.errors.AuthError):
            client.call_tool("t")
        client.ping()  # it is good for all else
        visits = len(user.visits)
        auth.end()
        client.ping()
        assert len(user.visits) == visits + 1
        # But not without end, for a server that refuses and accepts in turn (AUTH-48).
        for _ in range(6):
            with pytest.raises(mcplite.errors.AuthError):
                client.call_tool("t")
            client.ping()
        assert len(user.visits) <= visits + 3
