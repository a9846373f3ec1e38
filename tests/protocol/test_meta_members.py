import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.meta import check_meta
from mcplite.revisions import JULY_2026, JUNE_2025, MARCH_2025, NOVEMBER_2024, NOVEMBER_2025

RULED = (JUNE_2025, NOVEMBER_2025, JULY_2026, None)


@pytest.mark.parametrize("key", [
    "name", "a", "9", "a.b-c_d.e", "progressToken", "traceparent", "com.example/name", "com.example/", "example/x",
    "com.ex-ample9/9x", "com.example.mcp/x", "com.example.modelcontextprotocol/x", "mcp/x", "mcpx.example/y", "a.b.c.d.e/x",
])
@pytest.mark.parametrize("revision", RULED, ids=str)
def test_good_keys_pass(key, revision):
    check_meta({key: object()}, revision)


@pytest.mark.parametrize("key, reason", [
    ("", "empty"), ("/", "label ''"), ("/x", "label ''"), (".com/x", "label ''"), ("com./x", "label ''"),
    ("9com.example/x", "label '9com'"), ("com.example-/x", "label 'example-'"), ("com.-a/x", "label '-a'"),
    ("com.exa_mple/x", "label 'exa_mple'"), ("a/b/c", "label 'a/b'"), ("com example/x", "label 'com example'"),
    ("com.example/-x", "name '-x'"), ("com.example/x.", "name 'x.'"), ("_x", "name '_x'"), ("x y", "name 'x y'"),
    ("x\n", r"name 'x\\n'"), ("com.example\n/x", r"label 'example\\n'"), ("com.example/é", "name 'é'"),
    ("com.exämple/x", "label 'exämple'"), ("x:y", "name 'x:y'"),
])
@pytest.mark.parametrize("revision", RULED, ids=str)
def test_bad_keys_are_refused_with_the_key_and_the_rule(key, reason, revision):
    with pytest.raises(ValueError, match=reason) as caught:
        check_meta({"com.example/fine": 1, key: 1}, revision)
    assert not key or repr(key) in str(caught.value)


#: Prefix, whether June 2025 reserves it, whether later revisions do.
RESERVED = [
    ("mcp.dev", True, False), ("modelcontextprotocol.io", True, False), ("tools.mcp.com", True, True),
    ("api.modelcontextprotocol.org", True, True), ("a.b.mcp.com", True, False), ("dev.mcp", False, True),
    ("io.modelcontextprotocol", False, True), ("com.mcp.tools", True, True), ("org.modelcontextprotocol.api", True, True),
    ("com.mcp.tools.deep", False, True), ("IO.ModelContextProtocol", False, True), ("MCP.dev", True, False),
]


@pytest.mark.parametrize("prefix, then, now", RESERVED)
def test_reserved_prefixes_follow_the_revision(prefix, then, now):
    key = f"{prefix}/name"
    for revision, refused in ((NOVEMBER_2024, False), (MARCH_2025, False), (JUNE_2025, then), (NOVEMBER_2025, now),
                              (JULY_2026, now), (None, True)):
        if refused:
            with pytest.raises(ValueError, match="reserved.*com.example/name"):
                check_meta({key: 1}, revision)
        else:
            check_meta({key: 1}, revision)


def test_keys_are_strings_everywhere():
    for revision in (NOVEMBER_2024, None):
        with pytest.raises(ValueError, match="5 must be a string"):
            check_meta({5: 1}, revision)


def test_nothing_is_fine():
    check_meta({})


@given(st.text(), st.sampled_from(RULED))
def test_any_key_passes_or_raises_valueerror(key, revision):
    try:
        check_meta({key: 1}, revision)
    except ValueError as error:
        assert "_meta key" in str(error)
    else:
        assert key.isascii() and key.strip() == key and key
