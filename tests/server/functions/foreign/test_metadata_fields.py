"""pydantic's ``Field`` at parameters: defaults, factories, aliases."""

from typing import Annotated, List, Optional

import pytest

import mcplite
from mcplite.errors import RegistrationError
from mcplite.server.functions.function import BadArguments, compile_function

pydantic = pytest.importorskip("pydantic", minversion="2.0", reason="it is used by those who have it")
from pydantic import Field  # noqa: E402


def test_a_field_as_default_has_the_default_and_the_constraints():
    def search(text: str = Field(description="Words", min_length=2), limit: int = Field(default=10, ge=1, le=50),
               tags: List[str] = Field(default_factory=list), order: Optional[str] = Field(None)) -> list:
        return [text, limit, tags, order]

    function = compile_function(search)
    assert function.input_schema == {
        "type": "object", "additionalProperties": False, "required": ["text"], "properties": {
            "text": {"type": "string", "minLength": 2, "description": "Words"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "order": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}}
    assert search(**function.bind({"text": "ab"})) == ["ab", 10, [], None]
    assert search(**function.bind({"text": "ab", "limit": 1, "tags": ["t"], "order": "o"})) == ["ab", 1, ["t"], "o"]
    with pytest.raises(BadArguments, match="text: is required"):
        function.bind({})
    with pytest.raises(BadArguments, match="limit: 0 is less than the minimum of 1"):
        function.bind({"text": "ab", "limit": 0})


def test_the_other_ways_to_write_it():
    def it(a: Annotated[int, Field(ge=1)], b: Annotated[int, Field(default=2)], c: Annotated[int, Field(le=5)] = 3,
           d: Annotated[int, Field(ge=4)] = Field(default=4, le=9), e: int = Field(..., gt=0), f=Field(6)):
        return [a, b, c, d, e, f]

    function = compile_function(it)
    assert function.input_schema["required"] == ["a", "e"]
    properties = function.input_schema["properties"]
    assert properties["d"] == {"type": "integer", "minimum": 4, "maximum": 9, "default": 4}
    assert [properties[name].get("default") for name in "abcdef"] == [None, 2, 3, 4, None, 6]
    assert it(**function.bind({"a": 1, "e": 5})) == [1, 2, 3, 4, 5, 6]
    for bad in ({"a": 1, "e": 0}, {"a": 0, "e": 1}, {"a": 1, "e": 1, "d": 3}, {"a": 1, "e": 1, "d": 10}):
        with pytest.raises(BadArguments):
            function.bind(bad)


def test_each_call_gets_its_own_default():
    made = []

    def it(a: List[int] = Field(default=[]), b: int = Field(default_factory=lambda: len(made))):
        return a, b

    function = compile_function(it)
    first = function.bind({})
    first["a"].append(1)
    made.append(1)
    assert function.bind({}) == {"a": [], "b": 1}


def test_an_alias_is_the_name_for_clients():
    def it(sort_by: str = Field("name", alias="sort-by"), text: str = Field(validation_alias="q")):
        return f"{text} {sort_by}"

    function = compile_function(it)
    assert list(function.input_schema["properties"]) == ["sort-by", "q"]
    assert it(**function.bind({"q": "a", "sort-by": "b"})) == "a b"
    assert it(**function.bind({"q": "a"})) == "a name"
    with pytest.raises(BadArguments, match="unknown argument 'sort_by'; did you mean 'sort-by'?"):
        function.bind({"q": "a", "sort_by": "b"})


@pytest.mark.parametrize("field, reason", [
    (Field(validation_alias=pydantic.AliasChoices("a", "b")), "has the alias .*, but an argument has one name"),
    (Field(alias="other"), "'other' has the same name as another one"),
    (Field("x", ge=1), "has a default that does not fit its annotation: 'x' is not an integer"),
    (Field(default_factory=lambda data: 3), "has a default_factory that takes the other values"),
    (Field(min_length=1), "has the constraint minLength 1"),
])
def test_what_has_no_meaning_for_an_argument_is_refused(field, reason):
    def it(other: int, bad: int): ...

    it.__defaults__ = (field,)
    with pytest.raises(RegistrationError, match=f"^tool 'it': parameter .*{reason}"):
        compile_function(it)


def test_an_alias_may_not_be_the_name_of_a_later_parameter():
    def it(bad: Annotated[int, Field(alias="other")], other: int): ...

    with pytest.raises(RegistrationError, match="^tool 'it': parameter 'other' has the same name as another one"):
        compile_function(it)


def test_a_prompt_and_a_template_take_fields():
    mcp = mcplite.Server("library")

    @mcp.prompt()
    def review(title: str = Field(title="Book", description="Which book", min_length=2), stars: int = Field(5, le=5)) -> str:
        return f"Review {title} with {stars}"

    @mcp.resource("library://books/{page}{?size}")
    def books(page: Annotated[int, Field(ge=1)], size: int = Field(default=20, le=100)) -> str:
        return f"{page} of {size}"

    with mcplite.connect(mcp) as client:
        arguments = client.list_prompts()[0].arguments
        assert [(item.name, item.required, item.title, item.description) for item in arguments] == [
            ("title", True, "Book", "Which book"), ("stars", False, None, None)]
        assert client.get_prompt("review", {"title": "Emma"}).messages[0].content.text == "Review Emma with 5"
        with pytest.raises(mcplite.RemoteError, match="stars: 6 is greater than the maximum of 5"):
            client.get_prompt("review", {"title": "Emma", "stars": "6"})
        assert client.read_resource("library://books/2").text == "2 of 20"
        with pytest.raises(mcplite.RemoteError):
            client.read_resource("library://books/0")


def test_a_given_schema_takes_the_place_of_the_constraints_but_not_of_the_default():
    def it(a: int, b: int = Field(default=2, ge=1, alias="B")):
        return [a, b]

    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
    function = compile_function(it, input_schema=schema)
    assert it(**function.bind({"a": 1})) == [1, 2] and it(**function.bind({"a": 1, "b": 0})) == [1, 0]
