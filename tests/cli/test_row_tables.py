"""Rows as a table: which values are rows, columns, widths."""

import pytest

from mcplite.cli.row_tables import row_table, rows_of

ROWS = [{"city": "Rome", "degrees": 21.5}, {"city": "Riga\x1b\nX", "degrees": 3, "wet": True}, {"city": None}]


@pytest.mark.parametrize("value, rows", [
    (ROWS, ROWS), ({"cities": ROWS}, ROWS), ('[{"a": 1}]', [{"a": 1}]), ("[not JSON", None), ("text", None), (5, None),
    ([], None), ([1], None), ([{}], None), ([{"a": [1]}], None), ([{"a": {}}], None), ({"a": 1, "rows": ROWS}, None),
    (None, None),
])
def test_which_values_are_rows(value, rows):
    assert rows_of(value) == rows


def test_numbers_are_at_the_right_and_null_is_empty():
    assert row_table(ROWS, None) == (
        "city        degrees  wet\n"
        "----------  -------  ----\n"
        "Rome           21.5\n"
        "Riga\\x1b X        3  true\n")


def test_what_is_too_large_is_no_table():
    assert rows_of([{str(number): 1} for number in range(2000)]) is None
    assert rows_of([{"a": "x" * 10_000_000}, {"b": 1}, {"c": 1}]) is None
    assert row_table([{"a": "x" * 200_000, "b": "y"}], 40).count("x") == 200_000


def test_long_cells_are_wrapped_on_a_terminal_and_nothing_is_lost():
    rows = [{"name": "a" * 30, "text": "one two three four five six seven"}]
    table = row_table(rows, 30)
    assert max(map(len, table.split("\n"))) <= 30
    assert table.count("a") == 31 and "seven" in table
    assert len(row_table(rows, None).split("\n")) == 3
