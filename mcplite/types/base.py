"""Model: the base class of the vocabulary, whose classes are plain records, the superset of all revisions.

Displayed: the base class of those that a notebook shows as what they hold. A server is not trusted with the page of a
notebook: its text is never Markdown or HTML there, its images have a type that cannot carry scripts, and what is written as
HTML here is escaped.
"""

import json
import reprlib
from typing import Any, Dict, Optional, Sequence, Type, TypeVar, Union

from ..revisions import NEWEST, Revision, find_revision
from .codec import decode, encode
from .lazy_dataclass import Marked, fields_of

__all__ = ["Displayed", "Model", "Titled", "bundle_of", "plain_text", "short"]

#: The types of images that a notebook shows as they are; the others can carry scripts or are not shown by browsers.
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SOUNDS = ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/mp4", "audio/ogg", "audio/webm", "audio/flac")
#: Characters of one string, and of any other value, in a repr.
_MOST = 100
#: Items of one list in a repr.
_MOST_ITEMS = 6


class Displayed:
    """The base of classes that a notebook shows as what they hold: text, images, sounds, JSON."""

    def _bundle(self) -> Dict[str, Any]:
        return bundle_of([self])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        # The caller filters, too.
        return self._bundle()


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


def bundle_of(blocks: Sequence[Any], data: Any = None, error: bool = False) -> Dict[str, Any]:
    """Return content by media type, as ``_repr_mimebundle_`` of IPython and Jupyter does.

    :param blocks: content, or the contents of resources.
    :param data: the value that the blocks stand for; an object or a list is shown as JSON too.
    :param error: whether the content says why a tool failed.
    """
    plain = "\n".join(map(plain_text, blocks)) if blocks or data is None else json.dumps(data, indent=2, ensure_ascii=False)
    bundle: Dict[str, Any] = {"text/plain": f"the tool failed: {plain}" if error else plain}
    media = [_media(item) for item in blocks]
    if len(media) == 1 and media[0] is not None and media[0][0] in _IMAGES:
        bundle[media[0][0]] = media[0][1]
    elif any(media):
        bundle["text/html"] = "\n".join(map(_html, blocks))
    elif isinstance(data, (dict, list)) and not error:
        bundle["application/json"] = data
    return bundle


def _inner(item: Any) -> Any:
    """Return the contents of an embedded resource, and any other content itself."""
    return getattr(item, "resource", item)


def plain_text(item: Any) -> str:
    """Return the text of a block, or the repr of one that has none."""
    text = getattr(_inner(item), "text", None)
    return text if isinstance(text, str) else repr(item)


def _media(item: Any) -> "Optional[tuple[str, str]]":
    """Return the media type and the base64 of an image or a sound that a notebook can show."""
    item = _inner(item)
    data = getattr(item, "data", None) or getattr(item, "blob", None)
    kind = str(getattr(item, "mime_type", None)).lower()
    if not isinstance(data, str) or kind not in (*_IMAGES, *_SOUNDS):
        return None
    try:
        item.bytes  # noqa: B018
    except ValueError:
        return None  # not base64, so nothing that could be shown
    return kind, "".join(data.split())


def _html(item: Any) -> str:
    from html import escape  # for the few that have images beside text

    media = _media(item)
    if media is None:
        return f'<pre style="white-space: pre-wrap">{escape(plain_text(item))}</pre>'
    kind, data = media
    if kind in _IMAGES:
        return f'<img src="data:{kind};base64,{data}">'
    return f'<audio controls src="data:{kind};base64,{data}"></audio>'


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
