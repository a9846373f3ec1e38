"""Marks of fields: their name on the wire, and the revisions that have them.

A field without a mark exists in all revisions under its camelCase name; ``wire(...)`` says otherwise. Apart from
:mod:`.base`, since the codec reads the marks and the base class uses the codec.
"""

from typing import Any, ClassVar, FrozenSet, Optional

from ..revisions import Revision
from .lazy_dataclass import MISSING, Record, RecordField

__all__ = ["NULL", "Marked", "Null", "wire", "wire_name"]


class Marked(Record):
    """A record whose fields may have marks; the hooks are for what marks cannot say.

    A subclass sets those that it needs, and the codec calls them.
    """

    #: Called with a revision, the attributes of an instance and its JSON object, which it changes.
    _finish: ClassVar[Any] = None
    #: Members, by their names on the wire, that mean something in this class, and only hint in others.
    _meant: ClassVar[FrozenSet[str]] = frozenset()
    #: Called with a JSON object; returns the one to read in its place.
    _adapt: ClassVar[Any] = None
    #: Called with a JSON object; reads it as one of the classes of a union, of which this is the first.
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
