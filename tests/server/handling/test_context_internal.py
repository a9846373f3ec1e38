"""What the library needs of a context is not part of what handlers see of it; the same holds for the server's class."""

import contextlib
import threading

import pytest

import mcplite
from mcplite.client import call
from mcplite.errors import SERVER_BUSY, RemoteError
from mcplite.rpc.fair_queue import COSTLY
from mcplite.server.transports.client_socket import RequestBody
from tests.support.children import wait_until

CONTEXT = """
    ask can_elicit can_elicit_url can_list_roots can_sample cancelled check_cancelled client_capabilities client_info
    close_stream critical debug elicit elicit_url elicitation_complete error extensions http info input_responses lifespan
    list_roots log meta method notice notify on_cancel once principal protocol_version report_progress request_id round sample
    sleep state task_id task_status token trace_context warning
"""
SERVER = """
    add_directory add_method add_notification add_prompt add_resource add_tool auth close completion debug fleet info
    instructions limits logging_handler method name observe prompt prompts_changed remove_directory remove_prompt
    remove_resource mount remove_tool resource resource_updated resources_changed revisions run run_task serve_channel sessions
    tool
    tools_changed wsgi
"""


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def test_help_shows_what_handlers_use():
    assert public(mcplite.Context) - set(CONTEXT.split()) == set()


def test_help_shows_what_servers_are_made_with():
    # Parts that are added to the public names belong into the list; what only the library calls does not.
    assert public(mcplite.Server) - set(SERVER.split()) == set()


@pytest.fixture
def large(tmp_path):
    """A server with large answers of each kind, by what asks for them."""
    (tmp_path / "large.txt").write_text("x" * COSTLY)
    (tmp_path / "small.txt").write_text("x" * 10)
    mcp = mcplite.Server("large")
    mcp.add_directory("files://all", str(tmp_path))

    @mcp.tool
    def text(size: int = COSTLY + 1) -> str:
        return "x" * size

    @mcp.resource("made://text")
    def made_text() -> str:
        return "x" * COSTLY

    @mcp.resource("made://bytes")
    def made_bytes() -> bytes:
        return b"x" * COSTLY

    return mcp


LARGE = {"a file": lambda client: client.read_resource("files://all/large.txt"),
         "a text": lambda client: client.read_resource("made://text"),
         "bytes": lambda client: client.read_resource("made://bytes"),
         "a result": lambda client: client.call_tool("text")}
#: The server itself, and one that passes its answers on.
KINDS = pytest.mark.parametrize("mounted, kind", [(False, kind) for kind in LARGE] + [(True, "a file"), (True, "a result")])
SMALL = {"a file": lambda client: client.read_resource("files://all/small.txt"),
         "a result": lambda client: client.call_tool("text", {"size": 10})}


@contextlib.contextmanager
def connected(server, mounted):
    """Yield a client over HTTP, and the server that it is connected to."""
    with mcplite.serve(server) as served:
        if not mounted:
            with mcplite.connect(served.url) as client:
                yield client, server
            return
        hub = mcplite.Server("hub")
        hub.mount(mcplite.connect(served.url))
        with mcplite.serve(hub) as outer, mcplite.connect(outer.url) as client:
            yield client, hub


@KINDS
def test_large_answers_are_made_one_at_a_time(large, kind, mounted):
    finished = []
    with connected(large, mounted) as (client, server):
        turns = server.runtime.turns
        before = turns.begin("another client")
        thread = threading.Thread(target=lambda: finished.append(LARGE[kind](client)))
        thread.start()
        assert wait_until(lambda: turns.waiting == 1) and not finished
        for ask in SMALL.values():
            assert ask(client)  # is not large, so it does not wait
        before.end()
        thread.join(30)
        assert finished and turns.waiting == 0
        turns.begin("another client").end()  # the turn has ended


@KINDS
def test_a_large_answer_counts_before_it_is_made_and_until_it_is_read(large, kind, mounted, monkeypatch):
    counted, reserve = [], RequestBody.reserve

    def note(body, size):
        counted.append((size, reserve(body, size)))
        return counted[-1][1]

    monkeypatch.setattr(RequestBody, "reserve", note)
    monkeypatch.setattr(call, "_MOST_SECONDS", 0)
    with connected(large, mounted) as (client, _):
        assert LARGE[kind](client)
        assert len(counted) == 1 + mounted and all(size >= COSTLY and given for size, given in counted)
        counted.clear()
        for ask in SMALL.values():
            ask(client)
        assert not counted
        monkeypatch.setattr(RequestBody, "reserve", lambda body, size: False)
        if kind != "a file":
            assert LARGE[kind](client), "the handler has done its work, which an error would deny"
            return
        with pytest.raises(RemoteError, match="too many large answers are unread") as caught:
            LARGE[kind](client)
        assert caught.value.code == SERVER_BUSY
