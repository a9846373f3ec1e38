"""ClientOptions: what a program rarely sets for a client; ClientSettings: that and the keywords of ``connect()``, in one value.

Both are checked once, when they are made. The transport, the session and the handlers read the settings.
"""

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Optional, Sequence, Union

from ..protocol.error_text import quoted
from ..revisions import REVISIONS, Revision, find_revision
from ..types import Implementation
from ..types.lazy_dataclass import Record, record
from .call import Middleware, check_positive

if TYPE_CHECKING:
    from ..net.settings import Cert, Verify
    from ..rpc.extension import Extension
    from ..types import LogMessage
    from .handler_types import Elicitation, Roots, Sampling
    from .stdio.stderr import StderrTarget

__all__ = ["LINE_LIMIT", "ClientOptions", "ClientSettings"]

#: Bytes that one message of a server may have, unless the caller says otherwise.
LINE_LIMIT = 16 << 20


@record(frozen=True)
class ClientOptions(Record):
    """The options of a client that few programs set, for ``connect(target, options=ClientOptions(...))`` and ``connect_all``.

    An instance can be shared by any number of clients; ``dataclasses.replace`` makes a similar one.

    For calls and sessions:

    :param max_timeout: seconds for each call in all, whatever its progress; default 300, None for no limit.
    :param retry: how often a call is sent, in all, if it fails for the moment: a lost connection, status 429, 502, 503 or 504,
        a busy server. A call is repeated only if that is safe: lists, reads, prompts, completions, tools with ``readOnlyHint``
        or ``idempotentHint``, and any call that certainly was not begun. With this option, the client also restarts a child
        process of an older revision that has ended. None, the default, leaves it at what :func:`~mcplite.connect` does by
        itself: lists and reads are repeated if the server asks for it.
    :param raise_for_error: True makes ``call_tool`` raise :class:`ToolError` when a tool fails, in place of returning a
        result with ``is_error``.
    :param validate: whether structured results are checked against the declared schema.
    :param cache: whether results are cached for as long as the server allows (from July 2026 on).
    :param era: "legacy" always begins with a handshake, "modern" never; None, the default, finds out.
    :param prior: ``client.prior`` of an earlier client of the same server; the server is then not probed.
    :param probe_timeout: seconds without an answer on a pipe after which the client tries a handshake, half of
        ``open_timeout`` at most.
    :param client_info: name and version of this client; by default this package's.
    :param result_types: result types that the extensions of ``connect(extensions=...)`` add.
    :param trace_context: called for each request; returns the trace context to send (``traceparent``, ...).
    :param ping_interval: seconds without traffic after which the server is pinged; a ping without an answer
        within *ping_timeout* closes the connection. None, the default, never pings.
    :param ping_timeout: seconds that the server has to answer a ping.
    :param line_limit: bytes that one message of the server may have, and one to a server on a pipe; default 16 MiB.

    For a server that is started as a process:

    :param grace: seconds that the child has to exit when the client is closed, before it is ended.

    For a server behind a URL:

    :param verify: False, or a file or folder of certificates, as for ``requests``; by default from the environment.
    :param cert: a client certificate, as for ``requests``.
    :param proxies: as for ``requests``; by default those of the environment.
    :param listen: False opens no stream for messages of the server outside of calls, such as changed lists.
    :param type: "http" or "sse" for a URL whose transport is known.

    For the server's questions and notifications:

    :param sampling_tools: whether the sampling handler supports tools.
    :param sampling_context: whether it supports ``include_context``.
    :param max_handlers: how many of the handlers may run at once.
    :param questions_per_minute: how many questions of the server are accepted in any minute; more are refused. The default,
        1000, suits handlers that ask no person; None for any number.
    :param on_tools_changed: called without arguments, as are the next two; call ``list_tools()`` for the new list.
    :param on_resources_changed: as above.
    :param on_prompts_changed: as above.
    :param on_resource_updated: gets the URI, which may be below the one subscribed to (RSRC-14).
    :param on_elicitation_complete: gets the id of an earlier URL question; other ids are ignored (URLE-08).
    :param on_disconnect: gets the error if the connection ends without ``close()``.
    :param on_message: called with each message of each connection: a number of the connection in this process, "->" for sent or
        "<-" for received, and its bytes; on the thread that sends or reads the message, which the function must not hold up. An
        exception is logged. :class:`mcplite.testing.Recording` is one.
    :param experimental: declared as the client's experimental capabilities.
    :raises ValueError: *era* is unknown, or a number is not positive.
    """

    max_timeout: Optional[float] = 300.0
    retry: Optional[int] = None
    raise_for_error: bool = False
    validate: bool = True
    cache: bool = True
    era: Optional[str] = None
    prior: Optional[Mapping[str, Any]] = None
    probe_timeout: float = 5.0
    client_info: Optional[Implementation] = None
    result_types: Sequence[str] = ()
    trace_context: Optional[Callable[[], Mapping[str, str]]] = None
    ping_interval: Optional[float] = None
    ping_timeout: float = 10.0
    line_limit: int = LINE_LIMIT
    grace: float = 2.0
    verify: "Verify" = None
    cert: "Cert" = None
    proxies: Optional[Mapping[str, str]] = None
    listen: bool = True
    type: Optional[str] = None
    sampling_tools: bool = False
    sampling_context: bool = False
    max_handlers: int = 16
    questions_per_minute: Optional[int] = 1000
    on_tools_changed: Optional[Callable[[], object]] = None
    on_resources_changed: Optional[Callable[[], object]] = None
    on_prompts_changed: Optional[Callable[[], object]] = None
    on_resource_updated: Optional[Callable[[str], object]] = None
    on_elicitation_complete: Optional[Callable[[str], object]] = None
    on_disconnect: Optional[Callable[[Exception], object]] = None
    on_message: Optional[Callable[[int, str, bytes], object]] = None
    experimental: Optional[Dict[str, Any]] = None

    def __post_init__(self) -> None:
        if self.era not in (None, "legacy", "modern"):
            raise ValueError(f"era is 'legacy', 'modern' or None for both, not {self.era!r}")
        if self.retry is not None and (type(self.retry) is not int or self.retry < 1):
            raise ValueError(f"retry= is a number of attempts, such as 3, or None, not {self.retry!r}")
        for name in ("max_timeout", "probe_timeout", "ping_interval", "ping_timeout", "max_handlers", "questions_per_minute"):
            check_positive(name, getattr(self, name))


@record(frozen=True)
class ClientSettings(ClientOptions):
    """All settings of one client: its :class:`ClientOptions` and the keywords that :func:`~.connect.connect` documents.

    :raises ValueError: the revision is unknown or contradicts *era*, or a number is not positive.
    """

    timeout: Optional[float] = 60.0
    open_timeout: float = 60.0
    headers: Optional[Mapping[str, str]] = None
    auth: Any = None
    session: Any = None
    env: Optional[Mapping[str, str]] = None
    cwd: "Union[None, str, os.PathLike[str]]" = None
    stderr: "StderrTarget" = None
    revision: Union[None, str, Revision] = None
    roots: "Optional[Roots]" = None
    elicitation_handler: "Optional[Elicitation]" = None
    url_elicitation_handler: "Optional[Elicitation]" = None
    sampling_handler: "Optional[Sampling]" = None
    log_handler: "Optional[Callable[[LogMessage], object]]" = None
    middleware: Sequence[Middleware] = ()
    extensions: "Union[None, Mapping[str, Dict[str, Any]], Sequence[Extension]]" = None
    debug: Union[None, bool, str] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        pinned = self.pinned
        if pinned is not None and self.era is not None and pinned.modern != (self.era == "modern"):
            raise ValueError(f"era={self.era!r} and revision={pinned.name!r} contradict each other")
        if self.extensions:
            from ..rpc.extension import extensions_of  # for clients that have one

            extensions_of(self.extensions)
        for name in ("timeout", "open_timeout"):
            check_positive(name, getattr(self, name))
        if not isinstance(self.middleware, Iterable):
            raise TypeError(f"middleware= takes a list: write middleware=[function], not {quoted(self.middleware)}")

    @property
    def pinned(self) -> Optional[Revision]:
        """The only revision to accept; None for any.

        :raises ValueError: it is unknown.
        """
        if self.revision is None or isinstance(self.revision, Revision):
            return self.revision
        found = find_revision(self.revision)
        if found is None:
            raise ValueError(f"{self.revision!r} is not a protocol revision that this package supports; write one of"
                             f" {', '.join(revision.name for revision in REVISIONS)}")
        return found
