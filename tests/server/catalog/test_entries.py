"""Entries of prompts: arguments with titles, and declared ones whose names are no Python identifiers."""

from typing import Annotated, Dict

import pytest

import mcplite
from mcplite.errors import InvalidParams, RegistrationError
from mcplite.revisions import JUNE_2025, REVISIONS
from mcplite.types import PromptArgument


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
