"""Logins at upstream providers: each stand-in behaves as that provider's documents say."""

import pytest

from mcplite.auth.issuer.upstream import upstream
from mcplite.auth.issuer.upstream_providers import UpstreamError
from tests.support.providers import CALLBACK, CLIENT, SECRET, TENANT, Logins, each

SUBJECTS = {"github": "583231", "google": "1180", "entra": f"{TENANT}:99999999-0000-0000-0000-000000000001", "okta": "00u1",
            "auth0": "auth0|5f7", "cognito": "c0ffee", "discord": "80351110224678912", "keycloak": "f81d4fae"}
GROUPS = {"entra": ("g-1", "g-2"), "okta": ("Everyone", "editors"), "cognito": ("editors",), "keycloak": ("editors",)}


@each()
def test_a_user_of_each_provider_logs_in(provider):
    logins = Logins(provider.login())
    user, grant = logins.log_in(provider.kind)
    assert user.subject == f"{provider.kind}:{SUBJECTS[provider.kind]}"
    assert user.name in ("Ada Lovelace", "Ada", "ada")
    # The administrator of any tenant of Entra can set any address.
    assert user.email == ("" if provider.kind == "entra" else "ada@ada.example")
    assert user.groups == GROUPS.get(provider.kind, ()) and user.scopes is None
    assert user.claims["upstream"] == provider.kind
    assert logins.grants.token(grant, provider.kind) in provider.tokens


@each("entra")
def test_groups_without_room_in_the_token_are_fetched(provider):
    del provider.user["groups"]
    provider.user.update(_claim_names={"groups": "src1"}, _claim_sources={"src1": {"endpoint": "https://graph.windows.net/x"}})
    user, _ = Logins(provider.login()).log_in("entra")
    assert len(user.groups) == 250 and user.groups[0] == "g-0"
    provider.on_path = lambda path, answer: answer.status(403, "{}") if "/me/" in path else NotImplemented
    assert Logins(provider.login()).log_in("entra")[0].groups == ()
    # Who is in no group must not be taken for one who is in none that counts.
    with pytest.raises(UpstreamError, match="more scopes"):
        Logins(provider.login(groups=lambda claims: ["read"])).log_in("entra")


@each("entra")
def test_any_tenant_of_entra_may_be_allowed(provider):
    provider.issuer = provider.origin + "/organizations/v2.0"
    provider.metadata = {"issuer": provider.origin + "/{tenantid}/v2.0"}
    provider.claims = {"iss": f"{provider.origin}/{TENANT}/v2.0"}
    provider._paths = [path.replace(TENANT, "organizations") for path in provider._paths]
    user, _ = Logins(provider.login(tenant="organizations")).log_in("entra")
    assert user.subject.startswith(f"entra:{TENANT}:")
    provider.claims = {"iss": f"{provider.origin}/66666666-2222-3333-4444-555555555555/v2.0"}
    with pytest.raises(UpstreamError, match="issuer"):
        Logins(provider.login(tenant="organizations")).log_in("entra")


@each("keycloak")
def test_any_provider_is_found_by_its_issuer(provider):
    login = upstream(provider.issuer, client_id=CLIENT, client_secret=SECRET, title="Our staff", scopes="phone")
    user, _ = Logins(login).log_in(f"127.0.0.1-{provider.port}")
    assert user.subject == f"127.0.0.1-{provider.port}:f81d4fae" and login.title == "Our staff"
    url = login.begin({}, CALLBACK, "s")
    assert "offline_access" in url and "prompt=consent" in url and "phone" in url and "openid" in url  # as its metadata say


@each("github", "auth0", "entra")
def test_what_a_provider_is_not_asked(provider):
    login = provider.login(parameters={"audience": "https://api.example"} if provider.kind == "auth0" else None)
    Logins(login).log_in(provider.kind)
    asked = [request for request in provider.requests if "authorize" in request.path]
    assert len(asked) == 1 and "resource=" not in asked[0].path and SECRET not in asked[0].path
    assert ("audience=https%3A%2F%2Fapi.example" in asked[0].path) is (provider.kind == "auth0")
    assert all("resource" not in form for form in provider.asked)


def test_answers_may_be_forms(provider):
    def token(fields, answer):
        answer.status(200, "access_token=abc&scope=read%3Auser%2Cuser%3Aemail&token_type=bearer",
                      Content_Type="application/x-www-form-urlencoded; charset=utf-8")

    provider.on_token = token
    provider.tokens["abc"] = []
    user, _ = Logins(provider.login()).log_in("github")
    assert user.email == "ada@ada.example"


def test_the_scopes_that_were_granted_say_what_is_read(provider):
    provider.orgs = [{"login": f"org-{number}"} for number in range(3)]
    user, _ = Logins(provider.login(scopes=["read:org"])).log_in("github")
    assert user.groups == ("org-0", "org-1", "org-2")
    user, _ = Logins(provider.login()).log_in("github")
    assert user.groups == ()
