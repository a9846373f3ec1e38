"""The arithmetic of docs/deploying.rst: what open sessions need of a store, by what their requests cost."""

import math
from typing import NamedTuple, Optional, Sequence

__all__ = ["Costs", "Need", "Rates", "capacity_table", "need"]

#: What one Redis is planned with: operations in a second, of which it did 58,000 that read and 34,000 that append when it was
#: measured, and bytes of memory. Of both, half is used.
OPERATIONS, MEMORY = 50_000.0, 32e9
#: Bytes of an idle session in Redis, with its key; about 500 were measured.
SESSION_BYTES = 1000
#: Open streams of one worker process.
STREAMS = 1000
#: Renewals of a worker's lease in a second.
RENEWALS = 0.5


class Costs(NamedTuple):
    """Operations of the backend for one thing of each kind."""

    call: int
    question: int
    #: With the stream that it is a part of.
    message: int
    tells: int
    hears: int


class Rates(NamedTuple):
    """How many of each a session has in a minute; and how many changes all of them together hear in a second."""

    calls: float = 1.0
    questions: float = 0.1
    messages: float = 1.0
    changes: float = 1.0


class Need(NamedTuple):
    """What some sessions need: in a second, in bytes, and in processes and stores."""

    sessions: int
    calls: float
    questions: float
    messages: float
    workers: int
    operations: float
    bytes: int
    stores: int


def need(sessions: int, costs: Costs, rates: Rates = Rates(), operations: float = OPERATIONS,
         workers: Optional[int] = None) -> Need:
    """Return what some sessions need.

    :param operations: that a store does in a second.
    :param workers: by default as many as their open streams need.
    """
    calls, questions, messages = (sessions * rate / 60 for rate in (rates.calls, rates.questions, rates.messages))
    workers = max(4, math.ceil(sessions / STREAMS)) if workers is None else workers
    total = (calls * costs.call + questions * costs.question + messages * costs.message
             + rates.changes * (costs.tells + workers * costs.hears) + workers * RENEWALS)
    size = sessions * SESSION_BYTES
    stores = max(1, math.ceil(total / (operations / 2)), math.ceil(size / (MEMORY / 2)))
    return Need(sessions, calls, questions, messages, workers, total, size, stores)


def capacity_table(costs: Costs, sessions: Sequence[int] = (10_000, 1_000_000, 100_000_000)) -> str:
    """Return the table as reStructuredText."""
    rule = " ".join("=" * width for width in (11, 9, 11, 10, 7, 12, 6, 6))
    head = (f"{'Sessions':<11} {'Calls/s':>9} {'Questions/s':>11} {'Messages/s':>10} {'Workers':>7} {'Operations/s':>12}"
            f" {'GB':>6} {'Stores':>6}")
    rows = [f"{found.sessions:<11,} {found.calls:>9,.0f} {found.questions:>11,.0f} {found.messages:>10,.0f}"
            f" {found.workers:>7,} {found.operations:>12,.0f} {found.bytes / 1e9:>6,.2f} {found.stores:>6,}"
            for found in (need(count, costs) for count in sessions)]
    return "\n".join([rule, head, rule, *rows, rule]) + "\n\n"
