"""Marks of fields: their name on the wire, and the revisions that have them.

Every class of the vocabulary is a plain dataclass, the superset of all revisions. A field without a
mark exists in all of them under its camelCase name; ``wire(...)`` says otherwise.
"""

from dataclasses import MISSING, field
from typing import Any, ClassVar, Dict, Optional

from ..revisions import Revision

__all__ = ["NULL", "Model", "Null", "wire"]


class Model:
    """The base class of the vocabulary; it keeps members of a peer that have no field (RPC-20).

    Comparing and showing are written here once, not generated for each class: dataclasses compile their
    methods when they are imported, and these two would be two thirds of what the vocabulary takes to load.
    """

    __dataclass_fields__: ClassVar[Dict[str, Any]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__ if name in self.__dict__)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self.__dataclass_fields__ if name in self.__dict__)
        return f"{type(self).__name__}({shown})"

    @property
    def extra(self) -> Dict[str, Any]:
        """Members of the wire object that this class has no field for; sent along when it is encoded."""
        kept: Dict[str, Any] = self.__dict__.setdefault("_extra", {})
        return kept


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
    """Return a dataclass field with its mark.

    :param name: on the wire; by default the field's name in camelCase.
    :param since: the first revision that has it; None for all.
    :param until: the last revision that has it; None for all.
    :param default: the field's default, which is also what an absent member means and therefore not
        written; None by default.
    :param factory: makes the default, in place of *default*; such a field is always written.
    """
    mark = {"wire": name, "since": since, "until": until}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=mark)
    return field(default=default, metadata=mark)
