"""The origin policy: hosts, origins and CORS."""

import pytest

from mcplite.protocol.http.headers import Headers
from mcplite.server.http.origins import OriginPolicy

APP = "https://app.example"


@pytest.mark.parametrize("hosts, value, admitted", [
    (None, "localhost:1", True), (None, "127.0.0.1", True), (None, "[::1]:9", True), (None, "example.com", False),
    (None, None, False), (None, "", False), (["example.com"], "EXAMPLE.com:8443", True), (["example.com"], "localhost", False),
    (["example.com:8443"], "example.com:8443", True), (["example.com:8443"], "example.com", False), (["*"], "anything", True),
    (["*"], None, True), (["*", "a.example"], "b.example", True), ([], "localhost", False),
])
def test_hosts(hosts, value, admitted):
    # HTTP-34
    assert OriginPolicy(hosts).admits_host(value) is admitted


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
    assert dict(policy.cors(APP))["Access-Control-Allow-Origin"] == APP
    assert policy.cors("http://localhost:3000") == policy.cors(None) == policy.cors("null") == []
    asks = [("access-control-request-method", "POST")]
    assert policy.preflight(Headers([("origin", APP), *asks])) is not None
    assert policy.preflight(Headers([("origin", APP)])) is None
    assert policy.preflight(Headers([("origin", "http://localhost"), *asks])) is None


@pytest.mark.parametrize("hosts, origins",
                         [("localhost", []), (["http://a"], []), (["a b"], []), (None, "https://a"), (None, ["a"])])
def test_malformed_hosts_and_origins_are_refused(hosts, origins):
    with pytest.raises(ValueError):
        OriginPolicy(hosts, origins)
