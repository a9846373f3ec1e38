"""The command line of the server's side: python -m mcplite.server TARGET.

May import: server.loading, server.stdio, version
"""

import argparse
import logging
import os
import sys
from typing import List, Optional

from ..version import __version__
from .loading import LoadError, load
from .stdio import own_streams, serve

__all__ = ["main"]

_DESCRIPTION = """\
Serve a Python file or module to an MCP client on stdin and stdout.

TARGET is one of
  file.py                a file; its one Server object is served
  file.py:name           the Server called name in it (or a function that returns one)
  package.module:name    the same in an importable module
  file.py without a Server: its public, annotated functions become tools
"""
_EPILOG = """\
examples:
  %(prog)s weather.py
  %(prog)s weather.py:mcp --log-level debug
  %(prog)s tools.py --name my-tools

A host starts it with a configuration such as
  {"mcpServers": {"weather": {"command": "python", "args": ["-m", "PACKAGE.server", "/full/path/weather.py"]}}}

Logs go to stderr, and so does everything that tools print. The server ends when its stdin does,
and on the first Ctrl-C or SIGTERM. MCPLITE_DEBUG=1 shows every message.
"""


def _parser() -> argparse.ArgumentParser:
    # With -m the name of this module is "__main__"; its package is known all the same.
    package = (__package__ or "").rpartition(".")[0]
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}.server", description=_DESCRIPTION,
        epilog=_EPILOG.replace("PACKAGE", package), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="TARGET", help="a file or module, as above")
    parser.add_argument("--name", help="the name of a server made of plain functions; by default the module's")
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error", "critical"],
                        help="what is logged to stderr; default warning")
    parser.add_argument("--debug", action="store_true", help="log every message both ways to stderr, secrets masked")
    parser.add_argument("--version", action="version", version=f"{package} {__version__}")
    return parser


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command line; return the exit status: 0 after serving, 1 when the target cannot be served."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=getattr(logging, options.log_level.upper()),
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Taken before the target is loaded: what it prints on import must not reach the client either.
    with own_streams() as streams:
        try:
            server = load(options.target, options.name)
        except LoadError as error:
            print(f"cannot serve {options.target}: {error}", file=sys.stderr)
            for descriptor in streams:  # serve() would have closed them
                os.close(descriptor)
            return 1
        if options.debug:
            server.debug = True
        serve(server, streams=streams)
    return 0


if __name__ == "__main__":
    sys.exit(main())
