"""Limits: what an operator may set; the other bounds of a server are shares of these or constants, each with its reason.

``memory_bytes`` bounds what clients can make the server keep. Its shares are numbers of 1,024ths: one is 256 KiB at the default
of 256 MiB.
"""

from functools import cached_property
from typing import Optional

from ..types.lazy_dataclass import Record, fields_of, record

__all__ = ["Limits"]

#: Bytes of the longest line that a client and a server accept on a pipe by default.
_LINE_BYTES = 16 << 20


class _Default(int):
    """The default of a limit. If the limit was not set, a transport may use a lower or a higher number."""

    def __repr__(self) -> str:
        return int.__repr__(self)


def _share(parts: int) -> "cached_property[int]":
    """Return an attribute that is so many 1,024ths of ``memory_bytes``."""
    return cached_property(lambda limits: limits.memory_bytes * parts >> 10)


@record(frozen=True)
class Limits(Record):
    """The limits of a server. Only ``messages_per_second`` can be None, for no limit.

    :raises ValueError: a limit is not positive.
    """

    #: Bytes of one incoming message, a line or a request body. The other SDKs accept bodies of four MiB. If it is not set, a
    #: line on a pipe may have 16 MiB, as many as a client accepts: the client on a pipe is run by the user of this process.
    message_bytes: int = _Default(4 << 20)
    #: Bytes of a file, or of a listing, that ``add_directory`` serves; it is read as a whole, and a client takes 16 MiB for one
    #: message.
    file_bytes: int = 16 << 20
    #: Bytes of memory that clients together can make the server keep, besides connections and the handlers' own objects. What
    #: is kept for requests, questions, sessions, streams and tasks has a share of it each.
    memory_bytes: int = 256 << 20
    #: Handlers that run at once, each on a thread; further requests are queued. While that many run, an eighth as many more may
    #: run: only for senders of which no handler runs. The first half of these may also run for HTTP sessions of which no
    #: handler runs.
    running: int = 64
    #: Queued requests; one more is answered with "Server busy". The number is high, since the one client of a pipe may send
    #: many requests before it reads an answer.
    queued: int = 4096
    #: Seconds that an HTTP request is queued before it is answered with "Server busy"; proxies wait a minute for a response.
    queue_seconds: float = 30.0
    #: Connections that are served at once; one more closes the one that has been idle for longest. A connection occupies a
    #: thread while its request takes long. If none can be closed for a new one, the new one waits unread until one can. Up to
    #: 1,024 wait; one that has waited for ``queue_seconds`` is answered with 503. On Unix, connections are at most half of the
    #: files that the process may open, and those that wait are at most a quarter.
    connections: int = 512
    #: GET streams at once, and as many subscription streams without a session; one more ends the oldest. Each occupies a
    #: thread. A WSGI host may have few threads, and these serve all other requests, too. If the limit was set, it counts under
    #: WSGI for all streams of the application together, those of HTTP+SSE included. If it was not set, all applications of the
    #: process have two streams together. Clients take turns there.
    streams: int = _Default(256)
    #: Sessions at once; one more ends the one that has been idle for longest. A session occupies no thread. In a shared
    #: backend there may be ten times as many, of all processes of the server.
    sessions: int = 1000
    #: Seconds without requests and streams after which a session expires.
    session_idle_seconds: float = 1800.0
    #: Seconds after which a session expires in any case.
    session_seconds: float = 86_400.0
    #: Resources that one session may subscribe to, and that one ``subscriptions/listen`` may name.
    subscriptions: int = 1000
    #: Handlers that wait for the answers of their clients, each on a thread: over HTTP, and in revisions without sessions also
    #: on a pipe. For one more the oldest of the sender with the most is cancelled. An eighth of them may be those of one
    #: principal.
    waiting_calls: int = 256
    #: Seconds that such a handler waits; the user may need time to think. In a fleet: how long a requestState is valid.
    waiting_seconds: float = 600.0
    #: Seconds to wait for the answer to a question to the client's user; people answer slowly.
    ask_seconds: float = 600.0
    #: Seconds that a connection may be idle between requests.
    idle_seconds: float = 15.0
    #: Seconds for a whole request body.
    body_seconds: float = 30.0
    #: Progress messages a second for one request, and log messages a second for one request. Before the rate applies, ten times
    #: as many may be sent at once. Above that, only the latest progress is sent, and log messages are counted and dropped.
    messages_per_second: Optional[float] = 1000.0
    #: Seconds of silence on an event stream before a comment is sent as keep-alive.
    keep_alive_seconds: float = 15.0
    #: Seconds that running handlers have to finish when the server stops.
    grace: float = 2.0

    # --- shares of memory_bytes -----------------------------------------------------------------------------------------

    #: Estimated bytes of memory of the HTTP requests whose handlers run. Requests below 16 KiB do not count. If there is no
    #: room for one more, it is queued.
    running_bytes = _share(96)
    #: Estimated bytes of memory of the requests over HTTP that are queued, however small each is, and of the notifications for
    #: handlers of the server's own.
    queued_bytes = _share(64)
    #: Bytes of memory of the handlers that wait for their clients: their params and their threads.
    waiting_bytes = _share(128)
    #: Bytes of memory of all heads above two KiB that have not arrived whole; at the limit the oldest is refused with 503.
    head_bytes_at_once = _share(8)
    #: Bytes of all request bodies that are read or served at once, with what they are decoded to, and of all answers that
    #: their clients have not read. At the limit the oldest unfinished body is refused with 503, or the oldest such answer
    #: cut off. A few large ones at a time are normal, hundreds are not.
    body_bytes_at_once = _share(192)
    #: Bytes of memory of all sessions; beyond it the one that has been idle for longest ends.
    session_bytes = _share(80)
    #: Bytes of memory of the URIs that one session subscribes to.
    subscription_bytes = _share(1)
    #: Unread bytes of one stream. At this limit, handlers block in sending.
    unread_bytes = _share(16)
    #: Unread bytes of all streams together. While there are more, each stream may hold 64 KiB.
    unread_bytes_at_once = _share(128)
    #: Bytes of the events of one stream that are kept for resumption.
    stream_bytes = _share(16)
    #: Bytes of all events that are kept for resumption; four streams' worth, since an event is kept for a short time only.
    store_bytes = _share(64)
    #: Bytes of the values of ``ctx.store``, where they are in the memory of this process.
    value_bytes = _share(64)
    #: Bytes of the records of sessions in a shared backend. A record has what a session subscribes to, and counts four KiB at
    #: least.
    fleet_session_bytes = _share(256)
    #: Bytes of the states of unfinished calls that one process of a fleet stores.
    fleet_state_bytes = _share(128)

    # --- derived from other limits --------------------------------------------------------------------------------------

    @cached_property
    def waiting_per_principal(self) -> int:
        """Handlers of one principal that wait, in revisions without sessions; for one more the oldest of the principal is
        cancelled."""
        return max(1, self.waiting_calls // 8)

    @cached_property
    def fleet_sessions(self) -> int:
        """Sessions in a shared backend, of all processes of the server; one more ends the one that was idle for longest."""
        return 10 * self.sessions

    @cached_property
    def fleet_states(self) -> int:
        """States of unfinished calls that one process of a fleet stores; for one more the oldest of the sender with the most
        goes. The number is larger than ``waiting_calls``: if a waiting handler was cancelled to make room, its state stays, and
        the handler can be called again from it."""
        return 16 * self.waiting_calls

    @property
    def line_bytes(self) -> int:
        """Bytes of one incoming message on a pipe."""
        return _LINE_BYTES if type(self.message_bytes) is _Default else self.message_bytes

    @property
    def sent_bytes(self) -> int:
        """Bytes of one message that the server sends: 16 MiB, which clients accept, or ``message_bytes`` if that is more."""
        return max(_LINE_BYTES, self.message_bytes)

    @property
    def streams_are_set(self) -> bool:
        """Whether ``streams`` was given."""
        return type(self.streams) is not _Default

    # --- constants ------------------------------------------------------------------------------------------------------

    #: Depth of incoming JSON; real messages stay below ten.
    json_nesting = 64
    #: Keys and items of one incoming message; four MiB of ``[{},{},...]`` would become 100 MiB of objects.
    json_elements = 100_000
    #: Messages of one batch (March 2025 only).
    batch = 50
    #: Values of one completion; 100 is the specification's maximum.
    completions = 100
    #: Characters of a URI.
    uri = 65_536
    #: Bytes of memory of the URIs that one ``subscriptions/listen`` names.
    listen_bytes = 64 << 10
    #: Seconds after which a response that has not begun is sent as an event stream, so that it can be kept alive.
    commit_seconds = 1.0
    #: Bytes of a request line, and of one header line.
    header_line_bytes = 8192
    #: Bytes of all headers of a request.
    header_bytes = 32_768
    #: Number of headers of a request.
    headers = 100
    #: Seconds from the first byte of a request to the end of its headers.
    header_seconds = 10.0
    #: The lowest rate of a request body, in bytes a second, after the first five seconds.
    body_rate = 1024
    #: Connections in the listening socket's queue.
    backlog = 128
    #: Seconds without progress in sending a response before the connection is closed.
    write_seconds = 30.0
    #: Seconds after ``initialize`` within which a session's client must send something; clients confirm at once.
    session_start_seconds = 30.0
    #: Seconds after which a client should reconnect to a stream that was cut (the event stream's ``retry``).
    retry_seconds = 1.0
    #: Unread messages of one stream. At this limit, handlers block in sending.
    unread_messages = 256
    #: Seconds that sending blocks before the client is considered gone.
    unread_seconds = 30.0
    #: Events of one stream that are kept for resumption.
    stream_events = 1000
    #: Seconds that a stream's events are kept after its last one.
    store_seconds = 600.0

    def __post_init__(self) -> None:
        for name in (field.name for field in fields_of(Limits)):
            value = getattr(self, name)
            if value is None and name == "messages_per_second":
                continue
            if value is None or value <= 0:
                raise ValueError(f"{name} must be positive, not {value!r}")
