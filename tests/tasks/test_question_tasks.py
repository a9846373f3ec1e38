"""Questions that are asked as tasks of a client of November 2025: what is sent, and what becomes of the handler."""

import pytest

import mcplite
from mcplite.types.tasks import RELATED_TASK
from tests.support import connecting

LIMIT = 30
ABLE = {"elicitation": {"form": {}, "url": {}}, "sampling": {},
        "tasks": {"cancel": {}, "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}}}
ACCEPTED = {"action": "accept", "content": {}}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "blue"}, "model": "m"}


def state(status="working", **members):
    return {"taskId": "t1", "status": status, "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttl": 60_000, "pollInterval": 5, **members}


def asking(**options):
    mcp = connecting.new_server("asks", **options)

    @mcp.tool(task="optional")
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("Sure?", task=True).action

    @mcp.tool
    def ask_both(ctx: mcplite.Context) -> str:
        answers = ctx.ask({"a": mcplite.Elicit("Go", url="https://example.com/", task=True),
                           "b": mcplite.Sample(["Which color?"], task=True)})
        return f"{answers['a'].action} {answers['b'].text}"

    @mcp.tool
    def think(ctx: mcplite.Context) -> str:
        return ctx.sample("Which color?", task=True).text

    @mcp.tool
    def visit(ctx: mcplite.Context) -> str:
        return ctx.elicit_url("Go", "https://example.com/", task=True).action

    return mcp


def begin(client, tool="ask", **params):
    """Call a tool; return the id of the call and the question."""
    id = client.start("tools/call", {"name": tool, "arguments": {}, **params})
    return id, client.request_from_server()


def text(client, id):
    return client.answer(id)["result"]["content"][0]["text"]


def follow(client, method, answer):
    """Take the next request of the server, which is *method*, and answer it."""
    request = client.request_from_server()
    assert request["method"] == method and request["params"] == {"taskId": "t1"}  # TSK-25
    client.respond(request, answer)


def test_the_server_polls_and_fetches_the_answer(connect):
    client = connect(asking(), capabilities=ABLE)
    id, question = begin(client)
    assert question["method"] == "elicitation/create" and question["params"]["task"] == {"ttl": 600_000}
    client.respond(question, {"task": state()})
    follow(client, "tasks/get", state())
    follow(client, "tasks/get", state("completed"))
    follow(client, "tasks/result", {**ACCEPTED, "_meta": {RELATED_TASK: {"taskId": "t1"}}})
    assert text(client, id) == "accept"


@pytest.mark.parametrize("tool, method, answer, result", [
    ("think", "sampling/createMessage", SAMPLED, "blue"), ("visit", "elicitation/create", {"action": "decline"}, "decline"),
])
def test_models_and_pages_are_asked_as_tasks_too(connect, tool, method, answer, result):
    client = connect(asking(), capabilities=ABLE)
    id, question = begin(client, tool)
    assert question["method"] == method and "task" in question["params"]
    client.respond(question, {"task": state("completed")})
    follow(client, "tasks/result", answer)
    assert text(client, id) == result


def test_several_questions_are_tasks_one_after_another(connect):
    client = connect(asking(), capabilities=ABLE)
    id, question = begin(client, "ask_both")
    for answer in ({"action": "accept"}, SAMPLED):
        assert "task" in question["params"]
        client.respond(question, {"task": state("completed")})
        follow(client, "tasks/result", answer)
        question = client.request_from_server() if answer is not SAMPLED else None
    assert text(client, id) == "accept blue"


@pytest.mark.parametrize("revision, capabilities", [
    ("2025-11-25", {**ABLE, "tasks": None}),
    ("2025-11-25", {**ABLE, "tasks": {"list": {}, "cancel": {}}}),
    ("2025-11-25", {**ABLE, "tasks": {"requests": {"sampling": {"createMessage": {}}}}}),
    ("2025-11-25", {**ABLE, "tasks": {"requests": {"elicitation": {}}}}),
    ("2025-06-18", ABLE),
])
def test_a_client_that_did_not_declare_it_is_asked_as_ever(connect, revision, capabilities):
    # TSK-02, TSK-03, TSK-04
    capabilities = {name: value for name, value in capabilities.items() if value is not None}
    client = connect(asking(), revision, capabilities)
    id, question = begin(client)
    assert "task" not in question["params"]
    client.respond(question, ACCEPTED)
    assert text(client, id) == "accept"


def test_a_client_may_answer_at_once(connect):
    client = connect(asking(), capabilities=ABLE)
    id, question = begin(client)
    client.respond(question, ACCEPTED)
    assert text(client, id) == "accept"


def test_input_for_the_client_is_a_reason_to_fetch_the_result(connect):
    # TSK-28
    client = connect(asking(), capabilities=ABLE)
    id, question = begin(client)
    client.respond(question, {"task": state()})
    follow(client, "tasks/get", state("input_required"))
    follow(client, "tasks/result", ACCEPTED)
    assert text(client, id) == "accept"


@pytest.mark.parametrize("cancel", [True, False])
def test_the_task_is_cancelled_with_the_call(connect, cancel):
    tasks = {**ABLE["tasks"], "cancel": {}} if cancel else {"requests": ABLE["tasks"]["requests"]}
    client = connect(asking(), capabilities={**ABLE, "tasks": tasks})
    id, question = begin(client)
    client.respond(question, {"task": state(pollInterval=60_000)})
    client.notify("notifications/cancelled", {"requestId": id})
    if cancel:
        follow(client, "tasks/cancel", state("cancelled"))
    assert client.result("ping") == {} and client.silent()


@pytest.mark.parametrize("interval", [10 ** 400, 1e300], ids=["whole", "float"])
def test_an_interval_beyond_all_clocks_is_a_long_one(connect, interval):
    client = connect(asking(), capabilities=ABLE)
    id, question = begin(client)
    client.respond(question, {"task": state(pollInterval=interval)})
    client.notify("notifications/cancelled", {"requestId": id})
    follow(client, "tasks/cancel", state("cancelled"))


def test_a_task_that_the_client_has_cancelled(connect):
    client = connect(asking(), capabilities=ABLE)
    id, question = begin(client)
    client.respond(question, {"task": state()})
    follow(client, "tasks/get", state("cancelled", statusMessage="the user has left"))
    assert "the user has left" in str(client.answer(id))


@pytest.mark.bad_wire
@pytest.mark.parametrize("answer", [{"task": {"status": "working"}}, {"task": 5}, 5])
def test_a_client_that_describes_its_task_in_an_invalid_way(connect, answer):
    client = connect(asking(), capabilities=ABLE)
    id, question = begin(client)
    client.respond(question, answer)
    reply = client.answer(id)
    assert reply.get("error") or reply["result"]["isError"]


def test_a_session_asks_outside_of_a_request(connect):
    mcp, answers = asking(), []

    @mcp.tool
    def later(ctx: mcplite.Context) -> str:
        answers.append(ctx.session.ask(mcplite.Elicit("Sure?", task=True)).action)
        return "asked"

    client = connect(mcp, capabilities=ABLE)
    id, question = begin(client, "later")
    client.respond(question, {"task": state("completed")})
    follow(client, "tasks/result", ACCEPTED)
    assert text(client, id) == "asked" and answers == ["accept"]


# --- questions of a task of the server ----------------------------------------------------------------------


def test_a_task_of_the_server_asks_by_a_task_of_the_client(connect):
    client = connect(asking(), capabilities=ABLE)
    task = client.result("tools/call", {"name": "ask", "arguments": {}, "task": {}})["task"]["taskId"]
    id = client.start("tasks/result", {"taskId": task})
    question = client.request_from_server()
    assert question["params"]["_meta"] == {RELATED_TASK: {"taskId": task}} and "task" in question["params"]
    client.respond(question, {"task": state()})
    follow(client, "tasks/get", state("completed"))
    follow(client, "tasks/result", ACCEPTED)
    assert text(client, id) == "accept"


@pytest.mark.parametrize("by_task", [True, False])
def test_a_cancelled_task_withdraws_its_question(connect, by_task):
    client = connect(asking(), capabilities=ABLE if by_task else {**ABLE, "tasks": {}})
    task = client.result("tools/call", {"name": "ask", "arguments": {}, "task": {}})["task"]["taskId"]
    id = client.start("tasks/result", {"taskId": task})
    question = client.request_from_server()
    if by_task:
        client.respond(question, {"task": state(pollInterval=60_000)})
    assert client.result("tasks/cancel", {"taskId": task})["status"] == "cancelled"
    if by_task:
        follow(client, "tasks/cancel", state("cancelled"))
    assert "cancelled" in client.answer(id)["error"]["message"]
    if not by_task:
        assert "notifications/cancelled" in [other["method"] for other in client.others]
