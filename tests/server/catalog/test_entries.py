"""Entries: URIs of resources in one form, and arguments of prompts with titles or with names that are no identifiers."""

import re
from typing import Annotated, Dict

import pytest

import mcplite
from mcplite.errors import InvalidParams, RegistrationError
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
    ([{"name": "a"}, {"name": "a"}], "same name: a, a"), ([{"title": "A"}], "dicts with a 'name'"),
    (["a"], "PromptArgument objects"), ([{"name": "not-taken"}], "which the function does not take"),
])
def test_declared_arguments_that_cannot_be_are_refused(arguments, text):
    with pytest.raises(RegistrationError, match=text):
        mcplite.Server("x").add_prompt(lambda a, b: "x", name="p", arguments=arguments)


FORMS = {
    "notes://café": ["notes://caf%c3%a9", "Notes://café"],
     "file:///srv/my notes.txt": ["file://localhost/srv/./my%20notes.txt"],
    "http://example.com": ["http://example.com/", "HTTP://Example.com:80"], "file:///c%3A/a.txt": ["file:///C:/a.txt",
     "file:///c:/a.txt"],
    "notes://100%": ["notes://100%25"], "x://a?q=[1]": ["x://a?q=%5B1%5D"], "x://a#b c": ["x://a#b%20c"],
     "x://a|b": ["x://a%7cb"],
    "http://bücher.example/ü": ["http://xn--bcher-kva.example/%C3%BC"], "x://h/a/../b": ["x://h/b", "x://h/%2e/b"],
}


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_resource_is_read_by_any_form_of_its_uri(revision):
    told, updated = [], []
    mcp = mcplite.Server("forms", on_subscribe=lambda uri, count: told.append((uri, count)))
    for uri in FORMS:
        mcp.add_resource(uri, lambda uri=uri: uri, name="n")
    mcp.add_resource("notes://日本/{name}", lambda name: name, name="t")

    @mcp.completion(argument="name", resource="Notes://%e6%97%a5本/{name}")
    def complete(value):
        return ["x"]

    with mcplite.connect(mcp, revision=revision, cache=False, on_resource_updated=updated.append) as client:
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
