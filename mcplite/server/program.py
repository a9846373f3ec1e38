"""The server's command line: python -m mcplite.server TARGET. ``__main__`` starts it.

Loads the server that the command line's TARGET names: a file, a module, an object in it, or plain functions.
"""

import argparse
import importlib
import importlib.util
import inspect
import logging
import os
import re
import shlex
import sys
import traceback
from types import ModuleType, TracebackType
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..errors import BackendError, RegistrationError
from ..protocol.error_text import worded
from ..rpc.deadline import undo
from ..rpc.stdio.descriptors import is_terminal
from ..version import __version__
from .app import Server
from .transports.stdio import own_streams, serve_stdio

__all__ = ["LoadError", "load", "run"]


class LoadError(ValueError):
    """The target cannot be served; the text gives the reason and what to try."""


def load(target: str, name: Optional[str] = None) -> Server:
    """Return the server that *target* names.

    ``file.py`` and ``package.module`` are searched for a :class:`Server`; with ``:name`` it is the object of that name,
    or the result of calling it. If a module has no server, its public, annotated functions become the tools of one.

    :param target: ``file.py``, ``file.py:name``, ``package.module`` or ``package.module:name``.
    :param name: of a server that is made of functions; by default the module's.
    :raises LoadError: there is no such file, module or object, or nothing in it can be served.
    """
    location, attribute = _split(target)
    module = _file(location) if location.endswith(".py") else _module(location)
    if attribute:
        return _named(module, attribute, target)
    servers = {id(value): (key, value) for key, value in vars(module).items() if isinstance(value, Server)}
    if len(servers) == 1:
        return next(iter(servers.values()))[1]
    if servers:
        names = ", ".join(f"{location}:{key}" for key, _ in servers.values())
        raise LoadError(f"{location} has several servers; name one: {names}")
    return _from_functions(module, location, name)


def _split(target: str) -> "tuple[str, str]":
    location, colon, attribute = target.rpartition(":")
    # The colon of a drive letter separates no name: C:\tools\server.py
    if not colon or "/" in attribute or "\\" in attribute:
        return target, ""
    return location, attribute


def _file(path: str) -> ModuleType:
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise LoadError(f"there is no file {full}")
    folder, base = os.path.split(full)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as ``python file.py`` does, so that its imports work
    label = base[:-3]
    if label in sys.modules:
        label = f"{label} from {full}"  # the file's name can be that of an imported module, such as types.py
    spec = importlib.util.spec_from_file_location(label, full)
    assert spec is not None and spec.loader is not None, "the name ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[label] = module
    with undo(lambda: sys.modules.pop(label, None)):
        spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise LoadError(f"{name!r} is not the name of a module")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise LoadError(f"there is no module {name!r} (looked in {os.getcwd()} and on sys.path);"
                        f" for a file, give its path with .py") from error


def _named(module: ModuleType, attribute: str, target: str) -> Server:
    value = getattr(module, attribute, None)
    if callable(value) and not isinstance(value, (Server, type)) and _takes_no_arguments(value):
        value = value()
    if not isinstance(value, Server):
        there = ", ".join(key for key, item in vars(module).items() if isinstance(item, Server)) or "none"
        raise LoadError(f"{target}: {attribute!r} is not a Server; servers in {module.__name__}: {there}")
    return value


def _takes_no_arguments(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _from_functions(module: ModuleType, location: str, name: Optional[str]) -> Server:
    short = os.path.basename(location)[:-3] if location.endswith(".py") else location.rpartition(".")[2]
    server = Server(name or short, instructions=inspect.getdoc(module) if module.__doc__ else None)
    skipped = []
    for key, value in vars(module).items():
        if key.startswith("_") or not inspect.isfunction(value) or value.__module__ != module.__name__:
            continue
        if not value.__annotations__:
            skipped.append(f"  {key}: it has no annotations; annotate it, or hide it as _{key}")
            continue
        try:
            server.add_tool(value)
        except RegistrationError as error:
            skipped.append(f"  {key}: {error}")
    if not server.registry.declared("tools"):
        why = "; these functions cannot be tools:\n" + "\n".join(skipped) if skipped else ""
        raise LoadError(f"{location} has neither a Server nor a public annotated function{why}")
    for line in skipped:
        print(f"not served:{line}", file=sys.stderr)
    return server


_DESCRIPTION = """\
Serve a Python file or module to an MCP client on stdin and stdout, or over HTTP.

TARGET is one of
  file.py                a file; its only Server object is served
  file.py:name           the Server of that name in it (or a function that returns one)
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

An MCP host starts it with a configuration such as
  {"mcpServers": {"weather": {"command": "python", "args": ["-m", "PACKAGE.server", "/full/path/weather.py"]}}}

To protect a server over HTTP, agree on a token with its callers: put it into an environment variable and name that
variable:
  export WEATHER_TOKEN=$(python -c 'import secrets; print(secrets.token_urlsafe(32))')
  %(prog)s weather.py --http 8000 --token-env WEATHER_TOKEN
Clients send it with each request as "Authorization: Bearer ...". For OAuth, and for callers with different
permissions, give the Server in the file an auth=.

Logs are written to stderr. On stdin and stdout, everything that tools print also goes to stderr, and the server
stops when its stdin is closed. Ctrl-C and SIGTERM stop it as well. MCPLITE_DEBUG=1 logs every message; with --http,
--log-level info logs every request.
"""

#: How errors name the options of this command line, by the keywords in Python.
_NAMES = {"allowed_hosts": "--allow-host", "allowed_origins": "--allow-origin", "legacy_sse": "--legacy-sse",
          "trusted_proxies": "--trust-proxy",
          "state_keys": "--state-keys-file"}


def _parser() -> argparse.ArgumentParser:
    package = (__package__ or "").rpartition(".")[0]
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}.server", description=_DESCRIPTION,
        epilog=_EPILOG.replace("PACKAGE", package), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="TARGET", help="a file or module, see above")
    parser.add_argument("--name", help="name of a server made of plain functions; default: the module's")
    http = parser.add_argument_group("over HTTP")
    http.add_argument("--http", metavar="[HOST:]PORT", type=_address,
                      help="serve Streamable HTTP at this address; default HOST 127.0.0.1; PORT 0 picks a free port")
    http.add_argument("--path", help="path of the endpoint; default /mcp")
    http.add_argument("--allow-host", metavar="NAME", action="append",
                      help="a host name that requests may be addressed to, required unless the server is only reached by"
                           " loopback names; '*' allows any; can be repeated")
    http.add_argument("--allow-origin", metavar="ORIGIN", action="append",
                      help="an origin, such as https://app.example, whose web pages may use this server; can be repeated")
    http.add_argument("--trust-proxy", metavar="NETWORK", action="append",
                      help="the address or network of a reverse proxy, such as 127.0.0.1 or 10.0.0.0/8, which tells the"
                           " client's address in X-Forwarded-For; can be repeated")
    http.add_argument("--token-env", metavar="NAME",
                      help="require a token from every caller; the environment variable NAME holds it, or several with commas"
                           " or spaces between them; a caller with a token may use everything that is served")
    http.add_argument("--stateless", action="store_true", default=None,
                      help="serve every request on its own, without sessions")
    http.add_argument("--legacy-sse", action="store_true", default=None,
                      help="also serve the HTTP+SSE transport for clients of 2024, at /sse and /messages")
    fleet = parser.add_argument_group("in several processes")
    fleet.add_argument("--backend", metavar="URL",
                       help="what the processes share: sqlite:////run/shop.db, redis://host:6379/0 or postgresql://user@host/db;"
                            " default: the variable MCPLITE_BACKEND")
    fleet.add_argument("--state-keys-file", metavar="FILE",
                       help="a file with the secret keys that the processes share, one a line; the first signs, all of them"
                            " verify; default: the variable MCPLITE_STATE_KEYS, with commas between them")
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error", "critical"],
                        help="lowest level that is logged to stderr; default warning")
    parser.add_argument("--debug", action="store_true",
                        help="log every message, in both directions, to stderr, with secrets masked")
    parser.add_argument("--version", action="version", version=f"{package} {__version__}")
    return parser


def run(arguments: Optional[List[str]] = None) -> int:
    """Run the command line and return the exit status: 0 after serving, 1 if the target cannot be served.

    :raises KeyboardInterrupt: at Ctrl-C while the target is loaded, or at the second one. A server that serves ends with 0.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=getattr(logging, options.log_level.upper()),
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    _share(options, parser)
    given = {name: value for name, value in (
        ("path", options.path), ("allowed_hosts", options.allow_host), ("allowed_origins", options.allow_origin),
        ("trusted_proxies", options.trust_proxy), ("stateless", options.stateless), ("legacy_sse", options.legacy_sse))
        if value is not None}
    if options.http is None:
        if given or options.token_env is not None:
            parser.error("--path, --allow-host, --allow-origin, --trust-proxy, --token-env, --stateless and --legacy-sse need"
                         " --http")
        return _serve_stdio(options)
    return _serve_http(options, given)


def _share(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Set the variables that a Server reads when the target is loaded."""
    if options.state_keys_file is not None:
        try:
            with open(options.state_keys_file, encoding="utf-8-sig") as file:
                keys = [line.strip() for line in file if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            parser.error(f"--state-keys-file: {error}")
        if not keys or any("," in key for key in keys):
            parser.error(f"--state-keys-file {options.state_keys_file}: it has one key a line, without commas")
        os.environ["MCPLITE_STATE_KEYS"] = ",".join(keys)
    if options.backend is not None:
        from .. import rooms
        from .runtime.processes import read_keys

        os.environ["MCPLITE_BACKEND"] = options.backend
        try:
            opened = rooms.load("backend=")(options.backend, read_keys((), os.environ))
        except (RegistrationError, BackendError) as error:
            parser.error(f"--backend: {worded(error, _NAMES)}")
        if opened is not None:
            opened.close()


def _serve_stdio(options: argparse.Namespace) -> int:
    # Before the target is loaded: what it prints on import must not reach the client, either.
    at_terminal = is_terminal(sys.stdin)
    with own_streams() as streams:
        server = None
        try:
            server = _load(options)
        finally:
            if server is None:
                for descriptor in streams:  # serve_stdio() would have closed them
                    os.close(descriptor)
        if server is None:
            return 1
        if at_terminal:
            print(_how_to_try(server, options), file=sys.stderr, flush=True)
        serve_stdio(server.runtime, streams=streams)
    return 0


def _how_to_try(server: Server, options: argparse.Namespace) -> str:
    """Return the line for a person at a terminal, where no client is."""
    package, target = (__package__ or "").rpartition(".")[0], shlex.quote(options.target)
    return (f"{server.name} waits for an MCP client on stdin; to try it, run `python -m {package} list {target}`, or serve it"
            " over HTTP with --http 8000 (Ctrl-C stops it)")


def _serve_http(options: argparse.Namespace, given: Dict[str, Any]) -> int:
    server = _load(options)
    if server is None:
        return 1
    if options.token_env is not None:
        problem = _require_tokens(server, options.token_env)
        if problem is not None:
            print(f"cannot serve {options.target}: {problem}", file=sys.stderr)
            return 1
    from .transports.httpd import HTTPServer, warning_of

    host, port = options.http
    try:
        httpd = HTTPServer(server.runtime, host=host, port=port, **given)
    except (OSError, ValueError) as error:
        print(f"cannot serve {options.target}: {worded(error, _NAMES)}", file=sys.stderr)
        return 1
    warning = warning_of(server.runtime, host)
    if warning is not None and not logging.getLogger(__name__).isEnabledFor(logging.WARNING):
        print(f"WARNING: {warning}", file=sys.stderr)  # the log level hides it, but it must be seen
    print(f"{server.name} is served at {httpd.url} (Ctrl-C stops it)", file=sys.stderr, flush=True)
    httpd.serve_forever()
    return 0


def _require_tokens(server: Server, variable: str) -> Optional[str]:
    """Make a server require one of the tokens in an environment variable; return the problem, if there is one."""
    if server.auth is not None:
        return "the server already has an auth=; remove that or --token-env"
    from ..rooms import load

    tokens = re.split(r"[,\s]+", os.environ.get(variable, "").strip(" ,\t\r\n"))
    try:
        server.auth = load("auth=")(load("--token-env")([token for token in tokens if token], scopes=server.registry.scopes()))
    except ValueError as error:
        return f"--token-env {variable}: {error}"
    return None


def _load(options: argparse.Namespace) -> Optional[Server]:
    try:
        server = load(options.target, options.name)
    except LoadError as error:
        print(f"cannot serve {options.target}: {error}", file=sys.stderr)
        return None
    except Exception as error:
        # Of the target's own code. Its author needs the frames of that code, and not those of this package around it.
        own = None if options.debug else _frames_of_target(error)
        if own is None and (options.debug or not isinstance(error, SyntaxError)):
            raise
        traceback.print_exception(type(error), error, own)
        return None
    if options.debug:
        server.debug = True
    return server


def _frames_of_target(error: Exception) -> Optional[TracebackType]:
    """Return the frames from the first one of the target on; None if no frame is of the target."""
    package = (__package__ or "").rpartition(".")[0]
    frame = error.__traceback__
    while frame is not None:
        module = frame.tb_frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != "importlib" and module != package and not module.startswith(package + "."):
            return frame
        frame = frame.tb_next
    return None


def _address(text: str) -> Tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)
