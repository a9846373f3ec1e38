"""Every bound that a server keeps, in one place, each with its reason."""

from dataclasses import dataclass
from typing import Optional

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The bounds of a server; only the message rate can be ``None``, for no bound.

    :raises ValueError: for a bound that is not positive.
    """

    #: Bytes of one incoming message, a line or a request body; four MiB is what the other SDKs take.
    message_bytes: int = 4 << 20
    #: Depth of incoming JSON; real messages stay below ten.
    json_nesting: int = 64
    #: Keys and items of one incoming message: four MiB of ``[{},{},...]`` would become 100 MiB of objects.
    json_elements: int = 100_000
    #: Messages of one batch (March 2025 only).
    batch: int = 50
    #: Handlers that run at once; one more waits. Each is a thread.
    running: int = 64
    #: Requests that wait for a place before "Server busy" is answered; a pipe has one sender, who may
    #: send many before reading.
    queued: int = 4096
    #: Seconds that a client's user has to answer a question; people answer slowly.
    ask_seconds: float = 600.0
    #: Handlers that wait for a client to come back with answers (from July 2026 on); each is a thread. One more is refused.
    waiting_calls: int = 256
    #: The same for one principal, where clients are authenticated.
    waiting_per_principal: int = 32
    #: Seconds that such a handler waits; its client's user may be thinking. In a fleet, how long a state is good for.
    waiting_seconds: float = 600.0
    #: Progress and log messages a second, each, for one request, beyond a first burst of ten times as
    #: many; more progress is folded into the latest value, more log lines are counted and dropped.
    messages_per_second: Optional[float] = 1000.0
    #: Values of one completion; the specification says 100.
    completions: int = 100
    #: Characters of a URI.
    uri: int = 65_536
    #: Handlers of one HTTP session that run or wait at once; one more is answered with 503.
    running_per_session: int = 32
    #: Seconds that a request over HTTP waits for a place before it is answered with 503.
    queue_seconds: float = 10.0
    #: Seconds after which a response that has not begun becomes an event stream, so that it can be kept alive.
    commit_seconds: float = 1.0
    #: Bytes of a request line, and of one header line.
    header_line_bytes: int = 8192
    #: Bytes of all headers of a request, and
    header_bytes: int = 32_768
    #: their number.
    headers: int = 100
    #: Seconds from the first byte of a request to the end of its headers.
    header_seconds: float = 10.0
    #: Seconds that a connection may be idle between requests.
    idle_seconds: float = 15.0
    #: Seconds for a whole request body, and
    body_seconds: float = 30.0
    #: the bytes a second that it has to come at, at least, after the first five seconds.
    body_rate: int = 1024
    #: Connections at once; one more gets 503. One whose request takes long is a thread.
    connections: int = 256
    #: Connections that wait to be accepted.
    backlog: int = 128
    #: Seconds that a client may take no byte of a response before it is given up.
    write_seconds: float = 30.0
    #: Sessions at once; opening one more gets 503. None is a thread.
    sessions: int = 1000
    #: Seconds after which a session without requests and streams is over, and
    session_idle_seconds: float = 1800.0
    #: after which any is.
    session_seconds: float = 86_400.0
    #: GET streams at once, and as many listeners without a session. Each is a thread.
    streams: int = 256
    #: Seconds of silence on an event stream before a comment keeps it alive.
    keep_alive_seconds: float = 15.0
    #: Seconds after which a client shall come back to a stream that was cut.
    retry_seconds: float = 1.0
    #: Messages of one stream that the client has not read yet, and
    unread_messages: int = 256
    #: their bytes; a handler waits then, and
    unread_bytes: int = 4 << 20
    #: after so many seconds the client is taken for gone.
    unread_seconds: float = 30.0
    #: Events of one stream that are kept for a client that comes back, and
    stream_events: int = 1000
    #: their bytes.
    stream_bytes: int = 4 << 20
    #: Bytes of all events that are kept, and
    store_bytes: int = 64 << 20
    #: the seconds that a stream's events are kept after its last one.
    store_seconds: float = 600.0
    #: Seconds that running handlers get to notice the end before the server leaves without them.
    grace: float = 2.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None and name == "messages_per_second":
                continue
            if value is None or value <= 0:
                raise ValueError(f"{name} must be positive, not {value!r}")
