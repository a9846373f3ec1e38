"""Starts the command line, which is in :mod:`.cli.command_line`: python -m mcplite, and the program ``mcplite``.

This module and the package's ``__init__`` import next to nothing, so that Ctrl-C has its short message from here on, also
while the modules are loaded. Before its first line no module can help: Python starts, and prints a traceback of its own.
"""

import sys
from typing import List, Optional

__all__ = ["main"]


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command line; return the exit status, which is 130 at Ctrl-C."""
    try:
        from .rpc.deadline import end_at_interrupt

        with end_at_interrupt():
            from .cli.command_line import run

        return run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        from .protocol.error_text import missing_library  # for a copy of the package without what it needs

        missing = missing_library(error)
        if missing is None:
            raise
        print(missing, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
