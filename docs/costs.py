"""Writes the table of what one client costs an HTTP server at most, from the defaults of ``Limits``, into its page.

``python docs/costs.py`` (or ``make costs``) writes it. A test compares the page with it, and measures some of the rows.
"""

import sys
from pathlib import Path
from typing import List, NamedTuple

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from mcplite.server.limits import Limits  # noqa: E402
from mcplite.tasks import Tasks  # noqa: E402

PAGE = DOCS / "security.rst"
MARKS = ".. costs of one client\n\n", ".. end of the costs\n"
#: Bytes of a thread that waits, and of the objects of its connection, with a head that counts to no budget; measured.
THREAD = 42 << 10
#: Bytes of a connection that waits unread, and how many there are; measured.
WAITING, MOST_WAITING = 3 << 10, 1024
#: Bytes of a stream that count to no budget.
STREAM = 64 << 10


class Cost(NamedTuple):
    """One way to make the server keep something."""

    what: str
    #: Bytes of memory.
    bytes: int
    threads: int
    #: What happens at the limit.
    then: str


def costs(limits: Limits) -> List[Cost]:
    """Return what one client costs at most in each way."""
    return [
        Cost("connections, slow heads included",
             limits.connections * THREAD + limits.head_bytes_at_once + MOST_WAITING * WAITING, limits.connections,
             "the oldest idle one is closed"),
        Cost("request bodies, and answers not read", limits.body_bytes_at_once, 0, "the oldest unfinished one ends"),
        Cost("sessions, with what they subscribe to", limits.session_bytes, 0, "the oldest idle one ends"),
        Cost("messages that streams wait to send", limits.unread_bytes_at_once + limits.streams * STREAM, 0,
             "a stream that is not read is cut off"),
        Cost("events kept for resumption", limits.store_bytes, 0, "the oldest stream is dropped"),
        Cost("tasks, unfinished and kept", limits.memory_bytes >> 4, Tasks().running + Tasks().running // 8,
             "the oldest finished one goes"),
        Cost("subscriptions of 2026-07-28", limits.streams * limits.listen_bytes, 0, "the oldest one ends"),
        Cost("questions without an answer", limits.waiting_bytes, limits.waiting_calls, "the oldest one is cancelled"),
        # A quarter more is for senders who keep none. Those that wait for a place keep their bodies' share.
        Cost("arguments of running handlers", limits.running_bytes * 5 // 4, limits.running + limits.running // 8,
             "further requests wait, others' first"),
    ]


def table(limits: Limits) -> str:
    """Return the table as reStructuredText."""
    found = costs(limits)
    total = Cost("all together", sum(cost.bytes for cost in found), sum(cost.threads for cost in found), "")
    rule = f"{'=' * 40} ===== ======= {'=' * 40}"
    lines = [rule, f"{'What a client makes the server keep':<40} {'MiB':>5} {'Threads':>7} At the limit", rule]
    lines += [f"{cost.what:<40} {round(cost.bytes / (1 << 20)):>5} {cost.threads:>7} {cost.then or ' '}".rstrip()
              for cost in [*found, total]]
    return "\n".join([*lines, rule]) + "\n\n"


def page() -> str:
    """Return the page with the table as it should be."""
    before, rest = PAGE.read_text("utf-8").split(MARKS[0])
    return before + MARKS[0] + table(Limits()) + MARKS[1] + rest.split(MARKS[1])[1]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
