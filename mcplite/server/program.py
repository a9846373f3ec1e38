"""The server's command line: python -m mcplite.server TARGET. ``__main__`` starts it.

Loads the server that the command line's TARGET names: a file, a module, an object in it, or plain functions.
"""

import argparse
import contextlib
import importlib
import importlib.util
import inspect
import logging
import os
import re
import shlex
import sys
import threading
import traceback
from types import ModuleType, TracebackType
from typing import Any, Callable, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

from ..errors import BackendError, RegistrationError, TransportError
from ..protocol.api_documents import is_api_document
from ..protocol.error_text import worded
from ..protocol.http.oauth import is_loopback
from ..rooms import load as load_room
from ..rpc.deadline import undo
from ..rpc.stdio.descriptors import is_terminal
from ..version import __version__
from .app import Server
from .transports.stdio import own_streams, serve_stdio

__all__ = ["LoadError", "load", "run"]


class LoadError(ValueError):
    """The target cannot be served; the text gives the reason and what to try."""


def load(target: str, name: Optional[str] = None, search: bool = False) -> Server:
    """Return the server that *target* names.

    ``file.py`` and ``package.module`` are searched for a :class:`Server`. Of several, servers that another one mounts do not
    count, nor do servers that come from another module. With ``:name`` it is the object of that name, or the result of calling
    it. If a module has no server, its public, annotated functions become the tools of one.
    ``mcp.json`` is a configuration file of hosts, and the server one that offers all servers of it. ``petstore.yaml`` or
    ``petstore.json`` is an OpenAPI document, whose operations are the tools; the credential of its security scheme
    ``api_key`` is in the environment variable ``PETSTORE_API_KEY``.

    :param target: ``file.py``, ``file.py:name``, ``package.module``, ``package.module:name``, ``mcp.json`` or
        ``petstore.yaml``.
    :param name: of a server that is made of functions, or of a file of JSON or YAML; by default that of the module or file,
        and of an OpenAPI document its title.
    :param search: of a configuration file: whether the tools of its servers are found by a search, and not listed.
    :raises LoadError: there is no such file, module or object, or nothing in it can be served.
    """
    of_api = target.endswith((".yaml", ".yml")) or is_api_document(target)
    if search and (of_api or not target.endswith(".json")):
        raise LoadError("--search is for a configuration file, such as mcp.json")
    if of_api or target.endswith(".json"):
        try:
            made: Server = _of_api(target, name) if of_api else load_room("a configuration file")(target, name, search)
        except (ImportError, RegistrationError, TransportError) as error:
            raise LoadError(worded(error, _NAMES)) from error
        return made
    location, attribute = _split(target)
    module = _file(location) if location.endswith(".py") else _module(location)
    if attribute:
        return _named(module, attribute, target)
    servers = {id(value): (key, value) for key, value in vars(module).items() if isinstance(value, Server)}
    own = _own(module, [server for _, server in servers.values()])
    if len(own) == 1:
        return own[0]
    if servers:
        names = ", ".join(f"{location}:{key}" for key, _ in servers.values())
        raise LoadError(f"{location} has several servers; name one: {names}")
    return _from_functions(module, location, name)


def _of_api(path: str, name: Optional[str]) -> Server:
    """Return the server of an OpenAPI document; variables that begin with the name of its file have the credentials."""
    prefix = os.path.basename(path).partition(".")[0]
    made: Server = load_room("an OpenAPI document")(path, name=name, environment_prefix=prefix)
    return made


def _own(module: ModuleType, servers: List[Server]) -> List[Server]:
    """Return the servers of a module that can be the one to serve.

    Of several, servers that another one mounts are left out. If several remain, those that another loaded module has as well
    count as imported, and are left out.
    """
    parts = [getattr(provider, "mounted", None) for server in servers for provider in server.registry.providers]
    found = [server for server in servers if not any(server.runtime is part for part in parts)]
    if len(found) < 2:
        return found
    # A package around this module does not count as another one: it often has the servers of its modules for its users.
    others = [vars(other) for name, other in list(sys.modules.items())
              if isinstance(other, ModuleType) and other is not module and not module.__name__.startswith(f"{name}.")]
    imported = {id(value) for names in others for value in list(names.values()) if isinstance(value, Server)}
    return [server for server in found if id(server) not in imported]


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
Serve a Python file or module, the servers of a configuration file, or an API, to an MCP client on stdin and stdout, or
over HTTP.

TARGET is one of
  file.py                a file; its only Server object is served, apart from those that it imports or mounts
  file.py:name           the Server of that name in it (or a function that returns one)
  package.module:name    the same in an importable module
  file.py without a Server: its public, annotated functions become tools
  mcp.json               a configuration file of hosts: all of its servers, their tools as SERVER_TOOL
  petstore.yaml          an OpenAPI document (or .json): the operations of the API are tools; the credential of its
                         security scheme api_key is in the environment variable PETSTORE_API_KEY
"""
_EPILOG = """\
examples:
  %(prog)s weather.py
  %(prog)s weather.py:mcp --log-level debug
  %(prog)s tools.py --name my-tools
  %(prog)s weather.py --http 8000 --reload
  %(prog)s weather.py --http 0.0.0.0:8000 --allow-host mcp.example.com --token-env WEATHER_TOKEN
  %(prog)s weather.py --http 8000 --issuer users.txt
  %(prog)s mcp.json --search

An MCP host starts it with a configuration such as
  {"mcpServers": {"weather": {"command": "python", "args": ["-m", "PACKAGE.server", "/full/path/weather.py"]}}}

To protect a server over HTTP, agree on a token with its callers: put it into an environment variable and name that
variable:
  export WEATHER_TOKEN=$(python -c 'import secrets; print(secrets.token_urlsafe(32))')
  %(prog)s weather.py --http 8000 --token-env WEATHER_TOKEN
Clients send it with each request as "Authorization: Bearer ...".

To have users log in with a browser, name them in a file, and give that to --issuer (needs PACKAGE[issuer]):
  python -m PACKAGE users add users.txt ann
  %(prog)s weather.py --http 8000 --issuer users.txt
  python -m PACKAGE login http://127.0.0.1:8000/mcp
The server then issues the tokens of its clients itself. Behind a proxy, --public-url is the URL that
browsers see, and --allow-host its name. Logins end with the server, unless --backend keeps them. For logins at a
provider such as GitHub, or tokens of another authorization server, give the Server in the file an auth=.

Logs are written to stderr. On stdin and stdout, everything that tools print also goes to stderr, and the server
stops when its stdin is closed. Ctrl-C and SIGTERM stop it as well. MCPLITE_DEBUG=1 logs every message; with --http,
--log-level info logs every request.
"""

#: How errors name the options of this command line, by the keywords in Python.
_NAMES = {"allowed_hosts": "--allow-host", "allowed_origins": "--allow-origin", "legacy_sse": "--legacy-sse",
          "trusted_proxies": "--trust-proxy", "certfile": "--cert", "keyfile": "--key", "client_ca": "--client-ca",
          "key_password": "--key-password-env", "state_keys": "--state-keys-file",
          "base_url": "write the URL of the API into the document, as servers: [{url: https://api.example.com}]"}
#: The options that only a server over HTTP has.
_OF_HTTP = ("--issuer", "--public-url", "--path", "--allow-host", "--allow-origin", "--trust-proxy", "--token-env", "--cert",
            "--key", "--key-password-env", "--client-ca", "--health", "--stateless", "--legacy-sse")


def _parser() -> argparse.ArgumentParser:
    package = (__package__ or "").rpartition(".")[0]
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}.server", description=_DESCRIPTION,
        epilog=_EPILOG.replace("PACKAGE", package), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="TARGET", help="a file or module, see above")
    parser.add_argument("--name", help="name of a server made of plain functions, of mcp.json or of an OpenAPI document;"
                                       " default: the file's, or the title of the API")
    parser.add_argument("--search", action="store_true",
                        help="for mcp.json: list three tools, which find, describe and call those of all its servers")
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
    http.add_argument("--issuer", metavar="FILE",
                      help=f"have the users of this file log in with a browser, and issue tokens to their clients;"
                           f" `python -m {package} users add FILE NAME` makes the file")
    http.add_argument("--public-url", metavar="URL",
                      help="with --issuer: where browsers reach the server, without the path of the endpoint; default"
                           " http://127.0.0.1:PORT, or https:// with --cert")
    http.add_argument("--cert", metavar="FILE",
                      help="serve HTTPS with the certificate of this PEM file, which is read again when it has changed")
    http.add_argument("--key", metavar="FILE", help="the PEM file of its key; default: the file of the certificate")
    http.add_argument("--key-password-env", metavar="NAME", help="the environment variable NAME holds the password of the key")
    http.add_argument("--client-ca", metavar="FILE",
                      help="the PEM file of the authorities whose certificates clients must have (mutual TLS)")
    http.add_argument("--health", action="store_true",
                      help="also answer GET /healthz, whether the process lives, and /readyz, whether it can reach the backend;"
                           " without a token")
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
    parser.add_argument("--reload", action="store_true",
                        help="start the server again when a file of it changes: a module under the working directory or in the"
                             " folder of the file")
    parser.add_argument("--reload-child", metavar="FILE", help=argparse.SUPPRESS)  # where to report to the parent
    parser.add_argument("--inherited-socket", metavar="NUMBER", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error", "critical"],
                        help="lowest level that is logged to stderr; default warning")
    parser.add_argument("--log-json", action="store_true", help="write each line of the log as one JSON object")
    parser.add_argument("--debug", action="store_true",
                        help="log every message, in both directions, to stderr, with secrets masked")
    parser.add_argument("--version", action="version", version=f"{package} {__version__}")
    return parser


def run(arguments: Optional[List[str]] = None) -> int:
    """Run the command line and return the exit status: 0 after serving, 1 if the target cannot be served.

    :raises KeyboardInterrupt: Ctrl-C while the target is loaded, or a second Ctrl-C. A server that serves ends with 0 at the
        first one.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=getattr(logging, options.log_level.upper()),
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if options.log_json:
        _log_as_json()
    _share(options, parser)
    given = {name: value for name, value in (
        ("path", options.path), ("allowed_hosts", options.allow_host), ("allowed_origins", options.allow_origin),
        ("trusted_proxies", options.trust_proxy), ("stateless", options.stateless), ("legacy_sse", options.legacy_sse),
        ("certfile", options.cert), ("keyfile", options.key), ("client_ca", options.client_ca))
        if value is not None}
    if options.key_password_env is not None:
        given["key_password"] = os.environ.get(options.key_password_env)
        if not given["key_password"]:
            parser.error(f"--key-password-env: the environment variable {options.key_password_env} is empty or not set")
    if options.http is None:
        alone = next((option for option in _OF_HTTP
                      if getattr(options, option[2:].replace("-", "_")) not in (None, False)), None)
        if alone is not None:
            print(f"{alone} needs --http PORT", file=sys.stderr)
            return 2
    options.child = None
    if options.reload_child is not None:
        options.child = load_room("--reload-child")(options.reload_child, options.target)
    elif options.reload:
        words = sys.argv[1:] if arguments is None else arguments
        return int(load_room("--reload")(words, options.target, options.http, options.cert is not None))
    if options.http is None:
        return _serve_stdio(options)
    return _serve_http(options, given)


def _log_as_json() -> None:
    """Make the process report in lines of JSON: the log, warnings, and exceptions that nothing catches."""
    formatter, log = load_room("--log-json")(), logging.getLogger(__name__)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)
    logging.captureWarnings(True)

    def report(failed: Any) -> None:
        if failed.exc_type is not SystemExit:
            log.error("the thread %s has failed", failed.thread and failed.thread.name,
                      exc_info=(failed.exc_type, failed.exc_value, failed.exc_traceback))

    threading.excepthook = report
    sys.excepthook = lambda *raised: log.critical("the server has failed", exc_info=raised)


def _tell(options: argparse.Namespace, text: str) -> None:
    """Write a line to stderr that no log level hides."""
    if options.log_json:
        log = logging.getLogger(__name__)
        log.handle(log.makeRecord(log.name, logging.INFO, __file__, 0, text, (), None))
    else:
        print(text, file=sys.stderr, flush=True)


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
        from .runtime.processes import read_keys

        os.environ["MCPLITE_BACKEND"] = options.backend
        try:
            opened = load_room("backend=")(options.backend, read_keys((), os.environ))
        except (RegistrationError, BackendError) as error:
            parser.error(f"--backend: {worded(error, _NAMES)}")
        if opened is not None:
            opened.close()


def _serve_stdio(options: argparse.Namespace) -> int:
    # The streams are taken before the target is loaded: text that it prints on import must not reach the client, either.
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
    problem = None
    if options.issuer is not None:
        problem = _require_logins(server, options)
    elif options.public_url is not None:
        problem = "--public-url is for --issuer FILE"
    elif options.token_env is not None:
        problem = _require_tokens(server, options.token_env)
    if problem is not None:
        print(f"cannot serve {options.target}: {problem}", file=sys.stderr)
        return 1
    from .transports.httpd import HTTPServer, warning_of

    if options.health:
        given["routes"] = load_room("--health")(server)
    host, port = options.http
    try:
        kind = HTTPServer if options.child is None else options.child.http_server(options.inherited_socket)
        httpd = kind(server.runtime, host=host, port=port, **given)
    except (ImportError, OSError, ValueError) as error:  # an extra of the server's auth= may not be installed
        print(f"cannot serve {options.target}: {worded(error, _NAMES)}", file=sys.stderr)
        return 1
    warning = warning_of(server.runtime, host)
    if warning is not None and not logging.getLogger(__name__).isEnabledFor(logging.WARNING):
        _tell(options, f"WARNING: {warning}")  # the log level hides it, but it must be seen
    _tell(options, f"{server.name} is served at {httpd.url} (Ctrl-C stops it)")
    if options.child is None and is_terminal(sys.stderr):
        print(_next_commands(httpd.url), file=sys.stderr, flush=True)
    if options.issuer is not None:
        _tell(options, _how_to_log_in(server, urlsplit(httpd.url).path, options))
    if options.child is not None:
        options.child.end_with_parent()
    httpd.serve_forever()
    return 0


def _next_commands(url: str) -> str:
    """Return the lines for a person at a terminal, who has started a server over HTTP."""
    program = f"python -m {(__package__ or '').rpartition('.')[0]}"
    rows = (("describe it", ""), ("call a tool", "call"), ("see it in a browser", "inspect"), ("check it", "check"),
            ("add it to a host", "install claude-code"))
    return "\n".join(f"  {text + ':':<21}{' '.join(filter(None, [program, command, url]))}" for text, command in rows)


def _require_tokens(server: Server, variable: str) -> Optional[str]:
    """Make a server require one of the tokens in an environment variable; return the problem, if there is one."""
    if server.auth is not None:
        return "the server already has an auth=; remove that or --token-env"
    tokens = re.split(r"[,\s]+", os.environ.get(variable, "").strip(" ,\t\r\n"))
    try:
        verifier = load_room("--token-env")([token for token in tokens if token], scopes=server.registry.scopes())
        server.auth = load_room("auth=")(verifier)
    except ValueError as error:
        return f"--token-env {variable}: {error}"
    return None


def _require_logins(server: Server, options: argparse.Namespace) -> Optional[str]:
    """Have the users of a file log in to a server; return the problem, if there is one."""
    if server.auth is not None or options.token_env is not None:
        other = "--token-env" if server.auth is None else "the auth= of the server"
        return f"--issuer takes the place of {other}; remove one of them"
    host, port = options.http
    if options.public_url is None and not port:
        return "--issuer needs a port that stays, as it is part of the URL of all tokens: --http 8000"
    if options.public_url is None and not is_loopback(host):
        return (f"browsers have to know where {host} is: with --issuer, give --public-url https://mcp.example.com, the URL of"
                " this server without the path of the endpoint")
    try:
        users = load_room("the file of --issuer")(options.issuer)
        scheme = "http" if options.cert is None else "https"
        url = options.public_url or f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        server.auth = load_room("--issuer")(url, users=users)
    except (ImportError, OSError, ValueError) as error:
        return f"--issuer {options.issuer}: {error}"
    return None


def _how_to_log_in(server: Server, path: str, options: argparse.Namespace) -> str:
    """Return the line that tells where the users of --issuer log in."""
    package, url = (__package__ or "").rpartition(".")[0], getattr(server.auth, "url", "")
    end = "" if server.runtime.processes.shared else (
        "; logins end with this process: --backend sqlite:///logins.db, with --state-keys-file FILE, keeps them")
    return (f"the users of {options.issuer} log in with a browser, to which clients such as `python -m {package} login"
            f" {shlex.quote(url + path)}` lead them; at {url}/grants they see who has access{end}")


def _load(options: argparse.Namespace) -> Optional[Server]:
    try:
        with contextlib.nullcontext() if options.child is None else options.child.loading():
            server = load(options.target, options.name, options.search)
    except LoadError as error:
        print(f"cannot serve {options.target}: {error}", file=sys.stderr)
        return None
    except Exception as error:
        # The target's own code has failed. Its author needs the frames of that code, and not those of this package around it.
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
