"""pydantic: models, generics, root models, dataclasses and types as parameters, results and forms."""

import datetime
import decimal
import enum
import json
import warnings
from typing import Annotated, Any, Dict, Generic, List, Literal, Optional, Set, Tuple, TypeVar, Union

import jsonschema
import pytest

import mcplite
from mcplite.errors import RegistrationError
from mcplite.protocol.elicitation_forms import check_form
from mcplite.protocol.jsonable import jsonable
from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.forms import form_type
from mcplite.server.functions.function import BadArguments, compile_function
from mcplite.server.functions.results import tool_result
from tests.support.agreement import agree, compiled

pydantic = pytest.importorskip("pydantic", minversion="2.0", reason="it is used by those who have it")
from pydantic import (  # noqa: E402
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    HttpUrl,
    PositiveInt,
    RootModel,
    SecretStr,
    StrictInt,
    computed_field,
    conint,
    constr,
    field_validator,
    model_validator,
)

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    """A place."""

    zip_code: str = Field(pattern=r"^\d{5}$", title="ZIP")
    city: str = "Rome"


class User(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(min_length=1, description="Full name", examples=["Ann"])
    age: Annotated[int, Field(ge=0, le=150)] = 3
    mail: Optional[str] = Field(None, alias="eMail")
    color: Color = Color.RED
    born: Optional[datetime.date] = None
    addresses: List[Address] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def no_x(cls, value):
        if value == "x":
            raise ValueError("x is no name")
        return value

    @computed_field
    @property
    def initial(self) -> str:
        return self.name[:1]


class Tree(BaseModel):
    value: int
    children: List["Tree"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str


class Small(BaseModel):
    a: int


class Large(BaseModel):
    a: int
    b: int


class Box(BaseModel, Generic[T]):
    item: T


class Numbers(RootModel[List[int]]):
    pass


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    when: datetime.datetime
    share: float
    parts: Tuple[int, str]
    tags: Set[str] = set()


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def ordered(self):
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


@pydantic.dataclasses.dataclass
class Point:
    x: int = Field(ge=0)
    y: int = 0


class Celsius:
    """A class with pydantic's hook, and nothing else."""

    def __init__(self, degrees):
        self.degrees = degrees

    def __eq__(self, other):
        return isinstance(other, Celsius) and other.degrees == self.degrees

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            cls, core_schema.float_schema(), serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value.degrees))


#: Annotation, {accepted value as JSON text: converted, or None}, texts that neither the schema nor the binder accepts,
#: texts that only the library refuses.
TABLE = [
    (User, {'{"name": "Ann"}': User(name="Ann"), '{"name": "A", "eMail": "a@b", "age": 4.0, "extra": 1}': None,
            '{"name": "A", "color": "blue", "born": "2024-05-06", "addresses": [{"zip_code": "00100"}]}': None},
     ["{}", '{"name": ""}', '{"name": "A", "age": "4"}', '{"name": "A", "age": 151}', '{"name": "A", "color": "green"}',
      '{"name": "A", "addresses": [{"zip_code": "1"}]}', "null", "[]", '"Ann"'],
     ['{"name": "x"}', '{"name": "A", "born": "soon"}']),
    (Optional[User], {'{"name": "Ann"}': None, "null": None}, ["1", "{}"], ['{"name": "x"}']),
    (List[Small], {'[{"a": 1}]': [Small(a=1)], "[]": []}, ['[{"a": "1"}]', "{}"], []),
    (Dict[str, Small], {'{"k": {"a": 1}}': {"k": Small(a=1)}}, ['{"k": 1}'], []),
    (Union[Small, int], {'{"a": 1}': Small(a=1), "3": 3}, ['"x"'], []),
    (Union[Small, Large], {'{"a": 1, "b": 2}': Large(a=1, b=2), '{"a": 1}': Small(a=1)}, ["1"], []),
    (Union[Cat, Dog], {'{"kind": "dog", "bark": "w"}': Dog(kind="dog", bark="w")}, ['{"kind": "cow"}', '{"kind": "dog"}'], []),
    (Annotated[Union[Cat, Dog], Field(discriminator="kind")], {'{"kind": "cat"}': Cat(kind="cat")}, ['{"kind": "cow"}', "{}"],
     []),
    (Box[int], {'{"item": 1}': Box[int](item=1)}, ['{"item": "1"}'], []),
    (Box[List[Small]], {'{"item": [{"a": 1}]}': None}, ['{"item": [{}]}'], []),
    (Numbers, {"[1, 2]": Numbers([1, 2])}, ['["1"]', "{}"], []),
    (Tree, {'{"value": 1, "children": [{"value": 2}]}': Tree(value=1, children=[Tree(value=2)])},
     ['{"value": 1, "children": [{}]}', '{"value": "1"}'], []),
    (Strict, {'{"when": "2024-05-06T07:08:09Z", "share": 1, "parts": [1, "a"], "tags": ["t"]}': None},
     ['{"when": 5, "share": 1, "parts": [1, "a"]}', '{"when": "2024-05-06T07:08:09Z", "share": 1, "parts": [1], "z": 1}'],
     ['{"when": "soon", "share": 1, "parts": [1, "a"]}']),
    (Range, {'{"low": 1, "high": 2}': Range(low=1, high=2)}, ['{"low": 1}'], ['{"low": 2, "high": 1}']),
    (Point, {'{"x": 1}': Point(1)}, ['{"x": -1}', '{"x": "1"}', "{}"], []),
    (Celsius, {"20": Celsius(20), "1.5": Celsius(1.5)}, ['"20"'], []),
    (PositiveInt, {"1": 1}, ["0", '"1"', "1.5"], []),
    (StrictInt, {"1": 1}, ['"1"'], []),
    (conint(ge=2, multiple_of=2), {"4": 4}, ["3", "0", "true"], []),
    (constr(min_length=2, pattern="^a+$"), {'"aa"': "aa"}, ['"a"', '"ab"', "1"], []),
    (HttpUrl, {'"https://example.com/x"': HttpUrl("https://example.com/x")}, ["1"], ['"nowhere"']),
    (SecretStr, {'"x"': SecretStr("x")}, ["1"], []),
    (Annotated[str, AfterValidator(str.upper)], {'"a"': "A"}, ["1"], []),
    (Annotated[List[int], BeforeValidator(lambda value: value + [0])], {"[1]": [1, 0]}, ['"1"'], []),
    (Annotated[decimal.Decimal, Field(max_digits=3, decimal_places=1)], {'"1.5"': decimal.Decimal("1.5"), "2": None}, ["null"],
     ['"1.55"']),
]


@pytest.mark.parametrize("annotation, accepted, rejected, unconvertible", TABLE, ids=lambda value: str(value)[:40])
def test_the_binder_agrees_with_the_schema(annotation, accepted, rejected, unconvertible):
    agree(annotation, accepted, rejected, unconvertible, lenient=True)


def test_the_schema_has_what_the_fields_say_and_no_titles_that_were_made_up():
    _, schema = compiled(User)
    assert schema == {
        "type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Full name", "examples": ["Ann"]},
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 3},
            "eMail": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "born": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "addresses": {"type": "array", "items": {
                "type": "object", "description": "A place.", "required": ["zip_code"], "properties": {
                    "zip_code": {"type": "string", "pattern": r"^\d{5}$", "title": "ZIP"},
                    "city": {"type": "string", "default": "Rome"}}}}}}


def test_only_a_model_that_contains_itself_is_referred_to():
    def plant(tree: Tree, other: Tree) -> None: ...

    function = compile_function(plant)
    assert function.input_schema["properties"]["tree"] == {"type": "object", "$ref": "#/$defs/Tree"}
    assert list(function.input_schema["$defs"]) == ["Tree"]
    assert function.bind({"tree": {"value": 1}, "other": {"value": 2, "children": [{"value": 3}]}})["tree"] == Tree(value=1)


def test_two_models_of_one_name_do_not_meet():
    def other():
        class Tree(BaseModel):
            name: str
            next: "Optional[Tree]" = None

        return Tree

    Other = other()

    def plant(a: Tree, b: Other) -> None: ...

    function = compile_function(plant)
    assert set(function.input_schema["$defs"]) == {"Tree", "Tree2"}
    assert function.bind({"a": {"value": 1}, "b": {"name": "n", "next": {"name": "m"}}})["b"].next.name == "m"
    with pytest.raises(BadArguments):
        function.bind({"a": {"value": 1}, "b": {"value": 1}})


def test_errors_have_the_place_and_the_text_of_the_validator():
    def greet(user: User) -> None: ...

    function = compile_function(greet)
    with pytest.raises(BadArguments) as caught:
        function.bind({"user": {"name": "x", "age": -1, "addresses": [{"zip_code": "1"}]}})
    assert caught.value.problems == [
        "user.name: x is no name; user.age: Input should be greater than or equal to 0;"
        " user.addresses[0].zip_code: String should match pattern '^\\d{5}$'"]
    with pytest.raises(BadArguments, match=r"^user\.age: '3' is not of type 'integer'$"):
        function.bind({"user": {"name": "A", "age": "3"}})

    def between(range: Range) -> None: ...

    with pytest.raises(BadArguments, match="^range: low is above high$"):
        compile_function(between).bind({"range": {"low": 2, "high": 1}})


def test_a_pattern_of_pydantics_engine_is_matched_by_pydantic():
    def it(word: Annotated[str, Field(pattern=r"^\p{L}+$")]) -> None: ...

    function = compile_function(it)
    assert function.input_schema["properties"]["word"]["pattern"] == r"^\p{L}+$"
    assert function.bind({"word": "é" * 10_000})
    with pytest.raises(BadArguments, match="^word: String should match pattern"):
        function.bind({"word": "1"})


def test_a_lone_surrogate_is_an_error_of_the_caller():
    def greet(user: User) -> None: ...

    with pytest.raises(BadArguments, match="^user"):
        compile_function(greet).bind({"user": {"name": "\ud800"}})


def test_a_model_inside_a_dataclass_and_the_other_way_round():
    import dataclasses

    @dataclasses.dataclass
    class Order:
        buyer: Address
        count: int = 1

    class Basket(BaseModel):
        point: Point
        orders: List[Dict[str, int]]

    def buy(order: Order, basket: Basket) -> None: ...

    buy.__annotations__.update(order=Order, basket=Basket)
    bound = compile_function(buy).bind({"order": {"buyer": {"zip_code": "00100"}},
                                        "basket": {"point": {"x": 1}, "orders": [{"a": 1}]}})
    assert bound["order"] == Order(Address(zip_code="00100")) and bound["basket"].point == Point(1)


# --- results ------------------------------------------------------------------------------------------


def test_a_model_is_a_structured_result_with_aliases_and_computed_fields():
    def make() -> User:
        return User(name="Ann", eMail="a@b")

    function = compile_function(make)
    assert function.output.schema["required"] == ["name", "initial"]
    assert function.output.schema["properties"]["eMail"]
    result = tool_result(make(), function)
    assert result.structured_content == {"name": "Ann", "age": 3, "eMail": "a@b", "color": "red", "born": None, "addresses": [],
                                         "initial": "A"}
    assert json.loads(result.content[0].text) == result.structured_content


@pytest.mark.parametrize("returns, value, structured", [
    (List[Small], [Small(a=1)], {"result": [{"a": 1}]}), (Optional[Small], None, {"result": None}),
    (Numbers, Numbers([1]), {"result": [1]}), (Point, Point(1), {"x": 1, "y": 0}), (Box[int], Box[int](item=1), {"item": 1}),
    (Dict[str, Small], {"k": Small(a=1)}, {"k": {"a": 1}}), (Tree, Tree(value=1), {"value": 1, "children": []}),
    (HttpUrl, HttpUrl("http://a.b"), {"result": "http://a.b/"}), (Any, {"u": HttpUrl("http://a.b")}, {"u": "http://a.b/"}),
    (dict, Small(a=1), {"a": 1}),
])
def test_results(returns, value, structured):
    def make(): ...

    make.__annotations__["return"] = returns
    function = compile_function(make)
    assert tool_result(value, function).structured_content == structured
    if function.output.schema is not None:
        jsonschema.Draft202012Validator.check_schema(function.output.schema)


def test_a_pattern_of_pydantics_engine_does_not_break_the_check_of_results():
    class Word(BaseModel):
        text: str = Field(pattern=r"^\p{L}+$")

    def make(): ...

    make.__annotations__["return"] = Word
    assert tool_result(Word(text="é"), compile_function(make)).structured_content == {"text": "é"}


def test_what_has_no_form_in_json_is_an_error():
    class Share(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)

        part: float = 0.0
        thing: Any = None

    with pytest.raises(ValueError, match="nan is not a JSON number"):
        jsonable(Share(part=float("nan")))
    with pytest.raises((ValueError, TypeError), match="object"):
        jsonable(Share(thing=object()))


# --- refusals -----------------------------------------------------------------------------------------


def test_what_cannot_be_is_refused_at_registration():
    class Bad(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)

        function: type(lambda: 0)

    class Lost(BaseModel):
        part: "Nowhere"  # noqa: F821

    class Opaque:
        pass

    for annotation in (Bad, Lost, Annotated[Opaque, AfterValidator(str)]):
        def it(bad): ...

        it.__annotations__["bad"] = annotation
        with pytest.raises(RegistrationError, match="^tool 'it': parameter 'bad' is annotated with .*, of which pydantic makes"
                                                    " no JSON Schema .*; change the field"):
            compile_function(it)


def test_a_schema_that_is_too_large_is_refused():
    class Long(BaseModel):
        text: str = Field(description="x" * 300_000)

    def it(bad): ...

    it.__annotations__["bad"] = Long
    with pytest.raises(RegistrationError, match="^tool 'it': parameter 'bad': it has [0-9]+ bytes; .*change the type's schema"):
        compile_function(it)


def test_a_union_with_a_class_that_pydantic_does_not_know_names_it():
    class Opaque:
        pass

    def it(bad): ...

    it.__annotations__["bad"] = Union[Small, Large, Opaque]
    with pytest.raises(RegistrationError, match="'bad' is of the class Opaque, which has no form in JSON"):
        compile_function(it)


def test_a_default_that_is_a_model_need_not_fit_what_it_writes():
    class Secret(BaseModel):
        model_config = ConfigDict(extra="forbid")

        key: SecretStr = SecretStr("k")

        @computed_field
        @property
        def length(self) -> int:
            return 1

    def it(secret: Secret = Secret(), small: Small = Small(a=1)) -> None: ...  # noqa: B008

    it.__annotations__["secret"] = Secret
    properties = compile_function(it).input_schema["properties"]
    assert "default" not in properties["secret"] and properties["small"]["default"] == {"a": 1}


def test_addresses_of_mail():
    pytest.importorskip("email_validator", reason="pydantic needs it for EmailStr")

    def it(mail: pydantic.EmailStr) -> None: ...

    function = compile_function(it)
    assert function.input_schema["properties"]["mail"] == {"type": "string", "format": "email"}
    with pytest.raises(BadArguments, match="^mail: value is not a valid email address"):
        function.bind({"mail": "x"})


# --- prompts, resources, forms ------------------------------------------------------------------------


def test_prompts_and_resources_take_models_as_json_text():
    def it(user: User, size: PositiveInt, kinds: List[Color]) -> str: ...

    bound = compile_function(it, kind="prompt").bind({"user": '{"name": "Ann"}', "size": "3", "kinds": '["red"]'})
    assert bound == {"user": User(name="Ann"), "size": 3, "kinds": [Color.RED]}


class Confirm(BaseModel):
    ok: bool = Field(description="Really?")
    count: Optional[int] = Field(None, ge=1)
    color: Color = Color.RED
    note: Annotated[str, Field(max_length=5)] = "-"


def test_a_flat_model_is_a_form():
    form = form_type(Confirm)
    assert form.schema == {"type": "object", "required": ["ok"], "properties": {
        "ok": {"type": "boolean", "description": "Really?"}, "count": {"type": "integer", "minimum": 1},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "note": {"type": "string", "maxLength": 5, "default": "-"}}}
    check_form(form.schema)
    assert form.convert({"ok": True, "color": "blue", "other": 1}) == Confirm(ok=True, color=Color.BLUE)
    with pytest.raises(Mismatch):
        form.convert({"ok": True, "count": 0})


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_handler_asks_with_models_in_both_eras(era):
    mcp = mcplite.Server("shop")

    @mcp.tool()
    def order(ctx: mcplite.Context) -> str:
        reply = ctx.elicit("Order?", Confirm)
        return f"{reply.data.ok} {reply.data.color.name}"

    @mcp.tool()
    def remove(path: str, answer: Annotated[Confirm, mcplite.Elicit("Delete {path}?")]) -> str:
        return f"{path} {answer.ok}"

    @mcp.tool()
    def grow(age: Annotated[int, Field(ge=1), mcplite.Elicit("Age?")]) -> int:
        return age

    asked = []

    def answer(request):
        asked.append(request.requested_schema)
        fields = request.requested_schema["properties"]
        return {"ok": True} if "ok" in fields else {"value": 4}

    with mcplite.connect(mcp, options=mcplite.ClientOptions(era=era), elicitation_handler=answer) as client:
        assert client.call_tool("order").text == "True RED"
        assert client.call_tool("remove", {"path": "/x"}).text == "/x True"
        assert client.call_tool("grow").text == "4"
    assert asked[2]["properties"]["value"] == {"type": "integer", "minimum": 1}


# --- pydantic 1 ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def old():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        v1 = pytest.importorskip("pydantic.v1", reason="pydantic 1 is not there")

    class Part(v1.BaseModel):
        size: int = v1.Field(1, ge=1)

    class Thing(v1.BaseModel):
        name: str = v1.Field(..., alias="Name", description="What it is", min_length=1)
        pair: Tuple[int, str] = (1, "a")
        parts: List[Part] = []
        born: Optional[datetime.date] = None

        @v1.validator("name")
        def no_x(cls, value):
            if value == "x":
                raise ValueError("x is no name")
            return value

    class Unshown(v1.BaseModel):
        class Config:
            arbitrary_types_allowed = True

        thing: object = None
        call: Any = None
        odd: Optional[Range] = None

    return {"Part": Part, "Thing": Thing, "Field": v1.Field, "Unshown": Unshown}


def test_models_of_pydantic_1(old):
    def make(thing): ...

    Thing, Part = old["Thing"], old["Part"]
    make.__annotations__.update({"thing": Thing, "return": Thing})
    function = compile_function(make)
    name = function.input_schema["properties"]["thing"]["properties"]["Name"]
    assert name["minLength"] == 1 and name["description"] == "What it is"
    jsonschema.Draft202012Validator.check_schema(function.input_schema)
    given = {"Name": "n", "pair": [2, "b"], "parts": [{"size": 2}], "born": "2024-05-06"}
    made = function.bind({"thing": given})["thing"]
    assert made == Thing(Name="n", pair=(2, "b"), parts=[Part(size=2)], born=datetime.date(2024, 5, 6))
    assert tool_result(made, function).structured_content == given
    for bad, reason in (({"Name": "x"}, "thing.Name: x is no name"), ({"Name": "n", "parts": [{"size": "2"}]}, "'2' is not"),
                        ({"Name": "n", "parts": [{"size": 0}]}, r"thing.parts\[0\].size: ")):
        with pytest.raises(BadArguments, match=reason):
            function.bind({"thing": bad})


def test_a_model_of_pydantic_1_without_a_schema_is_refused(old):
    def make(thing): ...

    make.__annotations__["thing"] = old["Unshown"]
    with pytest.raises(RegistrationError, match="pydantic makes no JSON Schema"):
        compile_function(make)
