"""What is printed: nothing that steers the terminal, tables that fit, a bar that goes away."""

import base64
import io
import json
import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from mcplite.cli import printing
from mcplite.cli.printing import (
    ProgressBar,
    as_json,
    clean,
    clean_line,
    first_binary,
    print_content,
    print_result,
    table,
    wrapped,
)
from mcplite.errors import ProtocolError
from mcplite.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    Progress,
    ResourceLink,
    TextContent,
    TextResourceContents,
    UnknownContent,
)

DATA = base64.b64encode(b"\x00\x01\x02").decode()
ANYTHING = st.text(st.characters())


@pytest.fixture
def columns(monkeypatch):
    return lambda number: monkeypatch.setenv("COLUMNS", str(number))


# --- cleaning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, shown", [
    ("plain", "plain"), ("two\nlines\tand a tab", "two\nlines\tand a tab"), ("\x1b[2Jgone", "\\x1b[2Jgone"),
    ("\x9b31m", "\\x9b31m"), ("bell\x07 back\x08 delete\x7f nul\x00", "bell\\x07 back\\x08 delete\\x7f nul\\x00"),
    ("over\rwritten", "over\\x0dwritten"), ("line\r\nline", "line\nline"), ("\u202egnp.exe", "\\u202egnp.exe"),
    ("a\u2028b", "a\\u2028b"), ("tag \U000e0041", "tag \\U000e0041"), ("half \ud800", "half \\ud800"),
    ("no-break\u00a0space, \u3000wide", "no-break\u00a0space, \u3000wide"),
    ("नमस्ते, می\u200cخواهم, 👩\u200d🚀, ça", "नमस्ते, می\u200cخواهم, 👩\u200d🚀, ça"),
])
def test_control_characters_are_shown_and_not_sent(text, shown):
    assert clean(text) == shown


@given(ANYTHING)
def test_cleaned_text_is_harmless_and_stays_as_it_is(text):
    once = clean(text)
    assert clean(once) == once
    assert {unicodedata.category(c) for c in once if c not in "\n\t\u200c\u200d"} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()


def test_a_clean_line_has_no_line_breaks():
    assert clean_line("name\nSend this? [y/n] \x1b[A ") == "name Send this? [y/n] \\x1b[A"


@given(st.recursive(ANYTHING, lambda inner: st.lists(inner) | st.dictionaries(ANYTHING, inner)))
def test_json_is_the_same_value_without_control_characters(value):
    text = as_json(value)
    assert json.loads(text) == value
    assert clean(text) == text


def test_json_is_readable():
    assert as_json({"città": ["\x7f", "\U000e0041"]}) == '{\n  "città": [\n    "\\u007f",\n    "\\udb40\\udc41"\n  ]\n}'


# --- tables ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, lines", [
    ("", [""]), (" one  two three ", ["one two", "three"]), ("a" * 20, ["aaaaaaaa", "aaaaaaaa", "aaaa"]),
    ("ab-cd ef", ["ab-cd ef"]), ("x aaaaaaaaaa y", ["x", "aaaaaaaa", "aa y"]), ("12345678 1", ["12345678", "1"]),
])
def test_lines_of_words(text, lines):
    assert wrapped(text, 8) == lines
    assert wrapped("a" * 9 + " b " + "c" * 11, 8, 10) == ["a" * 9, "b", "c" * 8, "c" * 3]


def test_words_of_megabytes_are_cut_in_one_pass():
    assert sum(map(len, wrapped("x" * 3_000_000 + "-" * 1_000_000, 40))) == 4_000_000


def test_a_table_wraps_texts_beside_their_names(columns):
    columns(44)
    assert table([("add(a, b)", "Add two numbers and return\n   their sum, whatever that is."), ("x", "")]) == (
        "  add(a, b)  Add two numbers and return\n"
        "             their sum, whatever that is.\n"
        "  x")


def test_a_long_name_has_a_line_for_itself(columns):
    columns(60)
    assert table([("n" * 30, "Text."), ("short", "Other.")]) == (
        "  " + "n" * 30 + "\n" + " " * 24 + "Text.\n  short" + " " * 17 + "Other.")


@given(st.lists(st.tuples(st.text(), st.text())), st.integers(1, 200))
def test_a_table_loses_nothing_and_fits(rows, width):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        text = table(rows)
    for name, description in rows:
        assert clean_line(name) in text
        assert "".join(clean_line(description).split()) in "".join(text.split()) or len(rows) > 1 or name
    longest = max((len(clean_line(name)) for name, _ in rows), default=0) + 2
    assert all(len(line) <= max(40, width, longest) for line in text.split("\n"))


# --- content -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("item, shown", [
    (TextContent("hello\x1b"), "hello\\x1b"),
    (TextResourceContents(uri="n://1", text="note"), "note"),
    (EmbeddedResource(TextResourceContents(uri="n://1", text="inside")), "inside"),
    (ImageContent(data=DATA, mime_type="image/png"), "[image, image/png, 3 bytes; --output FILE saves it]"),
    (AudioContent(data=DATA, mime_type="audio/wav"), "[audio, audio/wav, 3 bytes; --output FILE saves it]"),
    (BlobResourceContents(uri="n://1", blob=DATA), "[n://1, binary, 3 bytes; --output FILE saves it]"),
    (ResourceLink(uri="n://1", name="note\x07"), "[note\\x07: n://1]"),
    (UnknownContent({"type": "smell"}), "[content of the kind 'smell']"),
    (object(), "[content of the kind 'object']"),
])
def test_every_kind_of_content_is_shown(item, shown):
    out = io.StringIO()
    print_content([item], out)
    assert out.getvalue() == shown + "\n"


@pytest.mark.parametrize("result, shown", [
    (CallToolResult(content=[TextContent("3")], structured_content={"result": 3}), "3\n"),
    (CallToolResult(content=[], structured_content={"result": 3}), '{\n  "result": 3\n}\n'),
    (CallToolResult(content=[]), ""),
])
def test_a_result_is_its_content_or_else_its_structure(result, shown):
    out = io.StringIO()
    print_result(result, out)
    assert out.getvalue() == shown


@pytest.mark.parametrize("items, data", [
    ([], None),
    ([ResourceLink(uri="n://1", name="note")], None),
    ([TextContent("é"), TextContent("second")], "é".encode()),
    ([TextContent("text"), ImageContent(data=DATA, mime_type="image/png")], b"\x00\x01\x02"),
    ([EmbeddedResource(BlobResourceContents(uri="n://1", blob=DATA))], b"\x00\x01\x02"),
])
def test_the_first_binary_or_else_the_first_text_is_saved(items, data):
    assert first_binary(items) == data


@pytest.mark.parametrize("item", [
    ImageContent(data="@@@", mime_type="image/png"), AudioContent(data="QQ=", mime_type="audio/wav"),
    EmbeddedResource(BlobResourceContents(uri="n://1", blob="é")), BlobResourceContents(uri="n://1", blob="QUJ"),
])
def test_data_that_is_not_base64_hides_nothing_else(item):
    out = io.StringIO()
    print_content([TextContent("before"), item, TextContent("after")], out)
    before, shown, after = out.getvalue().splitlines()
    assert (before, after) == ("before", "after") and shown.endswith("data that is not base64, a fault of the server]")
    with pytest.raises(ProtocolError, match="--output: nothing is saved"):
        first_binary([item])


# --- progress ----------------------------------------------------------------------------------------


class Screen(io.StringIO):
    def __init__(self, terminal=True):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


def test_a_bar_with_a_total(columns):
    columns(80)
    bar = ProgressBar(Screen())
    bar(Progress(1, 4, "read\ning\x1b"))
    bar(Progress(9, 4))
    bar.done()
    bar.done()
    shown = bar._out.getvalue()
    first = "[#####...............]  25% read ing\\x1b"
    second = "[####################] 100%"
    assert shown == "\r" + first + "\r" + second.ljust(len(first)) + "\r" + " " * len(second) + "\r"


@pytest.mark.parametrize("message, line", [(None, "12.5"), ("at 0", "at 0"), ("x" * 100, "x" * 19)])
def test_without_a_total_the_message_or_the_number_is_shown_and_a_line_is_never_full(columns, message, line):
    columns(20)
    bar = ProgressBar(Screen())
    bar(Progress(12.5, None, message))
    assert bar._out.getvalue() == "\r" + line


def test_the_bar_keeps_out_of_the_way(columns):
    columns(80)
    bar = ProgressBar(Screen())
    shown = bar._out
    with bar.hidden():
        bar(Progress(1, 4))
        assert shown.getvalue() == ""
    line = "[#####...............]  25%"
    assert shown.getvalue() == "\r" + line
    with bar.hidden(), bar.hidden():
        assert shown.getvalue() == "\r" + line + "\r" + " " * len(line) + "\r"
    assert shown.getvalue().endswith("\r" + line)
    bar.done()
    with bar.hidden():
        pass
    assert shown.getvalue().endswith("\r" + " " * len(line) + "\r")


@pytest.mark.parametrize("out", [Screen(terminal=False), None])
def test_there_is_no_bar_without_a_terminal(out, monkeypatch):
    monkeypatch.setattr(printing.sys, "stderr", None)
    bar = ProgressBar(out)
    bar(Progress(1, 2))
    bar.done()
    assert out is None or out.getvalue() == ""


TARGET = '''
import mcplite

mcp = mcplite.Server("slow")

@mcp.tool()
def work(ctx: mcplite.Context) -> str:
    ctx.report_progress(1, 2, "half")
    if not ctx.elicit("Go on?", bool).accepted:
        return "stopped"
    ctx.info("nearly")
    ctx.report_progress(2, 2, "all")
    return "finished"
'''


def test_the_bar_of_a_whole_call_is_on_stderr_and_goes_away(terminal, tmp_path):
    (tmp_path / "slow.py").write_text(TARGET)
    with open(tmp_path / "out", "wb") as stdout:
        terminal.run("call", "--log-level", "info", str(tmp_path / "slow.py"), "work", stdout=stdout)
        # Progress and the question come on threads of their own; the bar is there again after the question.
        terminal.answer(r"value \(yes or no\): ", "yes")
        terminal.answer(r"Send this answer\?", "y")
        terminal.expect(r"\r\[##########\.\.\.\.\.\.\.\.\.\.\]  50% half")
        terminal.expect(r"\r +\rinfo [^\n]*nearly\n")
        assert terminal.status() == 0
    assert (tmp_path / "out").read_text() == "finished\n"
    # Messages and progress come on threads of their own; whichever is last, no bar is left.
    assert re.search(r"\r +\r(info server: nearly\n)?\Z", terminal.screen)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_rows_are_indented_on_a_terminal_alone():
    rows = CallToolResult([TextContent('[{"a":1}]')], structured_content={"result": [{"a": 1}]})
    failed = CallToolResult([TextContent('{"a":1}')], is_error=True)
    for result, out, text in ((rows, Terminal(), '[\n  {\n    "a": 1\n  }\n]\n'), (rows, io.StringIO(), '[{"a":1}]\n'),
                              (failed, Terminal(), '{"a":1}\n')):
        print_result(result, out)
        assert out.getvalue() == text


@pytest.mark.parametrize("variables, terminal, seen", [
    ({}, False, False), ({}, True, True), ({"TERM": "dumb"}, True, False), ({"NO_COLOR": "1"}, True, False),
    ({"FORCE_COLOR": "1"}, False, True), ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
    ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False), ({"NO_COLOR": ""}, True, True)])
def test_colours_are_for_terminals_unless_a_variable_decides(variables, terminal, seen, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(printing, "is_terminal", lambda stream: terminal)
    assert printing.styled("text", "name") == ("\x1b[36mtext\x1b[0m" if seen else "text")
    assert printing.styled("", "name") == ""


def test_a_table_is_as_wide_with_colours_as_without(monkeypatch):
    rows = [("short", "a text"), ("n" * 60, "another")]
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    plain = printing.table(rows)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert printing.table(rows).replace("\x1b[36m", "").replace("\x1b[0m", "") == plain != printing.table(rows)
