"""What all libraries have in common: no imports of ours, random values, and the same classes over the wire."""

import dataclasses
import datetime
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Dict, Generic, List, Optional, TypeVar, Union

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

import mcplite
from mcplite.errors import RegistrationError
from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.function import compile_function
from mcplite.server.functions.schemas import Schemas

ROOT = Path(mcplite.__file__).resolve().parent.parent
LIBRARIES = ["pydantic", "pydantic_core", "annotated_types", "attr", "attrs", "msgspec", "numpy", "pandas"]
T = TypeVar("T")

PLAIN = """
import dataclasses, enum, sys, datetime, types
from typing import Annotated, Dict, List, Literal, Optional, Union
sys.path.insert(0, {root!r})
import mcplite

class Color(enum.Enum):
    RED = "red"

class Opaque:
    pass

@dataclasses.dataclass
class Point:
    x: int
    y: Annotated[int, "text", {{"minimum": 0}}] = 0

mcp = mcplite.Server("plain")

@mcp.tool()
def plain(a: int, point: Point, color: Color = Color.RED, days: Annotated[Optional[List[datetime.date]], "Days"] = None,
          either: Union[int, str] = 3) -> Dict[str, Point]:
    return {{"p": point}}

with mcplite.connect(mcp) as client:
    assert client.call_tool("plain", {{"a": 1, "point": {{"x": 1}}}}).structured_content == {{"p": {{"x": 1, "y": 0}}}}
    assert client.call_tool("plain", {{"a": "1", "point": 3}}).is_error
assert not [name for name in sys.modules if name.startswith("mcplite.server.functions.foreign")], "only where it is needed"

def odd(a: Annotated[int, Opaque()]) -> Opaque:
    return Opaque()

def worse(a: Opaque) -> None: ...

mcp.add_tool(odd)
try:
    mcp.add_tool(worse)
except mcplite.errors.RegistrationError:
    pass
with mcplite.connect(mcp) as client:
    assert client.call_tool("odd", {{"a": 1}}).is_error
print(" ".join(name for name in {libraries!r} if name in sys.modules))
"""


@pytest.mark.slow
def test_no_library_is_imported_that_the_user_has_not_imported():
    # jsonschema imports attrs itself, so that the libraries before and after are compared without it.
    code = PLAIN.format(root=str(ROOT), libraries=[name for name in LIBRARIES if name not in ("attr", "attrs")])
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.decode().split() == []


@pytest.mark.parametrize("library, names", [
    ("pydantic", "class It(pydantic.BaseModel):\n    a: int\nvalue = It(a=1)"),
    ("attrs", "@attrs.define\nclass It:\n    a: int\nvalue = It(1)"),
    ("msgspec", "class It(msgspec.Struct):\n    a: int\nvalue = It(1)"),
    ("numpy", "It = numpy.ndarray\nvalue = numpy.array([1])"),
])
def test_one_library_does_not_bring_another(library, names):
    pytest.importorskip(library, reason="it is used by those who have it")
    code = (f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nimport {library}\n{names}\nimport mcplite\n"
            f"before = set(sys.modules)\nmcp = mcplite.Server('s')\n"
            f"def it(it: It) -> It:\n    return value\nmcp.add_tool(it)\n"
            f"with mcplite.connect(mcp) as client:\n    client.call_tool('it', {{'it': {{'a': 1}}}})\n"
            f"own = {{'pydantic': 'pydantic_core', 'attrs': 'attr'}}.get({library!r})\n"
            f"after = {{name.partition('.')[0] for name in set(sys.modules) - before}}\n"
            f"print(*[name for name in after if name in {LIBRARIES!r} and name not in ({library!r}, own, 'attr', 'attrs')])\n")
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.decode().split() == []


# --- random values ------------------------------------------------------------------------------------


def types_of_libraries():
    found = {}
    try:
        import pydantic

        class Model(pydantic.BaseModel):
            a: int
            b: Optional[float] = None
            c: List[str] = []
            d: Dict[str, bool] = {}
            e: Annotated[int, pydantic.Field(ge=0, le=3)] = 1
            f: Union[int, str] = 0

        found["pydantic"] = Model
        found["field"] = Annotated[int, pydantic.Field(ge=0, lt=3)]
    except ImportError:
        pass
    try:
        import msgspec

        class Struct(msgspec.Struct, forbid_unknown_fields=True):
            a: int
            b: Optional[float] = None
            c: List[str] = []
            d: Dict[str, bool] = {}
            e: Annotated[int, msgspec.Meta(ge=0, le=3)] = 1
            f: Union[int, str] = 0

        found["msgspec"] = Struct
    except ImportError:
        pass
    try:
        import attrs

        @attrs.define
        class Class:
            a: int
            b: Optional[float] = None
            c: List[str] = attrs.Factory(list)
            d: Dict[str, bool] = attrs.Factory(dict)
            e: int = attrs.field(default=1, validator=[attrs.validators.ge(0), attrs.validators.le(3)])
            f: Union[int, str] = 0

        found["attrs"] = Class
    except ImportError:
        pass
    try:
        from typing import Tuple

        import numpy

        found["vector"] = numpy.ndarray[Tuple[int], numpy.dtype[numpy.float64]]
        found["bytes"] = numpy.ndarray[Tuple[int], numpy.dtype[numpy.uint8]]
    except ImportError:
        pass
    return found


TYPES = types_of_libraries()
#: No numbers beyond 64 bits: written as floats they are no integers to pydantic.
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 300), st.floats(-1e9, 1e9),
                    st.sampled_from([0.0, 1.0, 2.0, "", "1", "true", "null", "a"]))
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from("abcdefz"), SCALARS, max_size=3))
OBJECTS = st.fixed_dictionaries({}, optional={"a": VALUES, "b": VALUES, "c": VALUES, "d": VALUES, "e": VALUES, "f": VALUES,
                                              "z": SCALARS})


@pytest.mark.parametrize("name", ["pydantic", "msgspec", "attrs", "field", "vector", "bytes"])
@pytest.mark.slow
def test_the_binder_accepts_what_is_valid_under_the_schema_and_nothing_else(name):
    if name not in TYPES:
        pytest.skip("the library is not installed")
    schemas = Schemas("tool 'it'")
    node = schemas.compile(TYPES[name], "arg")
    validator = jsonschema.Draft202012Validator(node.schema)

    @settings(deadline=None, max_examples=300, derandomize=True)
    @given(st.one_of(VALUES, OBJECTS))
    def check(value):
        try:
            node.convert(value)
        except Mismatch:
            accepted = False
        else:
            accepted = True
        assert accepted == validator.is_valid(value), value

    check()


# --- generic classes of the standard library, which go the same way as attrs' -------------------------


@dataclasses.dataclass
class Box(Generic[T]):
    item: T
    more: List[T] = dataclasses.field(default_factory=list)
    other: "Optional[Box[T]]" = None


def test_a_generic_dataclass_has_the_types_of_its_alias():
    schemas = Schemas("tool 'it'")
    node = schemas.compile(Box[datetime.date], "arg")
    assert schemas.definitions["Box"]["properties"]["item"] == {"type": "string", "format": "date"}
    assert node.convert({"item": "2024-05-06", "more": ["2024-05-07"]}) == Box(
        datetime.date(2024, 5, 6), [datetime.date(2024, 5, 7)])


def test_two_aliases_of_one_class_are_two_types():
    def it(a: Box[int], b: Box[str]) -> None: ...

    bound = compile_function(it).bind({"a": {"item": 1, "other": {"item": 2}}, "b": {"item": "x"}})
    assert bound == {"a": Box(1, [], Box(2)), "b": Box("x")}


def test_a_class_of_no_library_is_refused_as_before():
    class Opaque:
        pass

    with pytest.raises(RegistrationError, match="is of the class Opaque, which has no form in JSON; make it a dataclass"):
        Schemas("tool 'it'").compile(Opaque, "arg")
