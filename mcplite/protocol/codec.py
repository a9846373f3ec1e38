"""The codec: dataclasses to JSON objects of one revision and back, by the marks of their fields.

Encoders and decoders are compiled once for each class and revision. Their caches are pure memoisation, and no global
state: an entry depends on its class and revision alone.
"""

import functools
from dataclasses import MISSING, Field, fields, is_dataclass
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
from ..revisions import Revision
from ..types import (
    NULL,
    AudioContent,
    BlobResourceContents,
    ClientCapabilities,
    Content,
    CreateMessageResult,
    ElicitRequest,
    EmbeddedResource,
    ImageContent,
    Model,
    ResourceContents,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from .show import abridged

__all__ = ["decode", "downgrade", "encode"]

M = TypeVar("M", bound=Model)
Convert = Callable[[Any], Any]
#: Takes the attributes of an instance and its JSON object, and changes the object.
Finish = Callable[[Dict[str, Any], Dict[str, Any]], None]


# --- the marks --------------------------------------------------------------------------------------


def _wire_name(field: "Field[Any]") -> str:
    named = field.metadata.get("wire")
    if named:
        return str(named)
    first, *rest = field.name.split("_")
    return first + "".join(word.capitalize() for word in rest)


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
    unchanged. Content of kinds that the revision lacks is left to :func:`downgrade`.

    :raises ValueError: the value has no form in this revision, such as several blocks in one sampling message before
        November 2025.
    """
    if isinstance(value, Model):
        return _encoder(type(value), revision)(value)
    if isinstance(value, (list, tuple)):
        return [encode(item, revision) for item in value]
    if isinstance(value, dict):
        return {key: encode(item, revision) for key, item in value.items()}
    return value


def _compile_encoder(cls: Type[Model], revision: Revision) -> Convert:
    if cls is UnknownContent:
        return _raw
    plan: List[Tuple[str, str, Optional[Convert]]] = []
    finishers: List[Finish] = []
    hints = get_type_hints(cls)
    for field in fields(cls):
        if not revision.has(field.metadata.get("since"), field.metadata.get("until")):
            continue
        hint, wire = hints[field.name], _wire_name(field)
        required = field.default is MISSING and field.default_factory is MISSING
        plan.append((field.name, wire, _writer(hint, revision)))
        if hint is Any and required:
            finishers.append(_always(field.name, wire))
        if not required and field.default not in (MISSING, None):
            finishers.append(_unless(wire, field.default))
    kind = getattr(cls, "wire_type", None)
    if cls in _FINISH:
        finishers.append(functools.partial(_FINISH[cls], revision))

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
    """Return the step that writes null for a required member, of which null is a value."""
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


def _raw(value: Any) -> Any:
    return value.raw


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


def _finish_sampling(revision: Revision, state: Dict[str, Any], out: Dict[str, Any]) -> None:
    content = out.get("content")
    blocks = content if isinstance(content, list) else [content]
    kinds = _sampling_kinds(revision)
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        if kind not in kinds:
            raise ValueError(f"a sampling message cannot hold {kind!r} content in {revision};"
                             f" possible are {', '.join(sorted(kinds))}")
    if len(blocks) == 1:
        out["content"] = blocks[0]
    elif not revision.sampling_tools:
        raise ValueError(f"a sampling message has exactly one content block in {revision}, not {len(blocks)};"
                         f" send several messages, or join the text into one block")


@functools.lru_cache(maxsize=None)
def _sampling_kinds(revision: Revision) -> FrozenSet[str]:
    tools = {"tool_use", "tool_result"} if revision.sampling_tools else set()
    return revision.content_kinds & {"text", "image", "audio"} | tools


def _finish_capabilities(revision: Revision, state: Dict[str, Any], out: Dict[str, Any]) -> None:
    # The members of a capability depend on the revision too, not only its presence (LIFE-24).
    modes = out.get("elicitation")
    if modes is not None and not revision.elicitation_modes:
        if modes and "form" not in modes:
            del out["elicitation"]  # an empty capability means forms, which this client cannot show
        else:
            out["elicitation"] = {}
    if "sampling" in out and not revision.sampling_tools:
        out["sampling"] = {}
    if "roots" in out and revision.modern:
        out["roots"] = {}


def _finish_elicitation(revision: Revision, state: Dict[str, Any], out: Dict[str, Any]) -> None:
    if state["mode"] != "form" and not revision.elicitation_modes:
        raise ValueError(f"a client of {revision} can be asked by form only, not by {state['mode']!r}")


_FINISH: Dict[Type[Model], Callable[[Revision, Dict[str, Any], Dict[str, Any]], None]] = {
    SamplingMessage: _finish_sampling,
    CreateMessageResult: _finish_sampling,
    ClientCapabilities: _finish_capabilities,
    ElicitRequest: _finish_elicitation,
}


# --- decoding ---------------------------------------------------------------------------------------


def decode(cls: Type[M], wire: Any) -> M:
    """Return the instance that *wire* describes.

    Members without a field are kept in ``extra``; content of an unknown kind becomes :class:`UnknownContent` (RPC-20,
    TOOL-24). Null counts as absent, except where it is a value of its own, as in a log message's data.

    :raises ProtocolError: *wire* is not an object, lacks a required member, or a member has a wrong type; the text
        names the class and the member.
    """
    return _decoder(cls)(wire)  # type: ignore[no-any-return]


def _compile_decoder(cls: Type[Model]) -> Convert:
    if cls is UnknownContent:
        return _decode_content
    title, hints = cls.__name__, get_type_hints(cls)
    plan: Dict[str, Tuple[str, Optional[type], Convert]] = {}
    required: List[Tuple[str, str, bool]] = []
    defaults: Dict[str, Any] = {}
    factories: Dict[str, Callable[[], Any]] = {}
    for field in fields(cls):
        hint, name = hints[field.name], _wire_name(field)
        kept = _unwrap(hint)
        plan[name] = (field.name, kept if kept in (str, bool) else None, _reader(hint, f"{title}.{name}"))
        if field.default_factory is not MISSING:
            factories[field.name] = field.default_factory
        elif field.default is not MISSING:
            defaults[field.name] = field.default
        else:
            required.append((field.name, name, hint is Any))
    kind = getattr(cls, "wire_type", None)
    adapt = _ADAPT.get(cls)

    def run(wire: Any) -> Any:
        if type(wire) is not dict:
            raise _wrong(title, "an object", wire)
        if adapt is not None:
            wire = adapt(wire)
        instance = cls.__new__(cls)
        state = instance.__dict__
        state.update(defaults)
        for name, item in wire.items():
            known = plan.get(name)
            if known is not None:
                if item is not None:
                    attribute, exact, convert = known
                    state[attribute] = item if type(item) is exact else convert(item)
            elif kind is None or name != "type":
                state.setdefault("_extra", {})[name] = item
            elif item != kind:
                raise _wrong(f"{title}.type", repr(kind), item)
        for attribute, name, nullable in required:
            if attribute not in state:
                if not nullable or name not in wire:
                    raise ProtocolError(f"{title}: the member {name!r} is missing", abridged(wire))
                state[attribute] = None
        for attribute, factory in factories.items():
            if attribute not in state:
                state[attribute] = factory()
        return instance

    return run


_decoder: Callable[[Any], Convert] = functools.lru_cache(maxsize=None)(_compile_decoder)


def _adapt_sampling(wire: Dict[str, Any]) -> Dict[str, Any]:
    content = wire.get("content")
    return {**wire, "content": [content]} if isinstance(content, dict) else wire


_ADAPT: Dict[Type[Model], Callable[[Dict[str, Any]], Dict[str, Any]]] = {
    SamplingMessage: _adapt_sampling,
    CreateMessageResult: _adapt_sampling,
}
_CONTENT: Dict[str, Type[Model]] = {
    cls.wire_type: cls
    for cls in (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, ToolUseContent,
                ToolResultContent)
}


def _decode_content(wire: Any) -> Any:
    if type(wire) is not dict:
        raise _wrong("content", "an object", wire)
    kind = wire.get("type")
    if type(kind) is not str:
        raise _wrong("content.type", "a string", kind)
    cls = _CONTENT.get(kind)
    return UnknownContent(wire) if cls is None else _decoder(cls)(wire)


def _decode_contents(wire: Any) -> Any:
    if type(wire) is not dict:
        raise _wrong("resource contents", "an object", wire)
    if wire.get("text") is not None:
        return _decoder(TextResourceContents)(wire)
    if wire.get("blob") is not None:
        return _decoder(BlobResourceContents)(wire)
    raise ProtocolError("resource contents: the member 'text' or 'blob' is missing", abridged(wire))


def _reader(hint: Any, where: str) -> Convert:
    """Return the function that checks a member's value, which is not null, and turns it into the field's value."""
    hint = _unwrap(hint)
    if hint == Content:
        return _decode_content
    if hint == ResourceContents:
        return _decode_contents
    if get_origin(hint) is list:
        each = _reader(get_args(hint)[0], where + "[]")

        def many(value: Any) -> Any:
            if type(value) is not list:
                raise _wrong(where, "an array", value)
            return [each(item) for item in value]

        return many
    if get_origin(hint) is dict:
        return _checked((dict,), "an object", where)
    if hint is str:
        return _checked((str,), "a string", where)
    if hint is bool:
        return _checked((bool,), "a boolean", where)
    if hint is int:
        return _integer(where)
    if hint is float:
        return _checked((int, float), "a number", where)
    if is_dataclass(hint):
        return _decoder(hint)
    return lambda value: value


def _checked(kinds: Tuple[type, ...], what: str, where: str) -> Convert:
    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise _wrong(where, what, value)
        return value

    return check


def _integer(where: str) -> Convert:
    def check(value: Any) -> Any:
        if type(value) is float and value.is_integer():
            return int(value)  # JSON has one kind of number, and some peers write 100.0
        if type(value) is not int:
            raise _wrong(where, "an integer", value)
        return value

    return check


_JSON_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number",
               float: "a number", type(None): "null"}


def _wrong(where: str, expected: str, value: Any) -> ProtocolError:
    got = _JSON_NAMES.get(type(value), type(value).__name__)
    # The kind is right and the value is wrong, such as 1.5 for an integer, or another content type.
    detail = abridged(value) if got == expected or isinstance(value, (str, int, float)) else got
    return ProtocolError(f"{where}: expected {expected}, got {detail}", abridged(value))


# --- content for older peers ------------------------------------------------------------------------


def downgrade(content: "List[Content]", revision: Revision) -> "List[Content]":
    """Return *content* with text in place of the kinds that the revision lacks (TOOL-23).

    For the content of tools and prompts. The list is never changed; it is returned itself if nothing is replaced.
    """
    kinds = revision.content_kinds
    if all(item.wire_type in kinds for item in content):
        return content
    return [item if item.wire_type in kinds else TextContent(text=_as_text(item)) for item in content]


def _as_text(item: Any) -> str:
    if isinstance(item, AudioContent):
        size = len(item.data) * 3 // 4 - item.data[-2:].count("=")
        return f"[audio, {item.mime_type}, {size} bytes: this client cannot receive audio]"
    if isinstance(item, ResourceLink):
        about = f": {item.description}" if item.description else ""
        return f"[resource {item.title or item.name}: {item.uri}{about}]"
    return f"[content of the kind {item.wire_type!r}, which this client cannot receive]"
