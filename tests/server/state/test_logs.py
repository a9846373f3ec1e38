"""Bodies that follow logs: gaps, what other programs have written, keep-alive, the end, and a store that is away."""

import threading

import pytest

from mcplite.backend.from_url import SealedBackend
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from mcplite.server.state import logs
from mcplite.server.state.logs import LogBody, read_log
from mcplite.server.state.response_bodies import KEEP_ALIVE, OPENING
from tests.support.tight import tight

KEY = b"a key of sixteen bytes or more"


class Body(LogBody):
    def __init__(self, backend, **limits):
        super().__init__(backend, tight(**limits))
        self.number = 0

    def numbers(self):
        return {"log/a": self.number}

    def read(self, grown):
        entries, self.number, _ = read_log(self._backend, "log/a", self.number)
        self.ending = any(entry == b"end" for _, entry in entries)
        return b"".join(entry for _, entry in entries)


def shared():
    """A store as several processes have it: no writer tells the body of its entries."""
    backend = MemoryBackend()
    backend.shared = True
    return backend


def filled(backend, *entries, keep=100):
    for entry in entries:
        backend.append("log/a", entry, 60, keep)
    return backend


@pytest.mark.parametrize("keep", range(1, 10))
@pytest.mark.parametrize("number", [0, 1, 5, 8])
def test_what_is_kept_after_a_gap_is_read(keep, number):
    backend = filled(MemoryBackend(), *(b"%d" % at for at in range(1, 10)), keep=keep)
    first = max(number, 9 - keep)
    assert read_log(backend, "log/a", number) == ([(at, b"%d" % at) for at in range(first + 1, 10)], 9, number < 9 - keep)


def test_a_log_that_begins_again_is_read_from_its_beginning():
    assert read_log(filled(MemoryBackend(), b"1"), "log/a", 9) == ([(1, b"1")], 1, True)


def test_what_other_programs_have_written_is_passed_over():
    store = MemoryBackend()
    sealed = SealedBackend(store, [KEY])
    filled(store, b"forged")
    assert read_log(sealed, "log/a", 0) == ([], 1, False)
    filled(sealed, b"ours")
    assert read_log(sealed, "log/a", 0) == ([(2, b"ours")], 2, False)


def test_it_follows_the_log_and_ends_with_it():
    backend = filled(shared(), b"1")
    body = Body(backend)
    assert [next(body), next(body)] == [OPENING, b"1"]
    writer = threading.Thread(target=lambda: filled(backend, b"2", b"end"))
    writer.start()
    assert b"".join(body) == b"2end"
    writer.join()


def test_it_keeps_a_quiet_response_alive_and_notices_its_end(monkeypatch):
    body = Body(MemoryBackend(), keep_alive_seconds=0.02)
    assert [next(body), next(body), next(body)] == [OPENING, KEEP_ALIVE, KEEP_ALIVE]
    body.disconnected = lambda: True
    assert list(body) in ([], [KEEP_ALIVE])


@pytest.mark.parametrize("backend", [MemoryBackend(), shared()], ids=["one process", "several"])
def test_it_ends_when_it_is_stopped_or_its_time_is_over(backend):
    stopped, due, told = Body(backend), Body(backend), []
    stopped.on_close = lambda: told.append(1)
    stopped.stop()
    due.end_after(0.02, lambda: None)
    assert list(stopped) == [OPENING] == list(due)
    stopped.close()
    stopped.close()
    assert told == [1]


@pytest.mark.parametrize("method", ["since", "wait"])
@pytest.mark.slow
def test_it_goes_on_when_the_store_is_back(monkeypatch, method):
    monkeypatch.setattr(logs, "_AWAY_SECONDS", 0.01)
    backend, failures = shared(), iter(range(3))
    works = getattr(backend, method)

    def fails(*arguments):
        if next(failures, None) is not None:
            raise BackendError("away")
        filled(backend, b"end")
        return works(*arguments)

    monkeypatch.setattr(backend, method, fails)
    assert b"".join(Body(backend)) in (OPENING + b"end", OPENING + b"endend")
