"""The metadata of a request: any params are read, or refused with the right error."""

import copy
import json

from hypothesis import given, settings, strategies as st

from mcplite.errors import InvalidParams, UnsupportedVersion
from mcplite.protocol import meta
from mcplite.revisions import LEGACY, NEWEST, REVISIONS
from mcplite.server.sessions import modern
from mcplite.types import ClientCapabilities, Implementation
from tests.support.mutations import places

KEYS = [meta.VERSION, meta.CAPABILITIES, meta.CLIENT_INFO, meta.LOG_LEVEL, meta.SUBSCRIPTION, "progressToken", "traceparent"]
#: Also what no UTF-8 has: JSON can say it, in an escape.
TEXT = st.text(max_size=8) | st.lists(st.sampled_from(["\ud800", "a", "\0"]), max_size=3).map("".join)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = ["name", "version", "roots", "sampling", "elicitation", "form", "icons", "src", "_meta", *KEYS]
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | TEXT, inner, max_size=4),
    max_leaves=10)
VALID = {
    meta.VERSION: NEWEST.name,
    meta.CAPABILITIES: {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}},
                            "experimental": {"x": {}}, "extensions": {"com.example/x": {"a": 1}}},
    meta.CLIENT_INFO: {"name": "n", "version": "1", "title": "t", "websiteUrl": "https://example.com",
                           "icons": [{"src": "https://example.com/i.png", "sizes": ["any"]}]},
    meta.LOG_LEVEL: "info", "progressToken": 1, "com.example/own": [1],
}


@st.composite
def mutated(draw):
    """A valid ``_meta`` with some of its parts replaced or left out."""
    whole = {"_meta": copy.deepcopy(VALID)}
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(whole)[1:] or [("_meta",)]))
        inner = whole
        for step in path[:-1]:
            inner = inner[step]
        if draw(st.booleans()):
            inner[path[-1]] = draw(JSON)
        elif isinstance(inner, dict):
            inner.pop(path[-1], None)
        else:
            del inner[path[-1]]
    return whole


def use(params):
    """Read params, and whatever they say."""
    said = modern.names_revision(params)
    try:
        read = modern.read_envelope(params)
    except InvalidParams as error:
        assert error.code == -32602 and "_meta" in str(error)
        return None
    assert said, "who can be read has claimed something"
    assert isinstance(read.version, str) and isinstance(read.capabilities, ClientCapabilities)
    assert read.info is None or isinstance(read.info, Implementation) and isinstance(read.info.name, str)
    assert read.log_level is None or isinstance(read.log_level, str)
    for offered in (REVISIONS, LEGACY, [NEWEST]):
        try:
            assert modern.revision_of(read, offered) is NEWEST and NEWEST in offered
        except UnsupportedVersion as error:
            assert read.version != NEWEST.name or NEWEST not in offered
            assert error.supported == [revision.name for revision in reversed(offered)]
            assert len(json.dumps(error.data)) < 3000 and isinstance(error.data["requested"], str)
    return read


@given(st.none() | st.dictionaries(TEXT, JSON, max_size=2) | st.fixed_dictionaries({"_meta": JSON}) | mutated()
       | st.fixed_dictionaries({}, optional={key: JSON for key in KEYS}).map(
           lambda members: {"_meta": {meta.VERSION: NEWEST.name, meta.CAPABILITIES: {}, **members}}))
@settings(max_examples=200)
def test_any_params_are_read_or_refused(params):
    use(params)


@given(st.none() | st.fixed_dictionaries({}, optional={"name": JSON, "_meta": st.none() | st.dictionaries(TEXT, JSON)}))
def test_a_written_envelope_can_be_read(params):
    fixed = meta.members(NEWEST, ClientCapabilities(roots={}), Implementation("n", "1"), "debug")
    before = copy.deepcopy(params)
    stamped = meta.stamp(params, fixed)
    assert params == before, "what the caller gave stays as it is"
    assert {key: value for key, value in stamped.items() if key != "_meta"} == {
        key: value for key, value in (params or {}).items() if key != "_meta"}
    read = use(json.loads(json.dumps(stamped)))
    assert (read.version, read.info.name, read.log_level, read.capabilities.roots) == (NEWEST.name, "n", "debug", {})


@given(st.dictionaries(st.sampled_from(["traceparent", "tracestate", "baggage", "other"]), TEXT | st.sampled_from(
    [f"00-{'1' * 32}-{'2' * 16}-01", f"00-{'0' * 32}-{'2' * 16}-01", "a=1", "", "a\n"]) | JSON))
def test_only_valid_trace_context_is_sent(given):
    for name, value in meta.checked_trace(given).items():
        assert name != "other" and value.isascii() and value.isprintable() and value
