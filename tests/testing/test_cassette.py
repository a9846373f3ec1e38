"""Cassettes as servers: in every revision, with questions, progress and changes; and what is said of what is not on them."""

import json

import pytest

import mcplite
from mcplite import ClientOptions, errors
from mcplite.testing import Cassette, CassetteWriter
from mcplite.testing.cassette import differences
from tests.support.fakes import LIMIT

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
ASKING = REVISIONS[2:]


def make_server():
    server = mcplite.Server("shop", instructions="Buy tea.")
    stock = {"tea": 3}

    @server.tool()
    def take(article: str, ctx: mcplite.Context) -> int:
        """Take one article."""
        ctx.report_progress(1, total=2, message=f"looking for {article}")
        stock[article] -= 1
        return stock[article]

    @server.tool()
    def order(article: str, ctx: mcplite.Context) -> str:
        """Order an article in a size."""
        asked = ctx.elicit(f"Which size of {article}?", {"type": "object", "properties": {"size": {"type": "string"}}})
        return f"ordered {asked.content['size']}" if asked.accepted else "not ordered"

    @server.tool()
    def fails() -> str:
        """Fail."""
        raise mcplite.ToolError("sold out")

    @server.resource("stock://tea")
    def tea() -> str:
        """The stock."""
        return str(stock["tea"])

    return server


def size(value):
    return lambda asked: asked.accept({"size": value})


@pytest.fixture
def record(tmp_path):
    """Record what a function does with a client, and return the cassette."""
    def run(work, server=None, **options):
        path = run.path = tmp_path / "shop.jsonl"
        with CassetteWriter(path) as writer:
            recorded = ClientOptions(on_message=writer, cache=False)
            with mcplite.connect(server or make_server(), options=recorded, timeout=LIMIT, **options) as client:
                work(client)
        return Cassette(path)

    return run


def replayed(cassette, **options):
    return mcplite.connect(cassette, timeout=LIMIT, options=ClientOptions(cache=False), **options)


def visit(client):
    """Return what a client sees of a server."""
    reports = []
    found = [client.server_info, client.instructions, client.list_tools(), client.read_resource("stock://tea").contents]
    found += [client.call_tool("take", {"article": "tea"}, on_progress=reports.append).text for _ in range(2)]
    found += [client.call_tool("fails").is_error, [(one.progress, one.total, one.message) for one in reports]]
    return found


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_sees_the_recorded_server(record, revision):
    seen = []
    cassette = record(lambda client: seen.extend(visit(client)), revision=revision)
    assert cassette.revision == revision
    for options in ({"revision": revision}, {}):  # as it was recorded, and after a probe
        with replayed(cassette, **options) as client:
            assert client.protocol_version == revision
            assert visit(client) == seen
            assert client.call_tool("take", {"article": "tea"}).text == "1"  # the last answer again


@pytest.mark.parametrize("revision", ASKING)
def test_a_question_is_asked_again_and_its_answer_is_compared(record, revision):
    cassette = record(lambda client: client.call_tool("order", {"article": "tea"}), revision=revision,
                      elicitation_handler=size("L"))
    with replayed(cassette, revision=revision, elicitation_handler=size("L")) as client:
        assert client.call_tool("order", {"article": "tea"}).text == "ordered L"
    with replayed(cassette, revision=revision, elicitation_handler=size("S")) as client:
        with pytest.raises(errors.RemoteError, match=r"size is 'L' on the cassette, and 'S' here"):
            client.call_tool("order", {"article": "tea"})


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_changes_come_where_they_came(record, revision):
    server = make_server()

    @server.tool()
    def grow() -> str:
        server.add_tool(lambda: "new", name="new")
        return "added"

    def watch(client):
        with client.listen(tools=True) as events:
            client.call_tool("grow")
            return type(next(iter(events)))

    cassette = record(watch, server, revision=revision)
    with replayed(cassette, revision=revision) as client:
        assert watch(client) is mcplite.ToolsChanged


def test_a_request_that_is_not_there_gets_the_nearest(record):
    cassette = record(lambda client: [client.call_tool("take", {"article": "tea"}), client.call_tool("fails")])
    with replayed(cassette) as client:
        with pytest.raises(errors.InvalidParams, match="of take: arguments.article is 'tea' on the cassette, and 'gold' here"):
            client.call_tool("take", {"article": "gold"})
        with pytest.raises(errors.MethodNotFound, match="record prompts/list as well: .* has server/discover, tools/call"):
            client.request("prompts/list")
        assert client.call_tool("take", {"article": "tea"}).text == "2"  # goes on


@pytest.mark.parametrize("arguments", [{"count": 1}, {"article": None, "count": 1.0}])
def test_params_that_differ_in_no_value_are_told_apart_in_words(record, arguments):
    server = mcplite.Server("shop")
    server.add_tool(lambda **given: "", name="any", input_schema={"type": "object"})
    cassette = record(lambda client: client.call_tool("any", {"article": None, "count": 1}), server)
    with replayed(cassette) as client, pytest.raises(errors.InvalidParams, match="is null on one side .* written otherwise"):
        client.call_tool("any", arguments)


def test_a_client_of_another_era_is_told(record):
    cassette = record(lambda client: client.list_tools(), revision="2026-07-28")
    with pytest.raises(errors.MCPError, match="2026-07-28"):
        replayed(cassette, revision="2025-11-25").open()


def test_a_recording_that_ends_before_an_answer_says_so(tmp_path, record):
    path = tmp_path / "shop.jsonl"
    record(lambda client: client.call_tool("take", {"article": "tea"}), revision="2025-11-25")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with replayed(Cassette(path)) as client, pytest.raises(errors.RemoteError, match="ends before the answer"):
        client.call_tool("take", {"article": "tea"})


def test_a_request_with_a_secret_is_found_by_the_rest(record):
    server = make_server()

    @server.tool()
    def login(user: str, password: str) -> str:
        return f"welcome {user}"

    cassette = record(lambda client: client.call_tool("login", {"user": "Ann", "password": "first"}), server)
    with replayed(cassette) as client:
        assert client.call_tool("login", {"user": "Ann", "password": "second"}).text == "welcome Ann"


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_a_bridge_offers_what_was_used(record, revision):
    from mcplite.proxy.bridge import open_bridge

    def use(client):
        return client.call_tool("take", {"article": "tea"}).text, client.read_resource("stock://tea").contents[0].text

    record(use, revision=revision)
    cassette = Cassette(record.path, complete=True)
    with open_bridge(mcplite.connect(cassette, revision=revision), shared=False) as server, mcplite.serve(server) as http:
        for spoken in REVISIONS[1:]:
            with mcplite.connect(http.url, revision=spoken) as client:
                assert [tool.name for tool in client.list_tools()] == ["take"]
                assert use(client) == ("2", "2")


@pytest.mark.parametrize("text, message", [
    ("", "line 1 is no JSON"), ("[]", "line 1 is no object"), ('{"a": 1}', "its first line"),
    ('{"mcplite": "cassette", "version": 2}', "the version 2"),
    ('{"mcplite": "cassette", "version": 1}\n{"at": 1,', "line 2 is no JSON"),
])
def test_a_file_that_is_no_cassette(tmp_path, text, message):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Cassette(path)


#: Values in the places of a message where others are expected.
ODD = [None, 5, "text", [], [1], {}, {"a": {"b": [None]}}, True]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_messages_in_a_file_and_from_a_client_end_nothing(tmp_path, value):
    from mcplite.rpc.channels import MemoryChannel

    shapes = [
        value, {"method": value}, {"id": value, "result": value}, {"id": value, "method": "tools/call", "params": value},
        {"id": 1, "method": "tools/call", "params": {"_meta": value, "arguments": value, "name": value}},
        {"method": "notifications/cancelled", "params": value},
        {"method": "notifications/progress", "params": {"_meta": value}},
        {"id": 2, "method": "subscriptions/listen", "params": value}]
    path = tmp_path / "a.jsonl"
    CassetteWriter(path).close()
    with open(path, "a", encoding="utf-8") as file:
        for sender in ("client", "server", value):
            for message in shapes:
                file.write(json.dumps({"at": value, "from": sender, "connection": value, "message": message}) + "\n")
    ours, theirs = MemoryChannel.pair()
    Cassette(path, complete=True).serve_channel(theirs)
    for message in shapes:
        ours.write(json.dumps(message).encode())
    ours.write(b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}')
    while json.loads(ours.read(LIMIT)).get("id") != "last":
        continue
    ours.close()


@pytest.mark.parametrize("sent, code", [
    (b"no json", -32700), (b"[1]", -32600), (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 5}', -32601)])
def test_what_is_no_request_is_refused_and_the_rest_goes_on(tmp_path, sent, code):
    from mcplite.rpc.channels import MemoryChannel

    path = tmp_path / "a.jsonl"
    CassetteWriter(path).close()
    ours, theirs = MemoryChannel.pair()
    Cassette(path).serve_channel(theirs)
    ours.write(sent)
    assert json.loads(ours.read(LIMIT))["error"]["code"] == code
    ours.write(b'{"jsonrpc": "2.0", "id": "p", "method": "ping"}')
    assert json.loads(ours.read(LIMIT)) == {"jsonrpc": "2.0", "id": "p", "result": {}}
    ours.close()


def test_differences_name_the_innermost_places():
    found = differences({"a": [1, {"b": True}], "c": 1}, {"a": [1, {"b": 1}], "d": 2})
    assert [tuple(one) for one in found] == [("a[1].b", True, 1), ("c", 1, None), ("d", None, 2)]
    assert not list(differences({"a": 1}, {"a": 1.0}))
    assert [one.place for one in differences([1], [1, 2])] == ["it"]
