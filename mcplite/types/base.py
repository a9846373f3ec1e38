"""Model: the base class of the vocabulary, whose classes are plain records, the superset of all revisions; and icons."""

import reprlib
from typing import Any, Dict, List, Optional, Type, TypeVar, Union

from ..revisions import NEWEST, Revision, find_revision
from .codec import decode, encode
from .lazy_dataclass import Marked, fields_of, record

#: Characters of one string, and of any other value, in a repr.
_MOST = 100
#: Items of one list in a repr.
_MOST_ITEMS = 6


class Titled:
    """The base of what has a name for programs, and may have a title for people."""

    name: str
    title: Optional[str]

    @property
    def display_name(self) -> str:
        """The name to display."""
        return self.title or self.name


def short(value: Any) -> str:
    """Return the ``repr`` of a field's value, cut to what fits on a line or two."""
    if isinstance(value, str):
        if len(value) <= _MOST:
            return repr(value)
        return f"{value[:_MOST // 2]!r}... ({len(value)} characters)"
    if isinstance(value, list):
        shown = [short(item) for item in value[:_MOST_ITEMS]]
        if len(value) > _MOST_ITEMS:
            shown.append(f"... {len(value) - _MOST_ITEMS} more")
        return f"[{', '.join(shown)}]"
    return reprlib.repr(value) if isinstance(value, dict) and len(repr(value)) > _MOST else repr(value)


M = TypeVar("M", bound="Model")


class Model(Marked):
    """The base class of the vocabulary; it keeps members of a peer that have no field (RPC-20).

    Comparing and showing are written here once, as the constructor is in :class:`~.lazy_dataclass.Record`.
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in fields_of(type(self))
                   if field.name in self.__dict__)

    def __repr__(self) -> str:
        # Without what is absent, and without long values in full, such as images.
        shown = ", ".join(f"{field.name}={short(self.__dict__[field.name])}" for field in fields_of(type(self))
                          if field.name in self.__dict__ and self.__dict__[field.name] is not field.default)
        return f"{type(self).__name__}({shown})"

    @property
    def extra(self) -> Dict[str, Any]:
        """Members of the wire object that this class has no field for; sent along when it is encoded."""
        kept: Dict[str, Any] = self.__dict__.setdefault("_extra", {})
        return kept

    def to_dict(self, revision: Union[str, Revision] = NEWEST) -> Dict[str, Any]:
        """Return the object as it is on the wire: a dict that ``json.dumps`` takes.

        Fields that the revision does not have are left out, and so are None and defaults that an absent member means.

        :param revision: whose form to return, as a name or a ``Revision``; by default the newest.
        :raises ValueError: the revision is unknown, or the object has no form in it.
        """
        found = revision if isinstance(revision, Revision) else find_revision(revision)
        if found is None:
            raise ValueError(f"{revision!r} is not a protocol revision that this package supports")
        return encode(self, found)  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls: Type[M], wire: Dict[str, Any]) -> M:
        """Return the object that *wire* describes, in the form of any revision; the opposite of :meth:`to_dict`.

        Members that the class has no field for are kept in :attr:`extra`. A member that only decorates, such as a title, an
        icon or ``_meta``, is dropped if it has a wrong type; an empty array stands for an empty object.

        :raises ProtocolError: *wire* is not an object, lacks a required member, or a member that means something has a wrong
            type; the text names the class and the member.
        """
        return decode(cls, wire)


@record
class Icon(Model):
    """An icon; ``src`` is an https or data URI, which this library never fetches (ICON-05)."""

    src: str
    mime_type: Optional[str] = None
    sizes: Optional[List[str]] = None
    theme: Optional[str] = None

    @property
    def is_safe(self) -> bool:
        """Whether a program may show it: an https or data URI, and no SVG, which may run scripts (ICON-05)."""
        src = self.src.lower()
        kinds = (self.mime_type or "").lower(), src[5:].partition(",")[0] if src.startswith("data:") else ""
        path = src.partition("#")[0].partition("?")[0]
        if any(kind.strip().startswith("image/svg") for kind in kinds) or path.endswith((".svg", ".svgz")):
            return False
        return src.startswith(("https://", "data:"))
