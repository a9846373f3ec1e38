"""From an MCP server to its authorization server: what is asked, in which order, and what of it is believed."""

import pytest

import mcplite
from mcplite.auth.login.discovery import (
    AuthorizationServer,
    ProtectedResource,
    choose_issuer,
    choose_scopes,
    find_resource,
    find_server,
)
from mcplite.auth.login.web import Web
from mcplite.protocol.http.oauth import Challenge
from tests.support.webscript import WebScript

RESOURCE = "/.well-known/oauth-protected-resource"
OAUTH = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
VERSION = {"MCP-Protocol-Version": "a-version"}


class Pages(WebScript):
    """A web server of JSON documents and statuses by path; what has none is answered with 404."""

    def __init__(self):
        super().__init__(self._page)
        self.pages = {}

    def _page(self, request, answer):
        page = self.pages.get(request.path, 404)
        if isinstance(page, int):
            answer.status(page)
        elif isinstance(page, str):
            answer.status(302, Location=page)
        elif page is None:
            answer.status(200, b"\x1f\x8b", Content_Encoding="gzip")
        elif isinstance(page, bytes):
            answer.status(200, page, Content_Type="text/html")
        else:
            answer.json(page)

    @property
    def asked(self):
        return [request.path for request in self.requests]


@pytest.fixture
def script():
    with Pages() as script:
        yield script


@pytest.fixture
def web(script):
    with Web(script.url) as web:
        yield web


def challenge(**parameters):
    return Challenge("bearer", parameters)


def about(script, **more):
    """Return the metadata of the MCP server."""
    return {"resource": script.url, "authorization_servers": [script.origin], **more}


def server(issuer, **more):
    """Return the metadata of an authorization server."""
    return {"issuer": issuer, "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token",
            "code_challenge_methods_supported": ["S256"], **more}


# --- the resource -----------------------------------------------------------------------------------

def test_the_url_in_the_challenge_is_asked_first_then_the_well_known_ones(script, web):
    script.pages["/here?x=1"] = about(script, scopes_supported=["read", "write"])
    script.pages[f"{RESOURCE}/mcp"] = about(script, authorization_servers=["https://other.example"])
    found = find_resource(web, script.url, challenge(resource_metadata=f"{script.origin}/here?x=1"), VERSION)
    assert found == ProtectedResource(script.url, [script.origin], ["read", "write"])
    assert script.asked == ["/here?x=1"]
    script.pages[f"{RESOURCE}/mcp"] = about(script)
    script.pages[RESOURCE] = about(script, resource=script.origin, authorization_servers=["https://other.example"])
    for said in (None, challenge(), challenge(error="invalid_token")):
        assert find_resource(web, script.url, said, VERSION) == ProtectedResource(script.url, [script.origin])
    assert script.asked[1:] == [f"{RESOURCE}/mcp"] * 3
    del script.pages[f"{RESOURCE}/mcp"]
    found = find_resource(web, script.url, challenge(resource_metadata=f"{script.origin}/gone"), VERSION)
    assert found == ProtectedResource(script.origin, ["https://other.example"])
    assert script.asked[4:] == ["/gone", f"{RESOURCE}/mcp", RESOURCE]


#: What some servers give in place of metadata: a page of their own, or of a login, an error of a gateway, nothing.
USELESS = [401, 404, 301, 302, 307, 204, 202, b"<html>", b"", b"[]", b"null", b'"x"', b'{"resource":', b"\xff", {},
           {"error": "not_found"}, b"<html>" + bytes(1 << 20), "https://login.example/", "/.well-known/again", "http://[", None]


@pytest.mark.parametrize("page", [*USELESS, 500, 502, 503, 504])
def test_something_useless_leads_to_the_next_url(script, web, page):
    script.pages.update({f"{RESOURCE}/mcp": page, RESOURCE: about(script), "/.well-known/again": page})
    assert find_resource(web, script.url, None, VERSION) == ProtectedResource(script.url, [script.origin])
    assert (script.asked[0], script.asked[-1]) == (f"{RESOURCE}/mcp", RESOURCE)
    script.pages.update({"/named": page, f"{RESOURCE}/mcp": about(script)})
    named = challenge(resource_metadata=f"{script.origin}/named")
    assert find_resource(web, script.url, named, VERSION) == ProtectedResource(script.url, [script.origin])
    script.pages.update({OAUTH: page, OPENID: server(script.origin)})
    assert find_server(web, script.origin, True, {}).issuer == script.origin


@pytest.mark.parametrize("page", USELESS)
def test_a_server_with_something_useless_everywhere_has_no_metadata(script, web, page):
    script.pages.update(dict.fromkeys([f"{RESOURCE}/mcp", RESOURCE, OAUTH, OPENID, "/.well-known/again"], page))
    found = find_resource(web, script.url, None, VERSION)
    assert found == ProtectedResource(script.url, [script.origin], described=False)
    assert find_server(web, script.origin, found.described, VERSION).token_endpoint == f"{script.origin}/token"
    with pytest.raises(mcplite.errors.AuthError, match="has no metadata; asked: "):
        find_server(web, script.origin, True, VERSION)


@pytest.mark.parametrize("failing", [f"{RESOURCE}/mcp", RESOURCE, "/named"])
def test_a_server_whose_metadata_cannot_be_read_now_is_not_one_without(script, web, failing):
    # It would be another login, for which the user is asked and the present one dropped.
    script.pages[failing] = 503
    said = f"the metadata of the MCP server, {script.origin}{failing}, .* 503"
    with pytest.raises(mcplite.errors.AuthError, match=said) as caught:
        find_resource(web, script.url, challenge(resource_metadata=f"{script.origin}/named"), VERSION)
    assert caught.value.status == 503 and script.asked == ["/named", f"{RESOURCE}/mcp", RESOURCE]


def test_an_unreachable_url_leads_to_the_next(script, web):
    with Pages() as gone:
        named = challenge(resource_metadata=f"{gone.origin}/named")
    with pytest.raises(mcplite.errors.AuthError, match="the metadata of the MCP server could not be reached"):
        find_resource(web, script.url, named, VERSION)
    script.pages[RESOURCE] = about(script)
    assert find_resource(web, script.url, named, VERSION).described


@pytest.mark.parametrize("path, places", [
    ("", [RESOURCE]), ("/", [RESOURCE]), ("/mcp", [f"{RESOURCE}/mcp", RESOURCE]), ("/mcp/", [f"{RESOURCE}/mcp", RESOURCE]),
    ("/a/b", [f"{RESOURCE}/a/b", RESOURCE]), ("/mcp?x=1", [f"{RESOURCE}/mcp?x=1", RESOURCE]),
])
def test_a_server_without_metadata_is_its_own_authorization_server(script, web, path, places):
    found = find_resource(web, script.origin + path, None, VERSION)
    assert (found.issuers, found.scopes, found.described) == ([script.origin], None, False)
    assert found.resource == script.origin + path.rstrip("/")
    assert script.asked == places


def test_the_protocol_version_is_sent(script, web):
    script.pages[OAUTH] = server(script.origin)
    find_resource(web, script.url, None, VERSION)
    find_server(web, script.origin, False, VERSION)
    assert [request.headers.get("mcp-protocol-version") for request in script.requests] == ["a-version"] * 3


@pytest.mark.parametrize("resource", [
    "{origin}/mcp", "{origin}/mcp/", "{origin}", "{origin}/", "HTTP://127.0.0.1:{port}/mcp", "{origin}/%6dcp",
])
def test_metadata_of_this_server_or_a_parent_is_used_as_it_is_written(script, web, resource):
    resource = resource.format(origin=script.origin, port=script.port)
    script.pages[f"{RESOURCE}/mcp"] = about(script, resource=resource)
    assert find_resource(web, script.url, None, VERSION).resource == resource


@pytest.mark.parametrize("resource", [
    "https://other.example/mcp", "https://127.0.0.1:{port}/mcp", "http://127.0.0.1/mcp", "http://127.0.0.1:1/mcp",
    "http://localhost:{port}/mcp", "{origin}/m", "{origin}/mcp2", "{origin}/mcp/more", "{origin}/other", "{origin}/MCP",
    "{origin}/mcp?x", "{origin}/mcp#x", "{origin}.evil.example/mcp", "http://127.0.0.1:{port}@evil.example/mcp", "/mcp", "", 5,
    None, ["{origin}/mcp"], {"a": 1}, "x" * 10_000,
])
def test_metadata_of_another_server_is_refused(script, web, resource):
    if isinstance(resource, str):
        resource = resource.format(origin=script.origin, port=script.port)
    script.pages.update({f"{RESOURCE}/mcp": about(script, resource=resource), RESOURCE: about(script)})
    with pytest.raises(mcplite.errors.AuthError, match="and not about") as caught:
        find_resource(web, script.url, None, VERSION)
    assert script.url in str(caught.value) and len(str(caught.value)) < 800
    assert script.asked == [f"{RESOURCE}/mcp"]


@pytest.mark.parametrize("servers", [..., None, [], "", [""], [None]])
def test_metadata_that_lists_no_authorization_server_leaves_the_host_itself(script, web, servers):
    script.pages[f"{RESOURCE}/mcp"] = document = about(script, scopes_supported=["a"])
    document.pop("authorization_servers") if servers is ... else document.update(authorization_servers=servers)
    found = find_resource(web, script.url, None, VERSION)
    assert found == ProtectedResource(script.url, [script.origin], ["a"], described=False)


@pytest.mark.parametrize("servers", ["https://as.example", {"a": 1}, [5, None, ""], 5, [["https://as.example"]]])
def test_metadata_with_malformed_authorization_servers_is_refused(script, web, servers):
    script.pages[f"{RESOURCE}/mcp"] = about(script, authorization_servers=servers)
    with pytest.raises(mcplite.errors.AuthError, match="names no authorization server"):
        find_resource(web, script.url, None, VERSION)


def test_malformed_items_of_a_list_are_ignored(script, web):
    script.pages[f"{RESOURCE}/mcp"] = about(
        script, authorization_servers=[5, "https://a.example", None, "https://b.example/"],
        scopes_supported=["a", 1, "", "b"],
        unknown={"x": 1}, bearer_methods_supported=5)
    found = find_resource(web, script.url, None, VERSION)
    assert found == ProtectedResource(script.url, ["https://a.example", "https://b.example/"], ["a", "b"])


@pytest.mark.parametrize("place", [
    "http://as.example/meta", "ftp://as.example/", "file:///etc/passwd", "//as.example/x", "/meta", "meta", "", "https://u@h/x",
    "javascript:alert(1)",
])
def test_a_challenge_with_a_url_that_may_not_be_used_is_one_without(script, web, place):
    assert not find_resource(web, script.url, challenge(resource_metadata=place), VERSION).described
    script.pages[f"{RESOURCE}/mcp"] = about(script)
    assert find_resource(web, script.url, challenge(resource_metadata=place), VERSION).described
    assert script.asked == [f"{RESOURCE}/mcp", RESOURCE, f"{RESOURCE}/mcp"]


def test_no_query_of_the_server_is_in_an_error(script, web):
    url = f"{script.url}?key=s3cret"
    for wrong in ({"resource": "https://other.example"}, {"resource": f"{script.origin}/x?key=s3cret"},
                  {"resource": url, "authorization_servers": 5}):
        script.pages[f"{RESOURCE}/mcp?key=s3cret"] = wrong
        with pytest.raises(mcplite.errors.AuthError, match=f"{script.origin}{RESOURCE}/mcp") as caught:
            find_resource(web, url, None, VERSION)
        assert "s3cret" not in str(caught.value)
    for described in (True, False):
        with pytest.raises(mcplite.errors.AuthError) as caught:
            choose_issuer(ProtectedResource(url, ["https://as.example"], described=described), "https://other.example",
                          None)
        assert "s3cret" not in str(caught.value)


# --- which authorization server ---------------------------------------------------------------------

@pytest.mark.parametrize("wanted, known, chosen", [
    (None, None, "https://a.example"), (None, "https://b.example", "https://b.example"),
    (None, "https://gone.example", "https://a.example"), ("https://b.example", None, "https://b.example"),
    (None, "https://b.example/", "https://b.example"),
    ("https://b.example", "https://a.example", "https://b.example"),
])
def test_the_issuer_that_is_trusted_or_known_or_the_first(wanted, known, chosen):
    resource = ProtectedResource("https://mcp.example", ["https://a.example", "https://b.example"])
    assert choose_issuer(resource, wanted, known) == chosen


@pytest.mark.parametrize("wanted", [
    "https://evil.example", "https://a.example/", "https://A.example", "https://a.example:443", "http://a.example", "",
    "https://a.example/x",
])
def test_no_other_issuer_replaces_the_trusted_one(wanted):
    resource = ProtectedResource("https://mcp.example", ["https://a.example"])
    with pytest.raises(mcplite.errors.AuthError, match="wants a token of https://a.example") as caught:
        choose_issuer(resource, wanted, "https://a.example")
    assert repr(wanted) in str(caught.value)


def test_a_server_that_names_no_issuer_is_its_own():
    resource = ProtectedResource("https://mcp.example/mcp", ["https://mcp.example"], described=False)
    assert choose_issuer(resource, None, None) == "https://mcp.example"
    for wanted in ("https://mcp.example", "https://mcp.example/"):
        assert choose_issuer(resource, wanted, None) == wanted
    for wanted in ("https://as.example", "https://mcp.example/mcp", "https://mcp.example.evil.example", ""):
        with pytest.raises(mcplite.errors.AuthError, match="is taken for its own"):
            choose_issuer(resource, wanted, None)


# --- its metadata -------------------------------------------------------------------------------------

@pytest.mark.parametrize("path, places", [
    ("", [OAUTH, OPENID]), ("/", [OAUTH, OPENID]),
    ("/tenant", [f"{OAUTH}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}"]),
    ("/tenant/", [f"{OAUTH}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}"]),
    ("/a/b", [f"{OAUTH}/a/b", f"{OPENID}/a/b", f"/a/b{OPENID}"]),
])
def test_each_url_is_asked_in_order(script, web, path, places):
    issuer = script.origin + path
    with pytest.raises(mcplite.errors.AuthError, match="has no metadata; asked: ") as caught:
        find_server(web, issuer, True, VERSION)
    assert script.asked == places
    assert all(place in str(caught.value) for place in places)
    for number, place in enumerate(places):
        script.requests.clear()
        script.pages = {place: server(issuer)}
        assert find_server(web, issuer, True, VERSION).issuer == issuer
        assert script.asked == places[:number + 1]


def test_the_metadata_of_a_server(script, web):
    issuer = f"{script.origin}/tenant"
    script.pages[f"{OAUTH}/tenant"] = server(
        issuer, registration_endpoint=f"{issuer}/register", revocation_endpoint="https://other.example/revoke?x=1",
        token_endpoint_auth_methods_supported=["none", 5, "private_key_jwt"],
        scopes_supported=["read", "offline_access"],
        authorization_response_iss_parameter_supported=True,
        client_id_metadata_document_supported=True, code_challenge_methods_supported=["plain", "S256"], unknown=[1])
    assert find_server(web, issuer, True, {}) == AuthorizationServer(
        issuer, f"{issuer}/token", f"{issuer}/authorize", f"{issuer}/register", "https://other.example/revoke?x=1",
        ["none", "private_key_jwt"], ["read", "offline_access"], True, True, True)


def test_the_defaults_of_missing_metadata(script, web):
    script.pages[OAUTH] = {"issuer": script.origin, "token_endpoint": f"{script.origin}/token",
                           "registration_endpoint": None}
    found = find_server(web, script.origin, True, {})
    assert found == AuthorizationServer(script.origin, f"{script.origin}/token", methods=["client_secret_basic"],
                                        pkce=False)


@pytest.mark.parametrize("value", ["true", 1, "false", None, [], {"a": 1}])
def test_only_true_is_true(script, web, value):
    script.pages[OAUTH] = server(script.origin, authorization_response_iss_parameter_supported=value,
                                 client_id_metadata_document_supported=value)
    found = find_server(web, script.origin, True, {})
    assert (found.names_issuer, found.accepts_client_documents) == (False, False)


@pytest.mark.parametrize("methods, pkce", [
    (["S256"], True), (["plain", "S256"], True), (["plain"], False), ([], False), (["s256"], False), ("S256", False),
    (None, False), ([256], False), ({"S256": 1}, False),
])
def test_whether_a_server_knows_pkce(script, web, methods, pkce):
    script.pages[OAUTH] = server(script.origin, code_challenge_methods_supported=methods)
    assert find_server(web, script.origin, True, {}).pkce is pkce


@pytest.mark.parametrize("named", [
    "https://honest.example", "{origin}/", "{origin}/Tenant", "{origin}/tenant//", "{origin}", "{origin}/tenant?x", "", None, 5,
    ["{origin}/tenant"], "HTTP://127.0.0.1:{port}/tenant", "{origin}/tenant ", "{origin}/%74enant",
])
def test_metadata_of_another_issuer_is_not_used(script, web, named):
    if isinstance(named, str):
        named = named.format(origin=script.origin, port=script.port)
    issuer = f"{script.origin}/tenant"
    script.pages[f"{OAUTH}/tenant"] = {**server(issuer), "issuer": named}
    with pytest.raises(mcplite.errors.AuthError, match="no metadata was found of the authorization server") as caught:
        find_server(web, issuer, True, {})
    assert f"{OAUTH}/tenant is of" in str(caught.value)
    assert script.asked == [f"{OAUTH}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}"]
    script.pages[f"/tenant{OPENID}"] = server(issuer)
    assert find_server(web, issuer, True, {}).issuer == issuer


@pytest.mark.parametrize("path", ["", "/tenant"])
@pytest.mark.parametrize("listed, named", [("", ""), ("", "/"), ("/", ""), ("/", "/")])
def test_a_last_slash_makes_no_other_issuer(script, web, path, listed, named):
    issuer = script.origin + path
    script.pages[OAUTH + path] = {**server(issuer), "issuer": issuer + named}
    assert find_server(web, issuer + listed, True, {}).issuer == issuer + named  # as the server writes itself


@pytest.mark.parametrize("page", [500, 502])
def test_a_failing_url_is_an_error(script, web, page):
    script.pages.update({OAUTH: page, OPENID: 404})
    for described in (True, False):
        with pytest.raises(mcplite.errors.AuthError, match="the metadata of the authorization server.*50") as caught:
            find_server(web, script.origin, described, {})
        assert caught.value.status == page


ENDPOINTS = ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"]


@pytest.mark.parametrize("name", ENDPOINTS)
@pytest.mark.parametrize("url", [
    "http://as.example/x", "http://127.0.0.1.evil.example/x", "http://localhost./x", "ftp://as.example/", "javascript:alert(1)",
    "file:///bin/sh", "data:text/html,x", "-flag", "https://user:s3cret@as.example/x", "https://as.example/x#fragment", "/x",
    "https://as.example/a b", 'https://as.example/"&calc', "https://as.example/\n", "ms-x:y", 5, ["https://as.example/x"], True,
])
def test_an_endpoint_that_may_not_be_used_is_an_error(script, web, name, url):
    script.pages[OAUTH] = server(script.origin, **{name: url})
    for described in (True, False):
        with pytest.raises(mcplite.errors.AuthError, match=f"the {name} of {script.origin}") as caught:
            find_server(web, script.origin, described, {})
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("name", ENDPOINTS)
@pytest.mark.parametrize("url", ["https://as.example/x?a=b", "http://localhost:1/x", "http://127.0.0.1:1/x",
                                 "http://[::1]:1/x"])
def test_endpoints_are_of_https_or_of_this_machine(script, web, name, url):
    script.pages[OAUTH] = server(script.origin, **{name: url})
    assert getattr(find_server(web, script.origin, True, {}), name) == url


@pytest.mark.parametrize("empty", [..., "", None])
def test_metadata_without_a_token_endpoint_is_an_error(script, web, empty):
    script.pages[OAUTH] = document = server(script.origin, token_endpoint=empty)
    if empty is ...:
        del document["token_endpoint"]
    with pytest.raises(mcplite.errors.AuthError, match="names no token_endpoint"):
        find_server(web, script.origin, True, {})


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_endpoint_is_none(script, web, empty):
    script.pages[OAUTH] = server(script.origin, jwks_uri=empty, **{
        name: empty for name in ENDPOINTS if name != "token_endpoint"})
    found = find_server(web, script.origin, True, {})
    assert (found.authorization_endpoint, found.registration_endpoint, found.revocation_endpoint) == (None, None, None)


@pytest.mark.parametrize("issuer", ["http://as.example", "ftp://as.example", "as.example", "", "https://u:s3cret@as.example"])
def test_an_issuer_that_may_not_be_used_is_not_asked(script, web, issuer):
    for described in (True, False):
        with pytest.raises(mcplite.errors.AuthError, match="the authorization server") as caught:
            find_server(web, issuer, described, {})
        assert "s3cret" not in str(caught.value)
    assert script.asked == []


# --- servers of the time before -----------------------------------------------------------------------

@pytest.mark.parametrize("slash", ["", "/"])
def test_without_metadata_the_default_endpoints_are_used(script, web, slash):
    found = find_server(web, script.origin + slash, False, VERSION)
    assert script.asked == [OAUTH]  # and not what came later
    assert found.authorization_endpoint == f"{script.origin}/authorize"
    assert (found.token_endpoint, found.registration_endpoint, found.revocation_endpoint) == (
        f"{script.origin}/token", f"{script.origin}/register", None)
    assert (found.issuer, found.pkce) == (script.origin + slash, None)
    assert (found.names_issuer, found.accepts_client_documents) == (False, False)
    assert "none" in found.methods


@pytest.mark.parametrize("slash", ["", "/"])
def test_guessed_servers_with_metadata_use_its_endpoints(script, web, slash):
    script.pages[OAUTH] = {"issuer": script.origin + slash, "authorization_endpoint": f"{script.origin}/a",
                           "token_endpoint": f"{script.origin}/t"}
    found = find_server(web, script.origin, False, VERSION)
    assert (found.issuer, found.authorization_endpoint, found.token_endpoint) == (
        script.origin + slash, f"{script.origin}/a", f"{script.origin}/t")
    assert (found.registration_endpoint, found.pkce, script.asked) == (None, None, [OAUTH])


# --- which scopes ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("challenged, given, described, supported, before, expected", [
    (None, [], None, [], [], []),
    (None, [], ["a", "b"], [], [], ["a", "b"]),
    (["c"], [], ["a", "b"], [], [], ["c"]),  # AUC-39, AUC-40: no relation to what is described
    (None, ["g"], ["a", "b"], [], [], ["g"]),
    (["c"], ["g"], ["a"], [], [], ["c", "g"]),
    (None, ["offline_access"], ["a"], ["offline_access"], [], ["a", "offline_access"]),
    (["c", "b"], [], ["a"], [], ["a", "b"], ["a", "b", "c"]),  # AUC-43
    (None, [], ["a", "offline_access"], [], [], ["a"]),  # AUC-47
    (None, [], ["a"], ["offline_access", "a"], [], ["a", "offline_access"]),
    (None, [], None, ["offline_access"], [], []),
    (None, ["offline_access", "a"], None, ["offline_access"], [], ["a", "offline_access"]),
])
def test_which_scopes_are_asked_for(challenged, given, described, supported, before, expected):
    challenge = Challenge("bearer", {"scope": " ".join(challenged)} if challenged else {})
    resource = ProtectedResource("https://s.example/mcp", ["https://a.example"], described)
    server = AuthorizationServer("https://a.example", "https://a.example/token", scopes=supported)
    assert choose_scopes(challenge, resource, server, given, before, True) == expected
    assert choose_scopes(challenge, resource, server, given, before, False) == [s for s in expected if s != "offline_access"]
