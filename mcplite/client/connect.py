"""connect: makes a client from a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence, Union

from ..revisions import Revision
from .client import Client
from .client_options import ClientOptions, ClientSettings
from .handlers import Handlers
from .transport_choice import transport

if TYPE_CHECKING:
    import os

    from ..rpc.extension import Extension
    from ..types import LogMessage
    from .handler_types import Elicitation, Roots, Sampling
    from .request_base import Middleware
    from .stdio.stderr import StderrTarget

__all__ = ["connect"]


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
    - ``module:name``, ``file.py:name`` or a Python file that starts no server: served with
      ``python -m <this package>.server``;
    - a :class:`Server` object: it is served in this process;
    - a :class:`Channel`: a transport of your own;
    - a pair of binary streams ``(reader, writer)``;
    - a ``ServerConfig`` from a configuration file.

    :param timeout: seconds for each call, unless the call says otherwise; progress restarts them. None waits without
        a limit.
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

    What answers the server's questions and takes its log; :class:`~.handlers.Handlers` says what each gets and returns:

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
        from ..net.tokens import TokenProvider

        if isinstance(auth, TokenProvider) and auth.extension is not None:
            from ..rpc.extension import with_declared

            extensions = with_declared(auth.extension, extensions)  # AUX-04
    settings = ClientSettings(
        **({} if options is None else vars(options)), timeout=timeout, open_timeout=open_timeout, headers=headers, auth=auth,
        session=session, env=env, cwd=cwd, stderr=stderr, revision=revision, roots=roots,
        elicitation_handler=elicitation_handler, url_elicitation_handler=url_elicitation_handler,
        sampling_handler=sampling_handler, log_handler=log_handler, middleware=middleware, extensions=extensions, debug=debug)
    return Client(transport(target, settings), settings, Handlers(settings))
