"""A deadline counts down, or has no limit."""

from mcplite.rpc.deadline import Deadline


def test_deadline_without_a_timeout_never_expires():
    deadline = Deadline(None)
    assert deadline.remaining() is None
    assert not deadline.expired


def test_deadline_counts_down_to_zero():
    deadline = Deadline(0)
    assert deadline.remaining() == 0
    assert deadline.expired
    assert 50 < Deadline(60).remaining() <= 60
