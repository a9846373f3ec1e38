"""From a target to a client: what a target may be, and the options that each transport takes.

A module of its own, so that :mod:`.client` depends on no transport, and only the chosen transport is imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ..errors import TransportError
from ..revisions import Revision
from ..rpc.interfaces import Channel
from ..types.lazy_dataclass import changed, fields_of
from ..types.wrong_keywords import explains_keywords
from .client import Client
from .client_options import LINE_LIMIT, ClientOptions, ClientSettings
from .handlers import Handlers

if TYPE_CHECKING:
    import os

    from ..rpc.extension import Extension
    from ..types import LogMessage
    from .call import Middleware
    from .handler_types import Elicitation, Roots, Sampling
    from .stdio.stderr import StderrTarget

__all__ = ["applicable", "command", "connect", "memory_channel", "transport"]

_CHILD_OPTIONS = ("env", "cwd", "stderr", "grace")
_HTTP_OPTIONS = ("headers", "session", "verify", "cert", "proxies", "auth", "listen", "type")


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


def command(target: str, windows: bool = os.name == "nt") -> List[str]:
    """Return the command for a target string.

    :raises TransportError: it names a file that does not exist or a configuration of servers, or there is no Python to run
        it with.
    :raises ValueError: it is empty, or its quotes do not match.
    """
    import shlex

    from ..protocol.api_documents import is_api_document
    from .stdio.scripts import interpreter, starts_server

    place, _, name = target.rpartition(":")
    if target.endswith(".js") and os.path.isfile(target):
        return ["node", target]
    if target.endswith(".py") and (" " not in target or os.path.isfile(target)):
        if not os.path.isfile(target):
            raise TransportError(f"there is no file {os.path.abspath(target)}")
        with open(target, "rb") as file:
            # A file that starts a server is run as it is. Any other file is served by our server's command line.
            return [interpreter(), *([] if starts_server(file.read()) else ["-m", _package() + ".server"]), target]
    if is_api_document(target):
        return [interpreter(), "-m", _package() + ".server", target]
    if target.endswith((".json", ".jsonc")) and os.path.isfile(target):
        raise TransportError(f"{os.path.abspath(target)} is a configuration of servers: connect_all({target!r}) connects to"
                             f" all of them, and on the command line --config {shlex.quote(target)} takes its place")
    if name.isidentifier() and place and (place.endswith(".py") or all(part.isidentifier() for part in place.split("."))):
        return [interpreter(), "-m", _package() + ".server", target]
    # On Windows a backslash separates folders, while quotes still have to be removed.
    parts = shlex.split(target.replace("\\", "\\\\") if windows else target)
    if not parts:
        raise ValueError("the command is empty")
    return parts


def _package() -> str:
    return __name__.rpartition(".client.")[0]


def _child(argv: List[str], settings: ClientSettings) -> Callable[[], Channel]:
    _refuse(settings, _HTTP_OPTIONS, "behind a URL")

    def start() -> Channel:
        from .stdio.stdio_channel import ChildChannel

        env = dict(settings.env or {})
        if argv[1:3] == ["-m", _package() + ".server"]:
            # This package may be on our path alone, and not on the child's.
            root = os.path.abspath(os.path.join(__file__, *[os.pardir] * (3 + _package().count("."))))
            env.setdefault("PYTHONPATH", os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]))
        return ChildChannel(argv, env=env, cwd=settings.cwd, stderr=settings.stderr, line_limit=settings.line_limit,
                            grace=settings.grace)

    return start


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

        http = HTTPSettings(headers=settings.headers, session=settings.session, verify=settings.verify, cert=settings.cert,
                            proxies=settings.proxies, auth=settings.auth)
        if settings.type == "sse":
            return SSEChannel(url, http, line_limit=settings.line_limit)
        return HTTPChannel(url, http, line_limit=settings.line_limit, listen=settings.listen)

    return reach


def _without_options(settings: ClientSettings, make: Callable[[], Channel]) -> Callable[[], Channel]:
    _refuse(settings, [*_CHILD_OPTIONS, *_HTTP_OPTIONS, "line_limit"], "started as a process, or behind a URL")
    return make


def applicable(options: ClientOptions, url: Optional[str]) -> ClientOptions:
    """Return *options*, with defaults for those of the other kind of target: a process if there is a *url*, a URL if not."""
    others = _CHILD_OPTIONS if url else _HTTP_OPTIONS
    return changed(options, **{one.name: one.default for one in fields_of(ClientOptions) if one.name in others})


def _refuse(settings: ClientSettings, names: Sequence[str], where: str) -> None:
    """Raise if any of the options *names* differs from its default.

    :raises TypeError: one does; the text says *where* it belongs.
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


@explains_keywords("connect", options=ClientOptions)
def connect(
    target: Any, *,
    timeout: Optional[float] = 60.0,
    open_timeout: float = 60.0,
    headers: Optional[Mapping[str, str]] = None,
    auth: Any = None,
    session: Any = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: "Union[None, str, os.PathLike[str]]" = None,
    stderr: "StderrTarget" = None,
    revision: Union[None, str, Revision] = None,
    roots: Optional[Roots] = None,
    elicitation_handler: Optional[Elicitation] = None,
    url_elicitation_handler: Optional[Elicitation] = None,
    sampling_handler: Optional[Sampling] = None,
    log_handler: Optional[Callable[[LogMessage], object]] = None,
    middleware: Sequence[Middleware] = (),
    extensions: "Union[None, Mapping[str, Dict[str, Any]], Sequence[Extension]]" = None,
    options: Optional[ClientOptions] = None,
    debug: Union[None, bool, str] = None,
) -> Client:
    """Return a client for *target*; it is opened by ``with`` or ``.open()``.

    *target* is one of

    - a URL of ``http`` or ``https``: Streamable HTTP, or HTTP with SSE if the server supports nothing newer;
    - a command as a list, or as a string that is split as a shell would, but run without one;
    - the path of a Python file that starts a server, which is run with this Python, or of a ``.js`` file, which is
      run with node;
    - ``module:name``, ``file.py:name``, a Python file that starts no server, or an OpenAPI document of JSON or YAML: served
      with ``python -m <this package>.server``;
    - a :class:`Server` object: it is served in this process;
    - a :class:`Channel`: a transport of your own;
    - a pair of binary streams ``(reader, writer)``;
    - a ``ServerConfig`` from a configuration file.

    :param timeout: seconds for each call, unless the call says otherwise; progress restarts them, for a call with
        ``on_progress``. None waits without a limit.
    :param open_timeout: seconds for opening in all: the probe, the handshake, and the start of another process or the other
        transport if they fail. A package runner may download first. The time in which a user logs in does not count, nor
        does the end of a process, which takes ``grace`` and four seconds at most.
    :param revision: the only protocol revision to accept, as a name or a ``Revision``. None takes the newest that the
        server supports: the client tries first without a handshake (from July 2026 on), then with one.
    :param middleware: callables ``(method, params, proceed)`` around every request, the first one
        outermost: the place for approval, audit and rate limits (LIFE-29). Raise to stop a request.
    :param extensions: protocol extensions that this client supports: a list of objects, see
        :class:`mcplite.extend.Extension`; or their settings, by identifier.
    :param options: what few programs set, such as ``cache``, ``max_timeout``, ``raise_for_error``, ``proxies`` or
        ``on_tools_changed``: a :class:`ClientOptions`.
    :param debug: True logs every message to the logger ``<package>.wire``, a string is a file to append to; None reads
        the environment variable MCPLITE_DEBUG.

    For a server behind a URL:

    :param headers: sent with every HTTP request.
    :param auth: a bearer token as a string; an :class:`OAuth` or another source of tokens, which any number of clients may
        share; or an argument that ``requests`` takes: a pair, any ``AuthBase``.
    :param session: a ``requests.Session`` that sends each request by its ``request()``, with its own adapters, hooks,
        cookies and authentication; the caller closes it.

    For a server that is started as a process:

    :param env: variables for the child, in addition to the few that it inherits.
    :param cwd: working directory of the child.
    :param stderr: where the child's stderr goes, besides its end that is kept for errors: a callable for each line, a
        logger, a file or a path.

    Handlers of the server's questions and log messages; :class:`~.handlers.Handlers` says what each gets and returns:

    :param elicitation_handler: answers forms.
    :param url_elicitation_handler: answers the request to visit a URL.
    :param sampling_handler: answers for a language model.
    :param roots: paths, ``file://`` URIs or ``Root`` objects, or a function that returns them.
    :param log_handler: gets each ``LogMessage``.
    :raises TypeError: the target is none of these, an option is for another kind of target, or a handler cannot be called.
    :raises ValueError: an option has an impossible value.
    """
    if not isinstance(options, (ClientOptions, type(None))):
        raise TypeError(f"options must be a ClientOptions, as in options=ClientOptions(cache=False), not"
                        f" {type(options).__name__}")
    if auth is not None:
        from ..net.settings import TokenProvider

        if isinstance(auth, TokenProvider) and auth.extension is not None:
            from ..rpc.extension import with_declared

            extensions = with_declared(auth.extension, extensions)  # AUX-04
    settings = ClientSettings(
        **({} if options is None else vars(options)), timeout=timeout, open_timeout=open_timeout, headers=headers, auth=auth,
        session=session, env=env, cwd=cwd, stderr=stderr, revision=revision, roots=roots,
        elicitation_handler=elicitation_handler, url_elicitation_handler=url_elicitation_handler,
        sampling_handler=sampling_handler, log_handler=log_handler, middleware=middleware, extensions=extensions, debug=debug)
    return Client(transport(target, settings), settings, Handlers(settings))
