"""A deadline counts down, or has no limit; a wait of the user is made of short ones."""

from mcplite.rpc.deadline import WAKE_SECONDS, Deadline, wait_interruptibly


def test_deadline_without_a_timeout_never_expires():
    deadline = Deadline(None)
    assert deadline.remaining() is None
    assert not deadline.expired


def test_deadline_counts_down_to_zero():
    deadline = Deadline(0)
    assert deadline.remaining() == 0
    assert deadline.expired
    assert 50 < Deadline(60).remaining() <= 60


def test_a_wait_without_a_limit_is_made_of_short_ones():
    waits = []

    def wait(seconds):
        waits.append(seconds)
        return len(waits) == 3

    assert wait_interruptibly(wait, None)
    assert waits == [WAKE_SECONDS] * 3


def test_a_wait_with_a_limit_ends_with_it():
    waits = []
    assert not wait_interruptibly(lambda seconds: bool(waits.append(seconds)), WAKE_SECONDS / 2)
    assert len(waits) == 1 and waits[0] <= WAKE_SECONDS / 2
