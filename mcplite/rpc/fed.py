"""Who reads when messages are brought: nobody; whoever was handed a message gives it to the peer.
Over HTTP a client's messages come as requests of their own, on threads of the host.
"""

import threading
from typing import TYPE_CHECKING, ContextManager

from .channels import Channel
from .pending import Pending
from .reading import Reading

if TYPE_CHECKING:
    from .threads import Workers

__all__ = ["FedReading", "sleep_until_settled"]


def sleep_until_settled(pending: Pending) -> None:
    """Sleep until *pending* is settled or interrupted, has progress to deliver, or is past its time."""
    while True:
        event: threading.Event = pending.prepare_sleep()
        if pending.outcome is not None or pending.interrupted or pending.progress:
            return
        remaining = pending.remaining()
        if remaining is not None and remaining <= 0:
            return
        event.wait(remaining)


class FedReading(Reading):
    """The place of a reader on a channel that cannot be read.

    :param workers: a handler that waits for an answer gives its place back to them.
    """

    def __init__(self, channel: Channel, workers: "Workers") -> None:
        super().__init__(channel)
        self._workers = workers

    def wait(self, pending: Pending) -> None:
        with self.aside():
            sleep_until_settled(pending)

    def aside(self) -> ContextManager[None]:
        return self._workers.suspended()

    def interrupt(self, pending: Pending) -> None:
        return  # the nudge was enough: nobody is in a read

    def stop(self, timeout: float) -> bool:
        return True
