"""The registry: names, snapshots, versions, and changes from many threads at once."""

import logging

import pytest

from mcplite.errors import RegistrationError
from mcplite.protocol.uritemplate import Template
from mcplite.revisions import NEWEST, NEWEST_LEGACY
from mcplite.server.catalog.registry import (
    OwnEntry,
    PromptEntry,
    Registry,
    ResourceEntry,
    TemplateEntry,
    ToolEntry,
    check_name,
    suggestions,
)
from mcplite.server.functions.function import compile_function
from mcplite.types import Prompt, Resource, ResourceTemplate, Tool


def add(a: int) -> int:
    return a


FUNCTION = compile_function(add)
ENTRY, OTHER = OwnEntry(), OwnEntry()


def template(uri):
    return TemplateEntry(ResourceTemplate(uri_template=uri, name="t"), Template(uri), FUNCTION)


@pytest.fixture
def changes():
    return []


@pytest.fixture
def registry(changes):
    return Registry(changes.append)


def test_entries_are_found_in_the_order_of_registration(registry, changes):
    entries = {name: OwnEntry() for name in "cab"}
    for name, entry in entries.items():
        registry.add("tools", name, entry)
    assert list(registry.all("tools").items()) == list(entries.items())
    assert registry.get("tools", "a") is entries["a"] and registry.get("tools", "z") is None
    assert registry.get("prompts", "a") is None
    assert registry.version("tools") == 3 and registry.version("prompts") == 0
    assert changes == ["tools", "tools", "tools"]


@pytest.mark.parametrize("kind, told", [("tools", "tools"), ("resources", "resources"), ("templates", "resources"),
                                        ("prompts", "prompts")])
def test_changes_are_reported_by_the_kind_that_clients_know(registry, changes, kind, told):
    registry.add(kind, "a", ENTRY)
    registry.remove(kind, "a")
    assert changes == [told, told] and registry.version(kind) == 2


def test_a_name_that_is_taken_is_refused(registry, changes):
    first, second = (ToolEntry(Tool(name="a", input_schema={}), FUNCTION) for _ in range(2))
    registry.add("tools", "a", first)
    with pytest.raises(RegistrationError, match=r"^tool 'a' is registered already; remove it first, choose"):
        registry.add("tools", "a", second)
    assert registry.get("tools", "a") is first and changes == ["tools"]
    registry.add("prompts", "a", OTHER)
    registry.remove("tools", "a")
    registry.add("tools", "a", second)
    assert registry.get("tools", "a") is second


def test_removing_an_unknown_name_fails(registry, changes):
    with pytest.raises(KeyError, match="no prompt 'x' is registered; there are: none"):
        registry.remove("prompts", "x")
    registry.add("prompts", "a", ENTRY)
    registry.add("prompts", "b", ENTRY)
    with pytest.raises(KeyError, match="no prompt 'x' is registered; there are: a, b"):
        registry.remove("prompts", "x")
    assert changes == ["prompts", "prompts"]


def test_a_declared_kind_stays_declared(registry):
    assert not any(registry.declared(kind) for kind in Registry.KINDS)
    registry.add("tools", "a", ENTRY)
    registry.remove("tools", "a")
    registry.declare("prompts")
    assert [kind for kind in Registry.KINDS if registry.declared(kind)] == ["tools", "prompts"]


def test_a_snapshot_does_not_change(registry):
    registry.add("tools", "a", ENTRY)
    before = registry.all("tools")
    registry.add("tools", "b", OTHER)
    registry.remove("tools", "a")
    assert dict(before) == {"a": ENTRY} and dict(registry.all("tools")) == {"b": OTHER}


def test_the_callback_may_use_the_registry():
    seen = []
    registry = Registry(lambda kind: seen.append(list(registry.all(kind))))
    registry.add("tools", "a", ENTRY)
    registry.remove("tools", "a")
    assert seen == [["a"], []], "no lock is held while it runs"


def test_the_template_with_most_text_is_used(registry):
    assert registry.match(["a://b"]) is None
    texts = ["a://{+x}", "a://{x}", "a://{y}.txt", "a://b/{+x}", "a://b/{x}", "a://b/{x}/c", "a://bb{x}", "b://{?x}", "a://{z}"]
    made = {text: template(text) for text in texts}
    for text, entry in made.items():
        registry.add("templates", text, entry)
    for uri, text, values in [
            ("a://c", "a://{x}", {"x": "c"}), ("a://c/d/e", "a://{+x}", {"x": "c/d/e"}), ("a://c.txt", "a://{y}.txt",
             {"y": "c"}),
            ("a://b/1", "a://b/{x}", {"x": "1"}), ("a://b/1/2", "a://b/{+x}", {"x": "1/2"}), ("a://b/1/c", "a://b/{x}/c",
             {"x": "1"}),
            ("a://bbc", "a://bb{x}", {"x": "c"}), ("a://bb", "a://{x}", {"x": "bb"}), ("b://?x=1", "b://{?x}", {"x": "1"})]:
        assert registry.match([uri]) == (made[text], values)
    assert registry.match(["c://b"]) is None and registry.match(["d", "a://c"]) == (made["a://{x}"], {"x": "c"})
    registry.remove("templates", "a://{x}")
    assert registry.match(["a://c"]) == (made["a://{z}"], {"z": "c"})


def test_many_templates_are_not_tried_one_by_one(registry):
    tried = []
    for number in range(300):
        entry = template(f"t://{number}/{{x}}")
        find = entry.pattern.match_exactly
        entry.pattern.match_exactly = lambda uri, find=find: tried.append(uri) or find(uri)
        registry.add("templates", f"t://{number}/{{x}}", entry)
    assert registry.match(["t://299/a"]) is not None and registry.match(["t://300/a"]) is None and len(tried) == 1


def test_uris_are_found_in_any_form(registry):
    pattern = template("x://caf%C3%A9/{a}")
    registry.add("templates", "x://caf%C3%A9/{a}", pattern)
    registry.add_completion("resource", "X://caf%c3%a9/{a}", "a", FUNCTION)
    assert registry.get("templates", "x://café/{a}") is pattern and registry.get("templates", "x://{") is None
    assert registry.completion("resource", "x://café/{a}", "a") is FUNCTION
    registry.remove("templates", "X://café/{a}")
    assert registry.completion("resource", "x://café/{a}", "a") is None and not registry.all("templates")


def test_completions_are_by_kind_name_and_argument(registry):
    assert not registry.has_completions
    registry.add_completion("prompt", "p", "a", FUNCTION)
    assert registry.has_completions and registry.completion("prompt", "p", "a") is FUNCTION
    for key in [("resource", "p", "a"), ("prompt", "q", "a"), ("prompt", "p", "b")]:
        assert registry.completion(*key) is None
    with pytest.raises(RegistrationError, match="^the completion of .a. of prompt .p. is registered already;"):
        registry.add_completion("prompt", "p", "a", FUNCTION)


@pytest.mark.parametrize("kind, completed", [("prompts", "prompt"), ("templates", "resource")])
def test_completions_go_with_their_entry(registry, kind, completed):
    for name in "p", "q":
        registry.add(kind, name, template(name))
        registry.add_completion(completed, name, "a", FUNCTION)
    registry.add("tools", "q", template("q"))
    registry.remove("tools", "q")
    registry.remove(kind, "p")
    assert registry.completion(completed, "p", "a") is None and registry.completion(completed, "q", "a") is FUNCTION
    registry.remove(kind, "q")
    assert registry.has_completions, "the capability is declared already"
    registry.add(kind, "p", template("p"))
    registry.add_completion(completed, "p", "a", FUNCTION)
    assert registry.completion(completed, "p", "a") is FUNCTION


def test_custom_methods(registry):
    registry.add_method("x/do", add)
    registry.add_notification("x/done", print)
    assert registry.method("x/do") is add and registry.method("x/done") is None
    assert registry.notification("x/done") is print and registry.notification("x/do") is None
    registry.add_method("x/do", print)
    assert registry.method("x/do") is print, "the last one counts"


def test_a_tool_is_listed_with_schemas_that_are_compiled_on_first_use():
    entry = ToolEntry(Tool(name="add", input_schema={}), FUNCTION)
    assert entry.tool.input_schema == {} and entry.timeout is None
    listed = entry.listed(NEWEST)
    assert entry.listed(NEWEST_LEGACY) is listed is entry.tool, "one object for all revisions"
    assert listed.input_schema == FUNCTION.input_schema and listed.output_schema == FUNCTION.output_schema
    assert listed.output_schema == {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    bare = ToolEntry(Tool(name="add", input_schema={}), compile_function(add, structured_output="bare"))
    assert bare.listed(NEWEST).output_schema == {"type": "integer"}
    assert bare.listed(NEWEST_LEGACY).output_schema == listed.output_schema


def test_other_entries_are_listed_as_they_are():
    prompt, resource = Prompt(name="p"), Resource(uri="a://b", name="r")
    assert PromptEntry(prompt, FUNCTION).listed(NEWEST) is prompt
    assert ResourceEntry(resource, FUNCTION).listed(NEWEST) is resource
    assert template("a://{x}").listed(NEWEST).uri_template == "a://{x}"


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


def test_suggestions():
    assert suggestions("forcast", ["forecast", "other"]) == "; did you mean 'forecast'?"
    assert suggestions("zzz", ["forecast"]) == "" == suggestions("a" * 10_000, [])
