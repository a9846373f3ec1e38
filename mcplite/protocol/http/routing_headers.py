"""Headers that repeat what is in the body: Mcp-Method, Mcp-Name, Mcp-Param-*; for both sides.

They let whoever stands between read where a request goes without its body. A server compares them with the
body before it believes either (MHDR-03, MHDR-04).
"""

import base64
import binascii
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ...errors import HeaderMismatch
from .headers import Headers

__all__ = ["MARK", "Mark", "check_parameters", "check_standard", "decode_value", "encode_value", "is_field_name",
           "marks", "parameters", "standard"]

#: The annotation of a parameter in a tool's input schema.
MARK = "x-mcp-header"
_PARAM = "Mcp-Param-"
#: Which member of the params ``Mcp-Name`` repeats.
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_INTEGER = re.compile(r"(-?[0-9]{1,30})(?:\.0+)?")
_BEGIN, _END = "=?base64?", "?="
#: Integers beyond it are not the same number for every peer (MHDR-16).
_MOST = 2 ** 53 - 1
_KINDS = ("string", "integer", "boolean")


class Mark(NamedTuple):
    """One parameter that travels in a header as well."""

    #: Of the header, behind ``Mcp-Param-``.
    name: str
    #: The names of the properties on the way to it, from the arguments on.
    path: Tuple[str, ...]
    #: "string", "integer" or "boolean".
    kind: str


def is_field_name(name: str) -> bool:
    """Whether a header field could be called this."""
    return _TOKEN.fullmatch(name) is not None


# --- values -----------------------------------------------------------------------------------------


def encode_value(text: str) -> str:
    """Return a value as a header can carry it: as it is, or in base64 between marks (MHDR-07, MHDR-08)."""
    if not text or (_PLAIN.fullmatch(text) and not (text.startswith(_BEGIN) and text.endswith(_END))):
        return text
    return _BEGIN + base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii") + _END


def decode_value(value: str) -> str:
    """Return what a header's value stands for; without both marks it stands for itself (MHDR-09).

    :raises ValueError: what is between the marks is no base64 of UTF-8 (MHDR-10).
    """
    if not (value.startswith(_BEGIN) and value.endswith(_END) and len(value) >= len(_BEGIN) + len(_END)):
        return value
    try:
        return base64.b64decode(value[len(_BEGIN):-len(_END)], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"no base64 of UTF-8 text: {value[:100]!r}") from error


# --- a tool's parameters ----------------------------------------------------------------------------


def marks(schema: Any) -> List[Mark]:
    """Return the parameters that an input schema marks.

    :raises ValueError: a mark breaks the rules: its name is no token (MHDR-13), comes twice (MHDR-14), is on
        something that is no string, integer or boolean (MHDR-15), or at a place that is not reached through
        ``properties`` alone (MHDR-17).
    """
    found: List[Mark] = []
    if not _mentions(schema):
        return found
    _collect(schema, (), found)
    reached = {mark.path for mark in found}
    if _count(schema) != len(reached):
        raise ValueError(f"{MARK} stands at a place that cannot be reached through 'properties' alone")
    seen: Set[str] = set()
    for mark in found:
        if mark.name.lower() in seen:
            raise ValueError(f"{MARK}: the name {mark.name!r} comes twice (case does not count)")
        seen.add(mark.name.lower())
    return found


def _collect(schema: Any, path: Tuple[str, ...], found: List[Mark]) -> None:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, inner in properties.items():
        if not isinstance(inner, dict):
            continue
        at = (*path, name)
        if MARK in inner:
            label, kind = inner[MARK], inner.get("type")
            if not isinstance(label, str) or not is_field_name(label):
                raise ValueError(f"{MARK} of {'.'.join(at)!r} must be the name of a header field: letters, digits and"
                                 f" '-', not {label!r:.100}")
            if kind not in _KINDS:
                raise ValueError(f"{MARK} of {'.'.join(at)!r} needs a parameter of type string, integer or boolean,"
                                 f" not {kind!r:.100}")
            found.append(Mark(label, at, kind))
        _collect(inner, at, found)


def _mentions(schema: Any) -> bool:
    return _count(schema) > 0


def _count(schema: Any) -> int:
    """Count the marks that stand anywhere a schema can; values of examples, defaults and the like are no schemas."""
    total, waiting = 0, [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            total += MARK in item
            for key, value in item.items():
                if key in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
                    waiting.extend(value.values() if isinstance(value, dict) else ())
                elif key not in ("const", "enum", "default", "examples", MARK):
                    waiting.append(value)
    return total


# --- what a client sends ----------------------------------------------------------------------------


def standard(method: str, params: Mapping[str, Any], version: str) -> Dict[str, str]:
    """Return the headers that every request carries (MHDR-01, MHDR-02, H26-15)."""
    out = {"MCP-Protocol-Version": version, "Mcp-Method": encode_value(method)}
    member = _NAMED.get(method)
    name = None if member is None else params.get(member)
    if isinstance(name, str):
        out["Mcp-Name"] = encode_value(name)
    return out


def parameters(arguments: Mapping[str, Any], marked: Sequence[Mark]) -> Dict[str, str]:
    """Return the headers for a tool's marked parameters (MHDR-11, MHDR-21, MHDR-22).

    An argument of another type than the schema says has no form in a header and gets none: the server says what
    is wrong with it.

    :raises ValueError: an integer is too large to be the same number everywhere (MHDR-16).
    """
    out: Dict[str, str] = {}
    for mark in marked:
        value = _at(arguments, mark.path)
        text = _text(value)
        if text is not None:
            out[_PARAM + mark.name] = encode_value(text)
    return out


def _at(arguments: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = arguments
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _text(value: Any) -> Optional[str]:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        if abs(value) > _MOST:
            raise ValueError(f"the integer {value} is beyond 2**53 - 1, so it cannot travel in a header")
        return str(value)
    return value if isinstance(value, str) else None


# --- what a server checks ---------------------------------------------------------------------------


def check_standard(headers: Headers, method: str, params: Mapping[str, Any], version: str) -> None:
    """Return when the headers say what the body says.

    :param version: the one that the body names.
    :raises HeaderMismatch: one is missing, comes twice, or says something else.
    """
    get = headers.get
    given_version, given_method, given_name = get("mcp-protocol-version"), get("mcp-method"), get("mcp-name")
    if given_version != version or not _is_plain(version):
        _compare(headers, "MCP-Protocol-Version", version, encoded=False)
    if given_method != method or not _is_plain(method):
        _compare(headers, "Mcp-Method", method, encoded=False)
    member = _NAMED.get(method)
    if member is not None:
        name = params.get(member)
        if isinstance(name, str) and (given_name != name or not _is_plain(name)):
            _compare(headers, "Mcp-Name", name)


def check_parameters(headers: Headers, arguments: Any, marked: Sequence[Mark]) -> None:
    """Return when the headers of marked parameters say what the arguments say.

    :raises HeaderMismatch: one is missing although there is a value (MHDR-24), there although there is none, or says
        something else (MHDR-25, MHDR-26).
    """
    for mark in marked:
        value = _at(arguments, mark.path) if isinstance(arguments, Mapping) else None
        name = _PARAM + mark.name
        try:
            text = _text(value)
        except ValueError as error:
            raise HeaderMismatch(f"Header mismatch: {name}: {error}") from error
        if text is None:
            if value is None and name.lower() in headers:
                raise HeaderMismatch(f"Header mismatch: {name} is given, but the argument {'.'.join(mark.path)!r} is not")
            continue
        _compare(headers, name, text, mark.kind == "integer")


def _is_plain(text: str) -> bool:
    """Whether a header that is equal to a text means it, as nearly all do; a comma may stand between two fields of the name."""
    return text.isascii() and text.isprintable() and "," not in text and not text.startswith(_BEGIN)


def _compare(headers: Headers, name: str, wanted: str, number: bool = False, encoded: bool = True) -> None:
    """Return when a header says what is wanted.

    :param number: whether it is an integer, which may be written in several ways.
    :param encoded: whether it may be in base64 (MHDR-04); what no header can say as it is, always may.
    """
    field = name.lower()
    if headers.get(field) == wanted and _is_plain(wanted):
        return
    given = headers.all(field)
    if not given:
        raise HeaderMismatch(f"Header mismatch: {name} is missing")
    if len(given) > 1:
        raise HeaderMismatch(f"Header mismatch: {name} comes more than once")
    value = given[0]
    if not all(" " <= character <= "~" for character in value):
        raise HeaderMismatch(f"Header mismatch: {name} has characters that no header may have")
    try:
        said = decode_value(value) if encoded or not _PLAIN.fullmatch(wanted) else value
    except ValueError as error:
        raise HeaderMismatch(f"Header mismatch: {name}: {error}") from error
    if said != wanted and not (number and _same_number(said, wanted)):
        raise HeaderMismatch(f"Header mismatch: {name} says {said[:100]!r}, the body {wanted[:100]!r}")


def _same_number(said: str, wanted: str) -> bool:
    one, other = _INTEGER.fullmatch(said), _INTEGER.fullmatch(wanted)
    return one is not None and other is not None and int(one.group(1)) == int(other.group(1))
