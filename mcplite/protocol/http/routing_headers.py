"""Headers that repeat parts of the body: Mcp-Method, Mcp-Name and Mcp-Param-*; for both sides.

They let a proxy route a request without parsing its body. A server compares them with the body before it acts on
either (MHDR-03, MHDR-04).
"""

import base64
import binascii
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ...errors import HeaderMismatch
from .headers import TOKEN, Headers

#: The keyword of a parameter in a tool's input schema that names its header.
MARK = "x-mcp-header"
_PARAM = "Mcp-Param-"
#: The member of the params that ``Mcp-Name`` repeats, by method.
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId",
          "tasks/cancel": "taskId"}
# The patterns are texts: re compiles and keeps each on its first use, and a client over stdio uses none.
_PLAIN = r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?"
_INTEGER = r"(-?[0-9]{1,30})(?:\.0+)?"
_BEGIN, _END = "=?base64?", "?="
#: Larger integers are not exact for every peer (MHDR-16).
_LARGEST_INTEGER = 2 ** 53 - 1
_KINDS = ("string", "integer", "boolean")
#: The classes of JSON data.
_JSON = frozenset({str, int, float, bool, type(None), list, dict})


class Mark(NamedTuple):
    """One parameter that is sent in a header as well."""

    #: The header's name behind ``Mcp-Param-``.
    name: str
    #: The names of the properties that lead to it from the arguments.
    path: Tuple[str, ...]
    #: "string", "integer" or "boolean".
    kind: str


def is_field_name(name: str) -> bool:
    """Whether *name* is a valid name of a header field."""
    return re.fullmatch(TOKEN, name) is not None


# --- values -----------------------------------------------------------------------------------------


def encode_value(text: str) -> str:
    """Return a value in a form for a header: unchanged, or in Base64 between markers (MHDR-07, MHDR-08)."""
    if (text.isascii() and text.isprintable() and text == text.strip(" ")
            and not (text.startswith(_BEGIN) and text.endswith(_END))):
        return text
    return _BEGIN + base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii") + _END


def decode_value(value: str) -> str:
    """Return the decoded value of a header; a value without both markers is literal (MHDR-09).

    :raises ValueError: the text between the markers is not Base64 of UTF-8 (MHDR-10).
    """
    if not (value.startswith(_BEGIN) and value.endswith(_END) and len(value) >= len(_BEGIN) + len(_END)):
        return value
    try:
        return base64.b64decode(value[len(_BEGIN):-len(_END)], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"not Base64 of UTF-8 text: {value[:100]!r}") from error


# --- a tool's parameters ----------------------------------------------------------------------------


def marks(schema: Any) -> List[Mark]:
    """Return the parameters that an input schema marks.

    :raises ValueError: a mark breaks the rules: its name is not a token (MHDR-13) or comes twice (MHDR-14), its
        parameter is not a string, integer or boolean (MHDR-15), or is not reachable through ``properties`` alone
        (MHDR-17).
    """
    found: List[Mark] = []
    if not _count(schema):
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


def _count(schema: Any) -> int:
    """Count the marks in all subschemas; values of examples, defaults and the like are not schemas."""
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


def standard(method: str, params: Mapping[str, Any], version: str, names: Mapping[str, str] = {}) -> Dict[str, str]:
    """Return the headers that every request carries (MHDR-01, MHDR-02, H26-15).

    :param names: the member that ``Mcp-Name`` repeats, by methods that extensions add.
    """
    out = {"MCP-Protocol-Version": version, "Mcp-Method": encode_value(method)}
    member = _NAMED.get(method) or names.get(method)
    name = None if member is None else params.get(member)
    if isinstance(name, str):
        out["Mcp-Name"] = encode_value(name)
    return out


def parameters(arguments: Mapping[str, Any], marked: Sequence[Mark]) -> Dict[str, str]:
    """Return the headers for a tool's marked parameters (MHDR-11, MHDR-21, MHDR-22).

    An argument of a wrong type gets no header: the server reports the error.

    :raises ValueError: an integer is too large to be exact for every peer (MHDR-16).
    :raises TypeError: an argument has no form in JSON.
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
        if type(value) not in _JSON:
            from ..jsonable import jsonable  # for the few clients with such arguments

            value = jsonable(value)
    return value


def _text(value: Any) -> Optional[str]:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        if abs(value) > _LARGEST_INTEGER:
            raise ValueError(f"the integer {value} is beyond 2**53 - 1, so it cannot be sent in a header")
        return str(value)
    return value if isinstance(value, str) else None


# --- what a server checks ---------------------------------------------------------------------------


class _Standard(NamedTuple):
    """The headers of every request whose text is their value; None for a header that :func:`_compare` has to read."""

    version: Optional[str]
    method: Optional[str]
    name: Optional[str]


def _plain_standard(headers: Headers) -> _Standard:
    given = [headers.get(name) for name in ("mcp-protocol-version", "mcp-method", "mcp-name")]
    return _Standard(*(value if value is not None and _is_plain(value) else None for value in given))


def check_standard(headers: Headers, method: str, params: Mapping[str, Any], version: str) -> None:
    """Check that the headers of every request match the body.

    :param version: the version in the body.
    :raises HeaderMismatch: a header is missing, comes twice, or has another value.
    """
    plain: _Standard = headers.known.get(_plain_standard) or headers.read_once(_plain_standard)
    if plain.version != version:
        _compare(headers, "MCP-Protocol-Version", version, encoded=False)
    if plain.method != method:
        _compare(headers, "Mcp-Method", method, encoded=False)
    member = _NAMED.get(method)
    if member is not None:
        name = params.get(member)
        if isinstance(name, str) and plain.name != name:
            _compare(headers, "Mcp-Name", name)


def check_name(headers: Headers, name: Any) -> None:
    """Check that ``Mcp-Name`` repeats a member of the params, for a method that an extension adds.

    :raises HeaderMismatch: as for :func:`check_standard`.
    """
    if isinstance(name, str):
        _compare(headers, "Mcp-Name", name)


def check_parameters(headers: Headers, arguments: Any, marked: Sequence[Mark]) -> None:
    """Check that the headers of marked parameters match the arguments.

    :raises HeaderMismatch: a header is missing (MHDR-24), has no argument, or has another value (MHDR-25, MHDR-26).
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
    """Whether a header that equals this text has it as its one, literal value; a comma may come from two fields of the name."""
    return text.isascii() and text.isprintable() and "," not in text and not text.startswith(_BEGIN)


def _compare(headers: Headers, name: str, wanted: str, number: bool = False, encoded: bool = True) -> None:
    """Check that a header has the wanted value.

    :param number: whether it is an integer, which has several spellings.
    :param encoded: whether it may be in Base64 (MHDR-04); a value that no header can carry unchanged always may.
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
        raise HeaderMismatch(f"Header mismatch: {name} has characters that are not allowed in headers")
    try:
        said = decode_value(value) if encoded or not re.fullmatch(_PLAIN, wanted) else value
    except ValueError as error:
        raise HeaderMismatch(f"Header mismatch: {name}: {error}") from error
    if said != wanted and not (number and _same_number(said, wanted)):
        raise HeaderMismatch(f"Header mismatch: {name} says {said[:100]!r}, the body {wanted[:100]!r}")


def _same_number(said: str, wanted: str) -> bool:
    one, other = re.fullmatch(_INTEGER, said), re.fullmatch(_INTEGER, wanted)
    return one is not None and other is not None and int(one.group(1)) == int(other.group(1))
