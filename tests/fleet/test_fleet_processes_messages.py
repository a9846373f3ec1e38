"""What processes tell each other."""

import contextlib
import logging
import queue
import secrets
import time

import pytest

from mcplite.backend.from_url import SealedBackend, open_backend
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from mcplite.fleet.backend_health import Outage
from mcplite.fleet.fleet_processes import ProcessMessages
from mcplite.fleet.leases import Leases
from tests.support.forks import POSIX_ONLY, Forked
from tests.support.sharing import Shared

KEY = secrets.token_bytes(32)
PATIENCE = 60


class Process:
    """What one process has for messages."""

    def __init__(self, backend, server="shop"):
        self.backend = SealedBackend(backend, [KEY])
        self.outage = Outage()
        self.leases = Leases(self.backend, self.outage)
        self.messages = ProcessMessages(self.backend, self.leases, server, self.outage)
        self.read = queue.Queue()
        self.messages.on("greeting", self.read.put)

    def gets(self):
        return self.read.get(timeout=PATIENCE)


@pytest.fixture(params=["shared", "sqlite"])
def backend(request, tmp_path):
    if request.param == "shared":
        yield Shared()
        return
    with contextlib.closing(open_backend(f"sqlite:///{tmp_path / 'shop.db'}")) as backend:
        yield backend


@pytest.fixture
def create(backend):
    """A function that makes one more process which reads; all end after the test."""
    made = []

    def create(server="shop"):
        made.append(Process(backend, server))
        made[-1].messages.start()
        return made[-1]

    yield create
    for process in made:
        process.messages.stop()
        process.leases.stop()


def test_a_letter_reaches_the_process_of_its_number(create):
    one, other, third = create(), create(), create()
    for text in ("hello", "again", {"deep": ["ä", None]}):
        one.messages.send(other.leases.number, "greeting", text)
        assert other.gets() == text
    one.messages.send(one.leases.number, "greeting", "to myself")
    assert one.gets() == "to myself"
    assert third.read.empty()


def test_a_letter_to_all_reaches_the_other_processes_of_the_server(create):
    one, other, third, bakery = create(), create(), create(), create("bakery")
    one.messages.broadcast("greeting", "hello")
    assert (other.gets(), third.gets()) == ("hello", "hello")
    other.messages.broadcast("greeting", "and back")
    assert one.gets() == "and back"
    bakery.messages.send(bakery.leases.number, "greeting", "own")
    assert bakery.gets() == "own"


def test_a_handler_that_fails_ends_nothing(create, caplog):
    one, other = create(), create()
    other.messages.on("fails", lambda body: 1 / 0)
    one.messages.send(other.leases.number, "fails", None)
    one.messages.send(other.leases.number, "of a later version", None)
    one.messages.send(other.leases.number, "greeting", "hello")
    assert other.gets() == "hello"
    assert "what another process has told could not be handled" in caplog.text


def test_what_was_not_sealed_with_the_keys_is_not_read(create, backend):
    one, other = create(), create()
    number = other.leases.number
    backend.append(f"messages-{number}/in", b'{"kind": "greeting", "body": "forged"}', 60, 100)
    one.messages.send(number, "greeting", "hello")
    assert other.gets() == "hello"


def test_a_letter_whose_notification_was_lost_is_read_all_the_same():
    class Deaf(Shared):
        def wait(self, logs, timeout):
            return super().wait({}, timeout)

    process = Process(Deaf())
    process.messages.start()
    try:
        process.messages.send(process.leases.number, "greeting", "hello")
        assert process.gets() == "hello"
    finally:
        process.messages.stop()
        process.leases.stop()


def test_further_logs_are_read_on_the_same_thread(backend):
    process, missed = Process(backend), queue.Queue()
    process.messages.read("more/log", process.read.put, lambda: missed.put(True))
    process.messages.start()
    try:
        process.backend.append("more/log", b"hello", 60, 100)
        assert process.gets() == b"hello"
        assert missed.empty()
    finally:
        process.messages.stop()


def test_a_process_that_has_stopped_reads_again_when_it_begins_again(create):
    one, other = create(), create()
    before = other.leases.number
    other.messages.stop()
    other.leases.stop()
    one.messages.send(before, "greeting", "too late")
    other.messages.start()
    one.messages.send(other.leases.number, "greeting", "hello")
    assert other.gets() == "hello"


class Outages:
    """For a store in memory only, which a test can break."""

    @pytest.fixture
    def backend(self):
        return Shared()


class TestOutages(Outages):
    @pytest.mark.slow
    def test_letters_go_on_after_it_and_it_is_one_warning(self, create, backend, caplog):
        one, other = create(), create()
        number = other.leases.number
        with caplog.at_level(logging.WARNING):
            backend.away = {"append", "last", "wait"}
            with pytest.raises(BackendError, match="the backend is away"):
                one.messages.send(number, "greeting", "lost")
            until = time.monotonic() + PATIENCE
            while caplog.text.count("is away; what needs it") < 2:  # one for each process
                assert time.monotonic() < until
                time.sleep(0.05)
            time.sleep(1)  # further attempts
            backend.away = ()
            one.messages.send(number, "greeting", "hello")
            assert other.gets() == "hello"
            assert caplog.text.count("is away; what needs it") == 2

    def test_a_process_that_begins_meanwhile_reads_after_it(self, create, backend):
        one = create()
        backend.away = {"append", "last", "wait"}
        late = create()
        with pytest.raises(BackendError):
            one.messages.broadcast("greeting", "lost")
        backend.away = ()
        one.messages.send(late.leases.number, "greeting", "hello")
        assert late.gets() == "hello"

    def test_letters_go_on_in_a_store_that_was_emptied(self, create, backend, caplog):
        one, other = create(), create()
        number = other.leases.number
        for text in "abc":
            one.messages.send(number, "greeting", text)
            assert other.gets() == text
        with backend._lock:
            backend._values.clear()
            backend._logs.clear()
        one.messages.send(number, "greeting", "hello")
        assert other.gets() == "hello"
        assert "messages of other processes were lost" in caplog.text


@POSIX_ONLY
def test_a_forked_process_has_letters_of_its_own(create, backend):
    if isinstance(backend, MemoryBackend):
        pytest.skip("a memory is not shared with a forked process")
    one = create()
    number = one.leases.number

    def child():
        one.leases.let_go()
        one.messages.let_go()
        one.messages.start()
        one.messages.send(number, "greeting", one.leases.number)
        answer = one.gets()
        one.messages.stop()
        one.leases.stop()
        return answer

    forked = Forked(child)
    one.messages.send(one.gets(), "greeting", "hello, child")
    assert forked.result() == "hello, child"
    assert one.read.empty()
