import base64
import json

import pytest
from hypothesis import given, strategies as st

from mcplite.errors import InvalidParams
from mcplite.protocol.opaque import page


def name(item):
    return item


def walk(items, size, list_name="tools"):
    cursor, pages = None, []
    while True:
        entries, cursor = page(items, cursor, size, list_name, key=name)
        pages.append(entries)
        if cursor is None:
            return pages
        assert len(pages) <= len(items) + 1


@given(st.lists(st.text(max_size=20), unique=True, max_size=20), st.integers(1, 8))
def test_all_entries_come_once_and_in_order(items, size):
    # PAGE-01
    pages = walk(items, size)
    assert [item for entries in pages for item in entries] == items
    assert all(len(entries) == size for entries in pages[:-1])
    assert len(pages[-1]) in range(1 if items else 0, size + 1)


def test_entries_that_come_and_go_move_nothing_else():
    # PAGE-08
    entries, cursor = page(list("abcdef"), None, 2, "tools", key=name)
    assert entries == ["a", "b"]
    assert page(list("xyabcdef"), cursor, 2, "tools", key=name)[0] == ["c", "d"]
    assert page(list("bcdef"), cursor, 2, "tools", key=name)[0] == ["c", "d"]
    # the entry that the cursor names is gone: what followed moved up by one
    assert page(list("acdef"), cursor, 2, "tools", key=name)[0] == ["c", "d"]
    assert page(["a"], cursor, 2, "tools", key=name) == ([], None)
    assert page([], cursor, 2, "tools", key=name) == ([], None)


def test_two_entries_before_the_cursor_are_gone():
    # nothing is skipped that is still there, whatever went
    _, cursor = page(list("abcdef"), None, 3, "tools", key=name)
    entries, _ = page(list("cdef"), cursor, 3, "tools", key=name)
    assert entries == ["d", "e", "f"]


def encode(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("cursor", [
    # PAGE-09, PAGE-10
    "", "x", "x" * 10_000, "é", "\udc80", "****", "AAAA", "===", encode(None), encode(5), encode([]), encode({}),
    encode(["tools", 1]), encode(["tools", 1, "a", 2]), encode(["prompts", 1, "a"]), encode(["tools", -1, "a"]),
    encode(["tools", True, "a"]), encode(["tools", 1.0, "a"]), encode(["tools", 1, 5]), encode([None, 1, "a"]),
    base64.b64encode(b"[" * 4000).decode(), base64.b64encode(b"\xff\xff").decode(), encode("abc"), 5, 1.5, True, [], {}, b"abc",
])
def test_foreign_cursors_are_refused(cursor):
    with pytest.raises(InvalidParams, match="Invalid cursor") as caught:
        page(["a", "b"], cursor, 1, "tools", key=name)
    assert len(str(caught.value)) < 200


@given(st.text())
def test_any_other_text_is_refused(cursor):
    with pytest.raises(InvalidParams):
        page(["a"], cursor, 1, "tools", key=name)


def test_the_cursor_is_url_safe_text():
    _, cursor = page(["é\u2028\ud800" * 3, "b"], None, 1, "tools", key=name)
    assert cursor.isascii() and not set(cursor) & set("+/=\n ")
    assert page(["é\u2028\ud800" * 3, "b"], cursor, 1, "tools", key=name) == (["b"], None)


def test_an_enormous_position_is_the_end():
    assert page(["a"], encode(["tools", 10**30, "gone"]), 1, "tools", key=name) == ([], None)


def test_long_names_can_be_paged():
    items = [f"https://example.com/{number}/" + "x" * 9000 for number in range(3)]
    assert walk(items, 1) == [[item] for item in items]
