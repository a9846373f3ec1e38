"""The official SDKs drive our server through everything it has, over every transport, in every revision they can ask for.

They are the one in Python and the one in TypeScript, both generations of each; and FastMCP's client, more briefly.
"""

import base64
import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from tests.interop.bridging import BRIDGED, not_bridged
from tests.support.wire import saved_problems

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
HERE = Path(__file__).resolve().parent
SECONDS = 180

OLDEST, MARCH, JUNE, NOVEMBER, JULY = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
#: SDK, transport, and mode: its own legacy mode, its detection of the era, or a revision to ask for.
#: The first generation of each SDK knows nothing but handshakes.
TRIALS = [("mcp2", "stdio", "auto", JULY), ("mcp2", "stdio", JULY, JULY), ("node2", "stdio", "auto", JULY),
          ("node2", "stdio", JULY, JULY), ("mcp2", "http", "auto", JULY), ("mcp2", "http", JULY, JULY),
          ("node2", "http", "auto", JULY), ("node2", "http", JULY, JULY),
          ("mcp2", "stdio", "legacy", NOVEMBER), ("mcp1", "stdio", "legacy", NOVEMBER),
          ("mcp1", "stdio", JUNE, JUNE), ("mcp1", "stdio", MARCH, MARCH), ("mcp1", "stdio", OLDEST, OLDEST),
          ("mcp2", "stdio", OLDEST, OLDEST), ("node2", "stdio", "legacy", NOVEMBER),
          ("node1", "stdio", "legacy", NOVEMBER), ("mcp2", "http", "legacy", NOVEMBER),
          ("mcp1", "http", "legacy", NOVEMBER),
          ("mcp1", "http", JUNE, JUNE), ("mcp1", "http", MARCH, MARCH),
          ("node2", "http", "legacy", NOVEMBER), ("node1", "http", "legacy", NOVEMBER), ("node1", "http", MARCH, MARCH),
          ("mcp2", "sse", "auto", NOVEMBER), ("mcp2", "sse", OLDEST, OLDEST), ("mcp1", "sse", OLDEST, OLDEST),
          ("node2", "sse", "legacy", NOVEMBER), ("node1", "sse", OLDEST, OLDEST)]
SDKS = ["mcp2", "mcp1", "node2", "node1"]

PNG_START = b"\x89PNG\r\n"


class Trial:
    """One run of an official client through everything: what it reports, by name, and how it was run."""

    def __init__(self, report, stderr, wire, sdk, transport, revision, sessions):
        self.report = report
        self.stderr = stderr
        #: What was wrong with the messages of the server.
        self.wire = wire
        self.sdk = sdk
        self.transport = transport
        self.revision = revision
        #: How many sessions were left in a server over HTTP.
        self.sessions = sessions

    def __getitem__(self, name):
        return self.report[name]

    @property
    def served_over_http(self):
        """Whether the server serves over Streamable HTTP, and be it a bridge that it serves."""
        return self.transport == "http" or BRIDGED

    @property
    def forgets_progress(self):
        """Whether the client may drop progress that comes in one piece with the answer, as the SDK for TypeScript does."""
        return self.sdk.startswith("node") and self.transport != "http"

    def text(self, name):
        """Return the text of a tool's result that has one block."""
        result = self.report[name]
        assert [block["type"] for block in result["content"]] == ["text"], result
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def failure(self, name):
        """Return the text of a tool's result with ``isError``."""
        result = self.report[name]
        assert result["isError"] is True, result
        return result["content"][0]["text"]

    def data(self, name):
        """Return a tool's structured result, which is there from June 2025 on and is also the text."""
        data = json.loads(self.text(name))
        if self.revision >= JUNE:
            assert self.report[name]["structuredContent"] == (data if isinstance(data, dict) else {"result": data})
        else:
            assert "structuredContent" not in self.report[name]
        return data


def program(installed, sdk):
    """Return the command of a client."""
    if sdk == "fastmcp4":
        return [installed.python(sdk), str(HERE / "fastmcp_client.py")]
    if sdk.startswith("node"):
        return installed.script("official_client.mjs", sdk[-1])
    return [installed.python(sdk), str(HERE / "official_client.py")]


def run(installed, sdk, *arguments, **env):
    """Run a client; return its report, and its stderr."""
    ran = subprocess.run([*program(installed, sdk), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=SECONDS, encoding="utf-8", env={**os.environ, **env, "PYTHONWARNINGS": "ignore"})
    assert ran.returncode == 0, f"the client failed; its stderr, and the server's over stdio:\n{ran.stderr[-6000:]}"
    return json.loads(ran.stdout), ran.stderr


def legacy_one(revision):
    """Return the revision that a bridge is to speak with the server; None for the newest, which it finds out."""
    return None if revision >= JULY else revision


def get(url):
    # Not through a proxy that the environment may name.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=SECONDS) as response:
        return response.read().decode()


@pytest.fixture(scope="module", params=TRIALS, ids=["-".join(trial[:3]) for trial in TRIALS])
def trial(request, installed, everything_served, everything_started, tmp_path_factory):
    sdk, transport, mode, revision = request.param
    wire = tmp_path_factory.mktemp("wire") / "problems"
    sessions = 0
    program(installed, sdk)  # skips before anything is started
    if transport == "stdio":
        with everything_started(legacy_one(revision)) as python:
            report, stderr = run(installed, sdk, python, mode, WIRE_REPORT=str(wire))
    else:
        with everything_served(revision=legacy_one(revision), WIRE_REPORT=str(wire)) as server:
            url = server.url if transport == "http" else server.url.replace("/mcp", "/sse")
            report, stderr = run(installed, sdk, url, mode)
            # A bridge over HTTP has a session of its own, and notices the end of a client's session later than the client.
            own = 1 if BRIDGED and revision < JULY else 0
            until = time.monotonic() + SECONDS
            while True:
                sessions = int(get(server.inner_url.replace("/mcp", "/sessions"))) - own
                if not sessions or not BRIDGED or time.monotonic() > until:
                    break
                time.sleep(0.05)
            assert server.leave() == 0, server.output
    return Trial(report, stderr, "\n".join(saved_problems(wire)), sdk, transport, revision, sessions)


@pytest.fixture(autouse=True)
def stderr_beside_failures(request):
    yield
    if "trial" in request.fixturenames:
        print(request.getfixturevalue("trial").stderr[-6000:])  # shown when the test fails


def test_every_message_of_the_server_fits_the_schema(trial):
    assert trial.wire == ""


def test_the_description_of_the_server(trial):
    said = trial["initialize"]
    assert said["protocolVersion"] == trial.revision
    assert said["instructions"] == "Call the tools in any order."
    if trial.revision >= JULY:
        assert said["supportedVersions"] == [JULY, NOVEMBER, JUNE, MARCH, OLDEST]
        assert (said["ttlMs"], said["cacheScope"]) == (30_000, "private")
        said["serverInfo"] = said["_meta"]["io.modelcontextprotocol/serverInfo"]
    expected = {"name": "everything", "version": "1.2.3"}
    if trial.revision >= JUNE:
        expected["title"] = "Everything"
    if trial.revision >= NOVEMBER:
        expected.update(websiteUrl="https://example.com/everything", description="A server that has everything", icons=[
            {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}])
    assert said["serverInfo"] == expected
    declared = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "logging": {},
                "resources": {"subscribe": True, "listChanged": True}, "experimental": {"example.com/extra": {"level": 3}}}
    if trial.revision >= MARCH:
        declared["completions"] = {}
    assert said["capabilities"] == declared


def test_sessions_end_with_the_client(trial):
    assert trial.sessions == 0


def test_a_ping(trial):
    if trial.revision >= JULY:
        # The process is gone, which the SDK for TypeScript 2.4.0 detects.
        assert trial["ping"]["code"] == (-32601 if trial.sdk == "mcp2" else "METHOD_NOT_SUPPORTED_BY_PROTOCOL_VERSION")
    else:
        assert trial["ping"] == {}


def test_results_have_a_type(trial):
    if trial.revision < JULY:
        assert "resultType" not in trial["echo"] and "_meta" not in trial["echo"]
        return
    for name in ("echo", "book", "diary", "personal", "complete_city"):
        # The SDK for TypeScript 2.4.0 takes it off a result that is complete.
        assert trial[name].get("resultType", "complete" if trial.sdk == "node2" else None) == "complete"
        assert trial[name]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "everything"


def test_lists_come_in_pages(trial):
    names = [tool["name"] for tool in trial["tools"]]
    assert len(names) == len(set(names)) > 28 and trial["tools_pages"] == -(-len(names) // 7)
    assert {"echo", "forecast", "delete", "shrink"} <= set(names)
    assert [item["uri"] for item in trial["resources"]] == ["config://settings", "picture://pixel", "bundle://all"]
    assert [item["uriTemplate"] for item in trial["templates"]] == [
        "notes://{title}", "weather://{city}/history{?year}", "counted://{name}", "diary://{day}"]
    assert [item["name"] for item in trial["prompts"]] == ["briefing", "gallery", "personal"]
    assert trial["bad_cursor"]["code"] == -32602


def test_definitions(trial):
    tools = {tool["name"]: tool for tool in trial["tools"]}
    echo = tools["echo"]
    assert echo["description"] == "Say it again."
    assert echo["inputSchema"]["properties"] == {"text": {"type": "string", "description": "What to say"}}
    assert echo["inputSchema"]["required"] == ["text"]
    expected = {"title": trial.revision >= JUNE, "_meta": True, "icons": trial.revision >= NOVEMBER,
                "annotations": trial.revision >= MARCH}
    assert {name: name in echo for name in expected} == expected
    days = tools["forecast"]["inputSchema"]["properties"]["days"]
    assert days == {"type": "integer", "minimum": 1, "maximum": 3, "default": 2}
    assert ("outputSchema" in tools["forecast"]) == (trial.revision >= JUNE)
    assert "answer" not in tools["delete"]["inputSchema"]["properties"]
    assert tools["locate"]["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"
    briefing = trial["prompts"][0]
    assert [(item["name"], item["required"]) for item in briefing["arguments"]] == [("city", True), ("tone", False)]
    assert briefing["arguments"][0]["description"] == "Where"
    assert trial["resources"][0]["mimeType"] == "application/json" and trial["resources"][0]["size"] == 17


def test_text_arrives_unchanged(trial):
    assert trial.text("echo") == "hällo\u2028wörld \U0001f642"
    assert trial["big"] == 300_000


def test_structured_results(trial):
    assert trial.data("add") == 42
    assert trial.data("forecast") == [{"date": "Rome 0", "high": 20.5, "note": "celsius"},
                                      {"date": "Rome 1", "high": 21.5, "note": None}]
    assert trial.data("point") == {"x": 3, "y": 4}
    assert trial.data("raw") == {"n": 4}
    assert trial["nothing"]["content"] == []


def test_blocks_of_all_kinds(trial):
    image = trial["image"]["content"][0]
    assert image["type"] == "image" and image["mimeType"] == "image/png"
    assert base64.b64decode(image["data"]).startswith(PNG_START)
    audio = trial["audio"]["content"][0]
    if trial.revision >= MARCH:
        assert audio["type"] == "audio" and base64.b64decode(audio["data"]).startswith(b"RIFF")
    else:
        assert audio["type"] == "text" and "audio/wav" in audio["text"]
    link = trial["link"]["content"][0]
    if trial.revision >= JUNE:
        assert link == {"type": "resource_link", "uri": "notes://one", "name": "one", "title": "Note one",
                        "mimeType": "text/plain", "size": 5, "annotations": {"audience": ["user"], "priority": 0.5}}
    else:
        assert link["type"] == "text" and "notes://one" in link["text"]
    assert [block["resource"] for block in trial["embedded"]["content"]] == [
        {"uri": "notes://one", "text": "first", "mimeType": "text/plain"},
        {"uri": "notes://two", "blob": "AAEC", "mimeType": "image/x"}]
    assert [block["type"] for block in trial["mixed"]["content"]] == ["text", "image", "text"]


def test_a_result_made_by_hand(trial):
    result = trial["complete_result"]
    own = dict(result["_meta"])
    assert ("io.modelcontextprotocol/serverInfo" in own) == (trial.revision >= JULY)
    own.pop("io.modelcontextprotocol/serverInfo", None)
    assert own == {"example.com/seen": True}
    assert result["content"] == [{"type": "text", "text": "by hand",
                                  "annotations": {"audience": ["assistant"], "priority": 1.0}}]
    if trial.revision >= JUNE:
        assert result["structuredContent"] == {"made": "by hand"}


def test_failures_of_tools_are_results(trial):
    assert trial.failure("fail_tool") == "it went wrong"
    assert trial["fail_tool"]["content"][1]["type"] == "image"
    assert trial.failure("fail_other") == "no such way to fail: otherwise"
    assert "'none' is not of type 'integer'" in trial.failure("broken_promise")


def test_failures_of_requests_are_errors(trial):
    assert trial["fail_protocol"] == {"code": -31234, "message": "refused", "data": {"why": "test"}}
    assert trial["no_such_tool"]["code"] == -32602


def test_invalid_arguments(trial):
    for name, words in (("bad_arguments", "'many'"), ("raw_refused", "multiple of 2")):
        if trial.revision >= NOVEMBER:
            assert words in trial.failure(name)
        else:
            assert trial[name]["code"] == -32602 and words in trial[name]["message"]


def test_progress(trial):
    assert trial.data("count") == 5
    expected = [[n, 5, f"at {n}" if trial.revision >= MARCH else None] for n in range(1, 6)]
    assert trial["progress"] == (expected[:len(trial["progress"])] if trial.forgets_progress else expected)
    assert trial.data("count_far") == 1000


def test_logs_of_the_wanted_levels(trial):
    if trial.revision < JULY:
        assert trial["set_level"] == {}
    assert trial["logs"] == [{"level": level, "logger": "everything", "data": {"level": level}}
                             for level in ("error", "critical", "alert", "emergency")]


def test_cancelling(trial):
    seen = trial.data("was_cancelled")
    assert seen["cancelled"] is True
    if trial.revision >= JULY and trial.served_over_http:
        assert seen["reasons"] == ["the client has closed the connection"]
    else:
        assert seen["reasons"] == ["caller cancelled" if trial.sdk == "mcp2" else "the test says so"]


def test_calls_run_side_by_side(trial):
    assert 0.5 <= trial["eight_sleeps"] < 8 * 0.5


def test_more_calls_at_once_than_the_server_runs(trial):
    assert trial["crowd"] == 100


def test_capabilities_of_the_client(trial):
    can = trial.data("who")
    assert can["name"] == "official" and can["revision"] == trial.revision
    assert (can["sample"], can["roots"]) == (True, True)
    assert can["elicit"] == (trial.revision >= JUNE) and can["elicit_url"] == (trial.revision >= NOVEMBER)


def test_forms(trial):
    if trial.revision < JUNE:
        for name in ("book", "choose_enum", "delete", "wizard"):
            assert "'elicitation'" in trial.failure(name)
        assert trial["asked"] == []
        return
    assert trial.data("book") == {"action": "accept", "name": "Ada", "content": {
        "name": "Ada", "guests": 2, "window": False, "price": 12.5, "mail": "a@example.com"}}
    for action in ("decline", "cancel"):
        assert trial.data(f"book_{action}") == {"action": action, "content": None, "name": None}
    form = next(item for item in trial["asked"] if item["message"] == "Your booking?")
    assert form.get("mode", "form") == "form" and (trial.revision >= NOVEMBER or "mode" not in form)
    fields = form["requestedSchema"]["properties"]
    assert form["requestedSchema"]["required"] == ["name", "guests"]
    assert fields["name"] == {"type": "string", "description": "Your name", "minLength": 2}
    assert fields["guests"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert fields["window"] == {"type": "boolean", "default": True}
    assert fields["mail"]["format"] == "email"


def test_choices_of_all_generations(trial):
    if trial.revision < JUNE:
        return  # asked before: there is nothing to choose with
    assert trial.data("choose_enum")["content"] == {"choice": "green"}
    assert trial.data("choose_titled")["content"] == {"choice": "g"}
    assert trial.data("choose_names")["content"] == {"choice": "g"}
    asked = {item["message"]: item["requestedSchema"]["properties"].get("choice") for item in trial["asked"]
             if "requestedSchema" in item}
    assert asked["Which one (enum)?"] == {"type": "string", "title": "Colour", "enum": ["red", "green"]}
    if trial.revision >= NOVEMBER:
        assert trial.data("choose_several")["content"] == {"choice": ["red", "green"]}
        assert trial.data("choose_several_titled")["content"] == {"choice": ["g"]}
        assert asked["Which one (titled)?"]["oneOf"] == [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
    else:
        assert "cannot ask" in trial.failure("choose_several") and "cannot ask" in trial.failure("choose_several_titled")
        assert asked["Which one (titled)?"] == {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
    if trial.revision >= JULY:
        # It is asked again, and gives up after ten rounds.
        assert "10 rounds" in trial["choose_badly"].get("exception", trial["choose_badly"].get("message"))
    else:
        assert "'purple' is not one of" in trial.failure("choose_badly")


def test_declared_questions_and_several_at_once(trial):
    if trial.revision < JUNE:
        return
    assert trial.text("delete") == "notes.txt: deleted"
    assert "decline" in trial.failure("delete_declined")
    assert "Delete notes.txt?" in [item["message"] for item in trial["asked"]]
    assert trial.text("wizard") == "{'step': 1} accept accept"


def test_several_questions_of_one_call(trial):
    if trial.revision < JUNE:
        assert "'elicitation'" in trial.failure("interview")
        return
    assert trial.data("interview") == {"first": {"ok": True}, "model": "It is late.", "second": "accept",
                                       "roots": ["file:///srv/data"]}
    seen = trial["interview_progress"]
    if trial.forgets_progress:
        assert seen == sorted(set(seen)) and set(seen) <= {1, 2, 3}
    else:
        assert seen == [1, 2, 3]
    assert trial.data("survey") == {"ok": {"ok": True}, "model": "It is late.", "roots": ["file:///srv/data"]}
    asked = [item["message"] for item in trial["asked"]]
    assert asked.index("First?") < asked.index("Second?") < asked.index("Ready?")


def test_questions_of_a_prompt_and_of_a_resource(trial):
    if trial.revision < JUNE:
        assert "'elicitation'" in trial["diary"]["message"] and "'elicitation'" in trial["personal"]["message"]
        return
    assert trial["diary"]["contents"][0]["text"] == "monday: accept {'ok': True}"
    message, = trial["personal"]["messages"]
    assert message["content"]["text"] == "Dear accept {'name': 'Ada'}"


def test_pages_to_visit(trial):
    if trial.revision >= JULY:
        assert trial.text("visit") == "accept"
        page, = [item for item in trial["asked"] if item.get("url", "").endswith("?x=1")]
        assert page == {"mode": "url", "message": "Please sign in", "url": "https://example.com/sign-in?x=1"}
        # What was an error is a question like any other.
        assert trial.text("must_visit") == "visited"
        # A user who does not want to is not asked again.
        assert trial.failure("must_visit_declined") == "Sign in first"
        assert [item.get("url") for item in trial["asked"]].count("https://example.com/sign-in") == 2
    elif trial.revision >= NOVEMBER:
        assert trial.text("visit") == "accept"
        assert trial["completed"] is True
        assert {"mode": "url", "message": "Please sign in", "url": "https://example.com/sign-in?x=1",
                "elicitationId": "sign-in-1"} in trial["asked"]
        assert trial["must_visit"]["code"] == -32042
        assert trial["must_visit"]["data"]["elicitations"][0]["elicitationId"] == "sign-in-2"
    else:
        assert "'elicitation.url'" in trial.failure("visit")
        assert trial.failure("must_visit") == "Sign in first"


def test_sampling(trial):
    assert trial.text("ask_model") == "test-model: It is late. (endTurn)"
    asked = trial["sampled"][0]
    assert [message["role"] for message in asked["messages"]] == ["user", "assistant", "user"]
    assert asked["messages"][2]["content"]["type"] == "image"
    assert {name: asked[name] for name in ("maxTokens", "systemPrompt", "temperature", "stopSequences", "metadata")} == {
        "maxTokens": 50, "systemPrompt": "Be brief.", "temperature": 0.5, "stopSequences": ["END"],
        "metadata": {"example.com/for": "test"}}
    assert asked["modelPreferences"] == {"hints": [{"name": "small"}], "speedPriority": 1.0}


def test_sampling_with_tools(trial):
    if trial.revision < NOVEMBER:
        assert "'sampling.tools'" in trial.failure("ask_model_with_tools")
        assert not any("tools" in asked for asked in trial["sampled"])
        return
    assert trial.text("ask_model_with_tools") == "1 toolUse, then It is late."
    first, second = [asked for asked in trial["sampled"] if "tools" in asked]
    assert [tool["name"] for tool in first["tools"]] == ["clock"] and first["toolChoice"] == {"mode": "auto"}
    result = second["messages"][-1]["content"]
    result = result[0] if isinstance(result, list) else result
    assert (result["type"], result["toolUseId"]) == ("tool_result", "use-1")
    assert result["content"][0]["text"] == "noon in Rome"


def test_roots(trial):
    assert trial.data("list_roots") == trial.data("list_roots_again") == ["data=file:///srv/data"]
    if trial.revision >= JULY:
        assert trial["roots_asked"] == 2  # nothing lasts from one call to the next
        return
    assert trial.data("roots_have_changed") is True
    assert (trial["roots_asked"], trial["roots_asked_after_change"]) == (1, 2)


def test_resources(trial):
    assert json.loads(trial["settings"]["contents"][0]["text"]) == {"colour": "blue"}
    assert trial["settings"]["contents"][0]["mimeType"] == "application/json"
    assert base64.b64decode(trial["pixel"]["contents"][0]["blob"]).startswith(PNG_START)
    assert [item["uri"] for item in trial["bundle"]["contents"]] == ["bundle://all/a", "bundle://all/b"]
    assert trial["note"]["contents"] == [{"uri": "notes://one", "mimeType": "text/plain", "text": "first"}]
    assert trial["history"]["contents"][0]["text"] == "Rome in 1999"
    # The SDK for TypeScript 2.4.0 makes the newer code of the older one.
    code = -32602 if trial.sdk == "node2" or trial.revision >= JULY else -32002
    for name, uri in (("no_note", "notes://none"), ("no_resource", "nowhere://at/all")):
        assert (trial[name]["code"], trial[name]["data"]) == (code, {"uri": uri})


def test_subscriptions(trial):
    if trial.revision >= JULY:
        assert trial["honoured"] == {"resourceSubscriptions": ["notes://one", "notes://other"]}
        assert trial["updated"] == "notes://one"  # and not the other one that was written first
    else:
        assert trial["subscribe"] == {} and trial["unsubscribe"] == {}
        assert trial["updated"] is True
    assert trial["note_updated"]["contents"][0]["text"] == "second"
    assert trial["updated_after_unsubscribe"] == []


def test_prompts(trial):
    texts = [message["content"]["text"] for message in trial["briefing"]["messages"]]
    assert texts == ["Write a cheerful briefing for Rome.", "Gladly."]
    assert [message["role"] for message in trial["briefing"]["messages"]] == ["user", "assistant"]
    assert trial["briefing_default"]["messages"][0]["content"]["text"] == "Write a neutral briefing for Rome."
    assert trial["briefing_without"]["code"] == -32602 and "city" in trial["briefing_without"]["message"]
    assert trial["no_prompt"]["code"] == -32602
    kinds = [message["content"]["type"] for message in trial["gallery"]["messages"]]
    assert kinds == ["text", "image", "audio" if trial.revision >= MARCH else "text", "resource",
                     "resource_link" if trial.revision >= JUNE else "text"]


def test_completion(trial):
    assert trial["complete_city"]["completion"]["values"] == ["Paris", "Palermo", "Prague"]
    years = trial["complete_year"]["completion"]
    if BRIDGED and trial.revision < JUNE:
        assert years["values"] == []  # a bridge does not send what the revision does not have: the other argument
    else:
        assert years["values"] == [str(year) for year in range(2000, 2100)]
        assert (years["total"], years["hasMore"]) == (300, True)
    assert trial["complete_nothing"]["completion"]["values"] == []


def test_changes_at_run_time(trial):
    expected = [True, True, True]
    if trial.revision >= JULY and trial.sdk == "mcp2":
        expected = ["PromptsListChanged", "ResourcesListChanged", "ToolsListChanged"]
    assert trial["changes"] == trial["changes_back"] == expected
    assert trial.text("new_tool") == "new"
    assert trial["new_tool_gone"]["code"] == -32602


def test_cache_hints(trial):
    if trial.revision < JULY:
        assert trial["counts"] == ["1", "2", "3"]
        assert "ttlMs" not in trial["counted"] and "ttlMs" not in trial["tools_page"]
        return
    assert trial["counts"] == ["1", "1", "2"]
    assert (trial["counted"]["ttlMs"], trial["counted"]["cacheScope"]) == (60_000, "public")
    assert (trial["tools_page"]["ttlMs"], trial["tools_page"]["cacheScope"]) == (60_000, "public")
    assert (trial["settings"]["ttlMs"], trial["settings"]["cacheScope"]) == (0, "private")


def test_parameters_in_headers(trial):
    unlisted, listed = trial.data("locate_unlisted"), trial.data("locate")
    assert unlisted["arguments"] == ["Bern", 2, True, ""]
    assert listed["arguments"] == ["Zürich", -1, False, "plain"]
    if not trial.served_over_http or trial.revision < JULY:
        assert listed["headers"] is None
        return
    # The first request lacked the headers, since the client had not seen the tool; it was refused and sent again. A bridge has
    # seen it.
    assert (unlisted["requests"], listed["requests"]) == ((1, 2) if BRIDGED else (2, 3))
    common = {"mcp-protocol-version": JULY, "mcp-method": "tools/call", "mcp-name": "locate"}
    assert unlisted["headers"] == {**common, "mcp-param-region": "Bern", "mcp-param-floor": "2"}
    assert listed["headers"] == {**common, "mcp-param-region": "=?base64?WsO8cmljaA==?=", "mcp-param-floor": "-1",
                                 "mcp-param-open": "false"}


def test_a_stream_that_the_server_closes(trial):
    # With an empty event at its beginning, which November brought, a client can always come back; until July 2026.
    assert trial.data("close_stream") is (trial.served_over_http and NOVEMBER <= trial.revision < JULY)
    seen = trial["close_stream_progress"]
    assert seen == ([1, 2][:len(seen)] if trial.forgets_progress else [1, 2])


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode, revision", [("auto", JULY), (JULY, JULY), ("legacy", NOVEMBER)])
def test_the_client_of_fastmcp(installed, everything_served, everything_started, tmp_path, mode, revision, transport):
    program(installed, "fastmcp4")
    wire = tmp_path / "problems"
    if transport == "stdio":
        with everything_started(legacy_one(revision)) as python:
            report, stderr = run(installed, "fastmcp4", python, mode, WIRE_REPORT=str(wire))
    else:
        with everything_served(revision=legacy_one(revision), WIRE_REPORT=str(wire)) as server:
            report, stderr = run(installed, "fastmcp4", server.url, mode)
            assert server.leave() == 0, server.output
    print(stderr)
    assert saved_problems(wire) == []
    assert report["revision"] == revision
    if mode != JULY:  # pinned it asks for nothing, so that it does not know
        assert (report["server"], report["instructions"]) == ("everything", "Call the tools in any order.")
    assert {"echo", "shrink"} <= set(report["tools"])
    assert report["point"] == {"x": 3, "y": 4}
    assert report["fail"] == {"error": "ToolError", "message": "it went wrong"}
    assert report["no_tool"] == {"error": "MCPError", "message": "Unknown tool: no_such_tool"}
    assert report["count"] == {"result": 3}
    assert report["progress"] == [[n, 3, f"at {n}"] for n in range(1, 4)]
    assert report["logs"] == ["error", "critical", "alert", "emergency"]
    assert report["book"]["name"] == "Ada" and report["visit"] == "accept"
    assert report["interview"] == {"first": {"ok": True}, "model": "It is late.", "second": "accept",
                                   "roots": ["file:///srv/data"]}
    assert report["survey"] == {"ok": {"ok": True}, "model": "It is late.", "roots": ["file:///srv/data"]}
    assert report["diary"] == "monday: accept {'ok': True}"
    assert report["personal"] == "Dear accept {'name': 'Ada'}"
    if revision >= JULY:
        assert report["ttls"] == [60_000, 60_000]
    assert report["locate"]["arguments"] == ["Zürich", -1, True, ""]
    headers = report["locate"]["headers"]
    if (transport == "http" or BRIDGED) and revision >= JULY:
        assert (headers["mcp-param-region"], headers["mcp-param-floor"]) == ("=?base64?WsO8cmljaA==?=", "-1")
    else:
        assert headers is None
    assert report["was_cancelled"]["cancelled"] is True


# --- what is about HTTP alone ---------------------------------------------------------------------------


@pytest.fixture(params=SDKS)
def sdk(request, installed):
    program(installed, request.param)
    return request.param


@not_bridged("an event of the server behind it is another one for its client, and no stream is broken off there")
def test_broken_connections(sdk, installed, everything_served, cutting):
    with everything_served() as server, cutting(server.url, b"cut-here") as proxy:
        report, stderr = run(installed, sdk, proxy.url, "legacy", "interrupted")
        print(stderr)
        assert report["interrupted"]["content"][0]["text"] == "went on"
        assert report["interrupted_progress"] == [1, 2, 3]
        assert report["told_before"] is True and report["told_after"] == [True, True, True]
        assert proxy.cuts == 2
        assert server.leave() == 0


@not_bridged("a session of the bridge is a process of its server, and marks are in the process")
def test_another_process_continues_a_call(sdk, installed, everything_served):
    with everything_served() as server:
        first = subprocess.Popen([*program(installed, sdk), server.url, "begin"], stdout=subprocess.PIPE, encoding="utf-8")
        try:
            found = json.loads(first.stdout.readline())
        finally:
            first.kill()
            first.wait(SECONDS)
            first.stdout.close()
        result, stderr = run(installed, sdk, server.url, "resume", found["session"], found["revision"], found["event"])
        print(stderr)
        assert result["content"][0]["text"] == "worked on"
        assert server.leave() == 0


@not_bridged("a bridge speaks all revisions, whatever its server speaks")
@pytest.mark.parametrize("era, revision", [("modern", JULY), ("legacy", NOVEMBER)])
@pytest.mark.parametrize("sdk", ["mcp2", "node2"])
def test_a_server_of_one_era_is_detected(sdk, installed, everything_served, era, revision):
    program(installed, sdk)
    with everything_served(era) as server:
        report, stderr = run(installed, sdk, server.url, "auto", "lists", "prompts")
        print(stderr)
        assert server.leave() == 0
    assert report["initialize"]["protocolVersion"] == revision
    assert report["briefing_default"]["messages"][0]["content"]["text"] == "Write a neutral briefing for Rome."
    assert report["initialize"].get("supportedVersions") == ([JULY] if era == "modern" else None)


def test_a_server_without_sessions(sdk, installed, everything_served):
    steps = ("lists", "results", "errors", "prompts")
    reports = []
    for options in ((), ("stateless",)):
        with everything_served(*options, revision=NOVEMBER) as server:
            report, stderr = run(installed, sdk, server.url, "legacy", *steps)
            print(stderr)
            reports.append(report)
            assert server.leave() == 0
    declared = reports[1]["initialize"]["capabilities"]
    assert (declared["tools"], declared["resources"]) == ({}, {})  # changes cannot be sent
    for report in reports:
        assert report["echo"]["content"][0]["text"].startswith("hällo")
        del report["initialize"]
    assert reports[0] == reports[1]
