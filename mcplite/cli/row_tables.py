"""Rows as a table: the option ``--table``, for lists of flat objects."""

import json
from typing import Any, Dict, List, Optional

from ..protocol.schema.references import Extent
from .description import is_number
from .printing import clean_line, wrapped

__all__ = ["row_table", "rows_of"]

#: On a terminal, columns are not made narrower than this.
_NARROW = 8
#: A table with more cells or characters cannot be read; the result is then printed without a table.
_MOST_CELLS, _MOST_CHARACTERS = 200_000, 20_000_000


def rows_of(value: Any) -> Optional[List[Dict[str, Any]]]:
    """Return the rows of a value: a list of flat objects, its JSON, or an object with nothing but that list.

    None for anything else, and for what is too large.
    """
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, list) or not value:
        return None
    longest: Dict[str, int] = {}
    for row in value:
        if not isinstance(row, dict) or not row or any(isinstance(cell, (dict, list)) for cell in row.values()):
            return None
        for name, cell in row.items():
            longest[name] = max(longest.get(name, len(name)), len(cell) if isinstance(cell, str) else 1)
    # Each line of the table has a cell for each name, and each cell is as wide as the widest one of its column.
    fits = Extent(_MOST_CELLS, _MOST_CHARACTERS).take(len(value) * len(longest), len(value) * sum(longest.values()))
    return value if fits else None


def row_table(rows: List[Dict[str, Any]], width: Optional[int]) -> str:
    """Return rows as a table with a line of names; numbers are at the right, and a missing value or null is empty.

    :param width: columns of the terminal, in which long cells are wrapped; None for one line a row.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[clean_line(name) for name in names], *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(1, *(len(line[column]) for line in cells)) for column in range(len(names))]
    if width is not None:
        room = width - 2 * (len(widths) - 1)
        most = max(widths)
        if sum(widths) > room:
            # Wide columns get one common width: the greatest one with which the line fits, or the narrowest that is allowed.
            fitting = (one for one in range(min(most, width), _NARROW, -1) if sum(min(own, one) for own in widths) <= room)
            most = next(fitting, min(most, _NARROW))
        widths = [min(one, most) for one in widths]
    right = [all(row.get(name) is None or is_number(row[name]) for row in rows) for name in names]
    lines: List[str] = []
    for number, line in enumerate(cells):
        lines += _wrapped(line, widths, right)
        if number == 0:
            lines.append("  ".join("-" * one for one in widths))
    return "\n".join(lines)


def _wrapped(cells: List[str], widths: List[int], right: List[bool]) -> List[str]:
    parts = [wrapped(cell, width) for cell, width in zip(cells, widths)]
    lines = []
    for number in range(max(map(len, parts))):
        line = [part[number] if number < len(part) else "" for part in parts]
        lines.append("  ".join(text.rjust(width) if at_right else text.ljust(width)
                               for text, width, at_right in zip(line, widths, right)).rstrip())
    return lines


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return clean_line(value) if isinstance(value, str) else json.dumps(value)
