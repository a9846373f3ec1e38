"""Entries: URIs of resources in one form, and arguments of prompts with titles or with names that are no identifiers."""

import enum
import json
import re
from typing import Annotated, Dict, List, Literal, Optional, Union

import pytest

import mcplite
from mcplite.errors import InvalidParams, RegistrationError, ResourceNotFound
from mcplite.revisions import JUNE_2025, REVISIONS
from mcplite.types import PromptArgument
from tests.support.children import wait_until


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_arguments_have_the_titles_of_their_annotations(revision):
    mcp = mcplite.Server("titles")

    @mcp.prompt
    def plan(city: Annotated[str, "Where to", {"title": "City"}], days: int = 3) -> str:
        return f"{days} days in {city}"

    with mcplite.connect(mcp, revision=revision) as client:
        arguments = client.list_prompts()[0].arguments
    known = revision.has(JUNE_2025, None)
    assert [(one.name, one.title, one.description, one.required) for one in arguments] == [
        ("city", "City" if known else None, "Where to", True), ("days", None, None, False)]


DECLARED = [PromptArgument("city-name", description="Where to", required=True, title="City"), {"name": "from", "title": "From"}]


def test_declared_arguments_may_have_any_name():
    mcp = mcplite.Server("declared")

    @mcp.prompt(arguments=DECLARED)
    def plan(given: Dict[str, str], ctx: mcplite.Context) -> str:
        """Plan a trip."""
        return f"{given.get('from', 'here')} to {given['city-name']} by {ctx.method}"

    with mcplite.connect(mcp) as client:
        listed = client.list_prompts()[0]
        assert [(one.name, one.title, one.required) for one in listed.arguments] == [
            ("city-name", "City", True), ("from", "From", None)]
        assert listed.description == "Plan a trip."
        said = client.get_prompt("plan", {"city-name": "Rome", "from": "Oslo"}).messages[0].content.text
        assert said == "Oslo to Rome by prompts/get"
        for arguments, problem in (({"from": "Oslo"}, "city-name"), ({"city-name": "Rome", "by": "bus"}, "by")):
            with pytest.raises(InvalidParams, match=problem):
                client.get_prompt("plan", arguments)


def test_declared_arguments_are_completed():
    mcp = mcplite.Server("declared")
    mcp.add_prompt(lambda **given: " ".join(sorted(given)), name="plan", arguments=DECLARED)

    @mcp.completion(prompt="plan", argument="city-name")
    def cities(value):
        return [city for city in ("Rome", "Oslo") if city.startswith(value)]

    with mcplite.connect(mcp) as client:
        assert client.complete(prompt="plan", argument="city-name", value="R").values == ["Rome"]
        assert client.get_prompt("plan", {"city-name": "x", "from": "y"}).messages[0].content.text == "city-name from"


@pytest.mark.parametrize("arguments, text", [
    ([{"name": "a"}, {"name": "a"}], "same name: a, a"), ([{"title": "A"}], "the member 'name' is missing"),
    (["a"], r"must be PromptArgument\(...\) or a dict, not 'a'"), ([{"name": "not-taken"}], "which the function does not take"),
])
def test_declared_arguments_that_cannot_be_are_refused(arguments, text):
    with pytest.raises(RegistrationError, match=text):
        mcplite.Server("x").add_prompt(lambda a, b: "x", name="p", arguments=arguments)


FORMS = {
    "notes://café": ["notes://caf%c3%a9", "Notes://café"],
     "file:///srv/my notes.txt": ["file://localhost/srv/./my%20notes.txt"],
    "http://example.com": ["http://example.com/", "HTTP://Example.com:80"], "file:///c%3A/a.txt": ["file:///C:/a.txt",
     "file:///c:/a.txt"], "notes://100%": ["notes://100%25"], "x://a?q=[1]": ["x://a?q=%5B1%5D"], "x://a#b c": ["x://a#b%20c"],
     "x://a|b": ["x://a%7cb"], "http://bücher.example/ü": ["http://xn--bcher-kva.example/%C3%BC"],
    "x://h/a/../b": ["x://h/b", "x://h/%2e/b"],
}


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_resource_is_read_by_any_form_of_its_uri(revision):
    told, updated = [], []
    mcp = mcplite.Server("forms", options=mcplite.ServerOptions(on_subscribe=lambda uri, count: told.append((uri, count))))
    for uri in FORMS:
        mcp.add_resource(uri, lambda uri=uri: uri, name="n")
    mcp.add_resource("notes://日本/{name}", lambda name: name, name="t")

    @mcp.completion(argument="name", resource="Notes://%e6%97%a5本/{name}")
    def complete(value):
        return ["x"]

    with mcplite.connect(mcp, revision=revision,
                         options=mcplite.ClientOptions(cache=False, on_resource_updated=updated.append)) as client:
        listed = [resource.uri for resource in client.list_resources()]
        for (uri, others), own in zip(FORMS.items(), listed):
            assert own.isascii()
            for asked in (own, uri, *others):
                contents, = client.read_resource(asked).contents
                assert (contents.text, contents.uri) == (uri, asked)
        for text in ("notes://日本/{name}", client.list_resource_templates()[0].uri_template):
            assert client.read_resource(text, {"name": "a b é"}).text == "a b é"
            assert client.complete(argument="name", value="", resource=text).completion.values == ["x"]
        client.subscribe_resource("Notes://café")
        mcp.resource_updated("notes://caf%c3%a9")
        wait_until(lambda: updated)
        assert updated == ["Notes://café"] and told == [("notes://caf%C3%A9", 1)]
    for uri in (*FORMS, "Notes://日本/{name}"):
        mcp.remove_resource(uri)
    assert not mcp.registry.all("resources") and not mcp.registry.all("templates")


@pytest.mark.parametrize("uri, reason", [
    ("my_app://settings", "as in 'my-app:'"), ("my_app://{name}", "as in 'my-app:'"), ("a{name}://b", "as in"), ("1a://b",
     "a letter first"),
    ("settings", "needs a scheme"), ("", "needs a scheme"), ("x://a\nb", "%0A"), ("x://\ud800", "half"), ("x://h/{name}/../b",
     "leave out"),
])
def test_a_uri_that_no_request_can_name_is_refused(uri, reason):
    mcp = mcplite.Server("refusing")
    with pytest.raises(RegistrationError, match=re.escape(reason)) as caught:
        mcp.add_resource(uri, (lambda name: "x") if "{" in uri else (lambda: "x"), name="n")
    assert repr(uri) in str(caught.value) and not mcp.registry.declared("resources")


def test_two_forms_of_one_uri_are_registered_twice():
    mcp = mcplite.Server("twice")
    for first, second in (("Notes://café", "notes://caf%c3%a9"), ("http://Example.com/{a}", "http://example.com:80/{a}")):
        read = (lambda a: "x") if "{" in first else (lambda: "x")
        mcp.add_resource(first, read, name="n")
        with pytest.raises(RegistrationError, match="registered already"):
            mcp.add_resource(second, read, name="n")


@pytest.fixture
def echoing():
    mcp = mcplite.Server("echoing")
    for uri in ("plain://h/{v}", "rest://h/{+v}", "list://h{/v*}", "query://h{?v}", "any://h/{+v}"):
        mcp.add_resource(uri, lambda v: json.dumps(v), name="n", any_path=uri.startswith("any"))
    with mcplite.connect(mcp) as client:
        yield client


@pytest.mark.parametrize("escaped, value", [
    ("..%2Fx", "../x"), ("a%2F..%2Fx", "a/../x"), ("%2e%2e%2f%2e%2e%2fx", "../../x"), ("..%5Cx", "..\\x"), ("a%5C.", "a\\."),
    ("..%20", ".. "), ("...", "..."), ("....%2F%2Fx", "....//x"), ("%2Fetc%2Fpasswd", "/etc/passwd"), ("a%00.txt", "a\0.txt"),
    ("c%3A%5Cx", "c:\\x"), ("C:x", "C:x"), ("%5C%5Chost%5Cx", "\\\\host\\x"),
])
def test_a_value_that_leads_out_of_a_folder_names_no_resource(echoing, escaped, value):
    for start in ("plain://h/", "rest://h/", "list://h/", "list://h/a/", "query://h?v="):
        with pytest.raises(ResourceNotFound, match="the value of 'v' leads out of a folder"):
            echoing.read_resource(start + escaped)
    assert json.loads(echoing.read_resource("any://h/" + escaped).text) == value


@pytest.mark.parametrize("escaped, value", [
    (".hidden", ".hidden"), ("1.0..2.0", "1.0..2.0"), ("HEAD~1...main", "HEAD~1...main"), ("a%2Fb%5Cc", "a/b\\c"), ("", ""),
    ("%252e%252e%252fx", "%2e%2e%2fx"), ("%E2%80%A5%2Fx", "\u2025/x"), ("%EF%BC%8E%EF%BC%8E%2Fx", "\uff0e\uff0e/x"),
    ("https://h/?x", "https://h/?x"), ("..;%2Fx", "..;/x"),
])
def test_other_values_are_handed_on(echoing, escaped, value):
    assert json.loads(echoing.read_resource("query://h?v=" + escaped).text) == value


def test_a_list_is_no_absolute_path_when_it_is_joined(echoing):
    assert json.loads(echoing.read_resource("list://h/a//b").text) == ["a", "", "b"]
    with pytest.raises(ResourceNotFound):
        echoing.read_resource("list://h//etc/passwd")


# --- definitions are checked and copied ---------------------------------------------------------------


class Lazy:
    """As a lazy translation."""

    def __str__(self):
        return "a translated text"


def registered(kind, **given):
    mcp = mcplite.Server("x")
    if kind == "tool":
        mcp.add_tool(lambda: 1, name="bad", **given)
    elif kind == "prompt":
        mcp.add_prompt(lambda: "x", name="bad", **given)
    elif kind == "template":
        mcp.add_resource("a://{b}", lambda b: b, name="bad", **given)
    else:
        mcp.add_resource("a://b", lambda: "x", name="bad", **given)
    return mcp


def listed(mcp, kind, revision="2026-07-28"):
    with mcplite.connect(mcp, revision=revision) as client:
        member = {"template": "resourceTemplates"}.get(kind, kind + "s")
        method = "resources/templates/list" if kind == "template" else f"{kind}s/list"
        return client.request(method, {})[member][0]


KINDS = pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])


@KINDS
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2026-07-28"])
def test_lazy_texts_are_made_when_they_are_registered(kind, revision):
    icons = [{"src": Lazy(), "mime_type": "image/png"}, mcplite.types.Icon("https://x", sizes=("48x48",))]
    meta = {"a": [Lazy()]}
    found = listed(registered(kind, title=Lazy(), description=Lazy(), icons=icons, meta=meta), kind, revision)
    assert found["description"] == "a translated text" and found["_meta"] == {"a": ["a translated text"]}
    if revision != "2024-11-05":
        assert found["title"] == "a translated text"
    if revision == "2026-07-28":
        assert found["icons"] == [{"src": "a translated text", "mimeType": "image/png"},
        {"src": "https://x", "sizes": ["48x48"]}]
    meta["a"].append({1})  # what the author keeps is no part of it


@KINDS
@pytest.mark.parametrize("given, reason", [
    ({"title": 5}, "title= must be a text, not 5; write title='5'"), ({"title": b"x"}, "title= must be a text"),
    ({"description": b"x"}, "description= must be a text"), ({"description": []}, "description= must be a text"),
    ({"icons": "https://x/i.png"}, r"icons= takes a list: write icons=\[Icon"),
    ({"icons": {"src": "x"}}, "icons= takes a list"), ({"icons": ["x"]}, r"icons\[0\] must be Icon\(...\) or a dict, not 'x'"),
    ({"icons": [{"src": 5}]}, r"icons\[0\]: Icon.src: exp"),
    ({"icons": [mcplite.types.Icon("x", sizes="48x48")]}, r"icons\[0\]: Icon.sizes: expected an array, got '48x48'"),
    ({"icons": 5}, "icons= takes a list"), ({"icons": [{"title": "x"}]}, r"icons\[0\]: Icon: the member 'src' is missing"),
    ({"meta": "x"}, "meta= must be a dict, not 'x'"), ({"meta": {"a": float("nan")}}, r"meta\['a'\]: nan is not a JSON number"),
    ({"meta": {"a": {1}}}, r"meta\['a'\]: \{1\} is not JSON"), ({"meta": {1: 2}}, "meta: the key 1 must be a text"),
    ({"meta": {"io.modelcontextprotocol/key": 1}}, "META|reserved|the _meta key"), ({"scopes": 5}, "scopes= takes a list"),
    ({"scopes": {"a": 1}}, "scopes= takes a list"), ({"scopes": [5]}, "5 is not a scope"),
])
def test_values_of_a_wrong_type_are_refused_by_name(kind, given, reason):
    with pytest.raises(RegistrationError, match=f"^{'resource' if kind == 'template' else kind} .*({reason})"):
        registered(kind, **given)


@pytest.mark.parametrize("kind, given, reason", [
    ("tool", {"annotations": "x"}, r"annotations must be ToolAnnotations\(...\) or a dict, not 'x'"),
    ("tool", {"annotations": {"readOnlyHint": "yes"}}, "annotations: ToolAnnotations.readOnlyHint: expected a boolean"),
    ("tool", {"annotations": mcplite.types.Annotations()}, "annotations must be ToolAnnotations"),
    ("resource", {"annotations": {"audience": "user"}}, "annotations: Annotations.audience: expected an array, got 'user'"),
    ("template", {"annotations": {"priority": "high"}}, "annotations: Annotations.priority: expected a number"),
    ("tool", {"timeout": "5"}, "timeout= must be a positive number of seconds"), ("tool", {"timeout": True}, "timeout="),
    ("tool", {"timeout": float("nan")}, "timeout="), ("tool", {"timeout": float("inf")}, "timeout="),
    ("resource", {"size": "5"}, "size= must be a number of bytes"), ("resource", {"size": -1}, "size="),
    ("resource", {"mime_type": 5}, "mime_type= must be a text"), ("resource", {"cache": 5}, "cache= must be a CacheHint"),
    ("prompt", {"arguments": "city"}, r"arguments= takes a list: write arguments=\[PromptArgument"),
    ("prompt", {"arguments": [PromptArgument(5)]}, r"arguments\[0\]: PromptArgument.name: expected a string, got 5"),
    ("tool", {"input_schema": {"type": "object", "title": b"x"}}, r"input_schema\['title'\]: b'x' is not JSON"),
    ("tool", {"output_schema": {"type": "object", "default": {1}}}, r"output_schema\['default'\]: \{1\} is not JSON"),
])
def test_other_members_are_checked_too(kind, given, reason):
    with pytest.raises(RegistrationError, match=f"^{'resource' if kind == 'template' else kind} .*{reason}"):
        registered(kind, **given)


def test_hints_may_have_the_names_of_the_attributes():
    found = listed(registered("tool", annotations={"read_only_hint": True, "title": Lazy()}), "tool")
    assert found["annotations"] == {"readOnlyHint": True, "title": "a translated text"}


def test_lists_of_a_prompt_are_written_as_json():
    mcp = mcplite.Server("x")

    @mcp.prompt
    def plan(cities: List[str], days: int, names: Dict[str, int], either: Union[str, List[str]] = "x"):
        """Plan.

        Args:
            cities: Where to go.
        """

    told = [argument.get("description") for argument in listed(mcp, "prompt")["arguments"]]
    assert told == ['Where to go. As JSON of this schema: {"type":"array","items":{"type":"string"}}', None,
                    'As JSON of this schema: {"type":"object","additionalProperties":{"type":"integer"}}', None]


CHOICES = [
    (Literal["day", "night"], ["day", "night"]), (Optional[Literal["day"]], ["day"]), (bool, ["true", "false"]),
    (enum.IntEnum("Size", "S M"), ["1", "2"]), (Union[Literal["auto"], int], []), (str, []), (List[bool], [])]


@pytest.mark.parametrize("annotation, choices", CHOICES)
def test_arguments_with_choices_name_and_complete_them(annotation, choices):
    def show(which, half=0): ...

    show.__annotations__ = {"which": annotation, "half": int}
    mcp, hub = mcplite.Server("x"), mcplite.Server("hub")
    mcp.add_prompt(show)
    mcp.add_resource("a://{which}", show, name="a")
    hub.mount(mcp)
    for server in (mcp, hub):
        with mcplite.connect(server) as client:
            (prompt,) = client.list_prompts()
            said = prompt.arguments[0].description or ""
            assert said.partition("One of: ")[2] == ", ".join(choices)
            assert (client.server_capabilities.completions is not None) is bool(choices)
            for begun in ("", *(one[0].upper() for one in choices)):
                values = [one for one in choices if one.startswith(begun.lower())]
                for where in ({"prompt": "show"}, {"resource": "a://{which}"}) if choices else ():
                    assert client.complete(argument="which", value=begun, **where).values == values
                    assert client.complete(argument="half", value="", **where).values == []


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_entries_have_tags(revision):
    server = mcplite.Server("tagged")
    server.add_tool(lambda: None, name="tool", tags=["a", "b", "a"], meta={"example.com/x": 1})
    server.add_resource("a://b", lambda: "x", name="one", tags={"b", "a"})
    server.add_resource("a://{b}", lambda b: "x", name="many", tags=("c",))
    server.add_prompt(lambda: "x", name="prompt", tags=frozenset(["a"]))
    server.add_tool(lambda: None, name="plain")
    with mcplite.connect(server, revision=revision) as client:
        tools = client.list_tools()
        assert tools[0].meta == {"example.com/x": 1, "mcplite/tags": ["a", "b"]}
        assert [tool.tags for tool in tools] == [{"a", "b"}, frozenset()]
        assert client.list_resources()[0].tags == {"a", "b"} and client.list_resource_templates()[0].tags == {"c"}
        assert client.list_prompts()[0].tags == {"a"}


@pytest.mark.parametrize("tags, reason", [
    ("admin", r"tags= takes a list: write tags=\['admin'\]"), ([""], "a tag is a text that is not empty"),
    ([5], "a tag is a text that is not empty, not 5"), (5, "takes a list")])
def test_tags_that_are_none_are_refused(tags, reason):
    with pytest.raises(RegistrationError, match=reason):
        mcplite.Server("tagged").add_tool(lambda: None, name="tool", tags=tags)


@pytest.mark.parametrize("annotations, said", [
    ({"readOnly": True}, ["tool 'look': annotations has the unknown key 'readOnly'; did you mean 'readOnlyHint'?"]),
    ({"readOnlyHint": True, "destructive_hint": False}, []), ({"x-shop-price": 3}, [])])
def test_a_hint_with_a_slip_is_logged(annotations, said, caplog):
    mcplite.Server("s").add_tool(lambda: None, name="look", annotations=annotations)
    assert caplog.messages == said
