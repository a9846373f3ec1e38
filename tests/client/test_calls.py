"""Resources, prompts, completion and log levels.

Calls of tools: arguments, results, structured results and their schemas.

What every call goes through: pages of lists, with their deadline and their options.
"""

import dataclasses
import datetime
import decimal
import enum
import json
import logging
import pathlib
import threading
import uuid

import pytest

import mcplite
from mcplite import revisions
from mcplite.client.calls import walk
from mcplite.errors import ProtocolError, RequestTimeout, ResourceNotFound
from mcplite.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ListPromptsResult,
    Prompt,
    ResourceLink,
    TextContent,
    TextResourceContents,
    UnknownContent,
)
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal

LEGACY = [revision.name for revision in revisions.LEGACY]
STRUCTURED = [revision.name for revision in revisions.LEGACY if revision.structured_output]


# --- resources ---------------------------------------------------------------------------------------------------


def test_a_resource_is_read():
    contents = [{"uri": "a://b", "text": "one"}, {"uri": "a://b/c", "blob": "dHdv", "mimeType": "text/plain"}]
    with Fake({"resources/read": {"contents": contents}}) as fake, fake.connect() as client:
        result = client.read_resource("a://b")
        assert result.text == "one" and result.contents[1].bytes == b"two"
        assert fake.got("resources/read")["params"] == {"uri": "a://b"}


def test_a_template_is_read_with_arguments():
    template = "weather://{city}/history{?year,all}"
    with Fake({"resources/read": {"contents": []}}) as fake, fake.connect() as client:
        for arguments, uri in (({"city": "Rom, IT"}, "weather://Rom%2C%20IT/history"),
                               ({"city": "Rome", "year": 2026, "all": True}, "weather://Rome/history?year=2026&all=true")):
            client.read_resource(template, arguments)
            assert fake.sent[-1]["params"] == {"uri": uri}
        for arguments, text in (({}, "needs a value for 'city'"), ({"city": ""}, "needs a value for 'city'"),
                                ({"city": "Rome", "yaer": 1}, "has no variable 'yaer'; it has 'city', 'year', 'all'")):
            with pytest.raises(ValueError, match=text):
                client.read_resource(template, arguments)
        assert fake.methods().count("resources/read") == 2


@pytest.mark.parametrize("code, data, uri",
                         [(-32002, {"uri": "a://x"}, "a://x"), (-32602, None, "a://b"), (-32002, None, None)])
def test_both_error_codes_mean_a_missing_resource(code, data, uri):
    with Fake({"resources/read": Refusal(code, "gone", data)}) as fake, fake.connect() as client:
        with pytest.raises(ResourceNotFound) as caught:
            client.read_resource("a://b")  # RSRC-18
        assert caught.value.code == code and caught.value.received and caught.value.uri == uri


def test_other_errors_of_reading_are_raised_unchanged():
    with Fake({"resources/read": Refusal(-32603, "broken")}) as fake, fake.connect() as client:
        with pytest.raises(mcplite.errors.InternalError):
            client.read_resource("a://b")


def test_subscribe_then_read_on_update():
    heard, uris = threading.Event(), []
    with Fake({"resources/read": {"contents": [{"uri": "a://b", "text": "new"}]}}) as fake:
        client = fake.connect(on_resource_updated=lambda uri: (uris.append(client.read_resource(uri).text), heard.set()))
        with client:
            client.subscribe_resource("a://b")
            assert fake.got("resources/subscribe")["params"] == {"uri": "a://b"}
            fake.tell("notifications/resources/updated", {"uri": "a://b"})
            assert heard.wait(LIMIT) and uris == ["new"]  # NS-15
            client.unsubscribe_resource("a://b")
            assert fake.got("resources/unsubscribe")["params"] == {"uri": "a://b"}


# --- prompts and completion -----------------------------------------------------------------------------------------


def test_arguments_of_prompts_become_strings():
    with Fake({"prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}}) as fake:
        with fake.connect() as client:
            result = client.get_prompt("p", {"a": "x", "b": 3, "c": True, "d": 1.5, "e": [1, "\u00e9"], "f": None})
            assert result.messages[0].content.text == "hi"
            assert fake.got("prompts/get")["params"] == {"name": "p", "arguments": {
                "a": "x", "b": "3", "c": "true", "d": "1.5", "e": '[1, "\u00e9"]', "f": "null"}}  # PRMT-17
            client.get_prompt("p")
            assert fake.got("prompts/get", 2)["params"] == {"name": "p", "arguments": {}}
            with pytest.raises(TypeError):
                client.get_prompt("p", {"a": object()})


@pytest.mark.parametrize("version", LEGACY)
def test_completion_in_each_revision(version):
    answer = {"completion": {"values": ["Rome", "Rouen"], "total": 5, "hasMore": True}}
    with Fake({"completion/complete": answer}, version=version) as fake, fake.connect() as client:
        result = client.complete(prompt="briefing", argument="city", value="Ro", context={"country": "IT"})
        assert result.values == ["Rome", "Rouen"] and result.completion.total == 5 and result.completion.has_more
        params = fake.got("completion/complete")["params"]
        assert params["ref"] == {"type": "ref/prompt", "name": "briefing"}
        assert params["argument"] == {"name": "city", "value": "Ro"}
        # COMP-06
        assert params.get("context") == ({"arguments": {"country": "IT"}} if version in STRUCTURED else None)
        client.complete(resource="a://{x}", argument="x", value="")
        assert fake.got("completion/complete", 2)["params"]["ref"] == {"type": "ref/resource", "uri": "a://{x}"}


def test_completion_needs_one_reference():
    with Fake() as fake, fake.connect() as client:
        for wrong in ({}, {"prompt": "p", "resource": "r"}):
            with pytest.raises(ValueError, match="prompt= or resource="):
                client.complete(argument="a", value="", **wrong)


def test_revisions_without_the_capability_may_try_to_complete():
    with Fake(version=LEGACY[0], capabilities={}) as fake, fake.connect() as client:
        assert client.complete(prompt="p", argument="a", value="").values == []  # COMP-02
    with Fake(version=LEGACY[1]) as fake, fake.connect() as client, pytest.raises(mcplite.errors.MethodNotFound):
        client.complete(prompt="p", argument="a", value="")


def test_a_level_is_set():
    with Fake() as fake, fake.connect() as client:
        client.set_log_level("warning")
        assert fake.got("logging/setLevel")["params"] == {"level": "warning"}  # LOG-03


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def tool(name="count", **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


# --- tools ---------------------------------------------------------------------------------------------


def test_every_kind_of_content_becomes_an_object():
    content = [
        {"type": "text", "text": "hello"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "a://b", "name": "b"},
        {"type": "resource", "resource": {"uri": "a://c", "text": "c"}},
        {"type": "video", "frames": [1]},
        {"type": "text", "text": "world", "annotations": {"priority": 1}, "com.example": 1},
    ]
    with Fake({"tools/call": {"content": content, "_meta": {"a": 1}, "new": True}}) as fake, fake.connect() as client:
        result = client.call_tool("show")
        assert [type(item) for item in result.content] == [
            TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent, TextContent]
        assert result.text == "hello\nworld" and result.content[1].bytes == b"hi"
        assert result.content[5].raw == {"type": "video", "frames": [1]}  # TOOL-24
        assert result.content[6].extra == {"com.example": 1}  # RPC-20
        assert result.meta == {"a": 1} and result.extra == {"new": True}
        assert result.raise_for_error() is result
        assert isinstance(result.content[4].resource, TextResourceContents)


@pytest.mark.parametrize("arguments, sent", [(None, {}), ({}, {}), ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})])
def test_arguments_arrive_unchanged(arguments, sent):
    with Fake({"tools/call": {"content": []}}) as fake, fake.connect() as client:
        client.call_tool("x", arguments)
        assert fake.got("tools/call")["params"] == {"name": "x", "arguments": sent}  # TOOL-20


@dataclasses.dataclass
class Note:
    due: datetime.date
    kind: enum.Enum


@pytest.mark.parametrize("revision", ["2025-11-25", None])
def test_arguments_that_are_not_json_are_sent_in_the_form_that_results_have(revision):
    server = mcplite.Server("notes")

    @server.tool
    def add(note: dict, numbers: list) -> list:
        return [note, numbers]

    with mcplite.connect(server, revision=revision) as client:
        note = Note(datetime.date(2027, 1, 1), enum.Enum("Kind", {"URGENT": "urgent"}).URGENT)
        numbers = [uuid.UUID(int=1), pathlib.PurePosixPath("a/b"), decimal.Decimal("1.50")]
        assert json.loads(client.call_tool("add", {"note": note, "numbers": numbers}).text) == [
            {"due": "2027-01-01", "kind": "urgent"}, [str(uuid.UUID(int=1)), "a/b", "1.50"]]


def test_arguments_may_be_any_mapping():
    with Fake({"tools/call": {"content": []}}) as fake, fake.connect() as client:
        from types import MappingProxyType
        client.call_tool("x", MappingProxyType({"a": 1}))
        assert fake.got("tools/call")["params"]["arguments"] == {"a": 1}
        for wrong in ([1], [("a", 1)], "a", 3):
            with pytest.raises(TypeError, match="the arguments of the tool 'x' must be a dict"):
                client.call_tool("x", wrong)
        with pytest.raises(TypeError, match="'tools/call' was not sent to .*: a value of the class object cannot be"):
            client.call_tool("x", {"a": object()})
        assert fake.methods().count("tools/call") == 1


def test_a_tool_error_is_a_result_and_a_refused_call_an_error():
    def call(params):
        if params["name"] == "fails":
            return {"content": [{"type": "text", "text": "no such city"}], "isError": True}
        raise Refusal(-32602, "Unknown tool: nothing")

    with Fake({"tools/call": call}) as fake, fake.connect() as client:
        result = client.call_tool("fails")
        assert result.is_error  # TOOL-45
        with pytest.raises(mcplite.ToolError, match="no such city"):
            result.raise_for_error()
        with pytest.raises(mcplite.errors.InvalidParams, match="Unknown tool"):
            client.call_tool("nothing")


def test_each_call_is_in_the_log_without_its_arguments(caplog):
    caplog.set_level(logging.INFO)
    with Fake({"tools/call": {"content": []}}) as fake, fake.connect() as client:
        client.call_tool("login", {"pin": "31415926"})
    assert "calling the tool 'login'" in caplog.text and "31415926" not in caplog.text  # TOOL-50


@pytest.mark.parametrize("answer", [{"content": {}}, {"content": [{"type": "text"}]}, {"content": ["x"]},
                                    {"content": [], "isError": "yes"}])
def test_an_invalid_result_names_server_and_method(answer):
    with Fake({"tools/call": answer}) as fake, fake.connect() as client:
        with pytest.raises(ProtocolError, match="the fake server answered 'tools/call' with an invalid result"):
            client.call_tool("x")
        client.ping()


@pytest.mark.slow
def test_a_client_may_raise_for_each_tool_that_fails():
    mcp = mcplite.Server("strict")

    @mcp.tool()
    def half(n: int) -> int:
        if n % 2:
            raise mcplite.ToolError(f"{n} is odd")
        return n // 2

    with mcplite.connect(mcp, options=mcplite.ClientOptions(raise_for_error=True)) as client:
        assert client.call_tool("half", {"n": 4}).text == "2"
        with pytest.raises(mcplite.ToolError, match="3 is odd"):
            client.call_tool("half", {"n": 3})
    with mcplite.connect(mcp) as client:
        assert client.call_tool("half", {"n": 3}).is_error


def test_url_elicitations_that_are_required_are_a_typed_error():
    wanted = [{"mode": "url", "message": "Sign in", "url": "https://example.com/a", "elicitationId": "e1"}]
    notified, ids = threading.Event(), []
    with Fake({"tools/call": Refusal(-32042, "Sign in first", {"elicitations": wanted})}) as fake:
        with fake.connect(on_elicitation_complete=lambda id: (ids.append(id), notified.set())) as client:
            with pytest.raises(mcplite.errors.UrlElicitationRequired) as caught:
                client.call_tool("x")
            assert caught.value.urls == wanted  # URLE-14
            fake.tell("notifications/elicitation/complete", {"elicitationId": "other"})  # URLE-08
            fake.tell("notifications/elicitation/complete", {"elicitationId": "e1"})
            assert notified.wait(LIMIT) and ids == ["e1"]


# --- structured results -------------------------------------------------------------------------------------


def promising(result, **options):
    answers = {"tools/list": {"tools": [tool(outputSchema=NUMBER), tool("plain")]}, "tools/call": result}
    return Fake(answers, **options)


def test_a_result_that_fits_its_schema_is_returned():
    with promising({"content": [], "structuredContent": {"n": 1}}) as fake, fake.connect() as client:
        client.list_tools()
        assert client.call_tool("count").structured_content == {"n": 1}


@pytest.mark.parametrize("version", STRUCTURED)
@pytest.mark.parametrize("result, text", [
    ({"content": [], "structuredContent": {"n": "one"}}, "'one'"),
    ({"content": [], "structuredContent": {}}, "'n'"),
    ({"content": []}, "structuredContent"),
])
def test_a_result_that_does_not_fit_is_an_error_that_names_the_tool(result, text, version):
    with promising(result, version=version) as fake, fake.connect() as client:
        client.list_tools()
        with pytest.raises(ProtocolError) as caught:
            client.call_tool("count")  # TOOL-38, TOOL-44
        assert "'count'" in str(caught.value) and text in str(caught.value) and "fake server" in str(caught.value)
        client.call_tool("plain")


@pytest.mark.parametrize("revision", [revision.name for revision in revisions.REVISIONS if revision.structured_output])
@pytest.mark.parametrize("declared, anything", [
    ({"type": "object", "properties": []}, {}), ({"type": "array"}, []), ({}, []), (None, [])])
def test_an_empty_array_is_an_empty_object_where_an_object_is_due(declared, anything, revision):
    # PHP writes both in this way.
    known = revisions.find_revision(revision)
    common = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": []}
    empty = {"type": "object", "properties": []}
    answers = {"tools/list": {**common, "tools": [{"name": "count", "inputSchema": empty, "outputSchema": declared}]},
               "tools/call": {**common, "content": [], "structuredContent": []},
               "server/discover": {**common, "supportedVersions": [revision], "capabilities": {"tools": []}}}
    fitting = declared != {"type": "array"} or not known.object_output_only
    with Fake(answers, version=revision) as fake, fake.connect(revision=revision, validate=fitting) as client:
        assert client.list_tools()[0].input_schema == {"type": "object", "properties": {}}
        assert client.call_tool("count").structured_content == ({} if known.object_output_only else anything)
        assert client.call_tool("count").meta == {}


def test_checks_can_be_left_out():
    with promising({"content": [], "structuredContent": {"n": "one"}}) as fake, fake.connect(validate=False) as client:
        client.list_tools()
        client.call_tool("count")


@pytest.mark.parametrize("version", [name for name in LEGACY if name not in STRUCTURED])
def test_before_june_2025_there_are_no_output_schemas(version):
    with promising({"content": []}, version=version) as fake, fake.connect() as client:
        client.list_tools()
        client.call_tool("count")


def test_schemas_are_forgotten_when_the_list_changes():
    heard = threading.Event()
    with promising({"content": [], "structuredContent": {"n": "one"}}) as fake:
        with fake.connect(on_tools_changed=heard.set) as client:
            client.list_tools()
            fake.tell("notifications/tools/list_changed")
            assert heard.wait(LIMIT)
            client.call_tool("count")


# --- any request and notification ---------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [[], ["x"], "x", b"x", 0, 1.5, False, ("x",), {"x"}, {"_meta": None}, {"_meta": ["x"]}])
@pytest.mark.parametrize("revision", [revision.name for revision in revisions.REVISIONS])
def test_params_that_are_no_object_are_not_sent(revision, params):
    mcp = mcplite.Server("shop")
    came = []
    mcp.add_method("acme/count", lambda params, ctx: came.append(params) or {})
    mcp.add_notification("notifications/acme/counted", lambda params, session: came.append(params))
    with mcplite.connect(mcp, revision=revision) as client:
        for send, method in ((client.request, "acme/count"), (client.notify, "notifications/acme/counted")):
            with pytest.raises(TypeError, match=f"params of '{method}' must be a dict, not"):
                send(method, params)
            for wrong in (None, "", 3, b"acme/count"):
                with pytest.raises(TypeError, match="the method is a text such as 'tools/list', not"):
                    send(wrong, {})
        assert client.request("acme/count", {"n": 1}) is not None and client.request("acme/count") is not None
    assert len(came) == 2


# --- lists ---------------------------------------------------------------------------------------------------

LISTS = [
    ("tools", "tools/list", "tools", lambda name: tool(name)),
    ("resources", "resources/list", "resources", lambda name: {"name": name, "uri": f"a://{name}"}),
    ("resource_templates", "resources/templates/list", "resourceTemplates",
     lambda name: {"name": name, "uriTemplate": f"a://{name}/{{x}}"}),
    ("prompts", "prompts/list", "prompts", lambda name: {"name": name}),
]


@pytest.mark.parametrize("kind, method, member, make", LISTS, ids=[row[0] for row in LISTS])
def test_lists_come_from_all_pages(kind, method, member, make):
    # PAGE-01, PAGE-02, PAGE-03, PAGE-05, PAGE-06, PAGE-11
    pages = {None: (["a", "b"], ""), "": ([], "\u2603 =&"), "\u2603 =&": (["c"], None)}

    def listing(params):
        names, cursor = pages[(params or {}).get("cursor")]
        return {member: [make(name) for name in names], "nextCursor": cursor}

    with Fake({method: listing}) as fake, fake.connect() as client:
        assert [item.name for item in getattr(client, f"list_{kind}")()] == ["a", "b", "c"]
        page = getattr(client, f"list_{kind}_page")()
        assert [item.name for item in getattr(page, kind)] == ["a", "b"] and page.next_cursor == ""
        page = getattr(client, f"list_{kind}_page")("\u2603 =&")
        assert [item.name for item in getattr(page, kind)] == ["c"] and page.next_cursor is None
        assert fake.got(method).get("params") is None and fake.got(method, 2)["params"] == {"cursor": ""}


@pytest.mark.parametrize("kind, method, member, make", LISTS, ids=[row[0] for row in LISTS])
def test_a_list_without_an_end_is_an_error(kind, method, member, make):
    with Fake({method: {member: [], "nextCursor": "again"}}) as fake, fake.connect() as client:
        with pytest.raises(ProtocolError, match="'again' twice"):
            getattr(client, f"list_{kind}")()  # PAGE-12
        assert fake.methods().count(method) == 2


def test_all_pages_together_have_one_deadline():
    numbers, never = iter(range(10_000)), threading.Event()

    def slow(params):
        never.wait(0.05)
        return {"tools": [], "nextCursor": str(next(numbers))}

    with Fake({"tools/list": slow}) as fake, fake.connect() as client:
        with pytest.raises(RequestTimeout, match=r"all pages of its tools came within 0[.]5 s \(max_timeout\)"):
            client.list_tools(max_timeout=0.5)  # TIME-01
        assert 1 < fake.methods().count("tools/list") < 100


def test_no_page_is_requested_after_the_deadline():
    def late(method, params, proceed):
        result = proceed()
        threading.Event().wait(0.4)
        return result

    with Fake({"tools/list": {"tools": [], "nextCursor": "x"}}) as fake, fake.connect(middleware=[late]) as client:
        with pytest.raises(RequestTimeout, match="all pages of its tools"):
            client.list_tools(max_timeout=0.2)
        assert fake.methods().count("tools/list") == 1


def test_a_list_may_have_no_deadline():
    pages = {None: {"tools": [], "nextCursor": "x"}, "x": {"tools": [tool("last")]}}
    with Fake({"tools/list": lambda params: pages[(params or {}).get("cursor")]}) as fake, fake.connect() as client:
        assert [item.name for item in client.list_tools(timeout=None, max_timeout=None)] == ["last"]


def test_options_reach_every_page():
    with Fake({"tools/list": lambda params: SILENCE}) as fake, fake.connect() as client:
        with pytest.raises(RequestTimeout):
            client.list_tools(timeout=0.1)
        token = mcplite.CancelToken()
        token.cancel()
        with pytest.raises(mcplite.Cancelled):
            client.list_tools(cancel=token)


@pytest.mark.parametrize("kind, method, member, make", LISTS, ids=[row[0] for row in LISTS])
def test_invalid_items_are_left_out_and_counted(kind, method, member, make, caplog):
    items = [make("good"), {}, None, {**make("bad"), "name": 3}, make("fine")]
    with Fake({method: {member: items, "nextCursor": "x", "_meta": {"m": 1}, "more": 1}}) as fake, fake.connect() as client:
        page = getattr(client, f"list_{kind}_page")()
        assert [item.name for item in getattr(page, kind)] == ["good", "fine"]  # SEC-67
        assert page.next_cursor == "x" and page.meta == {"m": 1} and page.extra == {"more": 1}
    assert f"3 of the {kind.replace('_', ' ')}" in caplog.text and "fake server" in caplog.text


@pytest.mark.parametrize("kind, method, member, make", LISTS, ids=[row[0] for row in LISTS])
def test_an_invalid_page_is_an_error(kind, method, member, make):
    for wire in ({}, {member: {}}, {member: None}, {member: [make("a")], "nextCursor": 3}, {member: [{}], "nextCursor": {}}):
        with Fake({method: wire}) as fake, fake.connect() as client, pytest.raises(ProtocolError):
            getattr(client, f"list_{kind}_page")()


def pages(*rows):
    """Return a function of a cursor: the first row, or the one after the row with that cursor."""
    asked = []

    def page(cursor):
        asked.append(cursor)
        number = 0 if cursor is None else [row[1] for row in rows].index(cursor) + 1
        names, following = rows[number]
        return ListPromptsResult([Prompt(name) for name in names], following)

    page.asked = asked
    return page


@pytest.mark.parametrize("first", [[(["a", "b"], "")], [([], "")], [(["x"], "1"), (["a", "b"], "")]])
def test_an_empty_cursor_that_leads_to_the_same_page_ends_the_list(first):
    # as servers in Go send it whose type has no "omitempty"
    page = pages(*first, (first[-1][0], ""))
    assert [item.name for item in walk(page, "prompts", "it")] == [name for names, _ in first for name in names]


def test_an_empty_cursor_that_leads_to_other_pages_for_ever_is_an_error():
    with pytest.raises(ProtocolError, match="it gave the cursor '' twice"):
        walk(pages((["a"], ""), (["b"], "")), "prompts", "it")


@pytest.mark.parametrize("items, text, pages", [(0, "1000 pages.*list_prompts_page", 1000), (3000, "10000 prompts", 4)])
def test_pages_and_items_are_bounded(items, text, pages):
    count = 0

    def page(cursor):
        nonlocal count
        count += 1
        return ListPromptsResult([Prompt("x")] * items, str(count))

    with pytest.raises(ProtocolError, match=text):
        walk(page, "prompts", "it")
    assert count == pages
