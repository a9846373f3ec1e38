"""The command ``bridge``: offers a server on stdio, or over HTTP, whatever its own transport and revisions are."""

import argparse
import logging
import os
import sys
from typing import Any, Dict, List

from ..errors import BackendError, RegistrationError
from ..protocol.error_text import worded
from ..proxy.bridge import client_of_handshake, open_bridge
from ..rpc.stdio.descriptors import is_terminal
from ..server.transports.httpd import HTTPServer, warning_of
from ..server.transports.stdio import own_streams, serve_stdio
from .parser import UsageError
from .printing import clean
from .target import client_of

__all__ = ["run"]

#: How errors name the options of this command, by the keywords in Python.
_NAMES = {"allowed_hosts": "--allow-host", "allowed_origins": "--allow-origin", "state_keys": "the variable MCPLITE_STATE_KEYS",
          "backend": "--backend", "trusted_proxies": "--trust-proxy"}
#: Bytes of a first message that are read before the server behind the bridge is reached.
_MOST_RECEIVED = 1 << 20


def run(words: List[str], options: argparse.Namespace) -> int:
    """Serve until the client disconnects (stdio), or until Ctrl-C or SIGTERM; return the exit status.

    :param words: TARGET, unless it is in a file of servers.
    :raises UsageError: the options do not fit together.
    :raises MCPError, OSError: the server cannot be reached, or the address is taken.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO if options.debug else logging.WARNING,
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    http: Dict[str, Any] = {name: value for name, value in (
        ("path", options.path), ("allowed_hosts", options.allow_host), ("allowed_origins", options.allow_origin),
        ("trusted_proxies", options.trust_proxy), ("stateless", options.stateless), ("legacy_sse", options.legacy_sse))
        if value is not None}
    if options.http is None:
        return _on_stdio(words, options, http)
    if options.stdio:
        raise UsageError("bridge: --stdio and --http exclude each other; start two bridges to have both")
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
        raise UsageError(f"bridge: {worded(error, _NAMES)}") from error
    return 0


def _on_stdio(words: List[str], options: argparse.Namespace, http: Dict[str, Any]) -> int:
    if http or options.backend is not None:
        raise UsageError("bridge: --path, --allow-host, --allow-origin, --trust-proxy, --stateless, --legacy-sse and"
                         " --backend need --http")
    at_terminal = is_terminal(sys.stdin)
    with own_streams() as streams:
        served = False
        try:
            received = b"" if at_terminal else _first_message(streams[0])
            only = client_of_handshake(received)
            # One client is all that stdin can bring, so one connection is enough for it.
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
    """Return what the client sends up to the end of its first message, and what comes with it."""
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
