"""The command line of the server's side: python -m mcplite.server TARGET.

May import: server.app, server.httpd, server.loading, server.stdio, version
"""

import argparse
import logging
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

from ..version import __version__
from .app import Server
from .loading import LoadError, load
from .stdio import own_streams, serve

__all__ = ["main"]

_DESCRIPTION = """\
Serve a Python file or module to an MCP client on stdin and stdout, or over HTTP.

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
  %(prog)s weather.py --http 8000
  %(prog)s weather.py --http 0.0.0.0:8000 --allow-host mcp.example.com

A host starts it with a configuration such as
  {"mcpServers": {"weather": {"command": "python", "args": ["-m", "PACKAGE.server", "/full/path/weather.py"]}}}

Logs go to stderr; on stdin and stdout so does everything that tools print, and the server ends when its
stdin does. In any case it ends on the first Ctrl-C or SIGTERM. MCPLITE_DEBUG=1 shows every message; with --http,
--log-level info shows every request.
"""


def _parser() -> argparse.ArgumentParser:
    # With -m the name of this module is "__main__"; its package is known all the same.
    package = (__package__ or "").rpartition(".")[0]
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}.server", description=_DESCRIPTION,
        epilog=_EPILOG.replace("PACKAGE", package), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="TARGET", help="a file or module, as above")
    parser.add_argument("--name", help="the name of a server made of plain functions; by default the module's")
    http = parser.add_argument_group("over HTTP")
    http.add_argument("--http", metavar="[HOST:]PORT", type=_address,
                      help="serve Streamable HTTP there; HOST is 127.0.0.1 by default, PORT 0 is any free one")
    http.add_argument("--path", help="of the endpoint; default /mcp")
    http.add_argument("--allow-host", metavar="NAME", action="append",
                      help="a name that clients call this server by, needed for all but loopback addresses; '*' for any;"
                           " can be repeated")
    http.add_argument("--allow-origin", metavar="ORIGIN", action="append",
                      help="an origin, such as https://app.example, whose pages may use this server; can be repeated")
    http.add_argument("--stateless", action="store_true", default=None,
                      help="serve every request on its own, without sessions")
    http.add_argument("--legacy-sse", action="store_true", default=None,
                      help="also serve the HTTP+SSE of 2024 clients, at /sse and /messages")
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error", "critical"],
                        help="what is logged to stderr; default warning")
    parser.add_argument("--debug", action="store_true", help="log every message both ways to stderr, secrets masked")
    parser.add_argument("--version", action="version", version=f"{package} {__version__}")
    return parser


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command line; return the exit status: 0 after serving, 1 when the target cannot be served."""
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=getattr(logging, options.log_level.upper()),
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    given = {name: value for name, value in (
        ("path", options.path), ("allowed_hosts", options.allow_host), ("allowed_origins", options.allow_origin),
        ("stateless", options.stateless), ("legacy_sse", options.legacy_sse)) if value is not None}
    if options.http is None:
        if given:
            parser.error("--path, --allow-host, --allow-origin, --stateless and --legacy-sse need --http")
        return _serve_stdio(options)
    return _serve_http(options, given)


def _serve_stdio(options: argparse.Namespace) -> int:
    # Taken before the target is loaded: what it prints on import must not reach the client either.
    with own_streams() as streams:
        server = _load(options)
        if server is None:
            for descriptor in streams:  # serve() would have closed them
                os.close(descriptor)
            return 1
        serve(server, streams=streams)
    return 0


def _serve_http(options: argparse.Namespace, given: Dict[str, Any]) -> int:
    server = _load(options)
    if server is None:
        return 1
    from .httpd import HTTPServer, serve_until_stopped

    host, port = options.http
    try:
        httpd = HTTPServer(server, host=host, port=port, **given)
    except (OSError, ValueError) as error:
        print(f"cannot serve {options.target}: {error}", file=sys.stderr)
        return 1
    print(f"{server.name} is served at {httpd.url} (Ctrl-C stops it)", file=sys.stderr, flush=True)
    serve_until_stopped(httpd)
    return 0


def _load(options: argparse.Namespace) -> Optional[Server]:
    try:
        server = load(options.target, options.name)
    except LoadError as error:
        print(f"cannot serve {options.target}: {error}", file=sys.stderr)
        return None
    if options.debug:
        server.debug = True
    return server


def _address(text: str) -> Tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no PORT and no HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


if __name__ == "__main__":
    sys.exit(main())
