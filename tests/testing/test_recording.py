"""Recordings in memory, and the files of cassettes: what is in them, and what is not."""

import json

import pytest

import mcplite
from mcplite import ClientOptions
from mcplite.revisions import find_revision
from mcplite.testing import CassetteWriter, Recorded, Recording
from mcplite.testing.recording import head_line, message_line

REVISIONS = ["2024-11-05", "2025-11-25", "2026-07-28"]


def server_of_secrets():
    server = mcplite.Server("recorded")

    @server.tool()
    def login(user: str, password: str) -> dict:
        return {"api_key": "k-12345", "user": user}

    @server.tool()
    def greet() -> str:
        return "hello"

    return server


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_recording_keeps_every_message():
    recording = Recording()
    deep = b"[" * 100_000
    recording(17, "<-", deep)
    recording(17, "->", b'{"method": "ping", "id": 1}')
    recording(23, "<-", b"no json")
    ping = {"method": "ping", "id": 1}
    assert recording.messages == [Recorded("<-", deep), Recorded("->", ping), Recorded("<-", b"no json", 2)]
    assert recording.sent("ping") == recording.sent() == [ping]
    answer = {"result": {}, "id": 2}
    recording(17, "->", b"9" * 5000 + b"!")
    recording(17, "->", json.dumps([answer, ping]).encode())
    assert recording.sent("ping") == [ping, ping] and recording.sent() == [ping, answer, ping]


@pytest.mark.parametrize("transport", ["memory", "http"])
def test_a_connection_is_recorded_over_each_transport(transport):
    recording = Recording()
    options = ClientOptions(on_message=recording)
    with mcplite.serve(server_of_secrets()) as http:
        target = server_of_secrets() if transport == "memory" else http.url
        with mcplite.connect(target, revision="2025-06-18", options=options) as client:
            assert client.call_tool("greet").text == "hello"
    assert [message["method"] for message in recording.sent()] == ["initialize", "notifications/initialized", "tools/call"]
    answers = [item.message for item in recording.messages if item.direction == "<-"]
    assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
    assert answers[-1]["result"]["content"][0]["text"] == "hello"


def test_a_function_that_fails_disturbs_no_call(caplog):
    def fails(connection, direction, data):
        raise KeyError("mine")

    with mcplite.connect(server_of_secrets(), options=ClientOptions(on_message=fails)) as client:
        assert client.call_tool("greet").text == "hello"
    assert "on_message failed" in caplog.text


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_cassette_has_a_head_and_each_message_without_secrets(tmp_path, revision):
    path = tmp_path / "a.jsonl"
    with CassetteWriter(path, "server.py --token=abc123") as writer:
        with mcplite.connect(server_of_secrets(), revision=revision, options=ClientOptions(on_message=writer)) as client:
            client.call_tool("login", {"user": "Ann", "password": "hunter2"})
    head, *messages = lines(path)
    assert head["mcplite"] == "cassette" and head["version"] == 1 and head["revision"] == revision
    assert head["target"] == "server.py --token=***"
    assert {message["from"] for message in messages} == {"client", "server"}
    assert [message["at"] for message in messages] == sorted(message["at"] for message in messages)
    text = path.read_text(encoding="utf-8")
    assert "hunter2" not in text and "k-12345" not in text and "abc123" not in text and "Ann" in text
    assert writer.masked == 2


def test_the_state_of_a_question_is_no_secret_to_warn_of(tmp_path):
    server = mcplite.Server("asks")

    @server.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("Sure?").action

    with CassetteWriter(tmp_path / "a.jsonl") as writer:
        options = ClientOptions(on_message=writer)
        with mcplite.connect(server, elicitation_handler=lambda asked: True, options=options) as client:
            assert client.call_tool("ask").text == "accept"
    assert "requestState" in (tmp_path / "a.jsonl").read_text() and writer.masked == 0


def test_the_head_has_the_revision_of_the_session_and_not_of_the_probe(tmp_path):
    path = tmp_path / "a.jsonl"
    old = mcplite.Server("old", options=mcplite.ServerOptions(era="legacy"))
    with CassetteWriter(path) as writer, mcplite.connect(old, options=ClientOptions(on_message=writer)) as client:
        agreed = client.protocol_version
    assert lines(path)[0]["revision"] == agreed and not find_revision(agreed).modern


def test_two_clients_in_one_cassette_are_told_apart(tmp_path):
    path = tmp_path / "a.jsonl"
    with CassetteWriter(path) as writer:
        for _ in range(2):
            with mcplite.connect(server_of_secrets(), options=ClientOptions(on_message=writer)) as client:
                client.list_tools()
    assert {line.get("connection", 1) for line in lines(path)[1:]} == {1, 2}


def test_a_long_text_of_other_letters_is_written_whole(tmp_path):
    path = tmp_path / "a.jsonl"
    text = 'über: "größe" ' * 5000
    with CassetteWriter(path) as writer:
        writer(1, "->", json.dumps({"method": "x", "params": {"text": text, "half": "\ud83d"}}).encode())
        writer(1, "<-", b"\xff no json")
    assert lines(path)[1]["message"]["params"] == {"text": text, "half": "\ud83d"}
    assert lines(path)[2]["message"] == "\\xff no json"
    writer(1, "->", b"{}")  # behind the end
    assert len(lines(path)) == 3


def test_a_file_that_is_no_cassette_is_kept(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    with pytest.raises(ValueError, match="choose another file for the recording"):
        CassetteWriter(path)
    assert path.read_text() == "my notes"
    path.write_text(head_line("a", None, "now"))
    CassetteWriter(path).close()
    assert lines(path)[0]["target"] == ""


def test_lines_for_other_writers():
    assert len(head_line("a", None, "now")) == len(head_line("a", "2025-11-25", "now"))
    assert json.loads(message_line(1.5, "client", {"params": {"password": "x"}}, 2)) == {
        "at": 1.5, "from": "client", "connection": 2, "message": {"params": {"password": "***"}}}
