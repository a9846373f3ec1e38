"""The official SDK as a client of ``everything.py``; prints what it saw as one JSON object.

    python official_client.py TARGET [auto|legacy|REVISION] [STEP ...]
    python official_client.py URL begin | resume SESSION REVISION EVENT

TARGET is the Python to start the server with, or a URL; one that ends in /sse is for HTTP+SSE. Runs in an
environment with ``mcp`` 1 or 2. A revision makes it ask for that one in the handshake, or speak it without one.
What is in the report is as on the wire, as far as the SDK's types keep it; an error is {"code", "message", "data"}.

Without a handshake it is the SDK's ``Client`` that is tried, since it answers questions and keeps results; with one
its ``ClientSession``, which both generations have.

``begin`` calls a tool that works for long, prints session, revision and last event, and waits to be killed;
``resume`` goes on with that call.
"""

import json
import os
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import anyio
import mcp.types as types
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import ClientMessageMetadata
from pydantic import AnyUrl

FIRST = version("mcp").startswith("1.")
if FIRST:
    from mcp import McpError as MCPError
    MODERN = ()
else:
    from mcp import Client, MCPError
    from mcp.client.subscriptions import ResourceUpdated
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS as MODERN

EVERYTHING = Path(__file__).with_name("everything.py")
ROOTS = [{"uri": "file:///srv/data", "name": "data"}]

#: What the client answers to the next question, and what it was asked.
answers = {"elicit": {"action": "accept", "content": {}}}
asked = {"elicit": [], "sample": [], "roots": 0}
logs = []
notices = []
new_notice = anyio.Event()


def plain(value):
    """Return a model of the SDK as JSON data."""
    # What the other side did not send is left out, such as defaults of revisions that it does not speak.
    return getattr(value, "root", value).model_dump(by_alias=True, mode="json", exclude_unset=True)


async def elicit(context, params):
    asked["elicit"].append(plain(params))
    return types.ElicitResult.model_validate(answers["elicit"])


async def sample(context, params):
    asked["sample"].append(plain(params))
    if asked["sample"][-1].get("tools") and len(asked["sample"][-1]["messages"]) == 1:
        return types.CreateMessageResultWithTools.model_validate({
            "role": "assistant", "model": "test-model", "stopReason": "toolUse",
            "content": [{"type": "text", "text": "Let me see."},
                        {"type": "tool_use", "id": "use-1", "name": "clock", "input": {"place": "Rome"}}]})
    return types.CreateMessageResult.model_validate({
        "role": "assistant", "model": "test-model", "stopReason": "endTurn",
        "content": {"type": "text", "text": "It is late."}})


async def roots(context):
    asked["roots"] += 1
    return types.ListRootsResult.model_validate({"roots": ROOTS})


async def log(params):
    logs.append(plain(params))


async def notice(message):
    global new_notice
    if not isinstance(message, Exception) and hasattr(getattr(message, "root", message), "method"):
        notices.append(plain(message))
        new_notice.set()
        new_notice = anyio.Event()


async def noticed(method, uri=None):
    """Wait for a notification of this method that has not been waited for."""
    with anyio.move_on_after(20):
        while True:
            for item in notices:
                if item["method"] == method and (uri is None or item["params"]["uri"] == uri):
                    notices.remove(item)
                    return True
            await new_notice.wait()
    return False


def transport(target):
    """Return what ``async with`` makes a pair of streams of."""
    if not target.startswith("http:"):
        return stdio_client(parameters(target))
    return sse_client(target) if target.endswith("/sse") else streamable_http_client(target)


def parameters(python):
    """Return how the server is started."""
    environment = {key: os.environ[key] for key in ("WIRE_REPORT", "MCPLITE_SCHEMAS") if key in os.environ}
    return StdioServerParameters(command=python, args=[str(EVERYTHING)], env=environment)


@asynccontextmanager
async def connected(target, mode):
    """Give a session that is ready, what the server said of itself, and the client around it, if any."""
    capability = types.SamplingCapability.model_validate({"tools": {}, "context": {}})
    options = {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots,
               "logging_callback": log, "message_handler": notice, "sampling_capabilities": capability,
               "client_info": types.Implementation(name="official", version=version("mcp"))}
    if mode == "auto" or mode in MODERN:
        # It knows what to do with a URL, or a command.
        server = (transport(target) if target.endswith("/sse") else target if target.startswith("http:")
                  else parameters(target))
        async with Client(server, mode=mode, log_level="error", **options) as client:
            if client.protocol_version not in MODERN:
                yield client.session, plain(client.session.initialize_result), None
                return
            if mode == "auto":
                found = plain(client.session.discover_result)
            else:  # it sends no discovery
                found = await client.session.send_discover(mode)
            yield client.session, {"protocolVersion": client.protocol_version, **found}, client
        return
    if mode != "legacy":
        # The SDK has no option for it.
        if FIRST:
            types.LATEST_PROTOCOL_VERSION = mode
        else:
            import mcp.client.session

            mcp.client.session.LATEST_HANDSHAKE_VERSION = mode
    async with transport(target) as streams, ClientSession(*streams[:2], **options) as session:
        yield session, plain(await session.initialize()), None


class Trial:
    """Goes through everything with one session.

    :param client: around it, where there is no handshake.
    """

    def __init__(self, session, client):
        self.session = session
        self.client = client
        #: What calls, reads and gets: a client answers what the server asks before it goes on.
        self.asker = client or session
        self.report = {}

    async def attempt(self, name, coroutine):
        """Note what came of an awaitable under *name*: a result, or an error."""
        try:
            value = await coroutine
            self.report[name] = plain(value) if hasattr(value, "model_dump") else value
        except MCPError as error:
            self.report[name] = plain(error.error)
        except Exception as error:
            self.report[name] = {"exception": f"{type(error).__name__}: {error}"}
        return self.report[name]

    async def call(self, name, key=None, **arguments):
        with anyio.fail_after(60):
            return await self.attempt(key or name, self.asker.call_tool(name, arguments))

    async def pages(self, key, method, member):
        """List all pages; keep the entries, and how many pages there were."""
        entries, cursor, pages = [], None, 0
        while True:
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = plain(await method(params=params))
            entries += page[member]
            pages += 1
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        self.report[key] = entries
        self.report[key + "_pages"] = pages

    async def lists(self):
        session = self.session
        await self.pages("tools", session.list_tools, "tools")
        await self.pages("resources", session.list_resources, "resources")
        await self.pages("templates", session.list_resource_templates, "resourceTemplates")
        await self.pages("prompts", session.list_prompts, "prompts")
        await self.attempt("bad_cursor", session.list_tools(params=types.PaginatedRequestParams(cursor="no such page")))

    async def results(self):
        await self.call("echo", text="hällo\u2028wörld \U0001f642")
        await self.call("add", a=2, b=40)
        await self.call("forecast", city="Rome", days=2)
        for name in ("point", "nothing", "image", "audio", "link", "embedded", "mixed", "complete_result", "broken_promise"):
            await self.call(name)
        await self.call("raw", n=8)
        await self.call("raw", key="raw_refused", n=7)
        await self.call("echo", key="big", text="x" * 300_000)
        self.report["big"] = len(self.report["big"]["content"][0]["text"])

    async def errors(self):
        await self.call("fail", key="fail_tool", how="tool")
        await self.call("fail", key="fail_protocol", how="protocol")
        await self.call("fail", key="fail_other", how="otherwise")
        await self.call("no_such_tool")
        await self.call("add", key="bad_arguments", a="many")
        await self.call("must_visit")

    async def work(self):
        session = self.session
        seen = []

        async def progress(done, total, message):
            seen.append([done, total, message])

        await self.attempt("count", session.call_tool("count", {"to": 5}, progress_callback=progress))
        self.report["progress"] = seen[:]
        # More than the server keeps for a client that does not read.
        await self.attempt("count_far", session.call_tool("count", {"to": 1000}, progress_callback=progress))
        if self.client is None:
            await self.attempt("set_level", session.set_logging_level("error"))
        await self.attempt("ping", session.send_ping())
        await self.call("write_log")
        self.report["logs"] = list(logs)
        await self.cancel()
        begun = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(session.call_tool, "sleep", {"seconds": 0.5})
        self.report["eight_sleeps"] = anyio.current_time() - begun
        await self.crowd()

    async def crowd(self):
        # More calls at once than the server runs.
        slept = []

        async def sleep():
            slept.append(await self.session.call_tool("sleep", {"seconds": 0.1}))

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(sleep)
        self.report["crowd"] = sum(plain(result)["content"][0]["text"] == "0.1" for result in slept)

    async def cancel(self):
        started = anyio.Event()

        async def progress(done, total, message):
            started.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: self.session.call_tool("wait_to_be_cancelled", {}, progress_callback=progress))
            with anyio.fail_after(20):
                await started.wait()
            if FIRST:  # it leaves this to its user
                await self.session.send_notification(types.ClientNotification(types.CancelledNotification.model_validate({
                    "method": "notifications/cancelled",
                    "params": {"requestId": self.session._request_id - 1, "reason": "the test says so"}})))
            tasks.cancel_scope.cancel()
        await self.call("was_cancelled")

    async def questions(self):
        await self.call("who")
        answers["elicit"] = {"action": "accept", "content": {"name": "Ada", "guests": 2, "window": False}}
        await self.call("book")
        for action in ("decline", "cancel"):
            answers["elicit"] = {"action": action}
            await self.call("book", key=f"book_{action}")
        for form, choice in (("enum", "green"), ("titled", "g"), ("names", "g"), ("several", ["red", "green"]),
                             ("several_titled", ["g"])):
            answers["elicit"] = {"action": "accept", "content": {"choice": choice}}
            await self.call("choose", key=f"choose_{form}", form=form)
        answers["elicit"] = {"action": "accept", "content": {"choice": "purple"}}
        await self.call("choose", key="choose_badly", form="enum")
        answers["elicit"] = {"action": "accept", "content": {"ok": True}}
        await self.call("delete", path="notes.txt")
        await self.call("wizard")
        answers["elicit"] = {"action": "decline"}
        await self.call("delete", key="delete_declined", path="notes.txt")
        await self.call("must_visit", key="must_visit_declined")
        answers["elicit"] = {"action": "accept"}
        await self.call("visit")
        self.report["completed"] = (await noticed("notifications/elicitation/complete") if self.client is None
                                    and not {"isError", "code"} & set(self.report["visit"]) else None)
        self.report["asked"] = asked["elicit"]
        await self.call("ask_model")
        await self.call("ask_model_with_tools")
        self.report["sampled"] = asked["sample"]
        await self.call("list_roots")
        await self.call("list_roots", key="list_roots_again")
        self.report["roots_asked"] = asked["roots"]
        if self.client is None:
            await self.session.send_roots_list_changed()
            await self.call("roots_have_changed")
            await self.call("list_roots")
            self.report["roots_asked_after_change"] = asked["roots"]

    async def asking(self):
        """Questions one after another and at once, and those of prompts and resources."""
        answers["elicit"] = {"action": "accept", "content": {"ok": True}}
        seen = []

        async def progress(done, total, message):
            seen.append(done)

        await self.attempt("interview", self.asker.call_tool("interview", {}, progress_callback=progress))
        self.report["interview_progress"] = seen
        await self.call("survey")
        wrap = AnyUrl if FIRST else str
        await self.attempt("diary", self.asker.read_resource(wrap("diary://monday")))
        answers["elicit"] = {"action": "accept", "content": {"name": "Ada"}}
        await self.attempt("personal", self.asker.get_prompt("personal", {"greeting": "Dear"}))

    async def caching(self):
        """Read what may be kept, twice, and once more past what was kept."""
        wrap = AnyUrl if FIRST else str

        async def read(**options):
            result = await self.asker.read_resource(wrap("counted://reads"), **options)
            self.report["counted"] = plain(result)
            return result.contents[0].text

        self.report["counts"] = [await read(), await read(),
                                 await read(**({"cache_mode": "refresh"} if self.client is not None else {}))]
        self.report["tools_page"] = plain(await self.session.list_tools())

    async def headers(self):
        """Call a tool whose parameters travel in headers, before it is listed and when it is."""
        await self.call("locate", key="locate_unlisted", region="Bern", floor=2)
        await self.call("locate", region="Zürich", floor=-1, open=False, note="plain")

    async def resources(self):
        session = self.session
        wrap = AnyUrl if FIRST else str
        for key, uri in (("settings", "config://settings"), ("pixel", "picture://pixel"), ("bundle", "bundle://all"),
                         ("note", "notes://one"), ("history", "weather://Rome/history?year=1999"),
                         ("no_note", "notes://none"), ("no_resource", "nowhere://at/all")):
            await self.attempt(key, session.read_resource(wrap(uri)))
        if self.client is not None:
            await self.listening()
            return
        await self.attempt("subscribe", session.subscribe_resource(wrap("notes://one")))
        await self.call("write_note", title="one", text="second")
        self.report["updated"] = await noticed("notifications/resources/updated", "notes://one")
        await self.attempt("note_updated", session.read_resource(wrap("notes://one")))
        await self.attempt("unsubscribe", session.unsubscribe_resource(wrap("notes://one")))
        await self.call("write_note", title="one", text="third")
        await session.send_ping()
        self.report["updated_after_unsubscribe"] = [item for item in notices if item["method"].endswith("/updated")]

    async def listening(self):
        """Subscribe to one resource of two that change."""
        async with self.client.listen(resource_subscriptions=["notes://one", "notes://other"]) as events:
            self.report["honoured"] = plain(events.honored)
            await self.call("write_note", key="unwanted", title="two", text="second")
            await self.call("write_note", title="one", text="second")
            with anyio.fail_after(20):
                event = await events.__anext__()
            self.report["updated"] = isinstance(event, ResourceUpdated) and event.uri
        await self.attempt("note_updated", self.client.read_resource("notes://one"))
        await self.call("write_note", title="one", text="third")
        await self.call("echo", key="meanwhile", text="x")
        self.report["updated_after_unsubscribe"] = [item["params"]["uri"] for item in notices
                                                    if item["method"].endswith("/updated")][1:]

    async def prompts(self):
        session = self.session
        await self.attempt("briefing", session.get_prompt("briefing", {"city": "Rome", "tone": "cheerful"}))
        await self.attempt("briefing_default", session.get_prompt("briefing", {"city": "Rome"}))
        await self.attempt("briefing_without", session.get_prompt("briefing", {}))
        await self.attempt("gallery", session.get_prompt("gallery"))
        await self.attempt("no_prompt", session.get_prompt("no_such_prompt"))
        prompt = types.PromptReference(type="ref/prompt", name="briefing")
        template = types.ResourceTemplateReference(type="ref/resource", uri="weather://{city}/history{?year}")
        await self.attempt("complete_city", session.complete(prompt, {"name": "city", "value": "p"}))
        await self.attempt("complete_year", session.complete(template, {"name": "year", "value": "2"}, {"city": "Rome"}))
        await self.attempt("complete_nothing", session.complete(template, {"name": "year", "value": "2"}))

    async def changes(self):
        notices.clear()
        if self.client is not None:
            async with self.client.listen(tools_list_changed=True, prompts_list_changed=True,
                                          resources_list_changed=True) as events:
                await self.changing(events)
            return
        await self.call("grow")
        self.report["changes"] = [await noticed(f"notifications/{kind}/list_changed")
                                  for kind in ("tools", "resources", "prompts")]
        await self.call("new_tool")
        await self.call("shrink")
        self.report["changes_back"] = [await noticed(f"notifications/{kind}/list_changed")
                                       for kind in ("tools", "resources", "prompts")]
        await self.call("new_tool", key="new_tool_gone")

    async def changing(self, events):
        """Note that there are three events each time; each comes once, and they come in any order."""
        for action, key in (("grow", "changes"), ("shrink", "changes_back")):
            await self.call(action)
            with anyio.fail_after(20):
                self.report[key] = sorted([type(await events.__anext__()).__name__ for _ in range(3)])
            await self.call("new_tool", key="new_tool" if action == "grow" else "new_tool_gone")

    async def streams(self):
        """A stream that the server closes: the client has to come back for the answer."""
        seen = []

        async def progress(done, total, message):
            seen.append(done)

        await self.attempt("close_stream", self.session.call_tool("close_stream", {}, progress_callback=progress))
        self.report["close_stream_progress"] = seen

    async def interrupted(self):
        """Connections that break off, of a call and of the stream that belongs to none."""
        seen = []

        async def progress(done, total, message):
            seen.append(done)

        await self.attempt("interrupted", self.session.call_tool("interrupted", {}, progress_callback=progress))
        self.report["interrupted_progress"] = seen
        uri = "notes://cut-here"
        await self.session.subscribe_resource(AnyUrl(uri) if FIRST else uri)
        await self.call("write_note", title="cut-here", text="new")
        self.report["told_before"] = await noticed("notifications/resources/updated", uri)
        await self.call("grow")  # while there is no connection
        self.report["told_after"] = [await noticed(f"notifications/{kind}/list_changed")
                                     for kind in ("tools", "resources", "prompts")]


STEPS = ["headers", "lists", "results", "errors", "work", "questions", "asking", "resources", "prompts", "changes",
         "streams", "caching"]


async def main(target, mode="legacy", *steps):
    if mode == "begin":
        return await begin(target)
    if mode == "resume":
        return await resume(target, *steps)
    async with connected(target, mode) as (session, said, client):
        trial = Trial(session, client)
        trial.report["initialize"] = said
        for step in steps or STEPS:
            with anyio.fail_after(60):
                await getattr(trial, step)()
    print(json.dumps(trial.report))


def call_request(name):
    """A call without the list of tools, which the SDKs request: its id may be that of the running call."""
    request = types.CallToolRequest(method="tools/call", params=types.CallToolRequestParams(name=name, arguments={}))
    return types.ClientRequest(request) if FIRST else request


async def begin(url):
    found = {}

    async def note_session(response):
        found.setdefault("session", response.headers.get("mcp-session-id"))

    async def note_event(event):
        found["event"] = event

    async def progress(done, total, message):
        found["revision"] = initialized.protocolVersion if FIRST else initialized.protocol_version
        while "event" not in found:  # it is told after the message
            await anyio.sleep(0.01)
        print(json.dumps(found), flush=True)

    http = create_mcp_http_client()
    http.event_hooks["response"] = [note_session]
    async with http, streamable_http_client(url, http_client=http) as streams, ClientSession(*streams[:2]) as session:
        initialized = await session.initialize()
        await session.send_request(call_request("work_on"), types.CallToolResult, progress_callback=progress,
                                   metadata=ClientMessageMetadata(on_resumption_token_update=note_event))


async def resume(url, session_id, revision, event):
    http = create_mcp_http_client(headers={"mcp-session-id": session_id, "mcp-protocol-version": revision})
    async with http, streamable_http_client(url, http_client=http) as streams, ClientSession(*streams[:2]) as session:
        await session.send_request(call_request("release"), types.CallToolResult)
        result = await session.send_request(call_request("work_on"), types.CallToolResult,
                                            metadata=ClientMessageMetadata(resumption_token=event))
    print(json.dumps(plain(result)))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
