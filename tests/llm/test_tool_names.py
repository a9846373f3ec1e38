
import pytest
from hypothesis import given, strategies as st

from mcplite.llm.tool_names import PARAMETERS, PARAMETERS_OF_GEMINI, TOOLS, TOOLS_OF_GEMINI, NameMap

PATTERNS = [TOOLS, TOOLS_OF_GEMINI, PARAMETERS, PARAMETERS_OF_GEMINI]
#: Names as servers have them, close enough to each other to collide.
NAMES = st.lists(st.one_of(st.text(alphabet="ab._-/9", max_size=6), st.text(max_size=8),
                           st.text(alphabet="a.", min_size=60, max_size=140)), max_size=12)


def mapped(names, pattern=TOOLS):
    names_map = NameMap(pattern)
    names_map.add(names)
    return names_map


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern)
def test_names_are_mapped_both_ways(pattern):
    @given(NAMES)
    def check(names):
        found = mapped(names, pattern)
        shown = {name: found.shown(name) for name in names}
        assert all(pattern.fullmatch(name) for name in shown.values())
        assert len(set(shown.values())) == len(set(names))
        assert all(found.own(shown[name]) == name for name in names)
        assert all(shown[name] == name for name in names if pattern.fullmatch(name))

    check()


@given(NAMES, st.randoms(use_true_random=False))
def test_the_order_decides_nothing(names, shuffled):
    other = list(names)
    shuffled.shuffle(other)
    assert [mapped(names).shown(name) for name in names] == [mapped(other).shown(name) for name in names]


@given(NAMES, NAMES)
def test_what_was_assigned_stays(first, then):
    found = mapped(first)
    before = {name: found.shown(name) for name in first}
    found.add(then)
    assert {name: found.shown(name) for name in first} == before
    assert len({found.shown(name) for name in [*first, *then]}) == len({*first, *then})


@pytest.mark.parametrize("name, shown, pattern", [
    ("weather.forecast", "weather__forecast", TOOLS), ("weather__forecast", "weather__forecast", TOOLS),
    ("a/b c", "a_b_c", TOOLS), ("prévision", "pr_vision", TOOLS), ("9lives", "9lives", TOOLS), ("a-b", "a-b", TOOLS),
    ("天气", "name", TOOLS), ("", "name", TOOLS), ("9lives", "_9lives", TOOLS_OF_GEMINI),
    ("user-id", "user_id", PARAMETERS_OF_GEMINI),
])
def test_readable_names(name, shown, pattern):
    assert mapped([name], pattern).shown(name) == shown


def test_names_that_would_be_equal_get_digits():
    found = mapped(["a.b", "a/_b", "c"])
    assert {found.shown("a.b")[:5], found.shown("a/_b")[:5]} == {"a__b_"}
    assert len(found.shown("a.b")) == len("a__b_") + 8
    assert found.shown("c") == "c"
