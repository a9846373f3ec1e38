"""The origin policy: hosts, origins and CORS."""

import pytest

from mcplite.protocol.error_text import worded
from mcplite.protocol.http.headers import Headers
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http.access import OriginPolicy, TrustedProxies

APP = "https://app.example"


@pytest.mark.parametrize("hosts, value, admitted", [
    (None, "localhost:1", True), (None, "127.0.0.1", True), (None, "[::1]:9", True), (None, "example.com", False),
    (None, None, False), (None, "", False), (["example.com"], "EXAMPLE.com:8443", True), (["example.com"], "localhost", False),
    (["example.com:8443"], "example.com:8443", True), (["example.com:8443"], "example.com", False), (["*"], "anything", True),
    (["*"], None, True), (["example.com"], None, False), (["*", "a.example"], "b.example", True), ([], "localhost", False),
])
def test_hosts(hosts, value, admitted):
    # HTTP-34
    assert OriginPolicy(hosts).admits_host(value) is admitted


@pytest.mark.parametrize("options, python, command", [
    ({"hosts": ["a b"]}, "'a b' in allowed_hosts is not a host name;", "'a b' in --allow-host is not a host name;"),
    ({"hosts": ["a.example", "http://b"]}, "'http://b' in allowed_hosts is", "'http://b' in --allow-host is"),
    ({"origins": ["app.example"]}, "'app.example' in allowed_origins is not an origin;",
     "'app.example' in --allow-origin is not an origin;"),
])
def test_a_name_that_is_none_is_refused_with_its_option(options, python, command):
    with pytest.raises(ValueError) as caught:
        OriginPolicy(**options)
    assert str(caught.value).startswith(python) and "write '" in str(caught.value)
    said = worded(caught.value, {"allowed_hosts": "--allow-host", "allowed_origins": "--allow-origin"})
    assert said.startswith(command)


@pytest.mark.parametrize("hosts, only", [
    (None, True), (["localhost"], True), (["127.0.0.2:8000", "[::1]"], True), (["*"], False), (["localhost", "*"], False),
    (["localhost", "example.com"], False), (["localhost.example.com"], False), (["0.0.0.0"], False),
])
def test_loopback_only(hosts, only):
    assert OriginPolicy(hosts).loopback_only is only


@pytest.mark.parametrize("value, admitted", [
    (None, True), (APP, True), ("http://app.example", False), ("https://app.example:444", False),
    ("http://localhost:3000", True), ("https://127.0.0.1", True), ("null", False), ("https://evil.example", False), ("", False),
])
def test_origins(value, admitted):
    # HTTP-32, HTTP-33
    assert OriginPolicy(origins=[APP]).admits_origin(value) is admitted


def test_only_allowed_origins_get_cors_headers():
    policy = OriginPolicy(origins=[APP])
    assert dict(policy.cors(APP)) == {
        "Access-Control-Allow-Origin": APP, "Vary": "Origin",
        "Access-Control-Expose-Headers": "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, DPoP-Nonce, Retry-After"}
    assert policy.cors("http://localhost:3000") == policy.cors(None) == policy.cors("null") == []
    asks = [("access-control-request-method", "POST")]
    assert policy.preflight(Headers([("origin", APP), *asks])) is not None
    assert policy.preflight(Headers([("origin", APP)])) is None
    assert policy.preflight(Headers([("origin", "http://localhost"), *asks])) is None


def preflight(requested=None):
    """Return the headers that a preflight request of an allowed page gets, and the names that it may send."""
    asks = [("Origin", APP), ("Access-Control-Request-Method", "POST")]
    if requested is not None:
        asks.append(("Access-Control-Request-Headers", requested))
    answer = dict(OriginPolicy(origins=[APP]).preflight(Headers(asks)))
    return answer, answer["Access-Control-Allow-Headers"].split(", ")


def test_a_preflight_request_is_told_what_pages_may_send():
    answer, names = preflight()
    assert (answer["Access-Control-Allow-Methods"], answer["Access-Control-Max-Age"]) == ("POST, GET, DELETE, OPTIONS", "86400")
    assert names == ["Content-Type", "Accept", "Authorization", "DPoP", "Last-Event-ID", "Mcp-Session-Id",
                     "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"]


def test_pages_may_send_headers_of_marked_parameters_and_no_others():
    names = preflight()[1]
    assert preflight("content-type,Mcp-Param-Region, X-Other ,\tmcp-param-b\t,mcp-param-,mcp-param-a b,Cookie")[1] == [
        *names, "mcp-param-region", "mcp-param-b"]
    # A no-break space is not the white space of a header.
    assert preflight("mcp-param-a\u00a0")[1] == names


def test_a_preflight_request_can_ask_for_a_hundred_headers():
    asked = [f"mcp-param-{number}" for number in range(101)]
    assert preflight(",".join(asked))[1] == preflight()[1] + asked[:100]


def test_refusals_name_the_host_or_origin_and_the_setting_that_admits_it():
    policy = OriginPolicy(["api.example"])
    foreign_host = policy.check(HTTPRequest("GET", "/mcp", Headers([("Host", "evil.example")])))
    assert foreign_host.status == 421 and "'evil.example'" in foreign_host.message and "allowed_hosts" in foreign_host.message
    assert "''" in policy.check(HTTPRequest("GET", "/mcp", Headers())).message
    foreign_page = policy.check(HTTPRequest("GET", "/mcp", Headers([("Host", "api.example"), ("Origin", APP)])))
    assert foreign_page.status == 403 and repr(APP) in foreign_page.message and "allowed_origins" in foreign_page.message


def test_refusals_repeat_a_hundred_characters_of_a_header():
    policy = OriginPolicy(["api.example"])
    long = HTTPRequest("GET", "/mcp", Headers([("Host", "api.example"), ("Origin", "https://" + "a" * 200)]))
    assert "a" * 92 + "'" in policy.check(long).message
    assert "'" + "a" * 100 + "'" in policy.check(HTTPRequest("GET", "/mcp", Headers([("Host", "a" * 200)]))).message


@pytest.mark.parametrize("host, origin, refused", [
    ("shop.example", None, None), ("evil.example", None, None), ("", None, None),  # the web framework has looked
    ("shop.example", "http://shop.example", None), ("shop.example", "https://shop.example", None),
    ("shop.example:8000", "http://shop.example:8000", None), ("shop.example:443", "https://shop.example", None),
    ("shop.example:8000", "http://shop.example", 403), ("shop.example", "http://shop.example:8000", 403),
    ("shop.example", "http://evil.example", 403), ("", "http://evil.example", 403), ("shop.example", "null", 403),
    ("shop.example", APP, None),
])
def test_a_host_that_a_web_framework_has_checked(host, origin, refused):
    given = [("Host", host)] + ([] if origin is None else [("Origin", origin)])
    found = OriginPolicy(origins=[APP]).check(HTTPRequest("POST", "/mcp", Headers(given), host_checked=True))
    assert (found and found.status) == refused


# --- the client's address behind reverse proxies --------------------------------------------------


@pytest.mark.parametrize("trusted, address, forwarded, client", [
    (["127.0.0.1"], "127.0.0.1", "192.0.2.1", "192.0.2.1"),
    (["127.0.0.1"], "127.0.0.1", None, "127.0.0.1"),
    (["127.0.0.1"], "127.0.0.2", "192.0.2.1", "127.0.0.2"),  # not a proxy: it may have written anything
    (["127.0.0.1"], "127.0.0.1", "198.51.100.9, 192.0.2.1", "192.0.2.1"),  # what a client wrote itself comes first
    (["10.0.0.0/8"], "10.1.2.3", "198.51.100.9, 192.0.2.1, 10.9.9.9", "192.0.2.1"),
    (["10.0.0.0/8"], "10.1.2.3", "10.0.0.7,10.9.9.9", "10.0.0.7"),  # a client within the network of the proxies
    (["10.0.0.0/8"], "10.1.2.3", "192.0.2.1, unknown", "10.1.2.3"),
    (["10.0.0.0/8"], "10.1.2.3", "192.0.2.1, _hidden, 10.9.9.9", "10.9.9.9"),
    (["10.0.0.0/8"], "10.1.2.3", "", "10.1.2.3"),
    (["127.0.0.1"], "127.0.0.1", "192.0.2.1:4711", "192.0.2.1"),
    (["::1"], "::1", "[2001:db8::7]:4711", "2001:db8::7"),
    (["::1"], "::1", '"[2001:db8::7]"', "2001:db8::7"),
    (["::1"], "::1", "2001:DB8:0::7", "2001:db8::7"),
    (["127.0.0.1"], "::ffff:127.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
    (["unix"], "", "192.0.2.1", "192.0.2.1"),
    (["127.0.0.1"], "", "192.0.2.1", ""),
    (["unix", "127.0.0.1"], "127.0.0.1", "192.0.2.1", "192.0.2.1"),
    ("127.0.0.1", "127.0.0.1", "192.0.2.1", "192.0.2.1"),
])
def test_the_client_of_a_request(trusted, address, forwarded, client):
    headers = Headers([] if forwarded is None else [("X-Forwarded-For", forwarded)])
    assert TrustedProxies(trusted).client(address, headers) == client


def test_several_fields_are_one_list():
    headers = Headers([("X-Forwarded-For", "198.51.100.9"), ("X-Forwarded-For", "192.0.2.1")])
    assert TrustedProxies(["127.0.0.1"]).client("127.0.0.1", headers) == "192.0.2.1"


@pytest.mark.parametrize("network", ["localhost", "10.0.0.1/8", "", "*"])
def test_what_is_no_network_is_refused(network):
    with pytest.raises(ValueError, match="trusted_proxies is not an address, a network"):
        TrustedProxies([network])
