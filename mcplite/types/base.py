"""Model: the base class of the vocabulary, whose classes are plain records, the superset of all revisions."""

from typing import Any, Dict, Type, TypeVar, Union

from ..revisions import NEWEST, Revision, find_revision
from .codec import decode, encode
from .display import short
from .lazy_dataclass import fields_of
from .marks import Marked

__all__ = ["Model"]

M = TypeVar("M", bound="Model")


class Model(Marked):
    """The base class of the vocabulary; it keeps members of a peer that have no field (RPC-20).

    Comparing and showing are written here once, as the constructor is in :class:`~.records.Record`.
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
