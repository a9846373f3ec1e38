"""Edits of configuration files: the entry changes, and every other character of the file stays."""

import json
import random

import pytest

from mcplite.cli.config_edits import parse_document, with_entry, without_entry
from mcplite.errors import TransportError

ENTRY = {"command": "/usr/bin/python3", "args": ["a b.py", 'say "x"'], "env": {"KEY": "välue"}}
SECTIONS = {"json": "mcpServers", "toml": "mcp_servers", "yaml": "extensions"}
FILES = {
    "json": [
        "", "{}", "{\n}\n", '{"mcpServers": {}}', '{"a": 1}', '{"mcpServers": {"x": {"command": "y"}}}',
        '{\n  "a": 1 // one\n}\n',
        '{\n\t"a": 1, // one\n\t"mcpServers": {\n\t\t"x": {"command": "y"}, // keep\n\t}, /* c */\n}\n',
        '{\r\n  "mcpServers": {\r\n    "x": {"command": "y"}\r\n  }\r\n}\r\n',
        '// head\n{\n    "mcpServers": {\n        "x": {\n            "command": "y"\n        }\n        // end\n    }\n}\n',
        '{"mcpServers": {"x": {"args": ["{", "}", ",", "//", "\\"w\\": 1"]}}, "z": null}',
        '{"mcpServers": {"w ": {"command": "y"}}}\n\n// the end',
        '{"mcpServers": null, "z": 1}',
    ],
    "toml": [
        "", '# c\nmodel = "x"\n', '[mcp_servers.a]\ncommand = "b" # c\n[mcp_servers.a.env]\nX = "1"\n[tui]\nk = 1\n',
        '[mcp_servers."a.b"]\ncommand = "b"\n\n\n', 'x = """\n[mcp_servers.fake]\n"""\n',
    ],
    "yaml": [
        "", "# c\nGOOSE: x\n", "extensions: {}\nb: 1\n",
        "extensions:\n    dev: # c\n        enabled: true\n        x:\n        - a\n    # c\n    other:\n"
        "        enabled: false\nz: 1\n", "a:\n  w:\n    b: 1\nextensions:\n  dev:\n    on: true",
    ],
}
EACH = [(form, text) for form, texts in FILES.items() for text in texts]


@pytest.fixture(autouse=True)
def readers(request):
    """Skip where the library that reads the form is not installed."""
    form = request.getfixturevalue("form") if "form" in request.fixturenames else "json"
    if form == "yaml":
        pytest.importorskip("yaml")
    if form == "toml":
        pytest.importorskip("tomllib" if __import__("sys").version_info >= (3, 11) else "tomli")


@pytest.mark.parametrize("form, text", EACH)
@pytest.mark.parametrize("name", ["w", "a b", "dash-ed", "1", 'qu"ote', "o'clock", "a.b.c"])
def test_an_entry_comes_changes_and_goes(form, text, name):
    section = SECTIONS[form]
    before = parse_document(text, form, "file")
    added = with_entry(text, form, section, name, ENTRY, "file")
    assert parse_document(added, form, "file") == {**before, section: {**(before.get(section) or {}), name: ENTRY}}
    changed = with_entry(added, form, section, name, {"command": "other"}, "file")
    assert parse_document(changed, form, "file")[section][name] == {"command": "other"}
    removed = without_entry(changed, form, section, name, "file")
    assert name not in (parse_document(removed, form, "file").get(section) or {})
    # All that stood in the file before still stands there, in its order: comments, too.
    assert is_within("".join(text.split()).replace("null", "").replace("{}", ""), "".join(removed.split()))
    assert ("\r\n" in text) == ("\r\n" in added)


def is_within(short, long):
    rest = iter(long)
    return all(character in rest for character in short)


@pytest.mark.parametrize("text", [text for text in FILES["json"] if '"x"' in text and "\n" in text])
def test_a_file_is_the_same_text_after_an_entry_came_and_went(text):
    added = with_entry(text, "json", "mcpServers", "w", ENTRY, "file")
    assert without_entry(added, "json", "mcpServers", "w", "file") == text


def test_the_style_of_the_file_is_kept():
    text = '{\n\t"mcpServers": {\n\t\t"x": {"command": "y"}, // keep\n\t},\n}\n'
    assert with_entry(text, "json", "mcpServers", "w", {"command": "z"}, "file") == (
        '{\n\t"mcpServers": {\n\t\t"x": {"command": "y"}, // keep\n\t\t"w": {\n\t\t\t"command": "z"\n\t\t},\n\t},\n}\n')


@pytest.mark.parametrize("form, text", [
    ("toml", 'mcp_servers = {a = {command = "x"}}\n'),
    ("yaml", "extensions: {dev: {enabled: true}}\n"),
    ("yaml", "&a x: 1\n---\nb: 2\n"),
])
def test_what_an_edit_does_not_know_is_refused_with_the_lines_to_insert(form, text):
    with pytest.raises(TransportError, match="is not YAML" if "---" in text else "editor, and insert\n\n.*\n"):
        with_entry(text, form, SECTIONS[form], "w", ENTRY, "file")


@pytest.mark.parametrize("form, text, says", [
    ("json", "{", "line 1 column 2 is not JSON"), ("json", "[]", "must be an object"),
    ("json", '{"mcpServers": []}', "object of"),
    ("toml", "a = ", "is not TOML"), ("toml", "mcp_servers = 1", "object of servers"),
    ("yaml", "a: b: c", "is not YAML"), ("yaml", "- a", "must be an object"),
])
def test_a_file_that_cannot_be_read(form, text, says):
    with pytest.raises(TransportError, match=says):
        with_entry(text, form, SECTIONS[form], "w", ENTRY, "file")


def test_random_json_with_comments():
    chance = random.Random(7)

    def value(depth):
        kind = chance.randrange(6 if depth else 4)
        if kind == 4:
            return "[" + ", ".join(value(depth - 1) for _ in range(chance.randrange(3))) + blank() + "]"
        if kind == 5:
            return members(depth - 1, [])
        return ["1", '"//, {"', "null", '"a\\"b"'][kind]

    def blank():
        return chance.choice(["", " ", "\n", " // , } {\n", "/* \" */", "\n\t"])

    def members(depth, given):
        items = given + [f'"k{at}"{blank()}:{blank()}{value(depth)}' for at in range(chance.randrange(3))]
        chance.shuffle(items)
        comma = chance.choice(["", ","]) if items else ""
        return "{" + blank() + ("," + blank()).join(item + blank() for item in items) + comma + blank() + "}"

    for _ in range(300):
        section = f'"mcpServers": {members(2, [])}'
        text = blank() + members(3, [section] if chance.randrange(3) else []) + blank()
        before = parse_document(text, "json", "file")
        added = with_entry(text, "json", "mcpServers", "w", ENTRY, "file")
        assert parse_document(added, "json", "file") == {**before, "mcpServers": {**before.get("mcpServers", {}), "w": ENTRY}}
        removed = without_entry(added, "json", "mcpServers", "w", "file")
        assert parse_document(removed, "json", "file") == {**before, "mcpServers": before.get("mcpServers", {})}
        assert json.dumps(before)  # it is what a host reads
