"""The lock of the thread that opens a session, and what the others get from it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcplite.client.features.waiting import Waiting
from mcplite.client.sessions.pacing import OpeningLock
from mcplite.errors import Cancelled, HTTPStatusError, RequestTimeout
from mcplite.rpc.cancel import CancelToken

LIMIT = 30


class Opening:
    """Opens with a lock, as sessions do; the first one fails once the others wait."""

    def __init__(self, error, others=4):
        self.lock, self.error, self.others = OpeningLock(3), error, others
        self.begun = 0
        self.first = threading.Event()

    def open(self, waiting):
        with self.lock.hold(waiting, "the server") as failure:
            if failure is not None:
                raise failure
            self.begun += 1
            if self.begun > 1:
                return "open"
            self.first.set()
            time.sleep(0.3)
            raise self.error(waiting)

    def run(self, waiting):
        """Return what the first thread gets, and what the others get."""
        with ThreadPoolExecutor(self.others + 1) as pool:
            first = pool.submit(self.open, waiting)
            assert self.first.wait(LIMIT)
            others = [pool.submit(self.open, Waiting()) for _ in range(self.others)]
            return first.exception(LIMIT), [other.exception(LIMIT) or other.result() for other in others]


def test_the_others_share_a_failure_each_with_an_error_of_its_own():
    def error(waiting):
        return HTTPStatusError("no", status=500)

    opening = Opening(error)
    first, others = opening.run(Waiting())
    assert {str(other) for other in others} == {str(first)} == {"no"} and {other.status for other in others} == {500}
    assert len({id(one) for one in [first, *others]}) == 5
    assert opening.begun == 1 and opening.open(Waiting()) == "open", "a thread that comes later tries itself"


def test_the_others_do_not_share_the_end_of_a_call():
    token = CancelToken()

    def cancel(waiting):
        token.cancel("enough")
        return OSError("closed")

    first, others = Opening(cancel).run(Waiting(cancel=token))
    assert isinstance(first, Cancelled) and isinstance(first.__cause__, OSError) and others == ["open"] * 4

    def run_out(waiting):
        waiting.spent = 60
        return RequestTimeout("no answer to 'initialize'")

    first, others = Opening(run_out).run(Waiting(timeout=60))
    assert "(timeout)" in str(first) and others == ["open"] * 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_failure(error):
    lock = OpeningLock(1)
    with pytest.raises(error), lock.hold(Waiting(), "the server"):
        assert lock.admit()
        raise error
    with lock.hold(Waiting(), "the server") as failure:
        assert failure is None and lock.admit() and lock.recent == 1


def test_a_failure_of_the_server_is_counted():
    lock = OpeningLock(1)
    with pytest.raises(OSError), lock.hold(Waiting(), "the server"):
        assert lock.admit()
        raise OSError
    with lock.hold(Waiting(), "the server"):
        assert not lock.admit()
