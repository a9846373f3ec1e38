"""From a target to a channel: what a target may be, and the options that each transport takes.

A module of its own, so that :mod:`.client` depends on no transport, and only the chosen transport is imported.
"""

import os
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Union

from ..errors import TransportError
from ..rpc.interfaces import Channel
from ..types.lazy_dataclass import Record, changed, fields_of, record

if TYPE_CHECKING:
    from ..net.settings import Cert, Verify
    from .stdio.stderr import StderrTarget

__all__ = ["LINE_LIMIT", "TransportOptions", "command", "memory_channel", "transport"]

#: Bytes that one message of a server may have, unless the caller says otherwise.
LINE_LIMIT = 16 << 20
_CHILD_OPTIONS = ("env", "cwd", "stderr", "grace")
_HTTP_SETTINGS = ("headers", "session", "verify", "cert", "proxies", "auth")
_HTTP_OPTIONS = (*_HTTP_SETTINGS, "listen", "type")


@record(frozen=True)
class TransportOptions(Record):
    """The options of a channel; :func:`~.connect.connect` documents them, under the same names."""

    env: Optional[Mapping[str, str]] = None
    cwd: "Union[None, str, os.PathLike[str]]" = None
    stderr: "StderrTarget" = None
    grace: float = 2.0
    line_limit: int = LINE_LIMIT
    headers: Optional[Mapping[str, str]] = None
    session: Any = None
    verify: "Verify" = None
    cert: "Cert" = None
    proxies: Optional[Mapping[str, str]] = None
    auth: Any = None
    listen: bool = True
    type: Optional[str] = None

    def refuse(self, names: Sequence[str], where: str) -> None:
        """Return when none of the options *names* is given.

        :raises TypeError: one is; the text says *where* it belongs.
        """
        defaults = {one.name: one.default for one in fields_of(TransportOptions)}
        given = sorted(name for name in names if getattr(self, name) != defaults[name])
        if given:
            raise TypeError(f"{', '.join(given)}: only for a server that is {where}")


def transport(target: Any, options: TransportOptions) -> Callable[[], Channel]:
    """Return a function that makes a channel to *target*; it is called for each process that is started.

    :raises TypeError: the target is none of those of :func:`~.connect.connect`, or an option is for another transport.
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
        from ..rpc.channels import StreamChannel

        limit = options.line_limit
        return _without_options(changed(options, line_limit=LINE_LIMIT),
                                lambda: StreamChannel(target[0], target[1], line_limit=limit))
    if isinstance(target, (list, tuple)):
        return _child([os.fspath(part) for part in target], options)
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


def _child(argv: List[str], options: TransportOptions) -> Callable[[], Channel]:
    options.refuse(_HTTP_OPTIONS, "behind a URL")

    def start() -> Channel:
        from .stdio.stdio_channel import ChildChannel

        env = dict(options.env or {})
        if argv[1:3] == ["-m", _package() + ".server"]:
            # This package may be on our path alone, and not on the child's.
            env.setdefault("PYTHONPATH", os.pathsep.join([_root(), *filter(None, [os.environ.get("PYTHONPATH")])]))
        return ChildChannel(argv, env=env, cwd=options.cwd, stderr=options.stderr, line_limit=options.line_limit,
                            grace=options.grace)

    return start


def _root() -> str:
    path = os.path.abspath(__file__)
    for _ in range(2 + _package().count(".") + 1):
        path = os.path.dirname(path)
    return path


def _configured(config: Any, options: TransportOptions) -> Callable[[], Channel]:
    if config.url:
        kind = config.type if options.type is None else options.type
        return _remote(config.url, changed(options, type=kind, headers={**config.headers, **(options.headers or {})}))
    cwd = config.cwd if options.cwd is None else options.cwd
    return _child(list(config.argv), changed(options, cwd=cwd, env={**(config.env or {}), **(options.env or {})}))


def _remote(url: str, options: TransportOptions) -> Callable[[], Channel]:
    options.refuse(_CHILD_OPTIONS, "started as a process")
    if options.type not in (None, "http", "sse"):
        raise ValueError(f"type must be 'http' or 'sse', not {options.type!r}")

    def reach() -> Channel:
        from ..net.settings import HTTPSettings
        from .http.http_channel import HTTPChannel
        from .http.sse_channel import SSEChannel

        settings = HTTPSettings(**{name: getattr(options, name) for name in _HTTP_SETTINGS})
        if options.type == "sse":
            return SSEChannel(url, settings, line_limit=options.line_limit)
        return HTTPChannel(url, settings, line_limit=options.line_limit, listen=options.listen)

    return reach


def _without_options(options: TransportOptions, make: Callable[[], Channel]) -> Callable[[], Channel]:
    options.refuse([*_CHILD_OPTIONS, *_HTTP_OPTIONS, "line_limit"], "started as a process, or behind a URL")
    return make


def memory_channel(server: Any) -> Channel:
    """Return a channel to *server*, which is any object with ``serve_channel(channel)``.

    The server's side runs on threads of the server and ends with the channel.
    """
    name = str(getattr(server, "name", server))
    from ..rpc.channels import MemoryChannel

    ours, theirs = MemoryChannel.pair(("the client", f"the server {name!r} in this process"))
    server.serve_channel(theirs)
    return ours
