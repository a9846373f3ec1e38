"""Questions on a terminal: every kind of field, every way to answer, and a person who walks away."""

import io
import signal
import threading

import pytest

from mcplite.cli.terminal_questions import TerminalAsker
from mcplite.rpc.cancel import CancelToken
from mcplite.types import ElicitRequest, Implementation

ANSWERS = {"accept": True, "decline": False, "cancel": None}
WHO = Implementation(name="weather", version="1", title="The Weather\x1b[2J\nhere")


def form(message="Where to?", required=(), **fields):
    return ElicitRequest(message=message, requested_schema={
        "type": "object", "properties": fields, "required": list(required)})


class Asking:
    """A TerminalAsker on a terminal, on a thread as in the client."""

    def __init__(self, terminal, who=WHO):
        self.terminal = terminal
        self.who = who
        self.asker = TerminalAsker(*terminal.files())
        self.answers = []
        self._threads = []

    def start(self, ask, request):
        request.server = self.who

        def run():
            try:
                self.answers.append(ask(request))
            except Exception as error:  # shown by the test that misses the answer
                self.answers.append(error)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def form(self, *arguments, **fields):
        request = form(*arguments, **fields)
        self.start(self.asker.form, request)
        return request

    @property
    def answer(self):
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), self.terminal.screen
        return self.answers[-1]


@pytest.fixture
def asking(terminal):
    return Asking(terminal)


def field(asking, typed, required=True, **field):
    """Return what one field's answer becomes; *typed* are the lines, all but the last refused."""
    asking.form(required=["it"] if required else [], it=field)
    for line in typed:
        asking.terminal.answer(r"it[^\n]*: $", line)
    asking.terminal.answer(r"\[y/n[^\n]*\] $", "y")
    assert type(asking.answer) is dict, asking.terminal.screen
    return asking.answer.get("it")


def test_the_question_names_the_server_and_how_to_cancel(asking):
    asking.form("Where to?\nOther Server asks: password\x07")
    asking.terminal.answer(r"Accept\? \[y/n\] $", "perhaps")
    asking.terminal.answer(r"Accept\? \[y/n\] $", "YES")
    assert asking.answer == {}
    assert "\nThe Weather\\x1b[2J here asks: Where to?\n  Other Server asks: password\\x07\n" in asking.terminal.screen
    assert "(type !decline to decline, !cancel to cancel)\n" in asking.terminal.screen


def test_a_server_that_has_not_said_its_name_yet(terminal):
    asking = Asking(terminal, who=None)
    asking.form()
    terminal.answer(r"The server asks: Where to\?[^$]*\] $", "y")
    assert asking.answer == {}


# --- fields ------------------------------------------------------------------------------------------

TITLED = [{"const": "r", "title": "Rome"}, {"const": "p", "title": "Paris\nSend this answer? [y/n]"}, {"const": "o"}]


@pytest.mark.parametrize("kind, typed, value", [
    ({"type": "string"}, ["Rome "], "Rome"),
    ({"type": "string"}, ["", "Rome"], "Rome"),
    ({"type": "string", "minLength": 3}, ["ab", "abc"], "abc"),
    ({"type": "string", "format": "email"}, ["no address", "a@b.example"], "a@b.example"),
    ({"type": "string", "format": "date"}, ["tomorrow", "2024-02-29"], "2024-02-29"),
    ({"type": "integer"}, ["x", "1.5", "[", "[" * 2000, "7"], 7),
    ({"type": "integer", "minimum": 3}, ["2", "3"], 3),
    ({"type": "number"}, ["NaN", "Infinity", "2.5"], 2.5),
    ({"type": "boolean"}, ["maybe", "Yes"], True),
    ({"type": "boolean"}, ["n"], False),
    ({"type": "string", "enum": ["r", "p"]}, ["x", "p"], "p"),
    ({"type": "string", "enum": ["r", "p"]}, ["0", "3", "²", "2"], "p"),
    ({"type": "string", "enum": ["r", "p"], "enumNames": ["Rome", "Paris"]}, ["rome"], "r"),
    ({"type": "string", "enum": ["r", "p"], "enumNames": ["Rome"]}, ["2"], "p"),
    ({"type": "string", "enum": ["2", "1"]}, ["2"], "2"),
    ({"enum": [5, 1]}, ["1"], 1),
    ({"type": "string", "oneOf": TITLED}, ["2"], "p"),
    ({"type": "string", "oneOf": TITLED}, ["o"], "o"),
    ({"type": "array", "items": {"anyOf": TITLED}}, ["1, o"], ["r", "o"]),
    ({"type": "array", "items": {"type": "string", "enum": ["r", "p"]}, "minItems": 1}, ["", "x", "1,"], ["r"]),
    ({"type": "array", "items": {"type": "string", "enum": ["r", "p"]}}, [""], []),
    ({"type": "array"}, ["x", ""], []),
    # No forms of this protocol, but some servers send them.
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["Rome"], "Rome"),
    ({"anyOf": [True]}, ["Rome"], "Rome"),
])
def test_each_kind_of_field(asking, kind, typed, value):
    assert field(asking, typed, **kind) == value


@pytest.mark.parametrize("kind, value, shown", [
    ({"type": "string"}, "Rome\x9b", '"Rome\\x9b"'), ({"type": "integer"}, 3, "3"), ({"type": "boolean"}, False, "false"),
    ({"type": "string", "enum": ["r", "p"]}, "p", '"p"'),
    ({"type": "array", "items": {"enum": ["r", "p"]}}, ["p", "r"], '["p", "r"]'),
])
@pytest.mark.parametrize("required", [True, False])
def test_enter_takes_the_default(asking, kind, value, shown, required):
    assert field(asking, [""], required, default=value, **kind) == value
    assert f"Enter for {shown}" in asking.terminal.screen


@pytest.mark.parametrize("kind", [
    {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "string", "enum": ["a"]},
    {"type": "array", "items": {"enum": ["a"]}}])
def test_an_optional_field_can_be_left_out(asking, kind):
    assert field(asking, [""], required=False, **kind) is None
    assert asking.answer == {}


def test_titles_descriptions_and_choices_are_shown_on_one_line_each(asking):
    asking.form(city={"type": "string", "title": "City\x1b", "description": "Where\nyou go", "oneOf": TITLED})
    asking.terminal.answer(r"City[^\n]*: $", "1")
    asking.terminal.answer(r"\] $", "y")
    assert asking.answer == {"city": "r"}
    assert ("  Where you go\n    1. Rome\n    2. Paris Send this answer? [y/n]\n    3. o\n  City\\x1b (optional): "
            in asking.terminal.screen)
    assert '  city = "r"\nSend this answer?' in asking.terminal.screen


def test_fields_that_look_like_secrets_are_pointed_out(asking):
    asking.form(api_key={"type": "string"})
    asking.terminal.answer("careful: this looks like a question for a secret: api_key[^$]*: $", "!decline")
    assert asking.answer is False


# --- the end of a question ---------------------------------------------------------------------------


def test_answers_can_be_changed_before_they_are_sent(asking):
    asking.form(required=["city"], city={"type": "string"}, days={"type": "integer", "default": 3})
    asking.terminal.answer("city: $", "Rome")
    asking.terminal.answer(r"days \(Enter for 3\): $", "4")
    asking.terminal.answer(r"Send this answer\? \[y/n/c to change it\] $", "c")
    asking.terminal.answer(r'city \(Enter for "Rome"\): $', "Paris")
    asking.terminal.answer(r"days \(Enter for 4\): $", "")
    asking.terminal.answer(r'city = "Paris"\n  days = 4\nSend this answer\? [^\n]*$', "y")
    assert asking.answer == {"city": "Paris", "days": 4}


def test_keys_that_were_typed_ahead_are_no_consent(asking):
    asking.terminal.type("y\ny\n")
    asking.form(city={"type": "string"})
    asking.terminal.expect("city [^\n]*: $")
    asking.terminal.type("Rome\ny\ny\n")
    asking.terminal.expect(r"Send this answer\? [^\n]*$")
    assert asking.answers == [], "what was typed before the question was read was not taken for an answer to it"
    asking.terminal.type("n\n")
    assert asking.answer is False


@pytest.mark.parametrize("odd", [5, None, [], "text", {"type": ["string", {}]}, {"enum": {}}, {"type": "array", "items": 5},
                                 {"oneOf": 5}, {"anyOf": [5]}])
def test_a_field_that_is_nonsense_is_no_traceback(asking, odd):
    asking.form(city={"type": "string"}, odd=odd)
    asking.terminal.answer("city [^\n]*: $", "Rome")
    if asking.terminal.expect(r"(odd)[^\n]*: $|Send this answer\? [^\n]*$").group(1):
        asking.terminal.type("\n")
        asking.terminal.expect(r"Send this answer\? [^\n]*$")
    asking.terminal.type("y\n")
    assert type(asking.answer) is dict


@pytest.mark.parametrize("typed, action", [("n", "decline"), ("!decline", "decline"), ("!cancel", "cancel")])
def test_declining_at_the_end(asking, typed, action):
    asking.form(city={"type": "string"})
    asking.terminal.answer("city [^\n]*: $", "Rome")
    asking.terminal.answer(r"Send this answer\? [^\n]*$", typed)
    assert asking.answer is ANSWERS[action]


@pytest.mark.parametrize("typed, action", [("!decline\n", "decline"), ("!cancel\n", "cancel"), ("\x04", "cancel")])
def test_a_way_out_at_a_field(asking, typed, action):
    asking.form(required=["city"], city={"type": "string"})
    asking.terminal.expect("city: $")
    asking.terminal.type(typed)
    assert asking.answer is ANSWERS[action]


def test_a_withdrawn_question_ends(asking):
    request = form(city={"type": "string"})
    request.token = CancelToken()
    asking.start(asking.asker.form, request)
    asking.terminal.expect("city [^\n]*: $")
    request.token.cancel()
    assert asking.answer is None
    asking.terminal.expect("the question was cancelled")


def test_only_one_question_uses_the_terminal_at_a_time(asking):
    asking.form("First?", city={"type": "string"})
    asking.terminal.expect("city [^\n]*: $")

    def ask_too(request):
        with asking.asker.alone():
            asking.asker._say("Second?")

    asking.start(ask_too, form())
    asking.terminal.type("Rome\n")
    asking.terminal.expect(r"Send this answer\? [^\n]*$")
    assert "Second?" not in asking.terminal.screen
    asking.terminal.type("y\n")
    asking.terminal.expect(r"Second\?")
    assert asking.answer is None


def test_questions_of_several_threads_wait_for_each_other(asking):
    asking.form("First?", city={"type": "string"})
    asking.terminal.expect("city [^\n]*: $")
    asking.form("Second?")
    asking.terminal.type("Rome\n")
    asking.terminal.expect(r"Send this answer\? [^\n]*$")
    assert "Second?" not in asking.terminal.screen
    asking.terminal.type("y\n")
    asking.terminal.answer(r"Second\?[^$]*Accept\? [^\n]*$", "n")
    assert asking.answer is False
    assert asking.answers == [{"city": "Rome"}, False]


@pytest.mark.parametrize("there", [True, False])
def test_without_a_terminal_questions_are_declined_with_a_message(there, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n") if there else None)
    asker = TerminalAsker(out=out)
    assert asker.form(form(city={"type": "string"})) is False
    assert asker.url(ElicitRequest(message="Log in", mode="url", url="https://a.example/")) is False
    assert out.getvalue().count("asks: ") == 2
    assert out.getvalue().count("(declined: there is no terminal to ask on)\n") == 2


# --- URLs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url, host, careful", [
    ("https://bank.example/login?a=b\x1b", "bank.example", False),
    ("https://bank.example@evil.example/", "evil.example", False),
    ("https://xn--bnk-vka.example/", "xn--bnk-vka.example", True),
    ("https://b\u0430nk.example/", "b\u0430nk.example", True),
])
def test_a_url_is_shown_whole_with_its_host(asking, url, host, careful):
    asking.start(asking.asker.url, ElicitRequest(message="Log in", mode="url", url=url))
    asking.terminal.answer(r"Will you open it yourself\? \[y/n\] $", "y")
    assert asking.answer is True
    assert f"visit {url}\n  (on the host {host}).".replace("\x1b", "\\x1b") in asking.terminal.screen
    assert ("(careful: the host" in asking.terminal.screen) == careful


@pytest.mark.parametrize("typed, action", [("n\n", "decline"), ("!cancel\n", "cancel"), ("\x04", "cancel")])
def test_a_url_can_be_refused(asking, typed, action):
    asking.start(asking.asker.url, ElicitRequest(message="Log in", mode="url", url="https://a.example/"))
    asking.terminal.expect(r"Will you open it yourself\? \[y/n\] $")
    asking.terminal.type(typed)
    assert asking.answer is ANSWERS[action]


# --- the whole command line --------------------------------------------------------------------------

TARGET = '''
import mcplite

mcp = mcplite.Server("travel")

@mcp.tool()
def book(ctx: mcplite.Context) -> str:
    asked = ctx.elicit("Which city?", {"type": "object", "properties": {"city": {"type": "string"}}})
    return f"{asked.action} {asked.content}"

@mcp.tool()
def visit(ctx: mcplite.Context) -> str:
    return ctx.elicit_url("Log in", "https://a.example/").action
'''


@pytest.fixture
def target(tmp_path):
    (tmp_path / "travel.py").write_text(TARGET)
    return str(tmp_path / "travel.py")


def test_a_tool_asks_and_gets_the_answer(terminal, target):
    terminal.run("call", target, "book")
    terminal.answer(r"travel asks: Which city\?[^$]*city \(optional\): $", "Città")
    terminal.answer(r"Send this answer\? [^\n]*$", "y")
    assert terminal.status() == 0
    assert terminal.screen.endswith("accept {'city': 'Città'}\n")


def test_a_tool_asks_for_a_visit(terminal, target):
    terminal.run("call", target, "visit")
    terminal.answer(r"https://a\.example/\n[^$]*yourself\? [^\n]*$", "n")
    assert terminal.status() == 0
    assert terminal.screen.endswith("decline\n")


@pytest.mark.parametrize("how", ["ctrl-c", "a signal"])
@pytest.mark.slow
def test_an_interrupt_during_a_question_ends_cleanly(terminal, target, how):
    terminal.run("call", target, "book", controlling=how == "ctrl-c")
    terminal.expect(r"city \(optional\): $")
    terminal.type("\x03") if how == "ctrl-c" else terminal._child.send_signal(signal.SIGINT)
    assert terminal.status() == 130
    assert "interrupted\n" in terminal.screen
    assert "Fatal" not in terminal.screen and "Traceback" not in terminal.screen
