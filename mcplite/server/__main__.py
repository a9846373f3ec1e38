"""Starts the server's command line, which is in :mod:`.program`: python -m mcplite.server.

Like the package's own ``__main__`` it imports next to nothing before it can handle Ctrl-C.
"""

import sys
from typing import List, Optional

__all__ = ["main"]


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the server's command line; return the exit status: 130 after Ctrl-C before it serves, or after a second Ctrl-C."""
    try:
        from ..rpc.deadline import end_at_interrupt

        with end_at_interrupt():
            from .program import run

        return run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        from ..protocol.error_text import missing_library  # only if a dependency is missing

        missing = missing_library(error)
        if missing is None:
            raise
        print(missing, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
