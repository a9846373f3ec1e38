"""What the page can do with a server: over stdio, HTTP and in this process, in both eras."""

import sys
import textwrap

import pytest

from mcplite.inspector.inspector_server import InspectedTarget
from mcplite.revisions import NEWEST_LEGACY
from tests.inspector.conftest import REVISIONS, make_server


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_server_is_opened_listed_called_and_closed(inspect, target, revision):
    page = inspect(it=target)
    opened = page.open(revision=revision)
    assert (opened["revision"], opened["info"]["name"], opened["instructions"]) == (revision, "demo", "add numbers")
    assert "tools" in opened["capabilities"]
    lists = {kind: page.post("lists", server="it", kind=kind)["items"]
             for kind in ("tools", "resources", "templates", "prompts")}
    assert [item["name"] for item in lists["tools"]] == ["add", "count", "ask", "sample", "roots", "wait"]
    assert [item["uri"] for item in lists["resources"]] == ["note://today"]
    assert [item["uriTemplate"] for item in lists["templates"]] == ["note://{day}"]
    assert [item["name"] for item in lists["prompts"]] == ["summary"]
    done = page.call("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert done["state"] == "done" and done["result"]["content"][0]["text"] == "3" and done["ended"] >= done["began"]
    page.post("close", server="it")
    page.wait("server", state="closed", revision=None)
    assert "open it first" in page.post("call", 409, server="it", method="ping")["error"]


def test_progress_and_cancelling(inspect, target):
    page = inspect(it=target)
    page.open()
    done = page.call("tools/call", {"name": "count", "arguments": {"upto": 3}})
    assert done["progress"] == {"progress": 3, "total": 3, "message": "counting"}
    number = page.post("call", server="it", method="tools/call", params={"name": "wait", "arguments": {}})["call"]
    page.post("cancel", call=number)
    assert page.wait("call", call=number, state="cancelled")["error"]["text"].startswith("Cancelled")
    page.post("cancel", 404, call=999)


def test_errors_of_a_call_and_its_limit(inspect):
    page = inspect(it=make_server())
    page.open()
    failed = page.call("no/such", {})
    assert failed["state"] == "failed" and failed["error"]["code"] == -32601
    late = page.call("tools/call", {"name": "wait", "arguments": {}}, timeout=0.1)
    assert late["state"] == "failed" and "0.1 s" in late["error"]["message"]
    for wrong in ({"timeout": 0}, {"timeout": "1"}, {"params": []}, {"method": 1}, {"params": {"_meta": 1}}, {"method": ""}):
        page.post("call", 400, **{"server": "it", "method": "ping", **wrong})


def test_completion(inspect):
    app = make_server()

    @app.completion(prompt="summary", argument="topic")
    def topics(value):
        return [one for one in ("rain", "radio", "sun") if one.startswith(value)]

    page = inspect(it=app)
    page.open()
    found = page.post("complete", server="it", ref={"type": "ref/prompt", "name": "summary"},
                      argument={"name": "topic", "value": "ra"})
    assert found["values"] == ["rain", "radio"]


def test_changes_and_updates_are_told(inspect):
    app = make_server()
    page = inspect(it=app)
    page.open()
    app.tool("new")(lambda: "new")
    page.wait("changed", kind="tools")
    assert page.call("resources/subscribe", {"uri": "note://today"})["state"] == "done"
    app.resource_updated("note://today")
    page.wait("updated", uri="note://today")


def test_the_stderr_of_a_child_and_what_is_no_message_are_seen(inspect, tmp_path):
    program = tmp_path / "noisy.py"
    program.write_text(textwrap.dedent("""
        import sys
        from mcplite import Server
        app = Server("noisy")
        print("hello from stderr", file=sys.stderr, flush=True)
        app.run()
    """))
    page = inspect(it=str(program), failing=[sys.executable, "-c", "import sys; print('no message'); sys.exit('broken')"])
    opened = page.open()
    assert opened["transport"] == "file" and opened["target"] == str(program)
    page.wait("stderr", line="hello from stderr")
    page.post("open", server="failing")
    failed = page.wait("server", name="failing", state="failed")
    assert "broken" in failed["error"]
    assert page.wait("message", server="failing", kind="invalid")["content"] == "no message"


def test_a_server_that_ends_is_told_and_can_be_opened_again(inspect, tmp_path):
    program = tmp_path / "ends.py"
    program.write_text(textwrap.dedent("""
        import os
        from mcplite import Server
        app = Server("ends")
        @app.tool
        def end() -> str:
            os._exit(3)
        app.run()
    """))
    page = inspect(it=str(program))
    page.open(revision=NEWEST_LEGACY.name)
    assert page.call("tools/call", {"name": "end", "arguments": {}})["state"] == "failed"
    assert "3" in page.wait("server", state="failed")["error"]
    page.events.clear()
    page.open()


def test_a_server_that_cannot_be_used_says_why(inspect):
    page = inspect(it=InspectedTarget("it", None, dict, "the variable TOKEN is not set"), gone="/no/such/file.py")
    states = {one["name"]: one for one in page.get("/api/state").json()["servers"]}
    assert (states["it"]["state"], states["it"]["error"]) == ("failed", "the variable TOKEN is not set")
    assert page.post("open", 409, server="it")["error"] == "the variable TOKEN is not set"
    assert "there is no file" in page.post("open", 400, server="gone")["error"]


def test_a_server_is_closed_while_it_is_opened(inspect):
    page = inspect(it=[sys.executable, "-c", "import time; time.sleep(60)"])
    page.post("open", server="it")
    page.wait("server", state="opening")
    page.post("close", server="it")
    page.wait("server", state="closed")
    assert page.post("open", server="it") == {}
    page.post("close", server="it")


@pytest.mark.parametrize("revision", REVISIONS)
def test_tasks_that_calls_have_started_are_listed(inspect, revision):
    app = make_server()
    app.tool("later", task="optional")(lambda: "done")
    page = inspect(it=app)
    page.open(revision=revision)
    assert page.post("lists", server="it", kind="tasks") == {"items": []}
    params = {"name": "later", "arguments": {}, **({"task": {"ttl": 60_000}} if revision == NEWEST_LEGACY.name else {})}
    started = page.call("tools/call", params)["result"]
    (task,) = page.post("lists", server="it", kind="tasks")["items"]
    assert task["taskId"] == started.get("task", started)["taskId"] and task["status"] in ("working", "completed")
