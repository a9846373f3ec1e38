import copy
import dataclasses
import json
from typing import Optional

import pytest

import mcplite.types
from mcplite import types
from mcplite.revisions import JUNE_2025, NOVEMBER_2025
from mcplite.types.codec import Model
from mcplite.types.lazy_dataclass import NULL, Null, record, wire


@record
class Thing(Model):
    name: str
    other: Optional[str] = wire("_other", since=JUNE_2025, until=NOVEMBER_2025)
    kind: str = wire(default="plain")
    items: list = wire(factory=list)


def test_extra_is_empty_until_something_is_in_it():
    thing = Thing("a")
    assert vars(thing).keys() == {"name", "other", "kind", "items"}
    assert thing.extra == {}
    thing.extra["x"] = 1
    assert thing.extra == {"x": 1} and Thing("a").extra == {}
    assert copy.deepcopy(thing).extra == {"x": 1}


def test_null_is_one_falsy_value_that_copies_keep():
    assert not NULL and NULL is not None and repr(NULL) == "NULL"
    assert copy.copy(NULL) is NULL and copy.deepcopy({"a": [NULL]})["a"][0] is NULL
    assert dataclasses.asdict(Thing("a", other=NULL))["other"] is NULL
    assert isinstance(NULL, Null) and mcplite.types.NULL is NULL


def test_everything_is_importable_from_the_package():
    for name in mcplite.types.__all__:
        assert hasattr(mcplite.types, name)
        assert name in dir(mcplite.types)
    homes = [name for names in mcplite.types._HOMES.values() for name in names]
    assert sorted([*homes, "Icon", "Model", "NULL"]) == sorted(mcplite.types.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        mcplite.types.Nothing
    assert len(mcplite.types.__all__) == len(set(mcplite.types.__all__))


# --- dicts -----------------------------------------------------------------------------------------------------------


def test_a_dict_is_the_form_of_the_wire_in_the_newest_revision_unless_another_is_given():
    tool = types.Tool("add", {"type": "object"}, output_schema={"type": "object"}, title="Sum")
    assert json.loads(json.dumps(tool.to_dict())) == {
        "name": "add", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}, "title": "Sum"}
    assert tool.to_dict("2025-03-26") == {"name": "add", "inputSchema": {"type": "object"}}
    assert tool.to_dict(NOVEMBER_2025) == tool.to_dict()
    with pytest.raises(ValueError, match="'1999-01-01' is not a protocol revision"):
        tool.to_dict("1999-01-01")


def test_content_of_any_kind_is_read_by_the_class_of_unknown_content():
    assert types.UnknownContent.from_dict({"type": "text", "text": "x"}) == types.TextContent("x")
    assert types.UnknownContent({"type": "video"}).to_dict() == {"type": "video"}


# --- reprs -----------------------------------------------------------------------------------------------------------


def test_a_repr_has_neither_what_is_absent_nor_long_values_in_full():
    assert repr(types.TextContent("hello")) == "TextContent(text='hello')"
    assert repr(types.Tool("add", {})) == "<Tool add()>"
    assert repr(types.Tool("add\n", {"properties": {"a": {}, "b": {}}, "required": ["a"]})) == "<Tool add\\n(a, b=...)>"
    assert repr(types.Tool("odd", {"properties": 5, "required": 6})) == "<Tool odd()>"
    image = repr(types.ImageContent("QUJD" * 100_000, "image/png"))
    assert len(image) < 150 and "(400000 characters)" in image and image.endswith("mime_type='image/png')")
    result = repr(types.CallToolResult([types.TextContent(str(n)) for n in range(1000)], is_error=True))
    assert len(result) < 300 and "... 994 more" in result and result.endswith("is_error=True)")
    big = repr(types.Tool("add", {"properties": {str(n): {"type": "string"} for n in range(1000)}}))
    assert len(big) < 300
