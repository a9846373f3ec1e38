"""Observers of a server: the requests, the questions and the sessions that they see."""

import contextlib
import threading

import pytest

import mcplite
from mcplite.revisions import REVISIONS
from mcplite.server.runtime.observer import ServerObserver

LIMIT = 60
NAMES = [revision.name for revision in REVISIONS]


class Noting(ServerObserver):
    def __init__(self, name, seen):
        self.name, self.seen = name, seen
        self.closed = threading.Event()

    def request(self, context, proceed):
        self.seen.append((self.name, context.method))
        return proceed()

    @contextlib.contextmanager
    def question(self, session, method, params, id):
        self.seen.append((self.name, method, id is None))
        yield params if id is None else {**params, "message": params["message"] + self.name}
        self.seen.append((self.name, "answered", session.revision.name))

    def session_opened(self, session):
        self.seen.append((self.name, "opened"))

    def session_closed(self, session, error):
        self.seen.append((self.name, "closed"))
        self.closed.set()


@pytest.fixture
def seen():
    return []


@pytest.fixture
def server(seen):
    def middleware(ctx, proceed):
        seen.append(("middleware", ctx.method))
        return proceed()

    mcp = mcplite.Server("observed", middleware=[middleware])

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("May I?").action

    @mcp.tool()
    def add(a: int, b: int) -> int:
        return a + b

    with contextlib.closing(mcp):
        mcp.observe(Noting("one", seen))
        yield mcp


def wait_for_end(server):
    """The thread that reads ends the session, after the client has gone."""
    [observer] = server.runtime.observers
    assert observer.closed.wait(LIMIT)


@pytest.mark.parametrize("revision", NAMES)
def test_requests_are_seen_outside_of_middleware_and_sessions_as_they_begin_and_end(server, seen, revision):
    with mcplite.connect(server, revision=revision) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    wait_for_end(server)
    assert seen == [("one", "opened"), ("one", "tools/call"), ("middleware", "tools/call"), ("one", "closed")]


@pytest.mark.parametrize("revision", NAMES[2:])
def test_questions_are_seen_and_params_of_requests_may_be_replaced(server, seen, revision):
    asked = []

    def answer(request):
        asked.append(request.message)
        return {}

    server.observe(Noting("two", seen))
    with mcplite.connect(server, revision=revision, elicitation_handler=answer) as client:
        assert client.call_tool("ask").text == "accept"
        modern = client.era == "modern"
    assert asked == ["May I?" if modern else "May I?onetwo"]
    questions = [entry for entry in seen if len(entry) == 3]
    assert questions == [("one", "elicitation/create", modern), ("two", "elicitation/create", modern),
                         ("two", "answered", revision), ("one", "answered", revision)]


@pytest.mark.parametrize("failing", ["session_opened", "session_closed"])
def test_an_observer_that_fails_does_not_keep_the_lifespan(seen, failing):
    left = threading.Event()

    @contextlib.contextmanager
    def lifespan(server):
        yield
        left.set()

    def fail(*given):
        raise ValueError("no telemetry")

    mcp, other = mcplite.Server("observed", lifespan=lifespan), Noting("two", seen)
    broken = ServerObserver()
    setattr(broken, failing, fail)
    mcp.observe(broken)
    mcp.observe(other)
    with contextlib.suppress(ValueError), mcplite.connect(mcp, revision=NAMES[2]) as client:
        client.ping()
    assert other.closed.wait(LIMIT) and left.wait(LIMIT)
    assert mcp.sessions == []
