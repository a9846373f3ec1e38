import pytest
import requests
from hypothesis import example, given, strategies as st

from mcplite.protocol.http.oauth import (
    PROTECTED_RESOURCE,
    base_of,
    canonical,
    check_url,
    covers,
    is_loopback,
    issuer_metadata_urls,
    origin_of,
    path_of,
    resource_metadata_urls,
)

#: Texts that are refused; browsers or Python accept some of them, and not as the same URL.
NONE = [
    "", "/", "mcp.example.com", "mcp.example.com/mcp", "mcp.example.com:443/mcp", "//h/mcp", "https:", "https:/h", "https:h",
    "https://", "https:///mcp", "https://:443/", "https://?x", "https://#x", "ftp://h/", "file:///etc/passwd",
    "javascript:alert(1)", "javascript://h/%0aalert(1)", "data:text/html,x", "wss://h/", "httpss://h/", "https ://h/",
    "https//h/", "-flag", "ms-x://h/",
    # white space and controls, which urlsplit would drop
    "https://h/a b", " https://h/", "https://h/ ", "https://h\t/", "https://h\n/", "https://h\r\n/", "ht\ntps://h/",
    "https:/\t/h/", "https://h/\n", "https://h/a\nb", "\x00https://h/", "https://h/\x7f", "https://h/\x1f", "https://h /",
    "https://h\x0b/",
    # backslashes, which browsers take for slashes
    "https:\\\\h\\", "https://h\\.evil/", "https://h/a\\b", "https:/\\h/",
    # what is no character of a URL (AUTH-40)
    'https://h"&calc/', 'https://h/"&calc', "https://h/<script>", "https://h/{x}", "https://h/a|b", "https://h/a^b",
    "https://h/`id`",
    # names of hosts
    "https://bücher.example/", "https://exa\u3002mple/", "https://ⓔxample/", "https://h/é", "http\u017f://h/",
    "https://exam%70le/", "https://h%00/", "https://a,b/", "https://a;b/", "https://$(id)/", "https://a&b/", "https://*/",
    "https://h!/",
    # brackets
    "https://[", "https://[]/", "https://]/", "https://[::1/", "https://::1]/", "https://[::1]evil/", "https://[::1]:x/",
    "https://evil[::1]/", "https://[::g]/", "https://[1:2]/", "https://[127.0.0.1]/", "https://[fe80::1%25eth0]/",
    "https://[v1.x]/", "https://[[::1]]/", "https://::1/", "https://1:2:3/",
    # ports
    "https://h:0/", "https://h:65536/", "https://h:99999/", "https://h:000443/", "https://h:-1/", "https://h:+443/",
    "https://h:4 43/", "https://h:4_43/", "https://h:x/", "https://h:443x/", "https://h:0x1bb/", "https://h:٤٤٣/",
    "https://h:443:443/", "https://h:1e3/", "https://h:" + "1" * 5000 + "/",
]
#: A name before the host: what is before it may be a password, or meant to be taken for the host.
USERS = ["https://user@h/", "https://user:secret@h/mcp", "https://@h/", "https://:@h/", "https://h.example:443@evil.example/",
         "https://h%2f@evil/", "https://h\\@evil/", "http://a@b@c/", "ftp://user:secret@h/"]


# --- origins -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("url, origin, base", [
    ("https://h", ("https", "h", 443), "https://h"),
    ("HTTPS://MCP.Example.COM/Path", ("https", "mcp.example.com", 443), "https://mcp.example.com"),
    ("HTTPS://XX.EXAMPLE.XXX/", ("https", "xx.example.xxx", 443), "https://xx.example.xxx"),
    ("http://h:80/x", ("http", "h", 80), "http://h"), ("http://h:443", ("http", "h", 443), "http://h:443"),
    ("https://h:443?x", ("https", "h", 443), "https://h"), ("https://h:80#x", ("https", "h", 80), "https://h:80"),
    ("https://h:/x", ("https", "h", 443), "https://h"), ("https://h:0443/x", ("https", "h", 443), "https://h"),
    ("https://h:1/", ("https", "h", 1), "https://h:1"), ("https://h:65535/", ("https", "h", 65535), "https://h:65535"),
    ("https://h?user@evil", ("https", "h", 443), "https://h"), ("https://h#@evil", ("https", "h", 443), "https://h"),
    ("https://h/@evil", ("https", "h", 443), "https://h"), ("https://h/http://evil", ("https", "h", 443), "https://h"),
    ("https://[::1]", ("https", "::1", 443), "https://[::1]"),
    ("http://[2001:DB8::A]:8080/x", ("http", "2001:db8::a", 8080), "http://[2001:db8::a]:8080"),
    ("http://[::ffff:127.0.0.1]/", ("http", "::ffff:127.0.0.1", 80), "http://[::ffff:127.0.0.1]"),
    # Different names, whatever they lead to.
    ("http://localhost.:1/", ("http", "localhost.", 1), "http://localhost.:1"),
    ("http://127.1/", ("http", "127.1", 80), "http://127.1"),
    ("http://2130706433/", ("http", "2130706433", 80), "http://2130706433"),
    ("http://0x7f.1/", ("http", "0x7f.1", 80), "http://0x7f.1"),
    ("http://a_b.example/", ("http", "a_b.example", 80), "http://a_b.example"),
    ("https://xn--bcher-kva.example/", ("https", "xn--bcher-kva.example", 443), "https://xn--bcher-kva.example"),
])
def test_the_origin_of_a_url(url, origin, base):
    assert origin_of(url) == origin
    assert base_of(url) == base


FUNCTIONS = [origin_of, base_of, path_of, canonical, resource_metadata_urls, issuer_metadata_urls,
    lambda url: check_url(url, "the issuer")]


@pytest.mark.parametrize("url", NONE)
def test_malformed_urls_are_refused_everywhere(url):
    for function in FUNCTIONS:
        with pytest.raises(ValueError,
            match="is not an http or https URL|a port that does not exist|no valid IPv6 address") as caught:
            function(url)
        assert len(str(caught.value)) < 320
    assert not covers(url, url) and not covers(url, "https://h/") and not covers("https://h/", url)


@pytest.mark.parametrize("url", USERS)
def test_a_name_before_the_host_is_used_nowhere_and_shown_nowhere(url):
    for function in FUNCTIONS:
        with pytest.raises(ValueError, match="a URL must not have a user name in it") as caught:
            function(url)
        assert "secret" not in str(caught.value)
    assert not covers(url, url)


@pytest.mark.parametrize("url", [
    "https://user:secret@h x/", "https:\\user:secret@h", "user:secret@h", "https://h:99999/?token=secret",
    "ftp://h/?token=secret#x", "http://h/?token=secret", "http://h/#secret", "https://user:se?cret@h/",
    "https://h:0/x#token=secret", "http://h/@b?c=secret",
])
def test_errors_repeat_no_secret(url):
    with pytest.raises(ValueError) as caught:
        check_url(url, "the token endpoint")
    assert "secret" not in str(caught.value) and "cret@" not in str(caught.value)


@pytest.mark.parametrize("url, said", [
    ("https//h/", "'https//h/'"), ("ftp://h/a?b=c", "'ftp://h/a'"), ("https://h:0/", "'https://h:0/'"),
    ("https://[::g]/#x", "'https://[::g]/'"), ("ftp://" + "h" * 190, repr("ftp://" + "h" * 190)),
    ("ftp://" + "h" * 193, repr("ftp://" + "h" * 193)[:197] + "..."), ("x@y", "'...@...'"),
])
def test_errors_quote_the_rest_of_a_url(url, said):
    with pytest.raises(ValueError) as caught:
        origin_of(url)
    assert str(caught.value).startswith(said + " ")


# --- the server's URL ----------------------------------------------------------------------------------

@pytest.mark.parametrize("url, written", [
    # the specification's examples (AUC-14, AUC-15)
    ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"), ("https://mcp.example.com", "https://mcp.example.com"),
    ("https://mcp.example.com:8443", "https://mcp.example.com:8443"),
    ("https://mcp.example.com/server/mcp", "https://mcp.example.com/server/mcp"),
    ("https://mcp.example.com#fragment", "https://mcp.example.com"), ("https://mcp.example.com/", "https://mcp.example.com"),
    ("HTTPS://MCP.EXAMPLE.COM/Mcp", "https://mcp.example.com/Mcp"),
    # and more
    ("https://h:443/mcp/", "https://h/mcp"), ("http://h:80", "http://h"),
    ("http://[::1]:8000/mcp#x?y", "http://[::1]:8000/mcp"), ("https://h/mcp?a=b&c=/", "https://h/mcp?a=b&c=/"),
    ("https://h?a=b", "https://h?a=b"), ("https://h/?a=b#c", "https://h?a=b"), ("https://h/mcp?", "https://h/mcp"),
    ("https://h/a/../mcp", "https://h/mcp"), ("https://h/./a/b/.", "https://h/a/b"),
    ("https://h/a/%2E%2e/mcp", "https://h/mcp"), ("https://h/..", "https://h"), ("https://h/../../mcp/..", "https://h"),
    ("https://h/a/b/..", "https://h/a"),
    # of several slashes none is only the last one
    ("https://h/mcp//", "https://h/mcp//"), ("https://h//", "https://h//"), ("https://h//mcp", "https://h//mcp"),
    ("https://h/a//../mcp", "https://h/a/mcp"),
    # escapes stay as they are written
    ("https://h/%7euser/%c3%a9", "https://h/%7euser/%c3%a9"), ("https://h/a%2Fb", "https://h/a%2Fb"),
    ("https://h/...", "https://h/..."), ("https://h/a%2f..%2fb", "https://h/a%2f..%2fb"),
])
def test_how_a_servers_url_is_written(url, written):
    assert canonical(url) == written


@pytest.mark.parametrize("url, path", [
    ("https://h", ""), ("https://h?/x", ""), ("https://h/", "/"), ("https://h/mcp/", "/mcp/"),
    ("https://h/a%2fb%7e%41%C3%a9", "/a%2Fb~A%C3%A9"),
    ("https://h/a/b/..", "/a/"), ("https://h/a/.", "/a/"), ("https://h/a/b/.?c", "/a/b/"), ("https://h/..", "/"),
    ("https://h/a/%2e%2E/b;c", "/b;c"), ("https://h/%252e%252e/a", "/%252e%252e/a"),
])
def test_one_spelling_of_a_path(url, path):
    assert path_of(url) == path


PATHS = st.lists(st.sampled_from(["a", "b", "..", ".", "%2e%2E", "%7e", "~", "", "%2F", "a;b", "c%2fd"]), max_size=6)


@given(PATHS, st.sampled_from(["", "?", "?q=/../x"]))
@example(["a", "", ".."], "")
@example(["", ""], "")
@example(["%2e", "."], "")
def test_a_canonical_url_is_its_own(segments, query):
    url = canonical("HTTP://H:80" + "".join("/" + segment for segment in segments) + query)
    assert canonical(url) == url and url.startswith("http://h")
    assert {".", "..", "%2e%2E"}.isdisjoint(url.partition("?")[0].split("/"))
    assert covers(url, url) and covers("http://h/", url)


# --- what metadata may speak for -----------------------------------------------------------------------

@pytest.mark.parametrize("resource, url", [
    # itself, in any spelling that means the same
    ("https://h/mcp", "https://h/mcp"), ("https://h/mcp/", "https://h/mcp"), ("https://h/mcp", "https://h/mcp/"),
    ("https://h", "https://h/"), ("https://h/", "https://h"), ("HTTPS://H:443/mcp", "https://h/mcp"),
    ("https://h/mcp", "https://h/mcp?x=y"), ("https://h/mcp", "https://h/mcp#x"), ("https://h/mcp?a=b", "https://h/mcp?a=b"),
    ("https://h/mcp/?a=b", "https://h/mcp?a=b"), ("https://h/mcp?", "https://h/mcp"), ("https://h/%7euser", "https://h/~user"),
    ("https://h/~user", "https://h/%7Euser"), ("https://h/%c3%a9", "https://h/%C3%A9"), ("https://h/mcp", "https://h/%6Dcp"),
    ("https://h/mcp", "https://h/a/../mcp"), ("https://h/a/%2e%2E/mcp", "https://h/mcp"),
    ("https://h/a%2F..", "https://h/a%2f.."), ("http://[::1]:1/x", "http://[::1]:1/x"),
    # a parent of it
    ("https://h", "https://h/mcp"), ("https://h/", "https://h/a/b/c"), ("https://h/a", "https://h/a/mcp"),
    ("https://h/a/", "https://h/a/mcp"), ("https://h/a/b", "https://h/a/b/c/mcp?x"), ("https://h/~u", "https://h/%7Eu/mcp"),
    ("https://h/b", "https://h/a/../b/mcp"), ("https://h", "https://h//mcp"), ("https://h/a", "https://h/a//"),
    ("https://h/a", "https://h/a/..."), ("https://h/a", "https://h/a/b..c/..d/e.."),
])
def test_resources_that_cover_a_url(resource, url):
    assert covers(resource, url)


@pytest.mark.parametrize("resource, url", [
    # another server
    ("https://evil/mcp", "https://h/mcp"), ("http://h/mcp", "https://h/mcp"), ("https://h:8443/mcp", "https://h/mcp"),
    ("https://h./mcp", "https://h/mcp"), ("https://h.evil/mcp", "https://h/mcp"), ("https://sub.h/mcp", "https://h/mcp"),
    ("http://127.0.0.1/", "http://localhost/"), ("http://[::1]/", "http://127.0.0.1/"), ("http://127.1/", "http://127.0.0.1/"),
    ("http://2130706433/", "http://127.0.0.1/"),
    # a neighbour or a child, and what only begins alike
    ("https://h/other", "https://h/mcp"), ("https://h/mcp/child", "https://h/mcp"), ("https://h/mc", "https://h/mcp"),
    ("https://h/mcp", "https://h/mcp2"), ("https://h/mcp", "https://h/"), ("https://h/MCP", "https://h/mcp"),
    ("https://h/mcp//", "https://h/mcp"), ("https://h/a//", "https://h/a/mcp"), ("https://h/a%2F", "https://h/a/mcp"),
    ("https://h/a%2Fmcp", "https://h/a/mcp"), ("https://h/a", "https://h/a%2Fmcp"), ("https://h/%41", "https://h/a"),
    # a fragment, a query
    ("https://h/mcp#", "https://h/mcp"), ("https://h/mcp#x", "https://h/mcp#x"), ("https://h/mcp?a=b", "https://h/mcp"),
    ("https://h?a=b", "https://h/mcp?a=b"), ("https://h/mcp?a=b", "https://h/mcp?a=B"),
    ("https://h/mcp?a=b", "https://h/mcp?a=b&c=d"),
    # steps out of what seems to be the parent, also such as only some servers take for steps
    ("https://h/a", "https://h/a/../mcp"), ("https://h/a", "https://h/a/%2e%2e/mcp"), ("https://h/a", "https://h/a/.%2E/mcp"),
    ("https://h/a", "https://h/a/b/../../mcp"), ("https://h/a", "https://h/a/.."), ("https://h/a", "https://h/a/..%2Fmcp"),
    ("https://h/a", "https://h/a/..%5cmcp"), ("https://h/a", "https://h/a/b%2f..%2f..%2fmcp"),
    ("https://h/a", "https://h/a/..;/mcp"), ("https://h/a", "https://h/a/%2e%2E%3bx/mcp"),
    ("https://h/a/../b", "https://h/a/mcp"),
    # nothing to compare
    ("", "https://h/mcp"), ("/mcp", "https://h/mcp"), ("h/mcp", "https://h/mcp"), ("https://h/mcp ", "https://h/mcp"),
    ("https://h/mcp\n", "https://h/mcp"), ("https://h/m\ncp", "https://h/mcp"), ("https://h\\mcp", "https://h/mcp"),
])
def test_resources_that_do_not_cover_a_url(resource, url):
    assert not covers(resource, url)


# --- where metadata is ---------------------------------------------------------------------------------

@pytest.mark.parametrize("url, places", [
    # 2025-06-18: the root is asked; 2025-11-25 and 2026-07-28: the path, then the root
    ("https://mcp.example.com", ["https://mcp.example.com/.well-known/oauth-protected-resource"]),
    ("https://mcp.example.com/", ["https://mcp.example.com/.well-known/oauth-protected-resource"]),
    ("https://example.com/public/mcp", ["https://example.com/.well-known/oauth-protected-resource/public/mcp",
                                        "https://example.com/.well-known/oauth-protected-resource"]),
    ("https://mcp.example.com/mcp", ["https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
                                     "https://mcp.example.com/.well-known/oauth-protected-resource"]),
    # RFC 9728, section 3.1
    ("https://resource.example.com/resource1",
        ["https://resource.example.com/.well-known/oauth-protected-resource/resource1",
                                                "https://resource.example.com/.well-known/oauth-protected-resource"]),
    ("https://h?tenant=a",
        ["https://h/.well-known/oauth-protected-resource?tenant=a", "https://h/.well-known/oauth-protected-resource"]),
    ("https://h/mcp/?tenant=a#x",
        ["https://h/.well-known/oauth-protected-resource/mcp?tenant=a",
            "https://h/.well-known/oauth-protected-resource"]),
    ("HTTP://[::1]:8000/mcp/",
        ["http://[::1]:8000/.well-known/oauth-protected-resource/mcp",
            "http://[::1]:8000/.well-known/oauth-protected-resource"]),
    # Steps are resolved before, so that they cannot leave the well-known place.
    ("https://h/../../admin",
        ["https://h/.well-known/oauth-protected-resource/admin", "https://h/.well-known/oauth-protected-resource"]),
    ("https://h/%2e%2e/..", ["https://h/.well-known/oauth-protected-resource"]),
])
def test_where_a_resource_is_described(url, places):
    assert resource_metadata_urls(url) == places
    assert places[-1].endswith(PROTECTED_RESOURCE)


@pytest.mark.parametrize("issuer, places", [
    # 2025-11-25 and 2026-07-28
    ("https://auth.example.com/tenant1", ["https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
                                          "https://auth.example.com/.well-known/openid-configuration/tenant1",
                                          "https://auth.example.com/tenant1/.well-known/openid-configuration"]),
    ("https://auth.example.com", ["https://auth.example.com/.well-known/oauth-authorization-server",
                                  "https://auth.example.com/.well-known/openid-configuration"]),
    # RFC 8414, section 3.1
    ("https://example.com/issuer1/", ["https://example.com/.well-known/oauth-authorization-server/issuer1",
                                      "https://example.com/.well-known/openid-configuration/issuer1",
                                      "https://example.com/issuer1/.well-known/openid-configuration"]),
    ("https://auth.example.com/", ["https://auth.example.com/.well-known/oauth-authorization-server",
                                   "https://auth.example.com/.well-known/openid-configuration"]),
    ("HTTPS://AUTH.example.com:443/Realms/a%2fb",
        ["https://auth.example.com/.well-known/oauth-authorization-server/Realms/a%2fb",
                                                   "https://auth.example.com/.well-known/openid-configuration/Realms/a%2fb",
                                                   "https://auth.example.com/Realms/a%2fb/.well-known/openid-configuration"]),
    ("http://127.0.0.1:9000/a/..", ["http://127.0.0.1:9000/.well-known/oauth-authorization-server",
                                    "http://127.0.0.1:9000/.well-known/openid-configuration"]),
    ("https://h/../../admin",
        ["https://h/.well-known/oauth-authorization-server/admin", "https://h/.well-known/openid-configuration/admin",
                               "https://h/admin/.well-known/openid-configuration"]),
])
def test_where_an_issuer_is_described(issuer, places):
    assert issuer_metadata_urls(issuer) == places


# --- which URLs are used ---------------------------------------------------------------------------------

LOOPBACK = ["localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "127.255.255.255", "::1", "[::1]", "0:0:0:0:0:0:0:1",
    "[0::0001]"]
#: AUTH-35, AUTH-36, AUTH-37: what a resolver may take for this machine is not this machine by its name.
ELSEWHERE = [
    "", "example.com", "localhost.", "localhost.evil", "evil.localhost", "localhost4", "127.0.0.1.evil", "127.0.0.1.", "127.1",
    "127.0.1", "127", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1", "127.0.0.01", "0.0.0.0", "::", "[::]",
    "::2", "128.0.0.1", "126.255.255.255", "x127.0.0.1]", "[127.0.0.1x", "[localhostx", "10.0.0.1", "::ffff:127.0.0.1",
    "[::ffff:7f00:1]", "::127.0.0.1", "64:ff9b::7f00:1", "::1%lo", "[::1%25lo]", "fe80::1", "[::1", "::1]", "[[::1]]",
    "[localhost", "１２７.0.0.1", "ⓛocalhost", "localho\u017ft", " localhost", "localhost ", "127.0.0.1\n", "127.0.0.1:80",
    "xn--localhost",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine_by_its_name(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_hosts_that_are_not_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize("url", [
    "https://auth.example.com", "https://h:8443/a?b=c", "HTTPS://H/", "http://localhost:3000/callback", "http://LOCALHOST/",
    "http://127.0.0.1:1/x", "http://127.9.9.9", "http://[::1]:8080/", "https://127.1/", "https://localhost./",
    "https://10.0.0.1/", "https://[::ffff:10.0.0.1]/", "https://h/a?b[1]=@c:d!$&'()*+,;=~%20",
])
def test_a_url_that_may_be_used_is_given_back_as_it_is(url):
    assert check_url(url, "the issuer") is url


@pytest.mark.parametrize("url", [
    "http://auth.example.com/", "http://127.0.0.1.evil/", "http://localhost.:8000/", "http://localhost.evil/", "http://127.1/",
    "http://2130706433/", "http://0x7f.1/", "http://0x7f000001/", "http://017700000001/", "http://[::ffff:127.0.0.1]/",
    "http://[::]/", "http://0.0.0.0:80/", "http://10.0.0.1/", "HTTP://evil/localhost",
])
def test_http_is_for_this_machine_only(url):
    # AUC-19, AUTH-35
    with pytest.raises(ValueError,
        match="the issuer is 'https?://.*'; authorization needs https, except on this machine|is 'HTTP://"):
        check_url(url, "the issuer")


@pytest.mark.parametrize("value, kind",
    [(None, "NoneType"), (7, "int"), (b"https://h/", "bytes"), (["https://h/"], "list"), ({}, "dict")])
def test_only_a_text_is_a_url(value, kind):
    with pytest.raises(ValueError, match=f"the token endpoint must be a URL, not of type {kind}"):
        check_url(value, "the token endpoint")


def test_the_error_says_whose_url_it_is_and_why_it_is_not_used():
    with pytest.raises(ValueError) as caught:
        check_url("https://auth.example.com:0/token?x", "the token endpoint of https://auth.example.com")
    assert str(caught.value) == ("the token endpoint of https://auth.example.com cannot be used: "
                                 "'https://auth.example.com:0/token' has a port that does not exist")


AUTHORITIES = st.sampled_from(["h", "H.Example", "h:443", "h:0443", "h:80", "h:", "127.0.0.1:1", "[::1]:8", "[::A]"])
RESTS = st.lists(st.sampled_from([
    "/", "/", ".", "..", "/../", "%2e", "%2E", "%2F", "%7e", "%41", "%C3%a9", "a", "B", "?", "#", "@", ":", ";", "[",
    "\\", "é", "\t",
]), max_size=8).map("".join)


@given(st.sampled_from(["http://", "HTTPS://"]), AUTHORITIES, RESTS)
@example("http://", "h", "/a/%2e./b")
@example("http://", "h:1", "?/../@evil:2")
def test_a_url_is_sent_where_it_was_read_to_go(scheme, authority, rest):
    url = scheme + authority + rest
    try:
        origin, path = origin_of(url), path_of(url)
    except ValueError:
        return
    sent = requests.Request("GET", url).prepare().url
    assert origin_of(sent) == origin
    # Steps back over empty segments, or over steps written with escapes, are taken in another order by urllib3.
    if "//" not in rest and not (".." in rest and "%2" in rest):
        assert path_of(sent) == (path or "/")
