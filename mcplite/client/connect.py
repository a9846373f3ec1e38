"""connect: makes a client from a target, with every option by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence, Union

from ..revisions import Revision
from .client import Client
from .client_options import ClientOptions
from .handlers import Handlers
from .transport_choice import LINE_LIMIT, TransportOptions, transport

if TYPE_CHECKING:
    import os

    from ..net.settings import Cert, Verify
    from ..types import Implementation, LogMessage
    from .handler_types import Elicitation, Roots, Sampling
    from .request_base import Middleware
    from .stdio.stderr import StderrTarget

__all__ = ["connect"]


def connect(
    target: Any, *,
    env: Optional[Mapping[str, str]] = None,
    cwd: "Union[None, str, os.PathLike[str]]" = None,
    stderr: "StderrTarget" = None,
    grace: float = 2.0,
    line_limit: int = LINE_LIMIT,
    headers: Optional[Mapping[str, str]] = None,
    session: Any = None,
    verify: "Verify" = None,
    cert: "Cert" = None,
    proxies: Optional[Mapping[str, str]] = None,
    auth: Any = None,
    listen: bool = True,
    type: Optional[str] = None,
    revision: Union[None, str, Revision] = None,
    era: Optional[str] = None,
    prior: Optional[Mapping[str, Any]] = None,
    probe_timeout: float = 5.0,
    timeout: Optional[float] = 60.0,
    max_timeout: Optional[float] = 300.0,
    open_timeout: float = 60.0,
    client_info: Optional[Implementation] = None,
    cache: bool = True,
    extensions: Optional[Dict[str, Any]] = None,
    result_types: Sequence[str] = (),
    trace_context: Optional[Callable[[], Mapping[str, str]]] = None,
    validate: bool = True,
    raise_for_error: bool = False,
    middleware: Sequence[Middleware] = (),
    max_handlers: int = 16,
    questions_per_minute: Optional[int] = 1000,
    ping_interval: Optional[float] = None,
    ping_timeout: float = 10.0,
    debug: Union[None, bool, str] = None,
    elicitation_handler: Optional[Elicitation] = None,
    url_elicitation_handler: Optional[Elicitation] = None,
    sampling_handler: Optional[Sampling] = None,
    sampling_tools: bool = False,
    sampling_context: bool = False,
    roots: Optional[Roots] = None,
    log_handler: Optional[Callable[[LogMessage], object]] = None,
    on_tools_changed: Optional[Callable[[], object]] = None,
    on_resources_changed: Optional[Callable[[], object]] = None,
    on_prompts_changed: Optional[Callable[[], object]] = None,
    on_resource_updated: Optional[Callable[[str], object]] = None,
    on_elicitation_complete: Optional[Callable[[str], object]] = None,
    on_disconnect: Optional[Callable[[Exception], object]] = None,
    experimental: Optional[Dict[str, Any]] = None,
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

    For a server that is started as a process:

    :param env: variables for the child, in addition to the few that it inherits.
    :param cwd: working directory of the child.
    :param stderr: where the child's stderr goes, besides its end that is kept for errors: a callable for each line, a
        logger, a file or a path.
    :param grace: seconds that the child has to exit when the client is closed, before it is ended.

    For a server behind a URL:

    :param headers: sent with every HTTP request.
    :param session: a ``requests.Session`` that sends each request by its ``request()``, with its own adapters, hooks,
        cookies and authentication; the caller closes it.
    :param verify: False, or a file or folder of certificates, as for ``requests``; by default from the environment.
    :param cert: a client certificate, as for ``requests``.
    :param proxies: as for ``requests``; by default those of the environment.
    :param auth: a bearer token as a string; an :class:`OAuth` or another source of tokens, which any number of clients may
        share; or an argument that ``requests`` takes: a pair, any ``AuthBase``.
    :param listen: False opens no stream for messages of the server outside of calls, such as changed lists.
    :param type: "http" or "sse" for a URL whose transport is known.

    For both:

    :param line_limit: bytes that one message of the server may have, and one to a server on a pipe; default 16 MiB.

    For all clients:

    :param revision: the only protocol revision to accept, as a name or a ``Revision``. None takes the newest that the
        server supports: the client tries first without a handshake (from July 2026 on), then with one.
    :param era: "legacy" always begins with a handshake, "modern" never; None, the default, finds out.
    :param prior: ``client.prior`` of an earlier client of the same server; the server is then not probed.
    :param probe_timeout: seconds without an answer on a pipe after which the client tries a handshake, half of
        ``open_timeout`` at most.
    :param timeout: seconds for each call, unless the call says otherwise; progress restarts them. None waits without
        a limit.
    :param max_timeout: seconds for each call in all, whatever its progress.
    :param open_timeout: seconds for opening in all: the probe, the handshake, and the start of another process or the other
        transport if they fail. A package runner may download first. The time in which a user logs in does not count, nor
        does the end of a process, which takes ``grace`` and four seconds at most.
    :param client_info: name and version of this client; by default this package's.
    :param cache: whether results are cached for as long as the server allows (from July 2026 on).
    :param extensions: protocol extensions that this client supports, with their settings.
    :param result_types: result types that these extensions add.
    :param trace_context: called for each request; returns the trace context to send (``traceparent``, ...).
    :param validate: whether structured results are checked against the declared schema.
    :param raise_for_error: True makes ``call_tool`` raise :class:`ToolError` when a tool fails, in place of returning a
        result with ``is_error``.
    :param middleware: callables ``(method, params, proceed)`` around every request, the first one
        outermost: the place for approval, audit and rate limits (LIFE-29). Raise to stop a request.
    :param max_handlers: how many of the handlers may run at once.
    :param questions_per_minute: how many questions of the server are accepted in any minute; more are refused.
        The default suits programs that answer; None for any number.
    :param ping_interval: seconds without traffic after which the server is pinged; a ping without an answer
        within *ping_timeout* closes the connection. None, the default, never pings.
    :param ping_timeout: seconds.
    :param debug: True logs every message to the logger ``<package>.wire``, a string is a file to append to; None reads
        the environment variable MCPLITE_DEBUG.

    The handlers, which answer the server's questions and take its notifications; :class:`~.handlers.Handlers` says what
    each gets and returns:

    :param elicitation_handler: answers forms.
    :param url_elicitation_handler: answers the request to visit a URL.
    :param sampling_handler: answers for a language model.
    :param sampling_tools: whether the sampling handler supports tools.
    :param sampling_context: whether it supports ``include_context``.
    :param roots: paths, ``file://`` URIs or ``Root`` objects, or a function that returns them.
    :param log_handler: gets each ``LogMessage``.
    :param on_tools_changed: called without arguments, as are the next two; call ``list_tools()`` for the new list.
    :param on_resources_changed: as above.
    :param on_prompts_changed: as above.
    :param on_resource_updated: gets the URI.
    :param on_elicitation_complete: gets the id of an earlier URL question.
    :param on_disconnect: gets the error if the connection ends without ``close()``.
    :param experimental: declared as the client's experimental capabilities.
    :raises TypeError: the target is none of these, an option is unknown or for another kind of target, or a handler
        cannot be called.
    :raises ValueError: an option has an impossible value.
    """
    if auth is not None:
        from ..net.tokens import TokenProvider

        if isinstance(auth, TokenProvider) and auth.extension is not None:
            extensions = {auth.extension: {}, **(extensions or {})}  # AUX-04
    channel = TransportOptions(
        env=env, cwd=cwd, stderr=stderr, grace=grace, line_limit=line_limit, headers=headers, session=session,
        verify=verify, cert=cert, proxies=proxies, auth=auth, listen=listen, type=type)
    options = ClientOptions(
        revision=revision, era=era, prior=prior, probe_timeout=probe_timeout, timeout=timeout, max_timeout=max_timeout,
        open_timeout=open_timeout, client_info=client_info, cache=cache, extensions=extensions,
        result_types=result_types, trace_context=trace_context, validate=validate, raise_for_error=raise_for_error,
        middleware=middleware, max_handlers=max_handlers, questions_per_minute=questions_per_minute,
        ping_interval=ping_interval, ping_timeout=ping_timeout, debug=debug)
    handlers = Handlers(
        elicitation_handler=elicitation_handler, url_elicitation_handler=url_elicitation_handler,
        sampling_handler=sampling_handler, sampling_tools=sampling_tools, sampling_context=sampling_context,
        roots=roots, log_handler=log_handler, on_tools_changed=on_tools_changed,
        on_resources_changed=on_resources_changed, on_prompts_changed=on_prompts_changed,
        on_resource_updated=on_resource_updated, on_elicitation_complete=on_elicitation_complete,
        on_disconnect=on_disconnect, experimental=experimental)
    return Client(transport(target, channel), options, handlers)
