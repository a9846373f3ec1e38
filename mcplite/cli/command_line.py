"""The command line: list, call, read, prompt, complete and ping any server, and log in to it.

``__main__`` starts it.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import sys
from typing import List, Optional

from ..errors import MCPError
from ..rpc.deadline import end_at_interrupt
from ..version import __version__
from . import parser
from .command_table import COMMANDS, load
from .printing import clean, is_unread, record_of, status_of, styled, text_of

__all__ = ["run"]

#: The exit status if stdout cannot be written.
_NO_OUTPUT = 6


def run(arguments: Optional[List[str]] = None) -> int:
    """Run the command line; return the exit status.

    :raises KeyboardInterrupt: at Ctrl-C.
    """
    package = (__package__ or "").rpartition(".")[0]
    if sys.stderr is None:
        # Descriptor 2 was closed at the start. print(file=None) would write to stdout.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it is used until the process ends
    if sys.stdout is None:
        print("open stdout: it was closed at the start, so that there is no place for the output", file=sys.stderr)
        return _NO_OUTPUT
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["__complete"] and len(given) == 3:
        from .completion import complete_line

        return complete_line(*given[1:])
    options = parser.parse(arguments, package, __version__)
    if options.debug:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a character that the terminal lacks is escaped, not an error
    try:
        status = _run(options)
        sys.stdout.flush()  # here, as a failure at exit could not be reported
        return status
    except (MCPError, ValueError, TypeError) as error:
        if options.debug:
            logging.getLogger(__name__).exception("failed")
        as_json = getattr(options, "json", False)
        said = json.dumps({"error": record_of(error)}) if as_json else clean(text_of(error, options.debug))
        with contextlib.suppress(OSError):  # if stderr cannot be written, the status still tells the kind of error
            print(said if as_json else styled(said, "fault", sys.stderr), file=sys.stderr)
        return status_of(error)
    except OSError as error:  # behind the other clause: a RequestTimeout is a TimeoutError, and so an OSError
        # Python flushes the buffer of stdout again at exit. With the null device as its target, this does not fail.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        if is_unread(error):
            return 0  # the reader of the pipe, such as head, has closed it: it needs no more output
        if options.debug:
            logging.getLogger(__name__).exception("failed")
        with contextlib.suppress(OSError):
            print(f"the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return _NO_OUTPUT


def _run(options: argparse.Namespace) -> int:
    words, needs = list(options.words), COMMANDS[options.command].needs
    called = parser.take_verb(words, options)
    if needs in ("client", "target"):
        from .target import take_file

        take_file(words, options)
        if options.server and not options.config:
            raise parser.UsageError("--server names a server in a file: give the file with --config FILE")
    parser.check_words(words, *called, bool(getattr(options, "config", None)))
    if needs == "client":
        with end_at_interrupt():
            from .commands import run

        return run(words, options)
    _, function = load(options.command)
    status: int = function(words, options)
    return status
