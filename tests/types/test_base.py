import copy
import dataclasses
from dataclasses import dataclass
from typing import Optional

import mcplite.types
from mcplite.revisions import JUNE_2025, NOVEMBER_2025
from mcplite.types.base import NULL, Model, Null, wire


@dataclass
class Thing(Model):
    name: str
    other: Optional[str] = wire("_other", since=JUNE_2025, until=NOVEMBER_2025)
    kind: str = wire(default="plain")
    items: list = wire(factory=list)


def test_marks_are_on_the_fields():
    marks = {field.name: dict(field.metadata) for field in dataclasses.fields(Thing)}
    assert marks["name"] == {}
    assert marks["other"] == {"wire": "_other", "since": JUNE_2025, "until": NOVEMBER_2025}
    assert marks["kind"] == {"wire": None, "since": None, "until": None}


def test_defaults():
    first, second = Thing("a"), Thing("a")
    assert (first.other, first.kind, first.items) == (None, "plain", [])
    first.items.append(1)
    assert second.items == []


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
    classes = {name for name, item in vars(mcplite.types).items() if isinstance(item, type) and issubclass(item, Model)}
    assert classes <= set(mcplite.types.__all__)
    assert len(mcplite.types.__all__) == len(set(mcplite.types.__all__))
