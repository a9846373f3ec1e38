"""The answers that a client sends from a queue: their order, their bounds, and a system without threads."""

import threading

import pytest

from mcplite.errors import TransportError
from mcplite.rpc import request
from mcplite.rpc.request import AnswerQueue
from mcplite.rpc.threads import Workers

LIMIT = 20


class Recipient:
    """Takes answers when it is told to."""

    def __init__(self):
        self.taken, self.threads, self.reads = [], set(), threading.Event()
        self.changed = threading.Condition()

    def __call__(self, data):
        assert self.reads.wait(LIMIT)
        with self.changed:
            self.taken.append(data)
            self.threads.add(threading.current_thread().name)
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= count, LIMIT)
        return self.taken


@pytest.fixture
def workers():
    workers = Workers(1, 1, "answers of the test")
    yield workers
    workers.stop()


def test_answers_are_sent_in_order_by_the_pool(workers):
    recipient = Recipient()
    queue = AnswerQueue(workers, recipient)
    wanted = [b"%d" % number for number in range(50)]
    assert all(queue.add(data) for data in wanted)
    recipient.reads.set()
    assert recipient.wait_for(50) == wanted and recipient.threads == {"answers of the test"}


def test_so_many_answers_wait(workers, monkeypatch):
    monkeypatch.setattr(request, "_MOST_ANSWERS", 3)
    recipient = Recipient()
    queue = AnswerQueue(workers, recipient)
    kept = [number for number in range(20) if queue.add(b"%d" % number)]
    assert kept[:3] == [0, 1, 2] and len(kept) in (3, 4)  # and perhaps the one that is being sent
    recipient.reads.set()
    recipient.wait_for(len(kept))
    assert queue.add(b"more") and recipient.wait_for(len(kept) + 1)[-1] == b"more"


def test_so_many_bytes_wait_unless_one_answer_alone_has_more(workers, monkeypatch):
    monkeypatch.setattr(request, "_MOST_BYTES", 100)
    recipient = Recipient()
    queue = AnswerQueue(workers, recipient)
    kept = [number for number in range(20) if queue.add(b"x" * 60)]
    assert len(kept) in (1, 2)
    recipient.reads.set()
    recipient.wait_for(len(kept))
    assert queue.add(b"y" * 1000) and recipient.wait_for(len(kept) + 1)[-1] == b"y" * 1000


@pytest.mark.parametrize("error", [TransportError("no thread"), KeyboardInterrupt()])
def test_an_answer_that_found_no_thread_goes_with_the_next_one(workers, error, monkeypatch):
    recipient = Recipient()
    recipient.reads.set()
    queue = AnswerQueue(workers, recipient)

    def fail(task):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(workers, "spawn", fail)
        if isinstance(error, KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                queue.add(b"first")
        else:
            assert queue.add(b"first")
    assert queue.add(b"second") and recipient.wait_for(2) == [b"first", b"second"]
