"""What is kept of logins at upstream providers: refreshed by one worker, renewed, ended; and given to handlers."""

import time

import pytest

from mcplite.auth.issuer.upstream_grants import Encryption, UpstreamGrants
from mcplite.auth.issuer.upstream_providers import UpstreamError
from mcplite.backend.from_url import open_backend
from mcplite.errors import AuthError
from mcplite.server.principals import Principal
from tests.support.processes import at_once
from tests.support.providers import CALLBACK, KEY, SECRET, Logins, each, log_in


@each()
def test_expired_tokens_are_refreshed_where_the_provider_refreshes(provider):
    provider.expires_in = 600
    now = [time.time()]
    logins = Logins(provider.login(), clock=lambda: now[0])
    _, grant = logins.log_in(provider.kind)
    first = logins.grants.token(grant, provider.kind)
    now[0] += 601
    provider.expires_in = 1800
    second = logins.grants.token(grant, provider.kind)
    assert logins.grants.token(grant, provider.kind) == second
    assert second != first and second in provider.tokens and provider.reuses == 0
    now[0] += 1800
    assert logins.grants.token(grant, provider.kind) != second


@each()
def test_a_renewal_asks_the_provider_and_ends_the_grant_with_the_account(provider):
    logins = Logins(provider.login(), clock=lambda: time.time() + shift[0])
    shift = [0.0]
    user, grant = logins.log_in(provider.kind)
    shift[0] += 60
    assert logins.grants.renewed(grant) == user
    provider.end()
    shift[0] += 60
    with pytest.raises(UpstreamError) as raised:
        logins.grants.renewed(grant)
    assert raised.value.error == "invalid_grant" and not logins.has(grant)
    with pytest.raises(UpstreamError, match="log in again"):
        logins.grants.token(grant, provider.kind)


@each("github", "entra", "discord", "okta", "keycloak")
def test_groups_are_read_again_at_a_renewal(provider):
    asked = {"github": "read:org", "discord": "guilds"}.get(provider.kind, ())
    login = provider.login(scopes=asked, groups=lambda claims: ["admin"] if "boss" in claims["groups"] else ["read"])
    logins = Logins(login, clock=lambda: time.time() + shift[0])
    shift = [0.0]
    user, grant = logins.log_in(provider.kind)
    assert user.scopes == {"read"}
    provider.orgs = [{"login": "boss"}]
    provider.user["groups"] = ["boss"]
    shift[0] += 60
    if provider.kind == "discord":
        assert user.groups == ("7",) and logins.grants.renewed(grant).groups == ("7",)
    else:
        assert logins.grants.renewed(grant).scopes == {"admin"}


@each("okta")
def test_threads_and_workers_refresh_once(provider, tmp_path):
    provider.expires_in = 600
    now = [time.time()]
    url = f"sqlite:///{tmp_path}/store.db"
    stores = [open_backend(url) for _ in range(3)]
    workers = [Logins(provider.login(), backend=store, clock=lambda: now[0]) for store in stores]
    try:
        _, grant = workers[0].log_in("okta")
        provider.expires_in = 7200
        now[0] += 700
        found = []
        at_once(lambda at: found.append(at.grants.token(grant, "okta")), workers * 4)
        assert len(found) == 12 and len(set(found)) == 1 and provider.reuses == 0
        assert [form["grant_type"] for form in provider.asked].count("refresh_token") == 1
    finally:
        for store in stores:
            store.close()


@each("okta")
def test_a_token_that_is_good_for_a_minute_is_given_while_the_provider_is_down(provider):
    provider.expires_in = 600
    now = [time.time()]
    logins = Logins(provider.login(), clock=lambda: now[0])
    _, grant = logins.log_in("okta")
    first = logins.grants.token(grant, "okta")
    provider.on_token = lambda fields, answer: answer.status(503, "later")
    now[0] += 560
    assert logins.grants.token(grant, "okta") == first
    now[0] += 60
    with pytest.raises(UpstreamError) as raised:
        logins.grants.token(grant, "okta")
    assert raised.value.error == "temporarily_unavailable" and logins.has(grant)
    provider.on_token = lambda fields, answer: NotImplemented
    assert logins.grants.token(grant, "okta") != first


@each("okta")
def test_nothing_secret_is_stored_in_clear(provider, tmp_path):
    store = open_backend(f"sqlite:///{tmp_path}/store.db")
    try:
        logins = Logins(provider.login(), backend=store)
        transaction = {}
        url = logins.grants.begin("okta", transaction, CALLBACK, "state-1")
        assert set(transaction["upstream"]) == {"name", "sealed"}
        user, grant = logins.grants.finish(log_in(url), transaction, CALLBACK)
        token = logins.grants.token(grant, "okta")
    finally:
        store.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert grant.encode() in written
    for secret in (token, *provider.refreshable, user.subject, user.email, SECRET):
        assert secret.encode() not in written


@each("okta")
def test_keys_can_be_replaced_and_other_keys_open_nothing(provider):
    backend = open_backend("memory:")
    _, grant = Logins(provider.login(), backend=backend).log_in("okta")

    def grants(*keys):
        return UpstreamGrants([provider.login()], backend, Encryption(keys), 86_400)

    assert grants(b"new-key-new-key-new-key", KEY).token(grant, "okta") in provider.tokens
    with pytest.raises(UpstreamError, match="log in again"):
        grants(b"new-key-new-key-new-key").token(grant, "okta")
    with pytest.raises(UpstreamError, match="log in again"):
        grants().token(grant, "okta")


def test_a_record_of_another_grant_is_not_opened(provider):
    logins = Logins(provider.login())
    _, one = logins.log_in("github")
    _, other = logins.log_in("github")
    logins.backend.put(f"upstream-{one}/record", logins.backend.get(f"upstream-{other}/record"), 60)
    with pytest.raises(UpstreamError, match="log in again"):
        logins.grants.token(one, "github")


def test_a_handler_asks_its_principal(provider):
    logins = Logins(provider.login())
    user, grant = logins.log_in("github")
    principal = Principal(user.subject, claims=user.claims, upstream_tokens=lambda name: logins.grants.token(grant, name))
    token = principal.upstream_token("github")
    assert token in provider.tokens and token not in repr(principal)
    assert principal == Principal(user.subject)
    with pytest.raises(UpstreamError, match="logged in with 'github', not with 'google'"):
        principal.upstream_token("google")
    with pytest.raises(AuthError, match="there is no token of 'github'"):
        Principal("ada").upstream_token("github")
    logins.grants.forget(grant)
    with pytest.raises(AuthError, match="log in again"):
        principal.upstream_token("github")


@each("keycloak", "github")
def test_new_tokens_are_kept_when_the_user_cannot_be_read(provider):
    provider.expires_in = 3600
    shift = [0.0]
    logins = Logins(provider.login(), clock=lambda: time.time() + shift[0])
    user, grant = logins.log_in(provider.kind)
    del provider.user["name"]  # so that the user endpoint is asked
    broken = provider._paths[2]
    provider.on_path = lambda path, answer: answer.status(503) if path == broken else NotImplemented
    shift[0] += 60
    with pytest.raises(UpstreamError) as raised:
        logins.grants.renewed(grant)
    assert raised.value.error == "temporarily_unavailable" and logins.has(grant)
    broken = ""
    shift[0] += 60
    assert logins.grants.renewed(grant).subject == user.subject and provider.reuses == 0


@each("okta")
def test_tokens_without_a_way_to_refresh_end_with_their_time(provider):
    provider.refreshes, provider.expires_in = False, 600
    shift = [0.0]
    logins = Logins(provider.login(), clock=lambda: time.time() + shift[0])
    user, grant = logins.log_in("okta")
    shift[0] += 60
    assert logins.grants.renewed(grant) == user
    shift[0] += 600
    with pytest.raises(UpstreamError, match="gave none to refresh"):
        logins.grants.renewed(grant)
    assert not logins.has(grant)
