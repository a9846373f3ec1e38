"""Results of tools on the command line: as text, as JSON, as a table, into a file; and the status of the command.
"""

import argparse
import json
import shutil
import sys
from typing import Any, Callable, Dict, List, Optional

from ..protocol.schema.budget import Extent
from ..rpc.stdio.terminals import is_terminal
from .arguments import UsageError
from .printing import as_json, clean_line, first_binary, print_result, wrapped

__all__ = ["row_table", "rows_of", "save", "settle", "show_call", "wire"]

#: The narrowest that a column becomes on a terminal.
_NARROW = 8
#: A table of more cannot be read; its JSON is shown.
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
    # Each row has a cell of each name, as wide as the widest of them.
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
            # The widest columns give way until the rest fits.
            fitting = (one for one in range(min(most, width), _NARROW, -1) if sum(min(own, one) for own in widths) <= room)
            most = next(fitting, min(most, _NARROW))
        widths = [min(one, most) for one in widths]
    right = [all(row.get(name) is None or _is_number(row[name]) for row in rows) for name in names]
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


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return clean_line(value) if isinstance(value, str) else json.dumps(value)


#: How Python begins one.
_TRACEBACK = "Traceback (most recent call last):"


def wire(value: Any, client: Any) -> Any:
    """Return an object of the vocabulary as it is on the wire, in the revision of the client."""
    from ..protocol import codec

    return codec.encode(value, client.revision)


def _print(result: Any, options: argparse.Namespace) -> None:
    rows = rows_of(result.data) if options.table else None
    if rows is not None:
        print(row_table(rows, shutil.get_terminal_size((80, 24)).columns if is_terminal(sys.stdout) else None))
        return
    print_result(result, sys.stdout)
    if options.table:
        print("--table: the result is not a list of flat objects", file=sys.stderr)


def show_call(client: Any, call: Callable[[], Any], options: argparse.Namespace) -> int:
    """Run a call that shows its progress, and show the result; return the exit status.

    :param call: returns the result of a tool.
    """
    before = client.stderr_tail.count(_TRACEBACK)
    try:
        result = call()
    finally:
        options.bar.done()
    if not result.is_error:
        save(result.content, options)
    whole = wire(result, client) if options.json else None
    settle(client, options, result.is_error)
    if options.json:
        print(as_json(whole))
    elif result.is_error:
        print_result(result, sys.stderr)
        if not options.debug and client.stderr_tail.count(_TRACEBACK) > before:
            print("the server logged a traceback; --debug shows it", file=sys.stderr)
    elif not options.output:
        _print(result, options)
    return 1 if result.is_error else 0


def settle(client: Any, options: argparse.Namespace, failed: bool = False) -> None:
    """Close the client before its result is printed, where lines of the server belong above it.

    Log messages and the server's stderr are read by other threads; after the end all of them have come. Without them a
    result is printed at once, as a server may take seconds to end.

    :param failed: whether the server's stderr is looked at for a traceback.
    """
    if options.log_level or options.debug or failed:
        client.close()


def save(items: List[Any], options: argparse.Namespace) -> None:
    """Write the first binary content, or the text, to the file of ``--output``, if that was given.

    :raises UsageError: there is no content, or the file cannot be written.
    """
    if options.output:
        data = first_binary(items)
        if data is None:
            raise UsageError("--output: the result has no content to save")
        try:
            with open(options.output, "wb") as file:
                file.write(data)
        except OSError as error:
            raise UsageError(f"--output: cannot write {options.output}: {error.strerror}") from error
