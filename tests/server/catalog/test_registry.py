"""The registry: names, snapshots, versions, and changes from many threads at once."""

import contextlib
import logging
import sys

import pytest
from hypothesis import given, settings, strategies as st

import mcplite
from mcplite.errors import RegistrationError
from mcplite.protocol.uritemplate import Template
from mcplite.server.catalog.registry import CatalogEntry, Registry, check_name
from mcplite.server.functions.function import compile_function
from mcplite.types import ResourceTemplate


def add(a: int) -> int:
    return a


FUNCTION = compile_function(add)


def entry(name, kind="tools"):
    return CatalogEntry(kind, name, None, FUNCTION)


def template(uri):
    made = CatalogEntry("templates", uri, ResourceTemplate(uri_template=uri, name="t"), FUNCTION)
    made.pattern = Template(uri)
    return made


@pytest.fixture
def changes():
    return []


@pytest.fixture
def registry(changes):
    return Registry(lambda kind, needed: changes.append(kind))


def test_removing_an_unknown_name_fails(registry, changes):
    with pytest.raises(KeyError, match="no prompt 'x' is registered; there are: none"):
        registry.remove("prompts", "x")
    registry.add(entry("a", "prompts"))
    registry.add(entry("b", "prompts"))
    with pytest.raises(KeyError, match="no prompt 'x' is registered; there are: a, b"):
        registry.remove("prompts", "x")
    assert changes == ["prompts", "prompts"]


def test_the_template_with_most_text_is_used(registry):
    assert registry.match(["a://b"]) is None
    texts = ["a://{+x}", "a://{x}", "a://{y}.txt", "a://b/{+x}", "a://b/{x}", "a://b/{x}/c", "a://bb{x}", "b://{?x}", "a://{z}"]
    made = {text: template(text) for text in texts}
    for one in made.values():
        registry.add(one)
    for uri, text, values in [
            ("a://c", "a://{x}", {"x": "c"}), ("a://c/d/e", "a://{+x}", {"x": "c/d/e"}), ("a://c.txt", "a://{y}.txt",
             {"y": "c"}),
            ("a://b/1", "a://b/{x}", {"x": "1"}), ("a://b/1/2", "a://b/{+x}", {"x": "1/2"}), ("a://b/1/c", "a://b/{x}/c",
             {"x": "1"}), ("a://bbc", "a://bb{x}", {"x": "c"}), ("a://bb", "a://{x}", {"x": "bb"}),
            ("b://?x=1", "b://{?x}", {"x": "1"})]:
        assert registry.match([uri]) == (made[text], values)
    assert registry.match(["c://b"]) is None and registry.match(["d", "a://c"]) == (made["a://{x}"], {"x": "c"})
    registry.remove("templates", "a://{x}")
    assert registry.match(["a://c"]) == (made["a://{z}"], {"z": "c"})


@pytest.mark.parametrize("text", ["t://{}/{{x}}", "t://a/{{x}}/{}", "t://{{x}}/b{}"])
def test_many_templates_are_not_tried_one_by_one(registry, text):
    tried = []
    for number in range(100, 400):
        one = template(text.format(number))
        find = one.pattern.match_exactly
        one.pattern.match_exactly = lambda uri, find=find: tried.append(uri) or find(uri)
        registry.add(one)
    uri = text.replace("{{x}}", "a")
    assert registry.match([uri.format(399)]) is not None and registry.match([uri.format(400)]) is None and len(tried) == 1


@settings(deadline=None)
@given(st.sets(st.lists(st.sampled_from(["a", "b", "/", "{x}", "{+y}", "{?z}"]), max_size=5).map("".join), max_size=12),
       st.lists(st.text("ab/?z=", max_size=6), min_size=1, max_size=2))
def test_the_template_is_that_of_trying_them_all(texts, forms):
    registry = Registry(lambda kind, needed: None)
    for text in sorted(texts):
        with contextlib.suppress(ValueError):
            registry.add(template("t:" + text))
    order = sorted(registry.all("templates").values(), key=lambda one: (-len(one.pattern.prefix), one.pattern.breadth))
    uris = ["t:" + form for form in forms]
    found = [(one, values) for length in sorted({len(one.pattern.prefix) for one in order}, reverse=True) for uri in uris
             for one in order if len(one.pattern.prefix) == length
             for values in [one.pattern.match_exactly(uri)] if values is not None]
    assert registry.match(uris) == (found[0] if found else None)


@pytest.mark.parametrize("kind, completed", [("prompts", "prompt"), ("templates", "resource")])
def test_completions_go_with_their_entry(registry, kind, completed):
    for name in "p", "q":
        registry.add(entry(name, kind))
        registry.add_completion(completed, name, "a", FUNCTION)
    registry.add(entry("q"))
    registry.remove("tools", "q")
    registry.remove(kind, "p")
    assert registry.completion(completed, "p", "a") is None and registry.completion(completed, "q", "a") is FUNCTION
    registry.remove(kind, "q")
    assert registry.completes, "the capability is declared already"
    registry.add(entry("p", kind))
    registry.add_completion(completed, "p", "a", FUNCTION)
    assert registry.completion(completed, "p", "a") is FUNCTION


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 128])
def test_good_names_are_accepted_without_a_warning(name, caplog):
    assert check_name("tool", name) == name and not caplog.records


@pytest.mark.parametrize("name", ["a b", "a/b", "ä", "x" * 129, "a\n"])
def test_odd_names_are_warned_about(name, caplog):
    with caplog.at_level(logging.WARNING):
        assert check_name("tool", name) == name
    assert "should have 1 to 128 characters" in caplog.text and "\n\n" not in caplog.text


@pytest.mark.parametrize("kind", ["resource", "prompt", "server"])
def test_names_of_other_entries_are_for_people(kind, caplog):
    for name in ("Application Logs", "ä/ö", "x" * 129):
        assert check_name(kind, name) == name
    assert not caplog.records


@pytest.mark.parametrize("name", ["", None, 5, b"a"])
def test_invalid_names_are_refused(name):
    with pytest.raises(RegistrationError) as caught:
        check_name("prompt", name)
    assert str(caught.value) == f"a prompt needs a name; give name='...' (got {name!r})"


# --- names that are registered again -------------------------------------------------------------------


CELL = """
@mcp.tool
def add(a: int, b: int) -> int:
    return a {sign} b

@mcp.resource("data://sign")
def sign() -> str:
    return "{sign}"

@mcp.prompt
def ask(what: str) -> str:
    return "{sign}"

@mcp.completion(prompt="ask", argument="what")
def complete(value):
    return ["{sign}"]
"""


def run_cell(mcp, sign, module="__main__"):
    """Define the functions of a cell, as a notebook does."""
    code = compile(CELL.format(sign=sign), "<cell>", "exec")
    exec(code, {"mcp": mcp, "__name__": module})


def said(mcp):
    with mcplite.connect(mcp) as client:
        return [client.call_tool("add", {"a": 5, "b": 3}).text, client.read_resource("data://sign").text,
                client.get_prompt("ask", {"what": "x"}).messages[0].content.text,
                client.complete(prompt="ask", argument="what", value="").values[0]]


@pytest.mark.parametrize("policy, warnings", [("replace", 0), ("warn", 4)])
def test_an_entry_takes_the_place_of_the_old_one(caplog, policy, warnings):
    mcp = mcplite.Server("twice", on_duplicate=policy)
    run_cell(mcp, "+", "one")
    mcp.add_tool(lambda: 1, name="last")
    run_cell(mcp, "-", "two")
    assert said(mcp) == ["2", "-", "-", "-"]
    assert list(mcp.registry.all("tools")) == ["add", "last"]
    assert sum("is registered again" in record.getMessage() for record in caplog.records) == warnings


def test_connected_clients_get_the_new_entry():
    mcp = mcplite.Server("twice", on_duplicate="replace")
    run_cell(mcp, "+")
    with mcplite.connect(mcp) as client:
        assert client.call_tool("add", {"a": 5, "b": 3}).text == "8"
        run_cell(mcp, "-")
        assert client.call_tool("add", {"a": 5, "b": 3}).text == "2"


def test_a_name_is_not_registered_twice_by_default():
    mcp = mcplite.Server("once")
    run_cell(mcp, "+")
    with pytest.raises(RegistrationError, match="^tool 'add' is registered already; .*on_duplicate='replace'"):
        run_cell(mcp, "-")
    assert said(mcp) == ["8", "+", "+", "+"]


def test_a_cell_of_a_notebook_can_be_run_again(monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    mcp = mcplite.Server("notebook")
    run_cell(mcp, "+")
    run_cell(mcp, "-")
    assert said(mcp) == ["2", "-", "-", "-"]


@pytest.mark.parametrize("first, second", [("__main__", "tools"), ("tools", "tools")])
def test_only_functions_of_the_session_itself_replace_themselves(monkeypatch, first, second):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    mcp = mcplite.Server("notebook")
    run_cell(mcp, "+", first)
    with pytest.raises(RegistrationError, match="already"):
        run_cell(mcp, "-", second)


def test_another_function_of_the_session_does_not_take_the_name(monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    mcp = mcplite.Server("notebook")
    run_cell(mcp, "+")
    other = type(run_cell)(run_cell.__code__, {"__name__": "__main__"}, "other")
    other.__qualname__ = "other"
    with pytest.raises(RegistrationError, match="already"):
        mcp.tool("add")(other)


def test_uris_are_found_in_any_form(registry):
    pattern = template("x://caf%C3%A9/{a}")
    registry.add(pattern)
    registry.add_completion("resource", "X://caf%c3%a9/{a}", "a", FUNCTION)
    assert registry.get("templates", "x://café/{a}") is pattern and registry.get("templates", "x://{") is None
    assert registry.completion("resource", "x://café/{a}", "a") is FUNCTION
    registry.remove("templates", "X://café/{a}")
    assert registry.completion("resource", "x://café/{a}", "a") is None and not registry.all("templates")


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_the_first_entry_that_comes_after_a_client_is_logged_and_the_client_says_what_to_do(revision, caplog):
    server = mcplite.Server("empty")
    with mcplite.connect(server, revision=revision) as client:
        server.add_tool(add, name="first")
        server.add_tool(add, name="second")
        logged = [record.getMessage() for record in caplog.records if "told that the server has none" in record.getMessage()]
        assert len(logged) == 1 and "the first of the tools" in logged[0] and "declare=['tools']" in logged[0]
        with pytest.raises(mcplite.errors.NotSupported, match=r"connect again.*ServerOptions\(declare=\['tools'\]\)"):
            client.list_tools()
    with mcplite.connect(server, revision=revision) as client:
        assert len(client.list_tools()) == 2


def test_entries_that_come_before_clients_or_are_declared_are_not_logged(caplog):
    server = mcplite.Server("declared", options=mcplite.ServerOptions(declare=["tools", "resources", "prompts"]))
    with mcplite.connect(server) as client:
        assert client.list_tools() == []
        server.add_tool(add, name="first")
        assert [tool.name for tool in client.list_tools()] == ["first"]
    mcplite.Server("early").add_tool(add, name="first")
    assert "told that" not in caplog.text
