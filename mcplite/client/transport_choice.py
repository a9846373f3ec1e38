"""From a target to a channel: what a target may be, and the options that each transport takes.

A module of its own, so that :mod:`.client` depends on no transport, and only the chosen transport is imported.
"""

import os
from typing import Any, Callable, List, Optional, Sequence

from ..errors import TransportError
from ..rpc.interfaces import Channel
from ..types.lazy_dataclass import changed, fields_of
from .client_options import LINE_LIMIT, ClientOptions, ClientSettings

__all__ = ["applicable", "command", "memory_channel", "transport"]

_CHILD_OPTIONS = ("env", "cwd", "stderr", "grace")
_HTTP_SETTINGS = ("headers", "session", "verify", "cert", "proxies", "auth")
_HTTP_OPTIONS = (*_HTTP_SETTINGS, "listen", "type")


def transport(target: Any, settings: ClientSettings) -> Callable[[], Channel]:
    """Return a function that makes a channel to *target*; it is called for each process that is started.

    :raises TypeError: the target is none of those of :func:`~.connect.connect`, or an option is for another transport.
    """
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        return _remote(target, settings)
    if isinstance(target, Channel):
        return _without_options(settings, lambda: target)
    if hasattr(target, "serve_channel"):
        return _without_options(settings, lambda: memory_channel(target))
    if hasattr(target, "argv"):
        return _configured(target, settings)
    if isinstance(target, (str, os.PathLike)):
        return _child(command(os.fspath(target)), settings)
    if isinstance(target, tuple) and len(target) == 2 and all(hasattr(item, "close") for item in target):
        from ..rpc.channels import StreamChannel

        limit = settings.line_limit
        return _without_options(changed(settings, line_limit=LINE_LIMIT),
                                lambda: StreamChannel(target[0], target[1], line_limit=limit))
    if isinstance(target, (list, tuple)):
        return _child([os.fspath(part) for part in target], settings)
    raise TypeError(f"cannot connect to {target!r}: give a command (list or string), a .py file, module:name,"
                    f" a Server, a Channel, a pair of streams, or a ServerConfig")


def command(target: str) -> List[str]:
    """Return the command for a target string.

    :raises TransportError: it names a file that does not exist or a configuration of servers, or there is no Python to run
        it with.
    :raises ValueError: it is empty, or its quotes do not match.
    """
    import shlex

    from .stdio.scripts import interpreter

    place, _, name = target.rpartition(":")
    if target.endswith(".js") and os.path.isfile(target):
        return ["node", target]
    if target.endswith(".py") and (" " not in target or os.path.isfile(target)):
        if not os.path.isfile(target):
            raise TransportError(f"there is no file {os.path.abspath(target)}")
        return [interpreter(), *_python(target)]
    if target.endswith((".json", ".jsonc")) and os.path.isfile(target):
        raise TransportError(f"{os.path.abspath(target)} is a configuration of servers: connect_all({target!r}) connects to"
                             f" all of them, and on the command line --config {shlex.quote(target)} takes its place")
    if name.isidentifier() and place and (place.endswith(".py") or all(part.isidentifier() for part in place.split("."))):
        return [interpreter(), "-m", _package() + ".server", target]
    parts = _split(target, windows=os.name == "nt")
    if not parts:
        raise ValueError("the command is empty")
    return parts


def _split(text: str, windows: bool) -> List[str]:
    import shlex

    # On Windows a backslash separates folders, while quotes still have to be removed.
    return shlex.split(text.replace("\\", "\\\\") if windows else text)


def _package() -> str:
    return __name__.rpartition(".client.")[0]


def _python(path: str) -> List[str]:
    """Return Python's arguments: a file that starts a server is run as it is, any other by our server's command line."""
    from .stdio.scripts import starts_server

    with open(path, "rb") as file:
        source = file.read()
    return [path] if starts_server(source) else ["-m", _package() + ".server", path]


def _child(argv: List[str], settings: ClientSettings) -> Callable[[], Channel]:
    _refuse(settings, _HTTP_OPTIONS, "behind a URL")

    def start() -> Channel:
        from .stdio.stdio_channel import ChildChannel

        env = dict(settings.env or {})
        if argv[1:3] == ["-m", _package() + ".server"]:
            # This package may be on our path alone, and not on the child's.
            env.setdefault("PYTHONPATH", os.pathsep.join([_root(), *filter(None, [os.environ.get("PYTHONPATH")])]))
        return ChildChannel(argv, env=env, cwd=settings.cwd, stderr=settings.stderr, line_limit=settings.line_limit,
                            grace=settings.grace)

    return start


def _root() -> str:
    path = os.path.abspath(__file__)
    for _ in range(2 + _package().count(".") + 1):
        path = os.path.dirname(path)
    return path


def _configured(config: Any, settings: ClientSettings) -> Callable[[], Channel]:
    if config.url:
        kind = config.type if settings.type is None else settings.type
        return _remote(config.url, changed(settings, type=kind, headers={**config.headers, **(settings.headers or {})}))
    cwd = config.cwd if settings.cwd is None else settings.cwd
    return _child(list(config.argv), changed(settings, cwd=cwd, env={**(config.env or {}), **(settings.env or {})}))


def _remote(url: str, settings: ClientSettings) -> Callable[[], Channel]:
    _refuse(settings, _CHILD_OPTIONS, "started as a process")
    if settings.type not in (None, "http", "sse"):
        raise ValueError(f"type must be 'http' or 'sse', not {settings.type!r}")

    def reach() -> Channel:
        from ..net.settings import HTTPSettings
        from .http.http_channel import HTTPChannel
        from .http.sse_channel import SSEChannel

        http = HTTPSettings(**{name: getattr(settings, name) for name in _HTTP_SETTINGS})
        if settings.type == "sse":
            return SSEChannel(url, http, line_limit=settings.line_limit)
        return HTTPChannel(url, http, line_limit=settings.line_limit, listen=settings.listen)

    return reach


def _without_options(settings: ClientSettings, make: Callable[[], Channel]) -> Callable[[], Channel]:
    _refuse(settings, [*_CHILD_OPTIONS, *_HTTP_OPTIONS, "line_limit"], "started as a process, or behind a URL")
    return make


def applicable(options: ClientOptions, url: Optional[str]) -> ClientOptions:
    """Return *options* without those for the other kind of target: a URL, or a process where there is no *url*."""
    others = _CHILD_OPTIONS if url else _HTTP_OPTIONS
    return changed(options, **{one.name: one.default for one in fields_of(ClientOptions) if one.name in others})


def _refuse(settings: ClientSettings, names: Sequence[str], where: str) -> None:
    """Return when none of the options *names* is set.

    :raises TypeError: one is; the text says *where* it belongs.
    """
    defaults = {one.name: one.default for one in fields_of(ClientSettings)}
    given = sorted(name for name in names if getattr(settings, name) != defaults[name])
    if given:
        raise TypeError(f"{', '.join(given)}: only for a server that is {where}")


def memory_channel(server: Any) -> Channel:
    """Return a channel to *server*, which is any object with ``serve_channel(channel)``.

    The server's side runs on threads of the server and ends with the channel.
    """
    name = str(getattr(server, "name", server))
    from ..rpc.channels import MemoryChannel

    ours, theirs = MemoryChannel.pair(("the client", f"the server {name!r} in this process"))
    server.serve_channel(theirs)
    return ours
