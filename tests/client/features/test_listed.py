"""What is remembered of listed tools is bounded, whatever names the server invents."""

import pytest

from mcplite.client.features import listed
from mcplite.client.features.listed import Listed, sizes_of


def learn(known, page, values):
    known.learn(page, values, sizes_of(values))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(listed, "_MOST_TOOLS", 5)
    monkeypatch.setattr(listed, "_MOST_BYTES", 20_000)


def test_the_tools_that_were_listed_longest_ago_go_first(small):
    known = Listed()
    for n in range(100):
        learn(known, [f"a{n}", f"b{n}"], {f"a{n}": n})
    assert list(known.found) == ["a94", "a95", "a96", "a97", "a98", "a99"]


def test_a_tool_that_is_listed_again_is_not_the_oldest(small):
    known = Listed()
    for n in range(100):
        learn(known, ["used", f"a{n}"], {"used": n, f"a{n}": n})
    assert known.found["used"] == 99 and "a0" not in known.found


def test_the_newest_page_is_whole(small):
    known = Listed()
    learn(known, ["old"], {"old": 0})
    page = {f"a{n}": "x" * 5000 for n in range(20)}
    learn(known, list(page), page)
    assert known.found == page


@pytest.mark.parametrize("name, value", [("{}", "x" * 4500), ("x" * 4500 + "{}", 1)], ids=["values", "names"])
def test_bytes_are_bounded(small, name, value):
    known = Listed()
    for n in range(100):
        learn(known, [name.format(n)], {name.format(n): value})
    assert 1 < len(known.found) < 6 and sum(known._sizes.values()) <= 20_000
    assert known._sizes.keys() == known.found.keys()


def test_a_tool_without_a_value_replaces_one_that_had_it():
    known = Listed()
    learn(known, ["a", "b"], {"a": 1, "b": 2})
    learn(known, ["a"], {})
    assert known.found == {"b": 2}


def test_what_was_forgotten_leaves_room(small):
    known = Listed()
    learn(known, ["a"], {"a": 1})
    known.forget()
    assert known.found == {}
    learn(known, ["b"], {"b": 1})
    assert known.found == {"b": 1}
