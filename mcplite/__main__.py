"""The command line: list, call, read, prompt, complete and ping any server, and log in to it."""

import argparse
import io
import json
import logging
import os
import sys
from typing import Any, Dict, List, Optional

from .cli import parser
from .cli.arguments import UsageError
from .cli.printing import clean, is_unread
from .errors import MCPError, RemoteError, RequestTimeout, TransportError
from .protocol.show import worded
from .version import __version__

__all__ = ["main"]


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command line; return the exit status."""
    package = __package__ or ""  # with -m the name of this module is "__main__"
    options = parser.parse(arguments, package, __version__)
    if options.debug:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a character that the terminal lacks is escaped, not an error
    try:
        status = _run(options)
        sys.stdout.flush()  # here, as a failure at exit could not be reported
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (MCPError, ValueError, TypeError) as error:
        if options.debug:
            logging.getLogger(__name__).exception("failed")
        status, text = _status(error), worded(error, parser.NAMES)
        if getattr(options, "json", False):
            print(json.dumps({"error": {"type": type(error).__name__, "message": text, "status": status,
                                        **_wire(error)}}), file=sys.stderr)
        else:
            print(clean(text), file=sys.stderr)
        return status
    except OSError as error:  # behind the others: a RequestTimeout is a TimeoutError, and so an OSError
        if not is_unread(error):
            raise
        # The reader of our output has closed it. The buffer is flushed at exit and needs a place to go.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return 0


def _status(error: Exception) -> int:
    if isinstance(error, RequestTimeout):
        return 5
    if isinstance(error, TransportError):
        return 4
    return 3 if isinstance(error, MCPError) else 2


def _wire(error: Exception) -> Dict[str, Any]:
    """Return the code and the data of an error that came from the server."""
    if not isinstance(error, RemoteError):
        return {}
    return {"code": error.code} if error.data is None else {"code": error.code, "data": error.data}


def _run(options: argparse.Namespace) -> int:
    words = list(options.words)
    if options.command in ("login", "logout", "token"):
        parser.check_words(words, options.command, False)
        from .cli import login

        return login.run(words[0], options)
    from .cli.actions import ACTIONS
    from .cli.target import connected

    if options.server and not options.config:
        raise UsageError("--server names a server in a file: give the file with --config FILE")
    parser.check_words(words, options.command, bool(options.config))
    with connected(words, options) as client:
        return ACTIONS[options.command](client, words, options)


if __name__ == "__main__":
    sys.exit(main())
