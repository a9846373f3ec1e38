"""Records: classes of fields, which become dataclasses when a program asks for that; and the marks of their fields.

The vocabulary, the limits and the options are records. ``dataclasses`` writes and compiles an ``__init__`` for each class,
and imports ``inspect``: together these took a quarter of the start of a server, or a client. So records have one ``__init__``,
written once. ``dataclasses`` is imported when a program asks a record for its dataclass fields or its signature; both, and
classes that are derived with ``@dataclass``, work as usual.

A field without a mark exists in all revisions under its camelCase name; ``wire(...)`` marks it with another name or other
revisions.
"""

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Dict, FrozenSet, Mapping, Optional, Tuple, Type, TypeVar

from ..revisions import Revision

__all__ = ["MISSING", "Marked", "NULL", "Null", "Record", "RecordField", "changed", "fields_of", "record", "wire", "wire_name"]

T = TypeVar("T")
#: Stands for "no default".
MISSING: Any = object()


class RecordField:
    """One field: its name, its default or the function that makes it, and its marks."""

    __slots__ = ("name", "default", "default_factory", "metadata")

    def __init__(self, name: str = "", default: Any = MISSING, default_factory: Any = MISSING,
                 metadata: Mapping[str, Any] = {}) -> None:
        self.name = name
        self.default = default
        self.default_factory = default_factory
        self.metadata = metadata


class _Table:
    """The fields of one class, its base classes' first, in the forms in which they are needed."""

    def __init__(self, owner: type, fields: Dict[str, RecordField], frozen: bool) -> None:
        self.owner = owner
        self.by_name = fields
        self.fields = tuple(fields.values())
        self.names = tuple(fields)
        self.frozen = frozen
        self.defaults = {name: field.default for name, field in fields.items() if field.default is not MISSING}
        self.factories = [field for field in self.fields if field.default_factory is not MISSING]
        self.required = frozenset(name for name, field in fields.items()
                                  if field.default is MISSING and field.default_factory is MISSING)
        self.checks = hasattr(owner, "__post_init__")
        self._twin: Optional[type] = None

    def twin(self) -> type:
        """Return a class with the same fields that ``dataclasses`` has made; made on first use."""
        if self._twin is None:
            import dataclasses

            hints = {name: hint for base in reversed(self.owner.__mro__)
                     for name, hint in base.__dict__.get("__annotations__", {}).items()}
            members: Dict[str, Any] = {name: getattr(self.owner, name) for name in ("__module__", "__qualname__", "__doc__")}
            members["__annotations__"] = {name: hints[name] for name in self.names}
            for name, field in self.by_name.items():
                default = {key: value for key, value in (("default", field.default), ("default_factory", field.default_factory))
                           if value is not MISSING}
                members[name] = dataclasses.field(**default, metadata=field.metadata)
            make = dataclasses.dataclass(eq=False, repr=False, frozen=self.frozen)
            self._twin = make(type(self.owner.__name__, (), members))
        return self._twin


class _FromTwin:
    """An attribute that ``dataclasses`` or ``inspect`` looks for; its value is that of the class's twin."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: Any) -> Any:
        table = getattr(owner, "_table", None)
        if table is None or self._name == "__signature__" and owner.__init__ is not Record.__init__:
            raise AttributeError(f"{owner.__name__} has no {self._name}")
        if self._name == "__signature__":
            import inspect

            return inspect.signature(table.twin())
        return getattr(table.twin(), self._name)


class Record:
    """The base of the classes that :func:`record` decorates."""

    if not TYPE_CHECKING:
        __dataclass_fields__ = _FromTwin()
        __dataclass_params__ = _FromTwin()
        __signature__ = _FromTwin()

        def __init__(self, *values: Any, **named: Any) -> None:
            table = self._table
            names, state = table.names, self.__dict__
            state.update(table.defaults)
            if values:
                state.update(zip(names, values))
            state.update(named)
            for field in table.factories:
                if field.name not in state:
                    state[field.name] = field.default_factory()
            # With the defaults and all required values, there are as many members as fields, unless some names are unknown.
            if not state.keys() >= table.required or len(state) != len(names) or values and (
                    len(values) > len(names) or named and not named.keys().isdisjoint(names[:len(values)])):
                table.twin().__init__(self, *values, **named)  # it raises the error that says what is wrong
            if table.checks:
                self.__post_init__()

        def _values(self) -> Tuple[Any, ...]:
            return tuple(getattr(self, name) for name in self._table.names)

        def __eq__(self, other: object) -> bool:
            return self._values() == other._values() if type(other) is type(self) else NotImplemented

        def __repr__(self) -> str:
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._table.names, self._values()))
            return f"{type(self).__name__}({shown})"


R = TypeVar("R", bound=Record)  # the bound is no text: Python would compile it here, and load much for that

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    def record(cls: Optional[type] = None, *, frozen: bool = False) -> Any:
        """Make a record of a class whose annotations are its fields; type checkers see ``dataclasses.dataclass``.

        :param frozen: whether the attributes of an instance cannot be set.
        """
        if cls is None:
            return lambda decorated: record(decorated, frozen=frozen)
        inherited = getattr(cls, "_table", None)
        fields = {} if inherited is None else dict(inherited.by_name)
        for name in cls.__dict__.get("__annotations__", ()):
            given = cls.__dict__.get(name, MISSING)
            if isinstance(given, RecordField):
                given.name = name
                fields[name] = given
                if given.default is MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, given.default)
            else:
                fields[name] = RecordField(name, given)
        cls._table = _Table(cls, fields, frozen)
        cls.__match_args__ = cls._table.names
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse_to_set
            cls.__hash__ = lambda self: hash(self._values())
        return cls


def _refuse_to_set(self: Any, name: str, *value: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def fields_of(cls: type) -> Tuple[RecordField, ...]:
    """Return the fields of a record, or of a dataclass that is derived from one."""
    for base in cls.__mro__:
        if "_table" in base.__dict__:
            fields: Tuple[RecordField, ...] = base.__dict__["_table"].fields
            return fields
        if "__dataclass_fields__" in base.__dict__ and base is not Record:
            import dataclasses  # which has made this class

            def stated(default: Any) -> Any:
                return MISSING if default is dataclasses.MISSING else default

            return tuple(RecordField(field.name, stated(field.default), stated(field.default_factory), field.metadata)
                         for field in dataclasses.fields(base))
    raise TypeError(f"{cls.__name__} is not a record")


def from_members(cls: Type[T], members: Mapping[str, Any]) -> T:
    """Return an instance of a record or a dataclass, made of the members that it has fields for; other members are left out.

    During a rolling update a newer release writes more members than this one knows.
    """
    names = _names_of(cls)  # type: ignore[arg-type]
    return cls(**{name: value for name, value in members.items() if name in names})


@functools.lru_cache(maxsize=64)
def _names_of(cls: type) -> FrozenSet[str]:
    return frozenset(field.name for field in fields_of(cls))


def changed(instance: R, **changes: Any) -> R:
    """Return a copy of a record with other values of some fields, as ``dataclasses.replace`` does."""
    cls, state = type(instance), instance.__dict__
    table: _Table = cls._table  # type: ignore[attr-defined]
    if cls.__init__ is not Record.__init__ or not changes.keys() <= table.by_name.keys():
        return cls(**{**{field.name: state[field.name] for field in fields_of(cls)}, **changes})
    copied = cls.__new__(cls)
    copied.__dict__.update(zip(table.names, map(state.__getitem__, table.names)), **changes)
    if table.checks:
        copied.__post_init__()  # type: ignore[attr-defined]
    return copied


class Marked(Record):
    """A record whose fields may have marks; the hooks are for what marks cannot say.

    A subclass sets the hooks that it needs, and the codec uses them.
    """

    #: Called with a revision, the attributes of an instance and its JSON object; changes the object.
    _finish: ClassVar[Any] = None
    #: Members, by their names on the wire, that mean something in this class, and only hint in other classes.
    _meant: ClassVar[FrozenSet[str]] = frozenset()
    #: Called with a JSON object; returns the object to read in its place.
    _adapt: ClassVar[Any] = None
    #: Called with a JSON object; reads it as one of the classes of a union, whose first class has this hook.
    _read_any: ClassVar[Any] = None
    #: The name of the one field that holds the JSON object as it came, in place of all others.
    _kept_in: ClassVar[Optional[str]] = None


class Null:
    """The class of :data:`NULL`."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NULL"

    def __reduce__(self) -> str:
        return "NULL"  # copies are looked up by this name, which keeps it the only one


#: JSON's null where it is a value of its own; None is an absent member (TOOL-41). For ``structured_content`` only.
#: Decoding gives None for both, since older peers write null for members that they do not have.
NULL = Null()


def wire(name: Optional[str] = None, *, since: Optional[Revision] = None, until: Optional[Revision] = None,
         default: Any = None, factory: Any = MISSING) -> Any:
    """Return a record's field with its mark.

    :param name: on the wire; by default the field's name in camelCase.
    :param since: the first revision that has it; None for all.
    :param until: the last revision that has it; None for all.
    :param default: the field's default, which is also what an absent member means and therefore not
        written; None by default.
    :param factory: makes the default, in place of *default*; such a field is always written.
    """
    mark = {"wire": name, "since": since, "until": until}
    if factory is not MISSING:
        return RecordField(default_factory=factory, metadata=mark)
    return RecordField(default=default, metadata=mark)


def wire_name(field: RecordField) -> str:
    """Return the name of a field on the wire."""
    named = field.metadata.get("wire")
    if named:
        return str(named)
    first, *rest = field.name.split("_")
    return first + "".join(word.capitalize() for word in rest)
