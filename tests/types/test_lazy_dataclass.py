"""Records: what a program sees of them is what ``dataclasses`` makes."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import List, Optional

import pytest

import mcplite
from mcplite.types import TextContent, Tool
from mcplite.types.lazy_dataclass import Record, RecordField, changed, fields_of, record

ROOT = Path(mcplite.__file__).resolve().parent.parent


@record
class Base(Record):
    """A base."""

    name: str
    size: int = 1
    items: List[int] = RecordField(default_factory=list)


@record
class Derived(Base):
    size: int = 2
    more: Optional[str] = RecordField(default=None, metadata={"mark": 1})


@record(frozen=True)
class Frozen(Record):
    positive: int = 3

    def __post_init__(self):
        if self.positive <= 0:
            raise ValueError(f"{self.positive} is not positive")


@dataclasses.dataclass(eq=False, repr=False)
class PlainBase:
    """A base."""

    name: str
    size: int = 1
    items: List[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False, repr=False)
class PlainDerived(PlainBase):
    size: int = 2
    more: Optional[str] = dataclasses.field(default=None, metadata={"mark": 1})


@dataclasses.dataclass
class OfUsers(Tool):
    """What a program derives with ``@dataclass``."""

    price: int = 0


class Undecorated(Tool):
    other: int = 0


PAIRS = [(Base, PlainBase), (Derived, PlainDerived)]


@pytest.mark.parametrize("arguments", [
    ("a",), ("a", 5), ("a", 5, [1]), (), ("a", 5, [1], "m"), ("a", 5, [1], "m", 1),
])
@pytest.mark.parametrize("named", [{}, {"name": "b"}, {"size": 7}, {"items": [2]}, {"more": "x"}, {"unknown": 1}])
@pytest.mark.parametrize("ours, plain", PAIRS)
def test_a_record_takes_what_a_dataclass_takes_and_refuses_the_same_in_the_same_words(ours, plain, arguments, named):
    def made(cls):
        try:
            return vars(cls(*arguments, **named))
        except TypeError as error:
            return str(error).replace("Plain", "")

    assert made(ours) == made(plain)


@pytest.mark.parametrize("ours, plain", PAIRS)
def test_dataclasses_and_inspect_see_a_dataclass(ours, plain):
    assert dataclasses.is_dataclass(ours) and dataclasses.is_dataclass(ours("a"))
    for one, other in zip(dataclasses.fields(ours), dataclasses.fields(plain)):
        for what in ("name", "type", "default", "default_factory", "metadata", "init", "kw_only"):
            assert getattr(one, what, None) == getattr(other, what, None)
    assert len(dataclasses.fields(ours)) == len(dataclasses.fields(plain))
    assert inspect.signature(ours) == inspect.signature(plain)
    assert ours.__match_args__ == tuple(field.name for field in dataclasses.fields(plain))
    assert dataclasses.asdict(ours("a", items=[1])) == dataclasses.asdict(plain("a", items=[1]))
    assert vars(dataclasses.replace(ours("a"), size=9)) == vars(dataclasses.replace(plain("a"), size=9))
    assert [name for name in ("size", "items", "name") if hasattr(ours, name)] == ["size"] and ours.size == plain.size


def test_the_base_class_is_no_dataclass():
    assert not dataclasses.is_dataclass(Record) and not hasattr(Record, "__signature__")
    with pytest.raises(TypeError, match="Record is not a record"):
        fields_of(Record)


def test_a_default_that_is_made_is_made_for_each_record():
    first, second = Base("a"), Base("a")
    first.items.append(1)
    assert second.items == []


def test_a_frozen_record_cannot_be_changed_and_checks_itself():
    made = Frozen()
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'positive'"):
        made.positive = 4
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'positive'"):
        del made.positive
    with pytest.raises(ValueError, match="0 is not positive"):
        Frozen(0)
    with pytest.raises(ValueError, match="0 is not positive"):
        changed(made, positive=0)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Thawed", (Frozen,), {}))


@pytest.mark.parametrize("value", [
    Derived("a", items=[1], more="x"), Frozen(5), OfUsers("a", {}, price=2), Undecorated("a", {}),
])
def test_copies_and_pickles_have_the_same_values(value):
    for one in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), changed(value)):
        assert type(one) is type(value) and vars(one) == vars(value)


def test_a_dataclass_that_is_derived_from_a_record_has_its_fields_too():
    made = OfUsers("a", {}, title="A", price=2)
    assert str(inspect.signature(OfUsers)).endswith("price: int = 0) -> None")
    assert [field.name for field in fields_of(OfUsers)] == [field.name for field in dataclasses.fields(OfUsers)]
    assert made.to_dict() == {"name": "a", "inputSchema": {}, "title": "A", "price": 2}
    assert OfUsers.from_dict(made.to_dict()) == made == changed(made) != changed(made, price=3)


def test_a_class_that_is_derived_without_a_decorator_has_the_fields_of_its_base():
    assert [field.name for field in fields_of(Undecorated)] == [field.name for field in fields_of(Tool)]
    assert inspect.signature(Undecorated) == inspect.signature(Tool) and Undecorated("a", {}).to_dict() == {
        "name": "a", "inputSchema": {}}


def test_matching_by_position_has_the_fields_in_order():
    assert TextContent.__match_args__[0] == "text"


def test_records_are_made_read_and_written_without_dataclasses():
    code = (f"import sys; sys.path.insert(0, {str(ROOT)!r}); from mcplite.types import Tool; tool = Tool('a', {{}});"
            "assert Tool.from_dict(tool.to_dict()) == tool; print({'dataclasses', 'inspect'} & set(sys.modules))")
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, timeout=60, check=True)
    assert ran.stdout.decode().strip() == "set()"
