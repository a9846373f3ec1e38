"""The table of providers: what the caller has to give, and what the claims of each say."""

import pytest

from mcplite.auth.issuer.upstream import upstream
from mcplite.auth.issuer.upstream_grants import Encryption, UpstreamGrants
from mcplite.auth.issuer.upstream_providers import PROVIDERS
from mcplite.backend.from_url import open_backend
from tests.support.providers import CLIENT, KEY, USERS, Logins


@pytest.mark.parametrize("claims, email", [
    ([{"email": "a@x.example", "primary": True, "verified": False}], ""),
    ([{"email": "a@x.example", "primary": False, "verified": True}], ""), ([], ""), ([7, {"primary": True}], ""),
    ([{"email": "a@x.example", "primary": True, "verified": True}], "a@x.example")])
def test_only_a_verified_address_is_one(provider, claims, email):
    provider.emails = claims
    assert Logins(provider.login()).log_in("github")[0].email == email


@pytest.mark.parametrize("word, options, text", [
    ("gitlab", {}, "github, google"), ("entra", {}, "tenant="), ("okta", {}, "domain= .such as"),
    ("cognito", {}, "region=.*pool="), ("keycloak", {"domain": "x.example"}, "realm="),
    ("github", {"tenant": "x"}, "does not take tenant=; it takes domain="), ("entra", {"tenant": "a/b"}, "is not a name"),
    ("entra", {"tenant": ".."}, "is not a name"), ("okta", {"domain": "http://x.example"}, "https"),
    ("okta", {"domain": "x y"}, "not an http"), ("http://x.example/realm", {}, "https"),
    ("https://x.example/realm?a=b", {}, "no query"), ("https://x.example", {"tenant": "x"}, "leave it out"),
    ("github", {"client_id": ""}, "client_id="), ("github", {"client_secret": "a b"}, "client_secret="),
    ("github", {"name": "Git Hub"}, "small letters"), ("github", {"name": "a:b"}, "small letters"),
    ("github", {"parameters": {"state": "x"}}, "'state'"),
    ("github", {"authentication": "jwt"}, "client_secret_post"), ("github", {"groups": ["admin"]}, "a function"),
    ("github", {"scopes": 'a"b'}, "not a scope")])
def test_an_option_that_is_not_valid_says_what_to_give(word, options, text):
    with pytest.raises(ValueError, match=text):
        upstream(word, **{"client_id": CLIENT, **options})


def test_two_upstreams_need_two_names():
    one = upstream("github", client_id="a")
    with pytest.raises(ValueError, match="another name="):
        UpstreamGrants([one, upstream("github", client_id="b")], open_backend("memory:"), Encryption([KEY]), 60)
    other = upstream("github", client_id="b", name="github-work")
    both = UpstreamGrants([one, other], open_backend("memory:"), Encryption([KEY]), 60)
    assert sorted(both.logins) == ["github", "github-work"]


@pytest.mark.parametrize("kind", sorted(USERS))
def test_each_row_has_a_stand_in(kind):
    assert kind in PROVIDERS and sorted(USERS) == sorted(PROVIDERS)
