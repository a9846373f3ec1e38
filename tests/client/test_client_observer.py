"""Observers of a client: the calls, the questions, the session and the headers that they see."""

import contextlib

import pytest

import mcplite
from mcplite.client.sessions.base import ClientObserver
from mcplite.revisions import REVISIONS
from tests.support.wsgi import serving_wsgi

NAMES = [revision.name for revision in REVISIONS]


class Noting(ClientObserver):
    def __init__(self, name, seen):
        self.name, self.seen = name, seen

    def request(self, session, call, send):
        self.seen.append((self.name, call.method))
        return send(call)

    def question(self, session, method, params, id, answer):
        self.seen.append((self.name, method, params["message"], id is None))
        return answer()

    def headers(self):
        return {f"X-{self.name}": "yes", "Content-Type": "nonsense"}

    def opened(self, session):
        self.seen.append((self.name, "opened", session.agreed.name))

    def closed(self, session, error):
        self.seen.append((self.name, "closed", None if error is None else str(error)))


@pytest.fixture
def server():
    mcp = mcplite.Server("observed", cache=mcplite.CacheHint(3600))

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("May I?").action

    @mcp.tool()
    def trace(ctx: mcplite.Context) -> str:
        return f"{ctx.request_id} {ctx.meta.get('traceparent')}"

    with contextlib.closing(mcp):
        yield mcp


@pytest.mark.parametrize("revision", NAMES)
def test_calls_and_the_session_are_seen_by_all_observers_in_their_order(server, revision):
    seen = []
    client = mcplite.connect(server, revision=revision)
    for name in ("one", "two"):
        client.observe(Noting(name, seen))
    with client:
        client.call_tool("trace")
        first = "server/discover" if client.era == "modern" else "initialize"
    assert seen == [("one", first), ("two", first), ("one", "opened", revision), ("two", "opened", revision),
                    ("one", "tools/call"), ("two", "tools/call"), ("one", "closed", None), ("two", "closed", None)]


@pytest.mark.parametrize("revision", NAMES[2:])
def test_questions_are_seen_and_those_in_a_result_have_no_id(server, revision):
    seen = []
    client = mcplite.connect(server, revision=revision, elicitation_handler=lambda request: False)
    client.observe(Noting("one", seen))
    with client:
        assert client.call_tool("ask").text == "decline"
        modern = client.era == "modern"
    assert ("one", "elicitation/create", "May I?", modern) in seen


@pytest.mark.parametrize("revision", NAMES)
def test_an_observer_may_send_another_call_in_its_place(server, revision):
    class Replacing(ClientObserver):
        def request(self, session, call, send):
            if call.method != "tools/call":
                return send(call)
            return send(call._replace(id=session.peer.new_id() + 100,
                                      params={**call.params, "_meta": {"traceparent": "a-b"}}))

    with mcplite.connect(server, revision=revision) as client:
        client.observe(Replacing())
        id, _, meta = client.call_tool("trace").text.partition(" ")
    assert int(id) > 100 and meta == "a-b"


def test_what_comes_from_the_cache_is_not_seen(server):
    seen = []
    with mcplite.connect(server, revision=NAMES[-1]) as client:
        client.observe(Noting("one", seen))
        client.list_tools()
        client.list_tools()
    assert [entry[1] for entry in seen] == ["opened", "tools/list", "closed"]


def test_a_client_that_loses_its_connection_has_ended_once_with_its_error(server):
    seen = []
    with mcplite.connect(server, revision=NAMES[0]) as client:
        client.observe(Noting("one", seen))
        client.fail(mcplite.errors.ConnectionClosed("cut"))
        client.close()
    assert seen == [("one", "opened", NAMES[0]), ("one", "closed", "cut")]


def test_a_client_that_was_never_open_has_no_end():
    seen = []
    client = mcplite.connect(["no such program of this name"])
    client.observe(Noting("one", seen))
    with pytest.raises(mcplite.TransportError):
        client.open()
    client.close()
    assert seen == []


def test_what_an_observer_raises_ends_the_call(server):
    class Refusing(ClientObserver):
        def request(self, session, call, send):
            raise PermissionError("not now")

    with mcplite.connect(server) as client:
        client.observe(Refusing())
        with pytest.raises(PermissionError, match="not now"):
            client.call_tool("trace")


@pytest.mark.parametrize("revision", [NAMES[1], NAMES[-1]])
def test_headers_of_observers_go_with_each_message_and_replace_none(server, revision):
    seen = []
    application = server.wsgi("/mcp")

    def noting(environ, start_response):
        if environ["REQUEST_METHOD"] == "POST":
            seen.append((environ.get("HTTP_X_ONE"), environ["CONTENT_TYPE"]))
        return application(environ, start_response)

    with serving_wsgi(noting) as url:
        with mcplite.connect(url, revision=revision, options=mcplite.ClientOptions(listen=False)) as client:
            client.observe(Noting("one", []))
            client.call_tool("trace")
        server.close()
    assert seen[-1] == ("yes", "application/json")
