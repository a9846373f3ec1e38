"""The command ``inspect``: serves the inspector's page for the servers of a target, until Ctrl-C."""

import argparse
import functools
import os
import signal
import sys
import threading
from typing import Any, Callable, Dict, List, Mapping

from ..auth.login.user_agent import NoUserAgent, call_in_background, has_browser
from ..client.handlers import checked_roots
from ..errors import AuthError
from ..inspector.inspector_server import InspectedTarget, Inspector
from .host_applications import no_server
from .kept_sessions import kept_channel
from .login import Stored
from .parser import STATUS, UsageError, parse_header, parse_variable
from .target import cassette_of, load_servers, url_of

__all__ = ["HELP", "add_arguments", "run", "targets_of"]


HELP = """\
TARGET is a Python file, module:name, a command in quotes, a URL, or a configuration file: mcp.json has all
of its servers on one page, mcp.json:name one. Nothing is started before you open it on the page.

examples:
  %(prog)s inspect weather.py
  %(prog)s inspect https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'
  %(prog)s inspect mcp.json --no-browser

The page is served on this machine alone, without anything from elsewhere. stdout has its address, with a token
that works once. Ctrl-C ends the page, and the servers that it has started.
""" + STATUS


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of the command to its parser."""
    one.add_argument("--port", type=int, default=0, metavar="N", help="the port of the page; default 0, any free one")
    one.add_argument("--no-browser", action="store_true", help="print the address of the page, and open no browser")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM; return the exit status.

    :param words: TARGET, unless it is in a file of servers.
    :raises UsageError: the options do not fit together, or the port is taken.
    """
    if not 0 <= options.port < 65_536:
        raise UsageError(f"--port {options.port}: a port is a number from 0 (any free one) to 65535")
    if options.keep or options.record:
        raise UsageError(f"inspect: leave out {'--keep' if options.keep else '--record'}: the page stays until it is stopped,"
                         " and saves what it has recorded as a cassette")
    targets = targets_of(words, options)
    roots = checked_roots(options.root)
    try:
        inspector = Inspector(targets, options.port, roots, options.revision, options.timeout, options.max_timeout)
    except OSError as error:
        raise UsageError(f"--port {options.port}: {error.strerror or error}; leave --port out for a free one") from error
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    try:
        with inspector:
            print(inspector.url, flush=True)
            if not options.no_browser and has_browser(os.environ, sys.platform):
                import webbrowser

                # For some browsers, open() returns only when the browser is closed.
                call_in_background(webbrowser.open, inspector.url, name="mcplite browser")
            while not stop.wait(1.0):  # Windows delivers a Ctrl-C between two waits only
                continue
    except KeyboardInterrupt:
        return 0  # Ctrl-C is how a user ends this command
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def targets_of(words: List[str], options: argparse.Namespace) -> List[InspectedTarget]:
    """Return the servers of a command line: all of a configuration, or the one target.

    :raises UsageError: there is no server to use, an option fits none of the servers, or a value cannot be used.
    """
    if options.config:
        config = load_servers(options)
        if options.server and options.server not in (*config.servers, *config.errors):
            raise no_server(options.config, options.server, [*config.servers, *config.errors])
        named: Dict[str, Any] = {name: server for name, server in config.servers.items()
                                 if (name == options.server if options.server else not server.disabled)}
        problems = {name: str(error) for name, error in config.errors.items() if options.server in (None, name)}
        if not named and not problems:
            raise UsageError(f"{options.config} has no servers that are in use")
    else:
        target: Any = words[0]
        if target.startswith("@"):
            if options.env or options.cwd or options.header:
                raise UsageError(f"{target} is connected already: leave out --env, --cwd and --header")
            return [InspectedTarget(target, functools.partial(kept_channel, target[1:]), text=target)]
        if target.endswith(".jsonl") and os.path.isfile(target):
            target = cassette_of(target, complete=True)
        named, problems = {_name_of(words[0]): target}, {}
    remote = {name: url for name, url in zip(named, map(url_of, named.values())) if url}
    if options.header and not remote and named:
        raise UsageError("--header is for a URL, not for a server that is started here")
    if (options.env or options.cwd) and len(remote) == len(named) and named:
        raise UsageError("--env and --cwd are for a server that is started here, not for a URL")
    headers, variables = dict(map(parse_header, options.header)), dict(map(parse_variable, options.env))
    found = []
    for name, target in named.items():
        if name in remote:
            found.append(InspectedTarget(name, target, _remote(remote[name], target, headers)))
        elif hasattr(target, "serve_channel"):
            found.append(InspectedTarget(name, target, text=words[0]))
        else:
            extra: Dict[str, Any] = {"env": variables, **({"cwd": options.cwd} if options.cwd else {})}
            found.append(InspectedTarget(name, target, functools.partial(dict, **extra)))
    return found + [InspectedTarget(name, None, dict, text) for name, text in problems.items()]


def _name_of(target: str) -> str:
    """Return a name for a target: that of its file, of its host, or of its program."""
    if url_of(target):
        return target.partition("://")[2].partition("/")[0].rpartition("@")[2]
    return os.path.splitext(os.path.basename(target.split(" ")[0]))[0] or target


def _remote(url: str, target: Any, headers: Dict[str, str]) -> Callable[[], Mapping[str, Any]]:
    """Return a function that is called each time the URL is opened, and returns its headers and its stored login."""
    names = {name.lower() for name in (*headers, *getattr(target, "headers", ()))}

    def reach() -> Dict[str, Any]:
        if "authorization" in names:
            return {"headers": headers}
        try:
            grant = Stored(url).grant(agent=NoUserAgent())
        except (AuthError, ValueError):
            grant = None  # no place to store a login, or no safe way to send one: the server may need none
        return {"headers": headers, "auth": grant}

    return reach
