"""The head of a SKILL.md: what it may be, and that it is read as PyYAML reads it."""

import json
import sys

import pytest

from mcplite.skills.frontmatter import FrontmatterError, name_problem, read_frontmatter

BASE = "name: a\ndescription: b\n"


def read(head, base=BASE):
    return read_frontmatter(f"---\n{base}{head}\n---\n\nBody\n")


@pytest.mark.parametrize("head, more", [
    ("license: Apache-2.0", {"license": "Apache-2.0"}),
    ("a: 1\nb: -2.5\nc: true\nd: ~\ne:\nf: yes\ng: 1e3\nh: .5", {"a": 1, "b": -2.5, "c": True, "d": None, "e": None, "f": "yes",
                                                               "g": 1000.0, "h": 0.5}),
    ("metadata:\n  version: '2.1.0'\n  tags: [a, \"b, c\", 3]\n  deep:\n    er: x",
     {"metadata": {"version": "2.1.0", "tags": ["a", "b, c", 3], "deep": {"er": "x"}}}),
    ("allowed-tools:\n  - Read\n  - \"Bash(git:*)\"\n# a comment\nx: y # and one", {"allowed-tools": ["Read", "Bash(git:*)"],
                                                                                 "x": "y"}),
    ("allowed-tools:\n- Read\n- Write\nx: 1", {"allowed-tools": ["Read", "Write"], "x": 1}),
    ("x: |\n  one\n   two\n\n  three\ny: 1", {"x": "one\n two\n\nthree\n", "y": 1}),
    ("x: >-\n  one\n  two\n\n  three\ny: 1", {"x": "one two\nthree", "y": 1}),
    ("x: >\n\n  one\n\n\n\n  two\ny: 1", {"x": "\none\n\n\ntwo\n", "y": 1}),
    ("x: |+\n   \n   one\n     \n\ny: |\n     \nz: 1", {"x": "\none\n  \n\n", "y": "", "z": 1}),
    ("x: a text\n  that goes on\n\n  and on\ny: 1", {"x": "a text that goes on\nand on", "y": 1}),
    ("x: 'it''s'\ny: \"a\\tb\\u00e9\"\nz: \"a # b\"", {"x": "it's", "y": "a\tbé", "z": "a # b"}),
    ("url: https://example.com/a#b", {"url": "https://example.com/a#b"}),
    ("x: []\ny: {}", {"x": [], "y": {}}),
    ("\"quoted key\": 1\n'another': 2", {"quoted key": 1, "another": 2}),
    ("x: 日本語 – Ü", {"x": "日本語 – Ü"}),
])
def test_what_heads_of_skills_have(head, more):
    assert read(head) == {"name": "a", "description": "b", **more}
    yaml = pytest.importorskip("yaml")
    if "f: yes" not in head:  # YAML 1.1 takes it for True
        loaded = yaml.safe_load(BASE + head)
        loaded.pop("g", None)
        assert {key: value for key, value in read(head).items() if key != "g"} == loaded


@pytest.mark.parametrize("head, value", [
    ("x: {a: 1, b: [2, 3]}", {"a": 1, "b": [2, 3]}),
    ("x:\n  - a: 1\n    b: 2", [{"a": 1, "b": 2}]),
    ("x: 2026-11-29", None),
    ("x: &anchor text", "text"),
    ("x: \"two\n  lines\"", "two lines"),
    ("x: >\n  one\n    more\n  two", "one\n  more\ntwo\n"),
    ("x: |\n    one\n  # two", "one\n"),
])
def test_what_goes_beyond_is_read_by_the_library(head, value, monkeypatch):
    if value is None:
        assert read(head)["x"] == "2026-11-29"
        return
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "yaml", None)
        with pytest.raises(FrontmatterError, match=r"line \d has YAML that only PyYAML reads"):
            read(head)
    pytest.importorskip("yaml")
    assert read(head)["x"] == value
    json.dumps(read(head))


@pytest.mark.parametrize("text, message", [
    ("", "the first line is not ---"),
    ("# Title\n---\nname: a\n---", "the first line is not ---"),
    ("---\nname: a\ndescription: b\n", "a second line of ---"),
    ("---\n---\n", "not an object"),
    ("---\n- a\n---\n", "not an object"),
    ("---\nname: a\n---\n", "no text as its description:"),
    ("---\nname: 5\ndescription: b\n---\n", "no text as its name:"),
    ("---\nname: ''\ndescription: b\n---\n", "no text as its name:"),
    ("---\nname: a\nname: b\ndescription: c\n---\n", "line 3 has the key 'name' a second time"),
    ("---\nname: a\ndescription: b\nx:\n\ty: 1\n---\n", "line 5 is indented by a tab"),
    ("---\nname: a\ndescription: b\nx: 1e999\n---\n", "line 4 has a number that is too large"),
    ("---\nname: a\ndescription: b\n" + "".join(f"{' ' * at}x:\n" for at in range(1500)) + "---\n", "nested too deeply"),
])
def test_heads_that_cannot_be_used(text, message):
    with pytest.raises(FrontmatterError) as caught:
        read_frontmatter(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("broken", ["x: &y {a: [1]}\nz: *y", "x: {", "x: [a", "x: 'a", "x: \"\\q\"", "*a: b", "x: @a",
                                    "x: a: b"])
def test_what_is_not_yaml_is_refused(broken):
    with pytest.raises(FrontmatterError):
        read(broken)


def test_line_ends_and_a_mark_of_the_byte_order_do_not_matter():
    expected = {"name": "a", "description": "b\u2028c:d\x0c\x85e"}
    assert read_frontmatter("\ufeff---\r\nname: a\r\ndescription: b\u2028c:d\x0c\x85e\r\n---\r\n") == expected


@pytest.mark.parametrize("name, valid", [("a", True), ("git-workflow", True), ("a" * 64, True), ("a" * 65, False), ("", False),
                                         ("-a", False), ("a-", False), ("a--b", False), ("A", False), ("a_b", False),
                                         ("é", False), (5, False)])
def test_names(name, valid):
    assert (name_problem(name) == "") is valid
