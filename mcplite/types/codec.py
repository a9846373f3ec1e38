"""The codec: records to JSON objects of one revision and back, by the marks of their fields; and the base class of records.

An encoder is compiled once for each class and revision, a decoder once for each class and side. Their caches are pure
memoisation, and no global state: an entry depends on nothing else. :class:`Model` is the base class of the vocabulary, whose
classes are plain records, the superset of all revisions.
"""

import functools
import operator
import reprlib
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    List,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ..errors import ProtocolError
from ..revisions import NEWEST, Revision, find_revision
from .lazy_dataclass import MISSING, NULL, Marked, fields_of, record, wire_name

#: Modules of the standard library whose classes have a text: dates, decimals, paths and UUIDs.
TEXT_MODULES = frozenset({"datetime", "decimal", "pathlib", "pathlib._local", "uuid"})
M = TypeVar("M", bound=Marked)
Convert = Callable[[Any], Any]
#: Takes the attributes of an instance and its JSON object, and changes the object.
Finish = Callable[[Dict[str, Any], Dict[str, Any]], None]


def _unwrap(hint: Any) -> Any:
    """Return X for Optional[X]."""
    if get_origin(hint) is Union:
        left = tuple(item for item in get_args(hint) if item is not type(None))
        return Union[left]  # a union of one alternative is the alternative itself
    return hint


# --- encoding ---------------------------------------------------------------------------------------


def encode(value: Any, revision: Revision) -> Any:
    """Return *value* as JSON data for one revision.

    Fields that the revision does not have are left out, and so are None and defaults that an absent member means;
    members of a peer that have no field are kept. Lists and dicts are encoded item by item; other values are returned
    unchanged. Content of kinds that the revision lacks is written as it is.

    :raises ValueError: the value has no form in this revision, such as several blocks in one sampling message before
        November 2025.
    """
    if isinstance(value, Marked):
        return _encoder(type(value), revision)(value)
    if isinstance(value, (list, tuple)):
        return [encode(item, revision) for item in value]
    if isinstance(value, dict):
        return {key: encode(item, revision) for key, item in value.items()}
    return value


def _compile_encoder(cls: Type[Marked], revision: Revision) -> Convert:
    if cls._kept_in is not None:
        return operator.attrgetter(cls._kept_in)
    plan: List[Tuple[str, str, Optional[Convert]]] = []
    finishers: List[Finish] = []
    hints = get_type_hints(cls)
    for field in fields_of(cls):
        if not revision.has(field.metadata.get("since"), field.metadata.get("until")):
            continue
        hint, wire = hints[field.name], wire_name(field)
        required = field.default is MISSING and field.default_factory is MISSING
        plan.append((field.name, wire, _writer(hint, revision)))
        if hint is Any and required:
            finishers.append(_always(field.name, wire))
        if not required and field.default not in (MISSING, None):
            finishers.append(_unless(wire, field.default))
    kind = getattr(cls, "wire_type", None)
    if cls._finish is not None:
        finishers.append(functools.partial(cls._finish, revision))

    def run(value: Any) -> Dict[str, Any]:
        out: Dict[str, Any] = {} if kind is None else {"type": kind}
        state = value.__dict__
        for name, wire, convert in plan:
            item = state[name]
            if item is not None:
                out[wire] = item if convert is None else convert(item)
        if "_extra" in state:
            out.update(state["_extra"])
        for finish in finishers:
            finish(state, out)
        return out

    return run


_encoder: Callable[[Any, Revision], Convert] = functools.lru_cache(maxsize=None)(_compile_encoder)


def _always(name: str, wire: str) -> Finish:
    """Return the step that writes None as null for a required member that may be null."""
    def finish(state: Dict[str, Any], out: Dict[str, Any]) -> None:
        if state[name] is None:
            out[wire] = None

    return finish


def _unless(wire: str, default: Any) -> Finish:
    """Return the step that removes a default which an absent member means."""
    def finish(state: Dict[str, Any], out: Dict[str, Any]) -> None:
        if out.get(wire) == default:
            del out[wire]

    return finish


def _writer(hint: Any, revision: Revision) -> Optional[Convert]:
    """Return the function that turns a field's value into JSON; None if it is JSON already."""
    hint = _unwrap(hint)
    if hint is Any:
        return _null
    if hint in (str, int, float, bool) or get_origin(hint) is dict:
        return None
    if get_origin(hint) is list and _writer(get_args(hint)[0], revision) is None:
        return None
    return lambda value: encode(value, revision)


def _null(value: Any) -> Any:
    return None if value is NULL else value


# --- decoding ---------------------------------------------------------------------------------------


def decode(cls: Type[M], wire: Any) -> M:
    """Return the instance that *wire* describes, as another side sent it.

    Members without a field are kept in ``extra`` (RPC-20). Null counts as absent, except where it is
    a value of its own, as in a log message's data. A member that only decorates, such as a title or an icon, is dropped if
    it has a wrong type. An empty array stands for an empty object, since PHP writes both in this way.

    :raises ProtocolError: *wire* is not an object, lacks a required member, or a member that means something has a wrong
        type; the text names the class and the member.
    """
    return decoder(cls)(wire)  # type: ignore[no-any-return]


def decode_own(cls: Type[M], wire: Any) -> M:
    """Return the instance that *wire* describes, as an author of this side wrote it: no member may have a wrong type.

    :raises ProtocolError: as for :func:`decode`, and a member that only decorates has a wrong type.
    """
    return own_decoder(cls)(wire)  # type: ignore[no-any-return]


#: The optional members, by their names on the wire, that describe, show or hint: a message keeps its meaning without them.
_DECORATION = frozenset({
    "_meta", "annotations", "audience", "cacheScope", "description", "destructiveHint", "execution", "experimental", "hasMore",
    "icons", "idempotentHint", "instructions", "lastModified", "logger", "message", "mimeType", "openWorldHint", "outputSchema",
    "pollIntervalMs", "priority", "readOnlyHint", "required", "size", "sizes", "statusMessage", "stopReason", "theme", "title",
    "total", "ttlMs", "websiteUrl",
})


#: The members, by their names on the wire, that are JSON Schemas of objects.
_SCHEMAS = frozenset({"inputSchema", "outputSchema", "requestedSchema"})


def _compile_decoder(cls: Type[Marked], own: bool) -> Convert:
    if cls._kept_in is not None:
        return cls._read_any  # type: ignore[no-any-return]
    title, hints = cls.__name__, get_type_hints(cls)
    #: By the member's name: the attribute; the type whose values are kept as they are, or None; the function that reads all
    #: other values.
    plan: Dict[str, Tuple[str, Optional[type], Convert]] = {}
    required: List[Tuple[str, str, bool]] = []
    defaults: Dict[str, Any] = {}
    factories: Dict[str, Callable[[], Any]] = {}
    for field in fields_of(cls):
        hint, name = hints[field.name], wire_name(field)
        kept = _unwrap(hint)
        shape = dict if kept is Any else get_origin(kept) or kept
        decorates = name in _DECORATION and name not in cls._meant and field.default is None and not own
        read = _reader(hint, f"{title}.{name}", own, decorates)
        if name in _SCHEMAS and not own:
            plan[name] = (field.name, None, _schema_reader(read))
        else:
            plan[name] = (field.name, shape if shape in (str, bool, dict) else None, read)
        if field.default_factory is not MISSING:
            factories[field.name] = field.default_factory
        elif field.default is not MISSING:
            defaults[field.name] = field.default
        else:
            required.append((field.name, name, hint is Any))
    kind = getattr(cls, "wire_type", None)
    adapt = cls._adapt
    count = len(plan)

    def complete(state: Dict[str, Any], wire: Dict[str, Any]) -> None:
        for attribute, name, nullable in required:
            if attribute not in state:
                if not nullable or name not in wire:
                    raise missing(title, repr(name), wire)
                state[attribute] = None
        for attribute, factory in factories.items():
            if attribute not in state:
                state[attribute] = factory()

    def run(wire: Any) -> Any:
        if type(wire) is not dict:
            wire = _as_object(title, wire, own)
        if adapt is not None:
            wire = adapt(wire)
        instance = cls.__new__(cls)
        state = instance.__dict__
        state.update(defaults)
        extra: Optional[Dict[str, Any]] = None
        for name, item in wire.items():
            known = plan.get(name)
            if known is None:
                if kind is None or name != "type":
                    if extra is None:
                        extra = {}
                    extra[name] = item
                elif item != kind:
                    raise wrong(f"{title}.type", repr(kind), item)
            elif item is not None:
                attribute, exact, convert = known
                state[attribute] = item if type(item) is exact else convert(item)
        if len(state) < count:
            complete(state, wire)
        if extra is not None:
            state["_extra"] = extra
        return instance

    return run


#: Both return the function that reads the objects of one class: as a peer sends them, and as an author of this side writes
#: them.
decoder: Callable[[Any], Convert] = functools.lru_cache(maxsize=None)(functools.partial(_compile_decoder, own=False))
own_decoder: Callable[[Any], Convert] = functools.lru_cache(maxsize=None)(functools.partial(_compile_decoder, own=True))


def _reader(hint: Any, where: str, own: bool, decorates: bool = False) -> Convert:
    """Return the function that checks a member's value, which is not null, and turns it into the field's value.

    :param own: whether it comes from an author of this side.
    :param decorates: whether a value of a wrong type becomes None, and an item of a wrong type is left out of its list.
    """
    hint = _unwrap(hint)
    if decorates:
        if get_origin(hint) is list:
            one = _spared(_reader(get_args(hint)[0], where, own))
            return lambda value: [item for item in map(one, value) if item is not None] if type(value) is list else None
        return _spared(_reader(hint, where, own))
    read_any = getattr(next(iter(get_args(hint)), None), "_read_any", None)
    if get_origin(hint) is Union and read_any is not None:
        return functools.partial(read_any, read=own_decoder) if own else read_any
    if get_origin(hint) is list:
        each = _reader(get_args(hint)[0], where + "[]", own)

        def many(value: Any) -> Any:
            if type(value) is not list:
                raise wrong(where, "an array", value)
            return list(map(each, value))

        return many
    if get_origin(hint) is dict:
        return lambda value: value if type(value) is dict else _as_object(where, value, own)
    if hint in _SCALARS:
        return _scalar(*_SCALARS[hint], where)
    if isinstance(hint, type) and issubclass(hint, Marked):
        return own_decoder(hint) if own else decoder(hint)
    return lambda value: value


def _schema_reader(convert: Convert) -> Convert:
    """Return the function that reads a schema; an empty array as its ``properties`` becomes an empty object."""
    def read(value: Any) -> Any:
        if type(value) is dict and type(value.get("properties")) is not list:
            return value
        schema = convert(value)
        return {**schema, "properties": {}} if schema and schema["properties"] == [] else schema

    return read


def _spared(convert: Convert) -> Convert:
    """Return a function that reads as *convert* does, but returns None for a value of a wrong type."""
    def read(value: Any) -> Any:
        try:
            return convert(value)
        except ProtocolError:
            return None

    return read


def _as_object(where: str, value: Any, own: bool) -> Dict[str, Any]:
    """Return ``{}`` for an empty array, as which some peers write an empty object.

    :raises ProtocolError: the value is neither an object nor an empty array.
    """
    if value == [] and type(value) is list and not own:
        return {}
    raise wrong(where, "an object", value)


#: By the hint: the types of values, and how errors call them.
_SCALARS: Dict[Any, Tuple[Tuple[type, ...], str]] = {
    str: ((str,), "a string"), bool: ((bool,), "a boolean"), int: ((int,), "an integer"), float: ((int, float), "a number"),
}


def _scalar(kinds: Tuple[type, ...], what: str, where: str) -> Convert:
    def check(value: Any) -> Any:
        if type(value) in kinds:
            return value
        if what == "an integer" and type(value) is float and value.is_integer():
            return int(value)  # JSON has one kind of number, and some peers write 100.0
        raise wrong(where, what, value)

    return check


def missing(where: str, what: str, wire: Any) -> ProtocolError:
    """Return the error for a member that is missing."""
    return ProtocolError(f"{where}: the member {what} is missing", reprlib.repr(wire))


_JSON_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number",
               float: "a number", type(None): "null"}


def kind_name(value: Any) -> str:
    """Return what an error calls the type of a JSON value; of any other value, the name of its class."""
    return _JSON_NAMES.get(type(value), type(value).__name__)


def wrong(where: str, expected: str, value: Any) -> ProtocolError:
    """Return the error for a value of a wrong type, or a wrong value of the right type."""
    got = kind_name(value)
    # The kind is right and the value is wrong, such as 1.5 for an integer, or another content type.
    detail = reprlib.repr(value) if got == expected or isinstance(value, (str, int, float)) else got
    return ProtocolError(f"{where}: expected {expected}, got {detail}", reprlib.repr(value))


#: Characters of one string, and of any other value, in a repr.
_MOST = 100
#: Items of one list in a repr.
_MOST_ITEMS = 6


class Titled:
    """The base of classes with a name for programs, and perhaps a title for people."""

    name: str
    title: Optional[str]

    @property
    def display_name(self) -> str:
        """The name to display."""
        return self.title or self.name

    @property
    def tags(self) -> FrozenSet[str]:
        """The tags that a server of mcplite has given it, in ``_meta``."""
        return tags_of(self)


#: The member of ``_meta`` with the tags of an entry.
TAGS = "mcplite/tags"


def tags_of(definition: Any) -> FrozenSet[str]:
    """Return the tags in the ``_meta`` of a tool, resource, template or prompt."""
    listed = (definition.meta or {}).get(TAGS)
    return frozenset(tag for tag in listed if isinstance(tag, str)) if isinstance(listed, list) else frozenset()


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
