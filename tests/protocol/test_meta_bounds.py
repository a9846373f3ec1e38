"""What a server keeps of a client's description of itself: what is known, and of bounded size."""

import pytest

from mcplite.protocol.jsonrpc import memory_size
from mcplite.protocol.meta import bounded_capabilities, bounded_info
from mcplite.server.sessions.modern import Envelope, read_envelope
from mcplite.types import ClientCapabilities, Implementation, codec
from tests.support.stateless import meta

LONG = "x" * 100_000


def test_each_text_of_a_name_is_cut():
    kept = bounded_info(codec.decode(Implementation, {
        "name": "n" + LONG, "version": "v" + LONG, "title": "t" + LONG, "description": "d" + LONG,
        "websiteUrl": "https://" + LONG, "icons": [{"src": "data:image/png;base64," + LONG}], "more": LONG}))
    assert [kept.name, kept.version, kept.title, kept.description] == [(letter + LONG)[:256] for letter in "nvtd"]
    assert (kept.website_url, kept.icons, kept.extra) == (None, None, {})


def test_an_ordinary_name_is_kept_whole():
    info = Implementation("desk", "1.2", title="Desk", description="For tests", website_url="https://desk.example/")
    assert bounded_info(info) == info
    assert bounded_info(Implementation("desk", "1")) == Implementation("desk", "1")


def test_only_known_flags_of_capabilities_are_kept():
    kept = bounded_capabilities(codec.decode(ClientCapabilities, {
        "roots": {"listChanged": True, LONG: LONG}, "sampling": {"tools": {"a": LONG}, "other": {}},
        "elicitation": {"form": {}, "url": {LONG: 1}}, "unknown": {LONG: LONG}}))
    assert kept == ClientCapabilities(roots={"listChanged": True}, sampling={"tools": {}}, elicitation={"form": {}, "url": {}})
    assert kept.extra == {}
    assert bounded_capabilities(ClientCapabilities(elicitation={})) == ClientCapabilities(elicitation={})


@pytest.mark.parametrize("field", ["experimental", "extensions"])
def test_settings_are_kept_as_far_as_they_fit(field):
    small = {"com.example/charts": {"types": ["bar", "line"], "most": 3}}
    assert getattr(bounded_capabilities(ClientCapabilities(**{field: small})), field) == small
    many = {f"com.example/{number}": {"a": [{}] * 10} for number in range(10_000)}
    kept = getattr(bounded_capabilities(ClientCapabilities(**{field: many})), field)
    assert 3 < len(kept) < 100 and kept == dict(list(many.items())[:len(kept)])
    assert memory_size(kept, 1 << 20) < 20_000
    assert getattr(bounded_capabilities(ClientCapabilities(**{field: {"com.example/x": LONG}})), field) == {}


def test_a_request_in_progress_for_long_keeps_the_bounded_description():
    envelope = read_envelope({"_meta": meta(capabilities={"elicitation": {}, "more": LONG}, info={"name": LONG, "version": "1"},
                                   level="error", other=LONG)})
    envelope.forget_meta()
    assert isinstance(envelope, Envelope) and envelope.meta == {} and envelope.log_level == "error"
    assert envelope.info == Implementation("x" * 256, "1")
    assert envelope.capabilities == ClientCapabilities(elicitation={}) and envelope.capabilities.extra == {}
