"""Handlers of every kind: their schemas, how arguments are bound, and why some cannot be registered."""

import dataclasses
import datetime
import enum
import functools
import inspect
import sys
import types
import typing
from typing import Annotated, Any, Dict, List, Literal, Mapping, Optional, Set, Tuple, TypedDict, Union

import jsonschema
import pytest

import mcplite
from mcplite.errors import RegistrationError
from mcplite.protocol.schema.patterns import UNSAFE_SUBJECT
from mcplite.server import Context, Elicit
from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.function import BadArguments, compile_function, textual
from mcplite.server.functions.schemas import Schemas
from tests.support.results import text_of

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def bound(function, arguments, **options):
    """Return what *function* returns for *arguments* as they come from a client."""
    compiled = compile_function(function, **options)
    return compiled.function(**compiled.bind(arguments))


def problems(function, arguments, **options):
    with pytest.raises(BadArguments) as caught:
        compile_function(function, **options).bind(arguments)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


def refusal(function, **options):
    with pytest.raises(RegistrationError) as caught:
        compile_function(function, **options)
    return str(caught.value)


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


# --- schema and binding -------------------------------------------------------------------------------


def test_a_function_becomes_a_schema():
    compiled = compile_function(add)
    assert compiled.input_schema == {
        "type": "object", "properties": {"a": {"type": "integer", "description": "the first"},
                                         "b": {"type": "integer", "description": "the second", "default": 2}},
        "required": ["a"], "additionalProperties": False}
    assert (compiled.name, compiled.description, repr(compiled)) == ("add", "Add two numbers.", "<Function 'add'>")
    assert compiled.parameters == [("a", True, "the first"), ("b", False, "the second")]
    assert compiled.input_schema is compiled.input_schema
    assert compiled.output.wrapped and compiled.output.schema["properties"] == {"result": INTEGER}


def test_name_and_description_can_be_given():
    compiled = compile_function(add, name="plus", description="")
    assert (compiled.name, compiled.description) == ("plus", "")


def test_a_function_without_parameters_takes_an_empty_object():
    compiled = compile_function(lambda: 1, name="one")
    assert compiled.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert compiled.bind({}) == {} and compiled.description is None
    assert problems(lambda: 1, {"a": 1}, name="one") == ["unknown argument 'a'; there are: none"]


@pytest.mark.parametrize("arguments, expected", [
    ({}, ["a: is required"]),
    ({"a": "1"}, ["a: '1' is not an integer"]),
    ({"a": None, "b": True}, ["a: null is not an integer", "b: true is not an integer"]),
    ({"a": 1, "bb": 1}, ["unknown argument 'bb'; did you mean 'b'?"]),
    ({"a": 1, "zebra": 1}, ["unknown argument 'zebra'; there are: a, b"]),
    ({"zebra": 1}, ["a: is required", "unknown argument 'zebra'; there are: a, b"]),
    ({"a": 1, "z" * 1000: 1}, [f"unknown argument '{'z' * 100}'; there are: a, b"]),
])
def test_all_problems_are_reported_at_once(arguments, expected):
    assert problems(add, arguments) == expected


def _numbers(a: int, **rest: int):
    return a


@pytest.mark.parametrize("function, schema", [
    (add, None), (_numbers, None), (lambda a, b="": a, {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}),
])
def test_of_very_many_problems_the_first_are_named(function, schema):
    found = problems(function, {"a": 1, **{f"k{number}": "x" for number in range(1000)}}, name="it", input_schema=schema)
    assert len(found) == 10 and "k0" in found[0] and "k9" in found[-1]


def test_errors_have_the_path_into_nested_arguments():
    def move(points: List[Point], **named: Point): ...

    assert problems(move, {"points": [{"x": 1}, {"x": "2"}]}) == ["points[1].x: '2' is not an integer"]
    assert problems(move, {"points": [], "home": {}, "k" * 200: 5}) == [
        "home.x: is required", f"{'k' * 100}: 5 is not an object"]


def test_keyword_only_parameters_are_supported():
    def find(*, text: str, limit: int = 10, deep: bool = False):
        return text, limit, deep

    schema = compile_function(find).input_schema
    assert list(schema["properties"]) == ["text", "limit", "deep"] and schema["required"] == ["text"]
    assert bound(find, {"text": "a", "deep": True}) == ("a", 10, True)


def test_parameters_without_annotation_take_anything():
    def echo(value, other=None):
        return value, other

    assert compile_function(echo).input_schema["properties"] == {"value": {}, "other": {"default": None}}
    assert bound(echo, {"value": [1, {"a": None}]}) == ([1, {"a": None}], None)


def test_defaults_that_are_not_json_are_left_out_of_the_schema():
    mark = object()

    def find(a: Any = mark, b: str = None, when: datetime.date = datetime.date(2024, 5, 6), at: Point = Point(1)):
        return a, b, when, at

    properties = compile_function(find).input_schema["properties"]
    assert properties["a"] == {} and properties["b"] == STRING
    assert properties["when"]["default"] == "2024-05-06"
    assert bound(find, {}) == (mark, None, datetime.date(2024, 5, 6), Point(1))
    assert bound(find, {"when": "2024-01-01"})[2] == datetime.date(2024, 1, 1)


@pytest.mark.parametrize("annotation, items", [
    (list, {}), (List[int], INTEGER), (List[Any], {}), (tuple, {}), (Tuple[()], {}), (Tuple[int, int], INTEGER),
    (Tuple[int, str], {}), (Tuple[int, ...], INTEGER), (Optional[List[Any]], {}), (Dict[str, Tuple[str, str]], STRING),
    (List[List[Any]], {}), (Annotated[Any, {"type": ["array", "null"]}], {}),
    (Annotated[Any, {"type": "array", "items": False}], False),
])
def test_lists_have_items(annotation, items):
    def f(x: annotation) -> None: ...

    schema = compile_function(f).input_schema["properties"]["x"]
    if "anyOf" in schema or "additionalProperties" in schema:
        schema = schema.get("additionalProperties") or schema["anyOf"][0]
    schema = schema["items"] if annotation == List[List[Any]] else schema
    assert schema["items"] == items


def test_kwargs_take_additional_arguments():
    def collect(a: int, **rest: int):
        return a, rest

    compiled = compile_function(collect)
    assert compiled.input_schema == {"type": "object", "properties": {"a": INTEGER}, "required": ["a"],
                                     "additionalProperties": INTEGER}
    assert bound(collect, {"a": 1, "b": 2.0, "c": 3}) == (1, {"b": 2, "c": 3})
    assert problems(collect, {"a": 1, "b": "2"}) == ["b: '2' is not an integer"]


def test_kwargs_without_annotation_take_anything():
    def collect(**rest):
        return rest

    assert compile_function(collect).input_schema["additionalProperties"] is True
    assert bound(collect, {"a": [1]}) == {"a": [1]}


def test_hidden_parameters_cannot_be_filled_in_by_callers():
    def delete(ctx: Context, answer: Annotated[bool, Elicit("Sure?")], **rest: Any): ...

    compiled = compile_function(delete)
    assert compiled.wants_context == "ctx" and list(compiled.questions) == ["answer"]
    assert compiled.questions["answer"][0] is bool
    for name in ("ctx", "answer"):
        assert problems(delete, {name: True}) == [f"unknown argument {name!r}; there are: none"]
        assert not jsonschema.Draft202012Validator(compiled.input_schema).is_valid({name: True})
    assert compiled.bind({"other": 1}) == {"other": 1}
    assert jsonschema.Draft202012Validator(compiled.input_schema).is_valid({"other": 1})


def test_the_context_can_be_optional():
    def crawl(root: str, ctx: Optional[Context] = None): ...

    compiled = compile_function(crawl)
    assert compiled.wants_context == "ctx" and list(compiled.input_schema["properties"]) == ["root"]


def test_recursive_classes_are_defined_beside_the_properties():
    @dataclasses.dataclass
    class Tree:
        children: "List[Tree]" = dataclasses.field(default_factory=list)

    def walk(tree: Tree): ...

    schema = compile_function(walk).input_schema
    assert list(schema["$defs"]) == ["Tree"] and schema["properties"]["tree"]["$ref"] == "#/$defs/Tree"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.fixture
def from_space(monkeypatch):
    """Return ``it`` of a module that consists of a text."""

    def load(text):
        module = types.ModuleType("elsewhere")
        monkeypatch.setitem(sys.modules, "elsewhere", module)
        exec(compile(text, "elsewhere.py", "exec", dont_inherit=True), vars(module))
        return module.it

    return load


def test_annotations_can_be_strings(from_space):
    it = from_space("from __future__ import annotations\n"
                    "import dataclasses, datetime\n"
                    "from typing import Annotated, List, Optional\n"
                    "def it(day: datetime.date, later: Optional[Later] = None, few: Annotated[int, {'maximum': 3}] = 1)"
                    " -> List[int]: return day, later, few\n"
                    "@dataclasses.dataclass\n"
                    "class Later:\n"
                    "    n: int\n"
                    "    more: Optional[Later] = None\n")
    compiled = compile_function(it)
    day, later, few = compiled.function(**compiled.bind({"day": "2024-05-06", "later": {"n": 1, "more": {"n": 2}}, "few": 2}))
    assert day == datetime.date(2024, 5, 6) and later.more.n == 2 and few == 2
    assert problems(it, {"day": "2024-05-06", "few": 4}) == ["few: 4 is greater than the maximum of 3"]
    assert compiled.output.schema["properties"]["result"] == {"type": "array", "items": INTEGER}


def test_a_default_of_none_does_not_change_the_annotation(from_space):
    # Before 3.11 typing.get_type_hints made Optional of it.
    it = from_space("from __future__ import annotations\ndef it(a: int = None): ...")
    assert compile_function(it).input_schema["properties"]["a"] == INTEGER
    assert problems(it, {"a": None}) == ["a: null is not an integer"]


# --- callables of every kind ----------------------------------------------------------------------------


class Shop:
    """A shop."""

    def __init__(self, prefix: str):
        self.prefix = prefix

    def sell(self, item: str, count: int = 1) -> str:
        """Sell something.

        :param item: what
        """
        return f"{self.prefix}{item}{count}"

    @classmethod
    def open(cls, town: str) -> str:
        """Open one."""
        return f"{cls.__name__} in {town}"

    @staticmethod
    def tax(price: float) -> float:
        """What the state gets."""
        return price / 10

    def __call__(self, question: str) -> str:
        """Ask the shop."""
        return self.prefix + question


class Adder:
    def __init__(self, a: int, b: int = 1):
        """Make a sum."""
        self.sum = a + b


def logged(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return "logged", function(*args, **kwargs)

    return inner


CALLABLES = [
    (Shop("no. ").sell, "sell", "Sell something.", {"item": "x"}, "no. x1"),
    (Shop.open, "open", "Open one.", {"town": "Rome"}, "Shop in Rome"),
    (Shop.tax, "tax", "What the state gets.", {"price": 10}, 1.0),
    (Shop.__dict__["tax"], "tax", "What the state gets.", {"price": 10}, 1.0),
    (Shop("?"), "Shop", "Ask the shop.", {"question": "who"}, "?who"),
    (functools.partial(add, b=5), "add", "Add two numbers.", {"a": 1}, 6),
    (functools.partial(functools.partial(add, b=5), b=7), "add", "Add two numbers.", {"a": 1}, 8),
    (functools.partial(Shop("-").sell, count=3), "sell", "Sell something.", {"item": "x"}, "-x3"),
    (functools.partial(add, 1), "add", "Add two numbers.", {"b": 5}, 6),
    (logged(add), "add", "Add two numbers.", {"a": 1, "b": 1}, ("logged", 2)),
    (functools.lru_cache()(add), "add", "Add two numbers.", {"a": 1}, 3),
]


@pytest.mark.parametrize("function, name, text, arguments, result", CALLABLES, ids=[
    "bound method", "class method", "static method", "staticmethod object", "callable object", "partial", "partial of partial",
    "partial of a method", "partial with a positional", "wraps", "lru_cache"])
def test_every_kind_of_callable_can_be_served(function, name, text, arguments, result):
    compiled = compile_function(function)
    assert (compiled.name, compiled.description) == (name, text)
    assert jsonschema.Draft202012Validator(compiled.input_schema).is_valid(arguments)
    assert compiled.function(**compiled.bind(arguments)) == result


class Quiet:
    """A quiet object."""

    def __call__(self, a: int) -> int:
        return a


@pytest.mark.parametrize("function, text", [
    (functools.partial(lambda a: a), None), (Quiet(), "A quiet object."), (functools.partial(Quiet(), a=1), "A quiet object."),
    (Quiet().__call__, None), (Shop("").sell, "Sell something.")])
def test_the_description_is_that_of_the_called_function(function, text):
    assert compile_function(function, name="it").description == text


def test_a_class_is_served_by_its_constructor():
    compiled = compile_function(Adder)
    assert compiled.name == "Adder" and list(compiled.input_schema["properties"]) == ["a", "b"]
    assert compiled.function(**compiled.bind({"a": 1})).sum == 2


def test_a_class_with_string_annotations(from_space):
    it = from_space("from __future__ import annotations\nimport datetime\nclass it:\n"
                    "    def __init__(self, day: datetime.date): self.day = day\n")
    compiled = compile_function(it)
    assert compiled.function(**compiled.bind({"day": "2024-05-06"})).day == datetime.date(2024, 5, 6)


def test_a_callable_object_with_string_annotations(from_space):
    cls = from_space("from __future__ import annotations\nimport datetime\nclass it:\n"
                     "    def __call__(self, day: datetime.date): return day\n")
    assert bound(cls(), {"day": "2024-05-06"}) == datetime.date(2024, 5, 6)
    assert bound(functools.partial(cls()), {"day": "2024-05-06"}) == datetime.date(2024, 5, 6)
    assert bound(logged(cls().__call__), {"day": "2024-05-06"}, name="it") == ("logged", datetime.date(2024, 5, 6))


def test_a_custom_signature_is_respected():
    def proxy(**kwargs):
        return kwargs

    proxy.__signature__ = inspect.Signature([inspect.Parameter("a", inspect.Parameter.KEYWORD_ONLY, annotation=int)])
    assert compile_function(proxy).input_schema["properties"] == {"a": INTEGER}
    assert bound(proxy, {"a": 1.0}) == {"a": 1}


def test_a_builtin_with_a_signature_can_be_served():
    assert bound("\xe4".encode, {"encoding": "latin-1"}) == b"\xe4"


# --- what cannot be registered ---------------------------------------------------------------------------


def test_star_args_are_refused():
    def total(*numbers: int): ...

    assert refusal(total) == "tool 'total': parameter 'numbers' is *args, but arguments come by name; take a list instead"
    assert "parameter 'args' is *args" in refusal(lambda *args: 1, name="it")


def test_positional_only_parameters_are_refused():
    def total(a: int, /, b: int): ...

    assert refusal(total) == "tool 'total': parameter 'a' is positional-only, but arguments come by name; drop the '/'"


async def ask(a: int) -> int:
    return a


async def stream(a: int):
    yield a


class Asking:
    async def __call__(self): ...


@pytest.mark.parametrize("function", [ask, stream, functools.partial(ask, a=1), Asking(), logged(ask), Asking().__call__,
                                      functools.partial(Asking())],
                         ids=["async def", "async generator", "partial", "object", "wraps", "method", "partial object"])
def test_async_functions_are_refused(function):
    assert refusal(function, name="it") == (
        "tool 'it' is an async function; this library has no event loop. Make it a plain def:"
        " blocking calls are fine, each handler has a thread of its own")


def test_a_lambda_needs_a_name():
    assert refusal(lambda a: a) == "a lambda has no name; give it one: name='...'"
    assert bound(lambda a: a, {"a": 1}, name="same") == 1


@pytest.mark.parametrize("thing", [5, "add", None])
def test_other_than_callables_is_refused(thing):
    assert refusal(thing, kind="prompt") == f"a prompt must be a function, not {thing!r}"


def test_the_methods_of_an_unfinished_class_are_refused():
    assert refusal(Shop.__dict__["open"]).endswith("; register the method of the finished class")
    assert refusal(Shop.sell) == (
        "tool 'sell': parameter 'self' takes the object, but a function in a class body is not bound to one;"
        " register a bound method, as in add_tool(thing.method)")


def test_an_annotation_without_a_parameter_is_not_resolved():
    def local(a: "int") -> str:
        return str(a)

    local.__annotations__["b"] = "Undefined"
    assert bound(local, {"a": 1}) == "1"


def test_undefined_names_are_refused(from_space):
    it = from_space("def it(a: 'Missing'): ...")
    message = refusal(it)
    assert message.startswith("tool 'it': parameter 'a' is annotated with a name that is not defined at module level")
    assert "'Missing'" in message and "define it there, and not only under TYPE_CHECKING" in message
    message = refusal(from_space("def it() -> 'Missing': ..."))
    assert message.startswith("tool 'it': the returned value is annotated with a name that is not defined")


@pytest.mark.parametrize("annotation, kind", [
    ("1 / 0", "ZeroDivisionError"), ("[", "SyntaxError"), ("typing.NoSuchName", "AttributeError"), ("[][0]", "IndexError")])
def test_annotations_that_fail_are_refused(from_space, annotation, kind):
    message = refusal(from_space(f"import typing\ndef it(a: {annotation!r}): ..."))
    assert message.startswith(f"tool 'it': parameter 'a' is annotated with an expression that cannot be evaluated ({kind}")


def test_unions_with_a_bar_are_explained_on_old_pythons(from_space):
    message = refusal(from_space("def it(a: '1 + None'): ..."))
    assert "parameter 'a' is annotated with an expression that cannot be evaluated on Python 3." in message
    assert message.endswith("write Optional[X] or Union[X, Y] for X | Y")


class Plain:
    pass


def test_a_default_must_fit():
    def it(count: int = "many"): ...

    assert refusal(it) == ("tool 'it': parameter 'count' has a default that does not fit its annotation:"
                           " 'many' is not an integer; change one of them")

    def nested(points: List[Point] = [{"x": "1"}]): ...

    assert "does not fit its annotation: [0].x: '1' is not an integer" in refusal(nested)


def test_a_second_context_is_refused():
    def it(a: Context, b: Context): ...

    assert refusal(it) == "tool 'it': parameter 'b' is a second context, beside 'a'; keep one of them"


def test_a_function_without_a_readable_signature_is_refused():
    message = refusal(getattr, name="it") if not _has_signature(getattr) else refusal(dict, name="it")
    assert message.startswith("tool 'it': its signature cannot be read (")
    assert message.endswith("; wrap it in a def with annotations")


def _has_signature(function):
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


# --- schemas of one's own --------------------------------------------------------------------------------

RAW = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"type": "string"}}, "required": ["a"]}


def test_with_a_given_schema_arguments_are_not_converted():
    def it(a: float, b="none"):
        return a, type(a), b

    compiled = compile_function(it, input_schema=RAW)
    assert compiled.input_schema is RAW
    assert bound(it, {"a": 1}, input_schema=RAW) == (1, int, "none")
    assert problems(it, {"a": 0}, input_schema=RAW) == ["a: 0 is less than the minimum of 1"]
    assert problems(it, {"b": "x"}, input_schema=RAW) == ["'a' is a required property"]
    assert problems(it, {"a": 1, "bb": 1}, input_schema=RAW) == ["unknown argument 'bb'; did you mean 'b'?"]


@pytest.mark.parametrize("annotation", [inspect.Parameter.empty, dict, Dict[str, Any], Mapping[str, int], Any])
def test_one_dict_can_take_all_arguments(annotation):
    def it(arguments):
        return arguments

    it.__annotations__ = {} if annotation is inspect.Parameter.empty else {"arguments": annotation}
    given = {"a": 1, "more": [2]}
    result = bound(it, given, input_schema=RAW)
    assert result == given and result is not given


def test_one_dict_and_the_context():
    def it(ctx: Context, arguments: dict): ...

    compiled = compile_function(it, input_schema=RAW)
    assert compiled.bind({"a": 1}) == {"arguments": {"a": 1}} and compiled.wants_context == "ctx"


def test_a_single_parameter_that_the_schema_names_gets_its_value():
    def it(a):
        return a

    assert bound(it, {"a": {"x": 1}}, input_schema={"type": "object", "properties": {"a": {}}, "required": ["a"]}) == {"x": 1}


def test_kwargs_take_all_that_the_schema_allows():
    def it(ctx: Context, **rest):
        return rest

    compiled = compile_function(it, input_schema=RAW)
    assert compiled.bind({"a": 1, "other": 2}) == {"a": 1, "other": 2}
    assert problems(it, {"a": 1, "ctx": 2}, input_schema=RAW) == ["unknown argument 'ctx'; there are: none"]


RAW_REFUSED = [
    (lambda a: 1, [], "tool 'it': input_schema: a JSON Schema is an object, not list"),
    (lambda a: 1, {"type": "nothing"}, "tool 'it': input_schema: it is not valid JSON Schema at type: "),
    (lambda a: 1, {"type": "array"}, "tool 'it': input_schema must have \"type\": \"object\""),
    (lambda a: 1, {}, "tool 'it': input_schema must have \"type\": \"object\""),
    (lambda a: 1, {"type": "object", "$schema": "urn:x"}, "tool 'it': input_schema: the JSON Schema dialect 'urn:x' is not"),
    (lambda a, b: 1, {**RAW, "properties": {**RAW["properties"], "c": {}}, "required": ["a", "b"]},
     "tool 'it': input_schema has the properties ['c'], which the function does not take; add parameters, or take one dict"
     " with all of them"),
    (lambda a, b: 1, RAW, "tool 'it': the parameters ['b'] have no default, but input_schema does not require them; give"
                          " defaults or list them under \"required\""),
    (lambda: 1, RAW, "tool 'it': input_schema has the properties ['a', 'b']"),
    (functools.partial(Shop.tax), RAW, "tool 'it': input_schema has the properties ['a', 'b'], which the function does not"),
    (lambda *a: 1, RAW, "tool 'it': parameter 'a' is *args"),
]


@pytest.mark.parametrize("function, schema, message", RAW_REFUSED, ids=range(len(RAW_REFUSED)))
def test_schemas_that_cannot_be_used_are_refused(function, schema, message):
    assert refusal(function, name="it", input_schema=schema).startswith(message)


def test_annotations_are_ignored_with_a_given_schema():
    def it(a: Plain, b: Plain = None):
        return a, b

    assert bound(it, {"a": 1}, input_schema=RAW) == (1, None)


# --- arguments that are texts ----------------------------------------------------------------------------


def test_prompts_and_resources_have_no_output_schema():
    for kind in ("prompt", "resource", "completion"):
        assert compile_function(add, kind=kind).output.schema is None


# --- where names and descriptions come from -------------------------------------------------------------


@pytest.mark.parametrize("options, kept", [({}, False), ({"input_schema": {"type": "object", "properties": {"a": {}}}}, True),
                                           ({"input_schema": {"type": "object", "properties": {"a": {"description": "A."}}}},
                                           False), ({"kind": "resource"}, True), ({"kind": "prompt"}, False)])
def test_descriptions_of_parameters_that_have_no_other_place_stay_in_the_text(options, kept):
    def it(a="", ctx: Context = None):
        """Do it.

        Args:
            a: The first.
            ctx: The context.
            **rest: More.
        """

    text = compile_function(it, **options).description
    assert ("The first." in text) is kept and "The context" not in text and "**rest: More." in text


def test_classes_of_a_function_are_found():
    def made():
        class Local(typing.TypedDict):
            x: int

        def it(a: "Local", b: "List[Local]" = ()) -> "Dict[str, Local]":
            return {"a": a}

        return compile_function(it), it

    compiled, it = made()
    assert compiled.input_schema["properties"]["a"]["properties"] == {"x": INTEGER}
    assert compiled.output.schema["additionalProperties"]["properties"] == {"x": INTEGER}
    assert "'Local' is not defined" in refusal(it)  # its function has ended, and it keeps nothing of it


def test_a_dispatching_function_is_refused():
    @functools.singledispatch
    def it(a): ...

    assert "singledispatch takes its first argument by position" in refusal(it)


def test_refusals_name_the_kind_and_the_name_of_the_handler():
    def it(bad: Plain): ...

    assert refusal(it, name="other", kind="prompt") == (
        "prompt 'other': parameter 'bad' is of the class Plain, which has no form in JSON; make it a dataclass or TypedDict, or"
        " take its parts as parameters")


# --- arguments that are texts (PRMT-17) ----------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Twig:
    value: int
    children: "List[Twig]" = dataclasses.field(default_factory=list)


def read(annotation, value):
    return textual(Schemas("prompt 'it'").compile(annotation, "a")).convert(value)


@pytest.mark.parametrize("annotation, text, value", [
    (str, "5", "5"), (str, " x ", " x "), (str, "", ""), (int, "5", 5), (int, " -5 ", -5), (int, "5.0", 5), (float, "5", 5.0),
    (float, "1e3", 1000.0), (bool, "true", True), (bool, "True", True), (bool, "no", False), (bool, "0", False),
    (bool, " YES ", True), (Optional[bool], "yes", True), (Optional[bool], "null", None), (Optional[int], "5", 5),
    (Optional[int], "null", None), (Optional[str], "null", "null"), (Union[int, str], "5", "5"), (Union[int, bool], "1", 1),
    (Union[int, bool], "true", True), (Any, "5", "5"), (Literal["a", "b"], "a", "a"), (Literal[1, 2], "2", 2),
    (Literal["a", 1], "a", "a"), (Color, "red", Color.RED), (Level, "1", Level.LOW),
    (datetime.date, "2024-05-06", datetime.date(2024, 5, 6)), (List[int], "[1, 2]", [1, 2]), (List[int], ["1", "2"], [1, 2]),
    (List[str], ["1", "2"], ["1", "2"]), (List[str], '["1"]', ["1"]), (List[bool], ["yes", "0"], [True, False]),
    (List[Any], ["1"], ["1"]), (Set[int], ["1", "2"], {1, 2}), (Tuple[int, int], "[1, 2]", (1, 2)),
    (Dict[str, int], '{"a": 1}', {"a": 1}), (Twig, '{"value": 1, "children": [{"value": 2}]}', Twig(1, [Twig(2)])),
    (Optional[Twig], "null", None), (int, 5, 5),
])
def test_text_is_converted_to_the_annotated_type(annotation, text, value):
    result = read(annotation, text)
    assert result == value and type(result) is type(value)


@pytest.mark.parametrize("annotation, text, reason", [
    (int, "five", "'five' is not an integer"), (int, "", "'' is not an integer"), (int, "5.5", "5.5 is not an integer"),
    (int, "true", "true is not an integer"), (int, "007", "'007' is not an integer"), (int, "9" * 9999, "is not an integer"),
    (float, "NaN", "'NaN' is not a number"), (float, "Infinity", "'Infinity' is not a number"),
    (float, "1e999", "'1e999' is not"), (float, "1,5", "'1,5' is not a number"), (float, "\ud800", "is not a number"),
    (bool, "maybe", "'maybe' is not true or false"), (bool, "null", "null is not true or false"),
    (Literal[1, 2], "3", "3 is not one of 1, 2"), (Color, "blue", "'blue' is not 'red'"), (List[int], "1", "1 is not a list"),
    (List[int], ["1", "x"], "'x' is not an integer"), (List[int], "[" * 5000, "is not a list"),
    (Dict[str, int], '{"a": 1, "a": 2}', "is not an object"), (datetime.date, "today", "'today' is not a date"),
    (Optional[int], "x", "'x' is not an integer"),
])
def test_text_that_does_not_fit_is_refused(annotation, text, reason):
    with pytest.raises(Mismatch) as caught:
        read(annotation, text)
    assert reason in caught.value.message


# --- regular expressions: one that is not safe is no switch for strangers ------------------------------


EMAIL = "^([a-zA-Z0-9]+[-._]?)+@example[.]com$"
ATTACK = "a" * 30
NAMES = {"type": "object", "properties": {"given": {"type": "object", "patternProperties": {"^(x+)+$": {"type": "integer"}}}}}


def by_annotation(server, **options):
    @server.tool(name="take", **options)
    def take(given: Annotated[str, {"pattern": EMAIL}]) -> str:
        return "taken"


def by_schema(server, **options):
    @server.tool(name="take", input_schema={"type": "object", "properties": {"given": {"type": "string", "pattern": EMAIL}}},
                 **options)
    def take(given: str = "") -> str:
        return "taken"


def by_union(server, **options):
    schema = {"type": "object", "properties": {"given": {"oneOf": [{"type": "string", "pattern": EMAIL}, {"type": "integer"}]}}}

    @server.tool(name="take", input_schema=schema, **options)
    def take(given: str = "") -> str:
        return "taken"


@pytest.mark.parametrize("register", [by_annotation, by_schema, by_union])
def test_a_pattern_that_is_not_safe_is_matched_against_short_texts_and_its_author_is_warned(server, connect, caplog, register):
    register(server)
    warning, = caplog.messages
    assert "tool 'take'" in warning and EMAIL in warning and "trusted_patterns=True" in warning
    assert "a repeat of {1,} times overlaps" in warning and f"at most {UNSAFE_SUBJECT} characters" in warning
    client = connect(server)
    assert text_of(client.call("take", {"given": "ada@example.com"})) == "taken"
    for text in ("a" * UNSAFE_SUBJECT, ATTACK, "a" * 10_000):
        assert "take" in text_of(client.call("take", {"given": text})) and client.result("ping") == {}
    refusal = text_of(client.call("take", {"given": ATTACK}))
    assert "30 characters" in refusal or register is by_union


def test_names_are_matched_against_such_a_pattern_in_the_same_way(server, connect, caplog):
    @server.tool(input_schema=NAMES)
    def take(given: dict = {}) -> str:  # noqa: B006
        return "taken"

    assert "^(x+)+$" in caplog.text
    client = connect(server)
    assert text_of(client.call("take", {"given": {"xxx": 1, "y": 2}})) == "taken"
    assert "names of more than 20 characters" in text_of(client.call("take", {"given": {"x" * 40 + "y": 1}}))


def test_what_a_tool_returns_is_matched_in_the_same_way(server, connect, caplog):
    class Found(TypedDict):
        text: Annotated[str, {"pattern": "^(x+x+)+y$"}]

    @server.tool()
    def echo(text: str) -> Found:
        return {"text": text}

    assert "(x+x+)+y" in caplog.text
    client = connect(server)
    assert client.call("echo", {"text": "xxy"})["structuredContent"] == {"text": "xxy"}
    assert client.call("echo", {"text": "x" * 40})["isError"] is True


@pytest.mark.parametrize("pattern", ["^[a-z0-9]+(-[a-z0-9]+)*$", "^[^@]+@[^@]+$", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"])
def test_an_ordinary_pattern_is_matched_against_long_texts_without_a_warning(server, connect, caplog, pattern):
    @server.tool(input_schema={"type": "object", "properties": {"given": {"type": "string", "pattern": pattern}}})
    def take(given: str = "") -> str:
        return "taken"

    assert caplog.messages == []
    problem = text_of(connect(server).call("take", {"given": "@" * 500}))
    assert "does not match" in problem


@pytest.mark.parametrize("make", [lambda: (mcplite.Server("x"), {"trusted_patterns": True}),
                                  lambda: (mcplite.Server("x", options=mcplite.ServerOptions(trusted_patterns=True)), {})])
@pytest.mark.parametrize("register", [by_annotation, by_schema, by_union])
def test_an_author_may_say_that_patterns_are_trusted(connect, caplog, make, register):
    server, options = make()
    register(server, **options)
    assert caplog.messages == []
    long = "-".join(["a"] * 50) + "@example.com"
    assert text_of(connect(server).call("take", {"given": long})) == "taken"


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_a_context_without_its_annotation_is_an_argument_and_logged(kind, caplog):
    def look(ctx):
        return "seen"

    assert compile_function(look, kind=kind).input_schema["required"] == ["ctx"]
    assert caplog.messages == [f"{kind} 'look': parameter 'ctx' is an argument that clients give, since it has no annotation;"
                               " for the context write ctx: mcplite.Context"]


def test_an_argument_may_have_the_name_of_a_context(caplog):
    def look(ctx: str, context):
        return ctx

    assert list(compile_function(look).input_schema["properties"]) == ["ctx", "context"] and not caplog.messages


def test_an_empty_name_is_refused():
    server = mcplite.Server("s")
    for add in (server.add_tool, server.add_prompt):
        with pytest.raises(RegistrationError, match="needs a name; give name='...' \\(got ''\\)"):
            add(print_nothing, name="")


def print_nothing() -> str:
    return ""
