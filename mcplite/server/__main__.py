"""The command line of the server's side: python -m mcplite.server TARGET."""

import argparse
import logging
import os
import re
import sys
from typing import Any, Dict, List, Optional, Tuple

from ..version import __version__
from .app import Server
from .loading import LoadError, load
from .transports.stdio import own_streams, serve

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
  %(prog)s weather.py --http 0.0.0.0:8000 --allow-host mcp.example.com --token-env WEATHER_TOKEN

A host starts it with a configuration such as
  {"mcpServers": {"weather": {"command": "python", "args": ["-m", "PACKAGE.server", "/full/path/weather.py"]}}}

Who shall call over HTTP needs a token, which both sides know; put one into a variable and name that here:
  export WEATHER_TOKEN=$(python -c 'import secrets; print(secrets.token_urlsafe(32))')
  %(prog)s weather.py --http 8000 --token-env WEATHER_TOKEN
A client sends it with each request as "Authorization: Bearer ...". For OAuth, and for callers who may do different
things, give the Server in the file an auth=.

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
    http.add_argument("--token-env", metavar="NAME",
                      help="ask every caller for a token that is in this environment variable, one or several with commas or"
                           " blanks between them; who has one may use all that is served")
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
        if given or options.token_env is not None:
            parser.error("--path, --allow-host, --allow-origin, --token-env, --stateless and --legacy-sse need --http")
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
    if options.token_env is not None:
        problem = _ask_for_tokens(server, options.token_env)
        if problem is not None:
            print(f"cannot serve {options.target}: {problem}", file=sys.stderr)
            return 1
    from .transports.httpd import HTTPServer, serve_until_stopped, warning_of

    host, port = options.http
    try:
        httpd = HTTPServer(server, host=host, port=port, **given)
    except (OSError, ValueError) as error:
        print(f"cannot serve {options.target}: {error}", file=sys.stderr)
        return 1
    warning = warning_of(server, host)
    if warning is not None and not logging.getLogger(__name__).isEnabledFor(logging.WARNING):
        print(f"WARNING: {warning}", file=sys.stderr)  # it was not logged, and must not be missed
    print(f"{server.name} is served at {httpd.url} (Ctrl-C stops it)", file=sys.stderr, flush=True)
    serve_until_stopped(httpd)
    return 0


def _ask_for_tokens(server: Server, variable: str) -> Optional[str]:
    """Have a server ask for the tokens in an environment variable; return what is in the way of that."""
    if server.auth is not None:
        return "the server has an auth= of its own, beside which --token-env would not count; leave one of them out"
    from .auth.bearer import BearerAuth
    from .auth.static_tokens import StaticTokens

    tokens = re.split(r"[,\s]+", os.environ.get(variable, "").strip(" ,\t\r\n"))
    try:
        server.auth = BearerAuth(StaticTokens([token for token in tokens if token], scopes=server.registry.scopes()))
    except ValueError as error:
        return f"--token-env {variable}: {error}"
    return None


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
