"""``python -m mcplite chat``: turns, calls and consent, with the SDKs of both APIs and stand-ins for their servers."""

import contextlib
import io
import json
import sys

import pytest

from tests.support.models import answering
from tests.support.systems import posix_only

pytestmark = pytest.mark.one_python
LIMIT = 60
SERVER = '''
import mcplite
from mcplite.types import ToolAnnotations

mcp = mcplite.Server("desk", instructions="Be kind.")

@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    return "a green lamp"

@mcp.tool()
def burn(what: str) -> str:
    return f"{what} is ashes"

@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
def ask(ctx: mcplite.Context) -> str:
    return ctx.sample("What is six times seven?", max_tokens=5).text
'''


class StreamingAPI:
    """Answers requests of both APIs from a list: a text, or the name of a tool and its arguments; streams when asked to."""

    def __init__(self, replies):
        self.replies, self.bodies, self.url = list(replies), [], ""

    def answer(self, path, body):
        self.bodies.append(body)
        if not self.replies:
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "out of credit"}}
        reply = self.replies.pop(0)
        text, use = (reply, None) if isinstance(reply, str) else ("", reply)
        made = _anthropic if path.endswith("/messages") else _openai
        return 200, made(text, use, body.get("stream"))


def _anthropic(text, use, stream):
    block = {"type": "text", "text": text} if use is None else {"type": "tool_use", "id": "u1", "name": use[0], "input": use[1]}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [block], "stop_sequence": None,
               "stop_reason": "end_turn" if use is None else "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}
    if not stream:
        return message
    empty = {**block, "text": ""} if use is None else {**block, "input": {}}
    half = len(text) // 2
    deltas = [{"type": "text_delta", "text": part} for part in (text[:half], text[half:])] if use is None else [
        {"type": "input_json_delta", "partial_json": json.dumps(use[1])}]
    events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
              {"type": "content_block_start", "index": 0, "content_block": empty},
              *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
              {"type": "content_block_stop", "index": 0},
              {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
               "usage": {"output_tokens": 1}}, {"type": "message_stop"}]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


def _openai(text, use, stream):
    head = {"id": "c", "created": 1, "model": "gpt"}
    if not stream:
        return {**head, "object": "chat.completion", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    if use is None:
        deltas = [{"role": "assistant", "content": text[:2]}, {"content": text[2:]}]
    else:
        whole = json.dumps(use[1])
        call = {"index": 0, "id": "u1", "type": "function", "function": {"name": use[0], "arguments": whole[:3]}}
        deltas = [{"tool_calls": [call]}, {"tool_calls": [{"index": 0, "function": {"arguments": whole[3:]}}]}]
    chunks = [{**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
              for delta in deltas]
    return "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"


@contextlib.contextmanager
def streaming_api(replies):
    api = StreamingAPI(replies)

    def answer(path, body):
        status, found = api.answer(path, body)
        streams = isinstance(found, str)
        return status, "text/event-stream" if streams else "application/json", found if streams else json.dumps(found)

    with answering(answer) as api.url:
        yield api


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "desk.py"
    path.write_text(SERVER)
    return path


@pytest.fixture(params=["anthropic", "openai"])
def kind(request):
    return request.param


@pytest.fixture
def reach(kind, monkeypatch):
    """Lead the SDK to an API."""
    pytest.importorskip(kind, reason=f"{kind} is not installed")

    def reach(api):
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv(f"{kind.upper()}_API_KEY", "key")
        monkeypatch.setenv(f"{kind.upper()}_BASE_URL", api.url)
        return f"{kind}:small"

    return reach


@pytest.fixture
def chat(reach, monkeypatch, capsys):
    """Run a chat whose stdin is a text, with the replies of a model; return its status, both outputs and the API."""
    from mcplite.__main__ import main

    def run(replies, lines, *arguments):
        with streaming_api(replies) as api:
            model = reach(api)
            monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
            status = main(["chat", *map(str, arguments), "--model", model])
        return (status, *capsys.readouterr(), api)

    return run


def test_turns_go_on_from_one_another(chat, program):
    replies = ["Hello, Ann.", "Your name is Ann."]
    status, out, err, api = chat(replies, "I am Ann.\n\nWho am I?\n", program, "--system", "Short.", "--max-tokens", "50")
    assert [body["max_tokens"] for body in api.bodies] == [50, 50]
    assert (status, out, err) == (0, "Hello, Ann.\nYour name is Ann.\n", "")
    first, second = api.bodies
    system = first.get("system") or first["messages"][0]["content"]
    assert system == "Short.\n\nBe kind."
    assert "I am Ann." in json.dumps(second["messages"]) and "Hello, Ann." in json.dumps(second["messages"])


def test_a_harmless_tool_is_called_and_shown(chat, program):
    status, out, err, api = chat([("look", {}), "It is green."], "What is there?\n", program)
    assert status == 0 and out == "\nIt is green.\n" and "[look {}]" in err and "a green lamp" in err
    assert "a green lamp" in json.dumps(api.bodies[1]["messages"])


def test_a_tool_that_may_destroy_is_not_called_without_consent(chat, program):
    replies = [("burn", {"what": "a letter"}), "I may not."]
    status, out, err, api = chat(replies, "Burn it.\n", program)
    assert status == 0 and "--yes allows all calls" in err and "did not allow" in json.dumps(api.bodies[1]["messages"])
    status, out, err, api = chat(replies, "Burn it.\n", program, "--yes")
    assert "a letter is ashes" in err and "a letter is ashes" in json.dumps(api.bodies[1]["messages"])


def test_the_model_answers_a_server_with_consent_alone(chat, program):
    status, out, err, _ = chat([("ask", {}), "42", "It is 42."], "Ask.\n", program, "--yes")
    assert status == 0 and "desk asks the model: What is six times seven?" in err and out.endswith("It is 42.\n")
    status, out, err, api = chat([("ask", {}), "No answer."], "Ask.\n", program)
    assert status == 0 and "rejected" in json.dumps(api.bodies[1]["messages"])


def test_several_servers_have_names_before_their_tools(chat, program, tmp_path):
    other = tmp_path / "shop.py"
    other.write_text("def price(article: str) -> int:\n    return 3\n")
    config = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": ["-m", "mcplite.server", str(other)]}
    config.write_text(json.dumps({"mcpServers": {"kiosk": entry}}))
    status, out, _, api = chat([("desk__look", {}), "Green."], "Look.\n", program, config, other)
    assert (status, out) == (0, "\nGreen.\n")
    names = [tool.get("name") or tool["function"]["name"] for tool in api.bodies[0]["tools"]]
    assert names == ["desk__look", "desk__burn", "desk__ask", "kiosk__price", "shop__price"]


def test_a_turn_that_fails_is_forgotten(chat, program):
    status, out, err, api = chat([], "First.\nSecond.\n", program)
    assert status == 3 and out == "" and err.count("the API of the model failed") == 2 and "out of credit" in err
    assert "First." not in json.dumps(api.bodies[1]["messages"])


@pytest.mark.parametrize("arguments, message", [
    ([], "name the model: --model"), (["--model", "small"], "name the model"), (["--model", "other:small"], "name the model"),
    (["--model", "anthropic:small", "--max-tokens", "0"], "must be positive"),
    (["--model", "anthropic:small", "--record", "a.jsonl"], "leave out --record")])
def test_wrong_usage(program, capsys, arguments, message):
    from mcplite.__main__ import main

    assert main(["chat", str(program), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_a_key_the_error_names_the_variable(kind, reach, program, capsys, monkeypatch):
    from mcplite.__main__ import main

    for name in (f"{kind.upper()}_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello.\n"))
    assert main(["chat", str(program), "--model", f"{kind}:small"]) == 2
    assert f"set the variable {kind.upper()}_API_KEY" in capsys.readouterr().err


def test_without_the_sdk_the_error_names_the_extra(program, capsys, monkeypatch):
    from mcplite.__main__ import main

    monkeypatch.setitem(sys.modules, "anthropic", None)
    assert main(["chat", str(program), "--model", "anthropic:small"]) == 2
    assert "pip install 'mcplite[anthropic]'" in capsys.readouterr().err


@posix_only
@pytest.mark.slow
def test_a_person_consents_and_interrupts(reach, program, terminal, monkeypatch):
    with streaming_api([("burn", {"what": "a letter"}), "Done.", ("burn", {"what": "it all"}), "Fine."]) as api:
        terminal.run("chat", program, "--model", reach(api), controlling=True)
        terminal.expect(r"small with desk \(3 tools\)")
        terminal.answer("> ", "Burn it.")
        terminal.answer(r"Call it\? \[y/n/a for always\]", "y")
        terminal.expect(r"a letter is ashes")
        terminal.expect(r"Done\.")
        terminal.answer("> ", "More.")
        terminal.expect(r"Call it\?")
        terminal.type("\x03")
        terminal.expect("this turn is forgotten")
        terminal.answer("> ", "Again.")
        terminal.expect(r"Fine\.")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.status() == 0
    assert "More." not in json.dumps(api.bodies[3]["messages"]) and "Burn it." in json.dumps(api.bodies[3]["messages"])
