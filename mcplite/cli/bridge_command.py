"""The commands ``bridge`` and ``replay``: offer a server, or a cassette, on stdio or over HTTP, in all revisions.

A cassette that is replayed on stdio has no bridge in front of it: the client gets exactly the messages that were recorded.
"""

import argparse
import logging
import os
import sys
from typing import Any, Dict, List

from ..errors import BackendError, RegistrationError
from ..protocol.error_text import worded
from ..proxy.bridge import client_of_handshake, open_bridge
from ..rpc.channels import StreamChannel
from ..rpc.stdio.descriptors import is_terminal
from ..server.transports.httpd import HTTPServer, warning_of
from ..server.transports.stdio import own_streams, serve_stdio
from .parser import STATUS, UsageError
from .printing import clean
from .target import cassette_of, client_of

__all__ = ["HELP", "add_arguments", "run"]

#: By keyword argument of the Python API: the option of this command that an error text names in its place.
_NAMES = {"allowed_hosts": "--allow-host", "allowed_origins": "--allow-origin", "state_keys": "the variable MCPLITE_STATE_KEYS",
          "backend": "--backend", "trusted_proxies": "--trust-proxy"}
#: The first message of the client is read before the bridge connects to its server: up to about this many bytes.
_MOST_RECEIVED = 1 << 20


HELP = """\
TARGET is a Python file, module:name, a command in quotes, a URL, or mcp.json:name. Without --http the
bridge speaks stdio, as a program that a host application starts.

examples:
  %(prog)s bridge 'npx -y some-server' --http 127.0.0.1:8000     a stdio server over HTTP
  %(prog)s bridge https://example.com/mcp                        a server over HTTP on stdio
  %(prog)s bridge weather.py --http 8000 --shared                one process for all clients

A host application that knows only stdio reaches a server over HTTP with
  {"mcpServers": {"example": {"command": "python", "args": ["-m", "PACKAGE", "bridge", "https://example.com/mcp"]}}}
Log in before with `%(prog)s login https://example.com/mcp`; the bridge uses and renews the stored login.

Clients of all revisions are served, whichever the server speaks. Over HTTP each client with a session has
a connection of its own to the server, for a stdio server a process of its own; --shared uses one for all,
where a question of the server fails if it may belong to several clients. Ctrl-C, SIGTERM and the end of
stdin stop the bridge, and the processes that it has started.

""" + STATUS
_REPLAY_HELP = """\
FILE is a cassette: what --record FILE of any command has written. Without --http it is replayed on stdio, as
a program that a host application starts. Each request gets the answer that was recorded for its method and
params, with the notifications and the questions before it; one that is not on the cassette gets an error with
the nearest. A cassette is a TARGET of all other commands, too.

examples:
  %(prog)s call weather.py forecast city=Rome --record weather.jsonl
  %(prog)s replay weather.jsonl
  %(prog)s replay weather.jsonl --http 8000
  %(prog)s call weather.jsonl forecast city=Rome

""" + STATUS


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of a command to its parser."""
    if command == "replay":
        one.epilog = _REPLAY_HELP
    one.add_argument("--stdio", action="store_true", help="serve one client on stdin and stdout, which is the default")
    one.add_argument("--http", metavar="[HOST:]PORT",
                     help="serve Streamable HTTP at this address; default HOST 127.0.0.1; PORT 0 picks a free port")
    one.add_argument("--shared", action="store_true", help="one connection to the server, or one process, for all clients")
    one.add_argument("--path", help="path of the endpoint; default /mcp")
    one.add_argument("--allow-host", metavar="NAME", action="append",
                     help="a host name that requests may be addressed to, besides loopback names; '*' allows any; repeatable")
    one.add_argument("--allow-origin", metavar="ORIGIN", action="append",
                     help="an origin, such as https://app.example, whose web pages may use the bridge; repeatable")
    one.add_argument("--trust-proxy", metavar="NETWORK", action="append",
                     help="the address or network of a reverse proxy, such as 127.0.0.1 or 10.0.0.0/8, which tells the client's"
                          " address in X-Forwarded-For; repeatable")
    one.add_argument("--stateless", action="store_true", default=None, help="serve every request on its own, without sessions")
    one.add_argument("--legacy-sse", action="store_true", default=None,
                     help="also serve the HTTP+SSE transport for clients of 2024, at /sse and /messages")
    one.add_argument("--backend", metavar="URL",
                     help="what several bridges behind one address share, such as redis://host:6379/0; with the variable"
                          " MCPLITE_STATE_KEYS")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Serve until the client disconnects (stdio), or until Ctrl-C or SIGTERM; return the exit status.

    :param words: TARGET, unless it is in a file of servers; the file of a cassette for ``replay``.
    :raises UsageError: the options do not fit together.
    :raises MCPError, OSError: the server cannot be reached, or the address is taken.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO if options.debug else logging.WARNING,
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if options.keep:
        raise UsageError(f"{options.command}: leave out --keep: a {options.command} stays until it is stopped")
    http: Dict[str, Any] = {name: value for name, value in (
        ("path", options.path), ("allowed_hosts", options.allow_host), ("allowed_origins", options.allow_origin),
        ("trusted_proxies", options.trust_proxy), ("stateless", options.stateless), ("legacy_sse", options.legacy_sse))
        if value is not None}
    if options.http is None:
        return _on_stdio(words, options, http)
    if options.stdio:
        raise UsageError(f"{options.command}: --stdio and --http exclude each other; start two to have both")
    given = {} if options.backend is None else {"backend": options.backend}
    try:
        with client_of(words, options) as client, open_bridge(client, shared=options.shared, **given) as server:
            host, port = _address(options.http)
            httpd = HTTPServer(server.runtime, host=host, port=port, **http)
            warning = warning_of(server.runtime, host)
            if warning is not None:
                print(f"WARNING: {warning}", file=sys.stderr)
            print(clean(f"{server.name} is served at {httpd.url} (Ctrl-C stops it)"), file=sys.stderr, flush=True)
            httpd.serve_forever()
    except (RegistrationError, BackendError) as error:
        raise UsageError(f"{options.command}: {worded(error, _NAMES)}") from error
    return 0


def _on_stdio(words: List[str], options: argparse.Namespace, http: Dict[str, Any]) -> int:
    if http or options.backend is not None:
        raise UsageError(f"{options.command}: --path, --allow-host, --allow-origin, --trust-proxy, --stateless, --legacy-sse"
                         " and --backend need --http")
    at_terminal = is_terminal(sys.stdin)
    if options.command == "replay":
        cassette = cassette_of(words[0])
        with own_streams() as (read, written), open(read, "rb") as reader, open(written, "wb") as writer:
            cassette.serve(StreamChannel(reader, writer, name="the client"))
        return 0
    with own_streams() as streams:
        served = False
        try:
            received = b"" if at_terminal else _first_message(streams[0])
            only = client_of_handshake(received)
            # stdin has one client, so one connection to the server is enough.
            with client_of(words, options) as client, open_bridge(client, shared=True, only=only) as server:
                if at_terminal:
                    print(clean(f"{server.name} waits for an MCP client on stdin; to serve it over HTTP, add --http 8000"
                                " (Ctrl-C stops it)"), file=sys.stderr, flush=True)
                served = True
                serve_stdio(server.runtime, streams=streams, received=received)
        finally:
            if not served:
                for descriptor in streams:  # serve_stdio() would have closed them
                    os.close(descriptor)
    return 0


def _first_message(descriptor: int) -> bytes:
    """Return the bytes of the client up to the end of its first message, and any more that came in the last read.

    If the input ends before that, or the message has more than ``_MOST_RECEIVED`` bytes, it is not complete.
    """
    received = b""
    while b"\n" not in received.lstrip() and len(received) < _MOST_RECEIVED:
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            break
        received += chunk
    return received


def _address(text: str) -> Any:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--http {text!r}: write PORT or HOST:PORT, such as 127.0.0.1:8000")
    return host.strip("[]") or "127.0.0.1", int(port)
