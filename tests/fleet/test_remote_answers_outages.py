"""Stores that stop, hang or come back empty while handlers wait in the processes of a fleet."""

import contextlib
import json
import logging
import threading
import time
from collections import Counter

import pytest

import mcplite
from mcplite.backend.redis import RedisBackend
from mcplite.errors import BackendError
from tests.support.stateless import again, call

from .test_remote_answers import CAN, PATIENCE, Process, Shared, book, text

USED = ("this requestState was used before, or the store has lost it; its call is not repeated, and what it has done is not"
        " known")
ADD = call("add", {"a": 1, "b": 2}, **CAN)


class Fleet:
    """The processes of one test, each with a backend of its own."""

    def __init__(self, open_backend):
        self.open_backend = open_backend
        self.done = Counter()
        self.made, self.opened = [], []

    def create(self):
        self.opened.append(self.open_backend())
        self.made.append(Process(self.opened[-1], self.done))
        return self.made[-1]

    def close(self):
        for process in self.made:
            process.web.close()
        for backend in self.opened:
            backend.close()


@pytest.fixture
def redis_server():
    pytest.importorskip("redis")
    server = pytest.importorskip("tests.support.stores", reason="POSIX only").RedisServer().start()
    yield server
    server.close()


@pytest.fixture
def fleet(redis_server):
    with contextlib.closing(Fleet(lambda: RedisBackend(redis_server.url, timeout=2.0))) as fleet:
        yield fleet


def refusal(process, request):
    """Return the error of a request, which must be 503 with a time after which to try again."""
    response = process.web.respond(request)
    body = response.content if not response.streaming else b"".join(response.body)
    assert response.status == 503, body
    assert dict(response.headers)["Retry-After"] == "1"
    error = json.loads(body)["error"]
    assert error["code"] == -31001 and "the store that its processes share cannot be used" in error["message"]
    return error


def eventually(process, request):
    """Return the result of a request once the store is there again."""
    until = time.monotonic() + PATIENCE
    while True:
        answer, _ = process.web.send(request)
        if "result" in answer:
            return answer["result"]
        assert answer["error"]["code"] == -31001 and process.web.status == 503, answer
        assert time.monotonic() < until
        time.sleep(0.1)


def finish(process, request, first):
    """Answer the questions of a call of book, as soon as the store is there."""
    result = eventually(process, again(request, first))
    return text(eventually(process, again(request, result, id=3)))


@pytest.mark.slow
def test_a_restart_between_question_and_answer(fleet, redis_server, caplog):
    one, other = fleet.create(), fleet.create()
    first = one.web.result(book())
    other.web.result(ADD)
    redis_server.kill()
    assert "127.0.0.1" not in refusal(other, again(book(), first))["message"]
    refusal(one, again(book(), first))
    refusal(one, book("Bob"))
    assert text(one.web.result(ADD)) == text(other.web.result(ADD)) == "3"
    redis_server.start()
    assert finish(other, book(), first).startswith("Ada: Rome, accept")
    assert fleet.done["charged"] == fleet.done["paid"] == 1
    second = eventually(one, book("Bob"))
    assert finish(other, book("Bob"), second).startswith("Bob: Rome, accept")
    warnings = Counter(record.getMessage().partition(":")[0] for record in caplog.records if record.levelno >= logging.WARNING)
    assert max(warnings.values()) <= 2, f"one for each process: {warnings}"


@pytest.mark.slow
def test_a_restart_while_the_handler_runs_for_another_process(fleet, redis_server):
    one, other = fleet.create(), fleet.create()
    begun, released = threading.Event(), threading.Event()

    def slow(ctx: mcplite.Context) -> str:
        ctx.elicit("Begin?")
        begun.set()
        assert released.wait(PATIENCE)
        return "slept"

    for process in (one, other):
        process.mcp.add_tool(slow)
    request = call("slow", **CAN)
    first = one.web.result(request)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(other.web.send(again(request, first))[0]))
    thread.start()
    assert begun.wait(PATIENCE)
    redis_server.kill()
    released.set()
    time.sleep(1)
    redis_server.start()
    thread.join(PATIENCE)
    assert text(answers[0]["result"]) == "slept"


@pytest.mark.slow
def test_a_store_that_comes_back_empty(fleet, redis_server):
    import redis

    one, other = fleet.create(), fleet.create()
    first = one.web.result(book())
    other.web.result(ADD)
    with contextlib.closing(redis.Redis.from_url(redis_server.url)) as client:
        client.flushall()
    for process in (other, one):
        assert process.web.error(again(book(), first))["message"] == USED
    for _ in range(3):
        second = one.web.result(book("Bob"))
        assert finish(other, book("Bob"), second).startswith("Bob: Rome, accept")
    assert not len(one.mcp.runtime.suspended_calls), "what waited without its journal was cancelled"


class Doubtful(Shared):
    """A store whose answer to the taking of a value is lost once, after it took place."""

    lose = False

    def take(self, key):
        taken = super().take(key)
        if self.lose:
            self.lose = False
            raise BackendError("the connection broke")
        return taken


def test_a_journal_that_was_taken_although_the_store_failed():
    backend = Doubtful()
    with contextlib.closing(Fleet(lambda: backend)) as fleet:
        one, other = fleet.create(), fleet.create()
        for process in (one, other):
            first = one.web.result(book())
            backend.lose = True
            refusal(process, again(book(), first))
            assert finish(process, book(), first) == "Ada: Rome, accept, round 0"
        assert fleet.done == {"entered": 2, "charged": 2, "paid": 2}


@pytest.mark.slow
def test_a_journal_in_doubt_that_another_process_may_have_taken():
    backend = Doubtful()
    with contextlib.closing(Fleet(lambda: backend)) as fleet:
        one, other = fleet.create(), fleet.create()
        first = one.web.result(book())
        backend.lose = True
        refusal(one, again(book(), first))
        one.mcp.runtime.processes.messages.stop()  # as if it were paused, so that the other one tries to take the journal
        time.sleep(1)
        response = threading.Thread(target=lambda: other.web.send(again(book(), first)))
        response.start()
        until = time.monotonic() + PATIENCE
        while not any(key.startswith("taken-") for key in backend._values):
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.1)
        assert one.web.error(again(book(), first))["message"] == USED
        one.mcp.runtime.processes.messages.start()
        response.join(PATIENCE)
        assert fleet.done == {"entered": 1}


@pytest.mark.slow
def test_nothing_spins_while_the_store_is_away(caplog):
    class Broken(Shared):
        def __getattribute__(self, name):
            found = super().__getattribute__(name)
            if name in ("put", "get", "take", "swap", "append", "since", "last", "wait") and self.__dict__.get("broken"):
                self.attempts += 1
                raise BackendError("the backend is away")
            return found

    backend = Broken()
    backend.attempts = 0
    with contextlib.closing(Fleet(lambda: backend)) as fleet, caplog.at_level(logging.WARNING):
        one = fleet.create()
        first = one.web.result(book())
        backend.broken = True
        time.sleep(3)
        assert 0 < backend.attempts < 40, "at first every tenth of a second, then every second"
        assert text(one.web.result(ADD)) == "3"
        assert len(caplog.records) == 1
        backend.broken = False
        assert finish(one, book(), first) == "Ada: Rome, accept, round 0"
