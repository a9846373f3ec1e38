import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.uris import candidates, normal_uri, uri_problem


@pytest.mark.parametrize("uri, normal", [
    ("config://settings", "config://settings"), ("Config://App", "config://App"),
    ("file:///srv/my notes.txt", "file:///srv/my%20notes.txt"), ("notes://café", "notes://caf%C3%A9"),
    ("notes://caf%c3%a9", "notes://caf%C3%A9"), ("notes://日本/ü", "notes://%E6%97%A5%E6%9C%AC/%C3%BC"),
    ("notes://a|b\\c^d", "notes://a%7Cb%5Cc%5Ed"), ("x://100%", "x://100%25"), ("x://100%25", "x://100%25"),
    ("x://%zz%4", "x://%25zz%254"), ("x://%7euser/%41%2d", "x://~user/A-"), ("x://a%2fb", "x://a%2Fb"), ("x://%ff", "x://%FF"),
    ("x://{a}", "x://%7Ba%7D"), ("x://a?q=[1] ü#f g?", "x://a?q=%5B1%5D%20%C3%BC#f%20g?"), ("x://a#b#c", "x://a#b%23c"),
    ("x://a/[b]", "x://a/%5Bb%5D"), ("x://a?", "x://a?"),
    # the path
    ("x://h/a/./b/../c", "x://h/a/c"), ("x://h/%2e%2E/a", "x://h/a"), ("x://h/a/..", "x://h/"), ("x://h/a/.", "x://h/a/"),
    ("x://h/..a/.b/c..", "x://h/..a/.b/c.."), ("x:/../a", "x:/a"), ("x:/.//b", "x:/.//b"), ("urn:a/../b", "urn:a/../b"),
    ("x://h//a", "x://h//a"),
    # hosts of the network
    ("http://example.com", "http://example.com/"), ("HTTP://User@Example.COM:80?x=1", "http://User@example.com/?x=1"),
    ("https://example.com:443/a", "https://example.com/a"), ("http://example.com:443", "http://example.com:443/"),
    ("ws://Ex.com:", "ws://ex.com/"), ("http://[::1]:80/", "http://[::1]/"),
    ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
    ("http://b%C3%BCcher.example", "http://xn--bcher-kva.example/"), ("http://a:b:c/", "http://a:b:c/"),
    ("http://" + "ü" * 80 + "/", None), ("Notes://Café.Example:80", "notes://Caf%C3%A9.Example:80"),
    # files
    ("file:///c%3A/a.txt", "file:///C:/a.txt"), ("file:///c:/a.txt", "file:///C:/a.txt"), ("file:///C:", "file:///C:"),
    ("file:///cc:/a", "file:///cc:/a"), ("file://localhost/x", "file:///x"), ("file:/x", "file:///x"), ("file://", "file:///"),
    ("file://Server/Share", "file://server/Share"), ("file:///a%2Bb%20c%2Fd%26", "file:///a+b%20c%2Fd&"),
    # others
    ("mailto:a@b", "mailto:a@b"), ("x:", "x:"), ("", ""), (":a", ":a"), ("no scheme", "no%20scheme"),
    ("my_app://A b", "my_app://A%20b"), ("\ud800", "%ED%A0%80"),
])
def test_one_form(uri, normal):
    found = normal_uri(uri)
    assert found == normal or normal is None
    assert normal_uri(found) == found and found.isascii() and candidates(uri)[0] == found


@given(st.text(st.sampled_from("aAzZ:/?#[]@.%2eE+é \\{~-_&="), max_size=12), st.sampled_from(["", "x:", "http://", "file:",
 "file:///", "X://h/"]))
def test_the_normal_form_is_its_own(text, start):
    once = normal_uri(start + text)
    assert normal_uri(once) == once


def test_templates_may_match_other_forms_of_the_web():
    assert candidates("http://h:80") == ["http://h/", "http://h:80", "http://h"] and candidates("http://h/") == ["http://h/",
     "http://h"]
    assert candidates("http://h/x") == ["http://h/x"] and candidates("x://h:80") == ["x://h:80"] and candidates("httpx://H") == ["httpx://H"]


@pytest.mark.parametrize("uri, problem", [
    ("config://settings", ""), ("x:", ""), ("x+y-z.1:/a b ü", ""), ("settings", "needs a scheme"), ("", "needs a scheme"),
    (":x", "needs a scheme"), ("my_app://x", "as in 'my-app:'"), ("1x://a", "a letter first"), ("x y://a", "as in 'x-y:'"),
    ("ü://a", "letters, digits"), ("a{b}://c", "as in 'a-b-:'"), ("x://a\nb", "%0A"), ("x://a\0", "control"),
    ("x://\x85", "control"), ("x://\udc80", "half"),
])
def test_what_no_request_can_name(uri, problem):
    assert problem in uri_problem(uri) and bool(problem) == bool(uri_problem(uri))
