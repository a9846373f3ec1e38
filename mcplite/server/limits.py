"""Every bound that a server keeps, in one place, each with its reason.

May import: nothing of ours.
"""

from dataclasses import dataclass
from typing import Optional

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The bounds of a server; only the message rate can be ``None``, for no bound.

    :raises ValueError: for a bound that is not positive.
    """

    #: Bytes of one incoming line; four MiB is what the other SDKs take for a request body.
    line_bytes: int = 4 << 20
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
    #: Progress and log messages a second, each, for one request, beyond a first burst of ten times as
    #: many; more progress is folded into the latest value, more log lines are counted and dropped.
    messages_per_second: Optional[float] = 1000.0
    #: Values of one completion; the specification says 100.
    completions: int = 100
    #: Characters of a URI.
    uri: int = 65_536
    #: Seconds that running handlers get to notice the end before the server leaves without them.
    grace: float = 2.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None and name == "messages_per_second":
                continue
            if value is None or value <= 0:
                raise ValueError(f"{name} must be positive, not {value!r}")
