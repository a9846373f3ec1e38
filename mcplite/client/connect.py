"""connect: makes a client from a target; the only module that knows what a target may be.

A module of its own, so that :mod:`.client` depends on no transport, and only the chosen transport is imported.
"""

import os
import re
import shlex
import sys
from typing import Any, Callable, Dict, List

from ..errors import TransportError
from ..rpc.channels import MemoryChannel, StreamChannel
from ..rpc.interfaces import Channel
from .client import Client

__all__ = ["connect", "memory_channel"]

_CHILD_OPTIONS = ("env", "cwd", "stderr", "grace")
_HTTP_SETTINGS = ("headers", "session", "verify", "cert", "proxies", "auth")
_HTTP_OPTIONS = (*_HTTP_SETTINGS, "listen", "type")
_DEFAULT_LINE_LIMIT = 16 << 20


def connect(target: Any, **options: Any) -> Client:
    """Return a client for *target*; it is opened by ``with`` or ``.open()``.

    *target* is one of

    - a URL of ``http`` or ``https``: Streamable HTTP, or HTTP with SSE if the server supports nothing newer;
    - a command as a list, or as a string that is split as a shell would, but run without one;
    - the path of a Python file that starts a server, which is run with this Python, or of a ``.js`` file, which is
      run with node;
    - ``module:name``, ``file.py:name`` or a Python file without a main part: served with
      ``python -m <this package>.server``;
    - a :class:`Server` object: it is served in this process;
    - a :class:`Channel`: a transport of your own;
    - a pair of binary streams ``(reader, writer)``;
    - a ``ServerConfig`` from a configuration file.

    :param env: variables for the child, in addition to the few that it inherits.
    :param cwd: working directory of the child.
    :param stderr: where the child's stderr goes, besides its end that is kept for errors: a callable for each line, a
        logger, a file or a path.
    :param grace: seconds that the child has to exit when the client is closed, before it is ended; default 2.
    :param line_limit: bytes that one message of the server may have; default 16 MiB.
    :param headers: sent with every HTTP request.
    :param session: a ``requests.Session`` whose headers, cookies, authentication, proxies and adapters are used; the
        caller closes it.
    :param verify: False, or a file or folder of certificates, as for ``requests``; by default from the environment.
    :param cert: a client certificate, as for ``requests``.
    :param proxies: as for ``requests``; by default those of the environment.
    :param auth: a bearer token as a string; an :class:`OAuth` or another source of tokens, which any number of clients may
        share; or an argument that ``requests`` takes: a pair, any ``AuthBase``.
    :param listen: False opens no stream for messages of the server outside of calls, such as changed lists.
    :param type: "http" or "sse" for a URL whose transport is known.
    :param options: all other options of :class:`Client`.
    :raises TypeError: the target is none of these, or an option is unknown.
    :raises ValueError: an option has an impossible value.
    """
    names = (*_CHILD_OPTIONS, *_HTTP_OPTIONS, "line_limit")
    given = {name: options.pop(name) for name in names if name in options}
    if given.get("auth") is not None:
        from ..net.tokens import TokenProvider

        auth = given["auth"]
        if isinstance(auth, TokenProvider) and auth.extension is not None:
            options["extensions"] = {auth.extension: {}, **(options.get("extensions") or {})}  # AUX-04
    return Client(transport(target, given), **options)


def transport(target: Any, options: Dict[str, Any]) -> Callable[[], Channel]:
    """Return a function that makes a channel to *target*; it is called for each process that is started.

    :param options: of the channel: those of :func:`connect` that are not the client's.
    """
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        return _remote(target, options)
    if isinstance(target, Channel):
        return _without_options(options, lambda: target)
    if hasattr(target, "serve_channel"):
        return _without_options(options, lambda: memory_channel(target))
    if hasattr(target, "argv"):
        return _configured(target, options)
    if isinstance(target, (str, os.PathLike)):
        return _child(command(os.fspath(target)), options)
    if isinstance(target, tuple) and len(target) == 2 and all(hasattr(item, "close") for item in target):
        limit = options.pop("line_limit", _DEFAULT_LINE_LIMIT)
        return _without_options(options, lambda: StreamChannel(target[0], target[1], line_limit=limit))
    if isinstance(target, (list, tuple)):
        return _child([os.fspath(part) for part in target], options)
    raise TypeError(f"cannot connect to {target!r}: give a command (list or string), a .py file, module:name,"
                    f" a Server, a Channel, a pair of streams, or a ServerConfig")


def command(target: str) -> List[str]:
    """Return the command for a target string.

    :raises TransportError: it names a file that does not exist.
    :raises ValueError: it is empty, or its quotes do not match.
    """
    place, _, name = target.rpartition(":")
    if target.endswith(".js") and os.path.isfile(target):
        return ["node", target]
    if target.endswith(".py") and (" " not in target or os.path.isfile(target)):
        if not os.path.isfile(target):
            raise TransportError(f"there is no file {os.path.abspath(target)}")
        return [sys.executable, *_python(target)]
    if name.isidentifier() and place and (place.endswith(".py") or all(part.isidentifier() for part in place.split("."))):
        return [sys.executable, "-m", _package() + ".server", target]
    parts = _split(target, windows=os.name == "nt")
    if not parts:
        raise ValueError("the command is empty")
    return parts


def _split(text: str, windows: bool) -> List[str]:
    # On Windows a backslash separates folders, while quotes still have to be removed.
    return shlex.split(text.replace("\\", "\\\\") if windows else text)


def _package() -> str:
    return __name__.rpartition(".client.")[0]


def _python(path: str) -> List[str]:
    """Return Python's arguments: a file that starts a server is run as it is, any other by our server's command line."""
    with open(path, "r", encoding="utf-8", errors="replace") as file:
        text = file.read()
    # A statement such as mcp.run() that starts in the first column; subprocess.run() starts no server.
    runs = any(match != "subprocess" for match in re.findall(r"^([A-Za-z_]\w*)\.run\(", text, re.MULTILINE))
    return [path] if "__main__" in text or runs else ["-m", _package() + ".server", path]


def _child(argv: List[str], options: Dict[str, Any]) -> Callable[[], Channel]:
    for name in _HTTP_OPTIONS:
        if name in options:
            raise TypeError(f"{name}: only for a server behind a URL")

    def start() -> Channel:
        from .stdio.channel import ChildChannel

        env = dict(options.get("env") or {})
        if argv[1:3] == ["-m", _package() + ".server"]:
            # This package may be on our path alone, and not on the child's.
            env.setdefault("PYTHONPATH", os.pathsep.join([_root(), *filter(None, [os.environ.get("PYTHONPATH")])]))
        return ChildChannel(argv, **{**options, "env": env})

    return start


def _root() -> str:
    path = os.path.abspath(__file__)
    for _ in range(2 + _package().count(".") + 1):
        path = os.path.dirname(path)
    return path


def _configured(config: Any, options: Dict[str, Any]) -> Callable[[], Channel]:
    if config.url:
        headers = {**config.headers, **(options.get("headers") or {})}
        return _remote(config.url, {"type": config.type, **options, "headers": headers})
    merged = {**options, "env": {**(config.env or {}), **(options.get("env") or {})}}
    if config.cwd is not None:
        merged.setdefault("cwd", config.cwd)
    return _child(list(config.argv), merged)


def _remote(url: str, options: Dict[str, Any]) -> Callable[[], Channel]:
    for name in _CHILD_OPTIONS:
        if name in options:
            raise TypeError(f"{name}: only for a server that is started as a process")
    kind = options.pop("type", None)
    if kind not in (None, "http", "sse"):
        raise ValueError(f"type must be 'http' or 'sse', not {kind!r}")

    def reach() -> Channel:
        from ..net.settings import HTTPSettings
        from .http.channel import HTTPChannel
        from .http.legacy_sse import SSEChannel

        settings = HTTPSettings(**{name: options[name] for name in _HTTP_SETTINGS if name in options})
        limit = options.get("line_limit", _DEFAULT_LINE_LIMIT)
        if kind == "sse":
            return SSEChannel(url, settings, line_limit=limit)
        return HTTPChannel(url, settings, line_limit=limit, listen=options.get("listen", True))

    return reach


def _without_options(options: Dict[str, Any], make: Callable[[], Channel]) -> Callable[[], Channel]:
    if options:
        raise TypeError(f"{', '.join(sorted(options))}: only for a server that is started as a process, or behind a URL")
    return make


def memory_channel(server: Any) -> Channel:
    """Return a channel to *server*, which is any object with ``serve_channel(channel)``.

    The server's side runs on threads of the server and ends with the channel.
    """
    name = str(getattr(server, "name", server))
    ours, theirs = MemoryChannel.pair(("the client", f"the server {name!r} in this process"))
    server.serve_channel(theirs)
    return ours
