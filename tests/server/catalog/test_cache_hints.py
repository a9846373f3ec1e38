"""How long clients may keep what they got."""

from typing import Annotated, List

import pytest

import mcplite
from mcplite import CacheHint
from mcplite.errors import RegistrationError
from tests.support import connecting
from tests.support.stateless import message


def make(**options):
    mcp = connecting.new_server("cached", **options)
    mcp.add_tool(lambda: "x", name="x")
    mcp.add_resource("memo://all", lambda: "x", name="r")
    mcp.add_resource("memo://own", lambda: "x", name="r", cache=CacheHint(5, "private"))
    mcp.add_resource("memo://{name}/t", lambda name: name, name="r", cache=CacheHint(7))
    return mcp


def hint(result):
    return result["ttlMs"], result["cacheScope"]


def test_by_default_results_may_not_be_kept(way):
    there = way(make())
    for request in (message("tools/list"), message("resources/read", {"uri": "memo://all"}), message("server/discover")):
        assert hint(there.result(request)) == (0, "private")  # CACHE-09, CACHE-10


def test_the_most_specific_hint_is_used(way):
    there = way(make(cache=CacheHint(1.5, "public"), cache_lists={"tools": CacheHint(60)}))
    assert hint(there.result(message("tools/list"))) == (60_000, "private")
    assert hint(there.result(message("resources/list"))) == (1500, "public")
    assert hint(there.result(message("resources/templates/list"))) == (1500, "public")
    assert hint(there.result(message("server/discover"))) == (1500, "public")
    assert hint(there.result(message("resources/read", {"uri": "memo://all"}))) == (1500, "public")
    assert hint(there.result(message("resources/read", {"uri": "memo://own"}))) == (5000, "private")
    assert hint(there.result(message("resources/read", {"uri": "memo://a/t"}))) == (7000, "private")


def test_clients_with_a_session_get_no_hints(connect):
    client = connect(make(cache=CacheHint(60, "public")))
    assert set(client.result("tools/list")) == {"tools"}
    assert set(client.result("resources/read", {"uri": "memo://own"})) == {"contents"}


@pytest.mark.parametrize("ttl, scope", [(-1, "private"), (float("nan"), "private"), (1e10, "private"), (1, "shared"), (1, ""),
                                        ("60", "private"), (True, "private"), (None, "private")])
def test_invalid_hints_are_refused(ttl, scope):
    with pytest.raises(RegistrationError, match="cache hint"):
        CacheHint(ttl, scope)


def test_a_hint_for_an_unknown_list_is_refused():
    with pytest.raises(RegistrationError, match="tool"):
        mcplite.Server("x", options=mcplite.ServerOptions(cache_lists={"tool": CacheHint(1)}))


def test_a_hint_is_a_value():
    hint = CacheHint(5)
    assert hint == CacheHint(5, "private") != CacheHint(5, "public") and hint != 5 and len({hint, CacheHint(5)}) == 1
    assert repr(hint) == "CacheHint(ttl=5, scope='private')"
    with pytest.raises(AttributeError, match="cannot assign to field 'ttl'"):
        hint.ttl = 6


# --- parameters that travel in headers as well ---------------------------------------------------------


def test_the_mark_is_in_the_tools_schema():
    mcp = mcplite.Server("marks")

    @mcp.tool()
    def nearest(region: Annotated[str, mcplite.Header("Region")], count: int = 1) -> str:
        return region

    with mcplite.connect(mcp) as client:
        properties = client.list_tools()[0].input_schema["properties"]
    assert properties["region"]["x-mcp-header"] == "Region" and "x-mcp-header" not in properties["count"]


@pytest.mark.parametrize("name", ["", "my region", "a:b", "naïve", "a\r\nb"])
def test_an_invalid_header_name_is_refused(name):
    with pytest.raises(ValueError, match="not the name of a header field"):
        mcplite.Header(name)


def test_a_parameter_of_another_type_is_refused_at_registration():
    mcp = mcplite.Server("marks")
    with pytest.raises(mcplite.errors.RegistrationError, match="string, integer or boolean"):
        @mcp.tool()
        def nearest(regions: Annotated[List[str], mcplite.Header("Region")]) -> str:
            return "nowhere"


def test_two_parameters_with_one_name_are_refused():
    mcp = mcplite.Server("marks")
    with pytest.raises(mcplite.errors.RegistrationError, match="comes twice"):
        @mcp.tool()
        def route(start: Annotated[str, mcplite.Header("Place")], end: Annotated[str, mcplite.Header("place")]) -> str:
            return start + end
