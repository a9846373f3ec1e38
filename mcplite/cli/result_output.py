"""Results of tools on the command line: as text, as JSON, as a table, into a file; and the status of the command."""

import argparse
import shutil
import sys
from typing import Any, Callable, List

from ..rpc.stdio.terminals import is_terminal
from .arguments import UsageError
from .printing import as_json, first_binary, print_result
from .rows import row_table, rows_of

__all__ = ["save", "settle", "show_call", "wire"]

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
