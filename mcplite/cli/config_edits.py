"""Changes one entry in the text of a host application's configuration file; all else, with its comments, stays as it is.

The files are the user's: they have comments, an order, and a style that a parser and a writer would lose. So an edit is made in
the text, at the place that a scan finds, and is checked afterwards: the new text is parsed, and must differ from the old one
by this entry and nothing else. If it differs in anything else, the edit is refused, and the file stays as it is.
"""

import json
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..client.config import parse, to_json, without_comments
from ..errors import TransportError

__all__ = ["parse_document", "with_entry", "without_entry"]


def parse_document(text: str, form: str, where: str) -> Dict[str, Any]:
    """Return the content of a configuration file; an empty object if the file is empty.

    :param form: ``json``, ``toml`` or ``yaml``.
    :param where: the file, for errors.
    :raises TransportError: the text is not of this form, or the library that reads it is not installed.
    """
    found: Any = {}
    if text.strip():
        found = {"json": _parse_json, "toml": _parse_toml, "yaml": _parse_yaml}[form](text, where)
    if found is None:
        found = {}  # a YAML file of comments
    if not isinstance(found, dict):
        raise TransportError(f"{where} must be an object with settings by name, not {type(found).__name__}")
    return found


def _parse_json(text: str, where: str) -> Any:
    return parse(text, where)[0]


def _parse_toml(text: str, where: str) -> Any:
    try:
        import tomllib as toml  # of Python 3.11
    except ImportError:
        try:
            import tomli as toml
        except ImportError:
            raise TransportError(f"{where} is TOML, which this Python cannot read: use Python 3.11 or newer, or pip install"
                                 " tomli") from None
    try:
        return toml.loads(text)
    except ValueError as error:
        raise TransportError(f"{where} is not TOML: {error}") from error


def _parse_yaml(text: str, where: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise TransportError(f"{where} is YAML: pip install pyyaml to read it") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise TransportError(f"{where} is not YAML: {error}") from error


def with_entry(text: str, form: str, section: str, name: str, entry: Mapping[str, Any], where: str) -> str:
    """Return the text of a file with an entry in a section; it replaces an older entry of this name.

    :raises TransportError: the file cannot be read, or is written in a way that this edit does not know. In the second case the
        error has the lines to insert by hand.
    """
    whole = _ADD[form]("", section, name, entry)
    if not text.strip():
        return _lines_as_before(text, whole)  # an empty file has nothing to lose, so no library has to check the new text
    before = parse_document(text, form, where)
    servers = before.get(section)
    if not (servers is None or isinstance(servers, dict)):
        raise TransportError(f"{where}: {section!r} must be an object of servers by name, not {type(servers).__name__}")
    wanted = {**before, section: {**(servers or {}), name: dict(entry)}}
    if form != "json" and servers and name in servers:
        text = _REMOVE[form](text, section, name)
    return _checked(_lines_as_before(text, _ADD[form](text, section, name, entry)), form, wanted, where, whole)


def without_entry(text: str, form: str, section: str, name: str, where: str) -> str:
    """Return the text of a file without an entry, which it has.

    :raises TransportError: as of :func:`with_entry`.
    """
    before = parse_document(text, form, where)
    wanted = {**before, section: {key: value for key, value in before[section].items() if key != name}}
    return _checked(_lines_as_before(text, _REMOVE[form](text, section, name)), form, wanted, where, "")


def _lines_as_before(before: str, after: str) -> str:
    """Return the text *after* with the line ends of the text *before*."""
    return after.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in before else after


def _checked(text: str, form: str, wanted: Mapping[str, Any], where: str, by_hand: str) -> str:
    try:
        found: Optional[Dict[str, Any]] = parse_document(text, form, where)
    except TransportError:
        found = None
    if found is None or _without_empty(found) != _without_empty(wanted):
        lines = f", and insert\n\n{by_hand}" if by_hand else ", and remove the entry"
        raise TransportError(f"{where} is written in a way that this command cannot change safely; open it in an editor{lines}")
    return text


def _without_empty(document: Mapping[str, Any]) -> Dict[str, Any]:
    """Return a document without empty sections: a section of TOML is gone when its last table is removed."""
    return {key: value for key, value in document.items() if value not in (None, {})}


# --- JSON with comments -------------------------------------------------------------------------------------------


class _Member(NamedTuple):
    """One member of an object: where its name begins, and its value begins and ends."""

    name: str
    start: int
    value: int
    end: int


_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)


def _scan(plain: str, start: int) -> Tuple[List[_Member], int]:
    """Return the members of the object that begins at *start*, and the position of its closing brace.

    :param plain: valid JSON.
    """
    members: List[_Member] = []
    at = _skip(plain, start + 1)
    while plain[at] != "}":
        name, end = _DECODER.raw_decode(plain, at)
        value = _skip(plain, _skip(plain, end) + 1)
        members.append(_Member(name, at, value, _DECODER.raw_decode(plain, value)[1]))
        at = _skip(plain, members[-1].end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return members, at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _add_json(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    if not text.strip():
        return json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    plain = to_json(text)
    root = plain.index("{")
    unit = _unit(plain, root)
    servers = _find(plain, root, section)
    if servers is None:
        return _insert(text, root, unit, section, {name: entry})
    if plain[servers.value] != "{":  # null
        return text[:servers.value] + _dump({name: entry}, _indent(plain, servers.start), unit) + text[servers.end:]
    known = _find(plain, servers.value, name)
    if known is None:
        return _insert(text, servers.value, unit, name, entry)
    return text[:known.value] + _dump(entry, _indent(plain, known.start), unit) + text[known.end:]


def _remove_json(text: str, section: str, name: str) -> str:
    plain, commas = to_json(text), without_comments(text)
    servers = _find(plain, plain.index("{"), section)
    assert servers is not None
    members = _scan(plain, servers.value)[0]
    place = max(at for at, member in enumerate(members) if member.name == name)
    start, stop = members[place].start, members[place].end
    if commas[_skip(commas, stop)] == ",":
        stop = _skip(commas, stop) + 1
    elif place > 0:  # the member is the last one: the comma before it is removed, too
        comma = commas.rindex(",", members[place - 1].end, start)
        text, commas = text[:comma] + text[comma + 1:], commas[:comma] + commas[comma + 1:]
        start, stop = start - 1, stop - 1
    line, rest = text.rfind("\n", 0, start) + 1, text.find("\n", stop)
    if rest >= 0 and not text[line:start].strip() and not commas[stop:rest].strip():
        return text[:line] + text[rest + 1:]
    return text[:start].rstrip(" ") + text[stop:]


def _find(plain: str, start: int, name: str) -> Optional[_Member]:
    """Return the member of this name in the object at *start*; the last one counts, as for a parser."""
    return next((member for member in reversed(_scan(plain, start)[0]) if member.name == name), None)


def _insert(text: str, start: int, unit: str, name: str, value: Any) -> str:
    """Return the text with one more member at the end of the object that begins at *start*."""
    plain, commas = to_json(text), without_comments(text)
    members, end = _scan(plain, start)
    spread = "\n" in text[start:end] or not members
    outer = _indent(plain, start)
    inner = _indent(plain, members[0].start) if members and spread else outer + unit
    if not spread:
        return text[:members[-1].end] + f", {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" \
            + text[members[-1].end:]
    new = f"{inner}{json.dumps(name, ensure_ascii=False)}: {_dump(value, inner, unit)}"
    line = text.rfind("\n", 0, end) + 1
    own_line = line > start and not text[line:end].strip()
    tail = text[line:] if own_line else f"{outer}{text[end:]}"
    head = text[:line].rstrip("\n") if own_line else text[:end].rstrip(" ")
    if members and "," in commas[members[-1].end:end]:
        new += ","  # the file has a comma behind its last member
    elif members:
        last = members[-1].end
        head = head[:last] + "," + head[last:]
    return f"{head}\n{new}\n{tail}"


def _indent(plain: str, at: int) -> str:
    """Return the white space at the beginning of the line of a position."""
    line = plain.rfind("\n", 0, at) + 1
    return plain[line:len(plain) - len(plain[line:].lstrip(" \t"))]


def _unit(plain: str, root: int) -> str:
    """Return the white space by which the file indents one level."""
    members = _scan(plain, root)[0]
    return (_indent(plain, members[0].start) if members and "\n" in plain[root:members[0].start] else "") or "  "


def _dump(value: Any, indent: str, unit: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + indent)


# --- TOML -----------------------------------------------------------------------------------------------------------


def _add_toml(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    table = f"{section}.{name if re.fullmatch(r'[A-Za-z0-9_-]+', name) else _toml(name)}"
    lines = [f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in entry.items() if not isinstance(value, dict))]
    for key, value in entry.items():
        if isinstance(value, dict):
            lines += ["", f"[{table}.{key}]", *(f"{_toml(one)} = {_toml(other)}" for one, other in value.items())]
    before = text.rstrip("\r\n")
    return (f"{before}\n\n" if before else "") + "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Return a text, number, flag or list as TOML: that is its JSON, but for one character, which TOML needs escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _remove_toml(text: str, section: str, name: str) -> str:
    ours = re.compile(rf"\s*\[\s*{re.escape(section)}\s*\.\s*{_spellings(name)}\s*(?:\.[^\]]*)?\]")
    kept: List[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        if re.match(r"\s*\[", line):
            inside = ours.match(line) is not None
        if not inside:
            kept.append(line)
    return "".join(kept).rstrip("\r\n") + "\n"


def _spellings(name: str) -> str:
    """Return a pattern for a name as it is, and in either quotes."""
    quoted = (json.dumps(name, ensure_ascii=False), json.dumps(name), "'" + name.replace("'", "''") + "'", f"'{name}'")
    return f"(?:{'|'.join(map(re.escape, (name, *quoted)))})"


# --- YAML -----------------------------------------------------------------------------------------------------------


def _add_yaml(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    lines = text.splitlines()
    place = next((at for at, line in enumerate(lines) if re.match(rf"{re.escape(section)}\s*:", line)), None)
    if place is None:
        lines += ["", f"{section}:"] if lines else [f"{section}:"]
        place = len(lines) - 1
    elif re.match(rf"{re.escape(section)}\s*:\s*\{{\s*\}}", lines[place]):
        lines[place] = f"{section}:"
    children = [line for line in lines[place + 1:] if line.strip() and not line.lstrip().startswith("#")][:1]
    step = " " * (len(children[0]) - len(children[0].lstrip(" "))) if children else ""
    step = step or "  "
    # Values are written as JSON, which YAML reads as its flow style.
    lines[place + 1:place + 1] = [f"{step}{_yaml_name(name)}:", *(
        f"{2 * step}{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())]
    return "\n".join(lines) + "\n"


def _yaml_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) else json.dumps(name, ensure_ascii=False)


def _remove_yaml(text: str, section: str, name: str) -> str:
    ours = re.compile(rf"(\s+){_spellings(name)}\s*:")
    kept: List[str] = []
    within, depth = False, None
    for line in text.splitlines(keepends=True):
        told = line.strip() and not line.lstrip().startswith("#")
        indent = len(line) - len(line.lstrip(" "))
        if told and indent == 0:
            within = re.match(rf"{re.escape(section)}\s*:", line) is not None
        if told and depth is not None and indent <= depth:
            depth = None
        found = ours.match(line) if within and depth is None else None
        if found is not None:
            depth = len(found.group(1))
        if depth is None:
            kept.append(line)
    return "".join(kept)


_ADD: Dict[str, Callable[[str, str, str, Mapping[str, Any]], str]] = {
    "json": _add_json, "toml": _add_toml, "yaml": _add_yaml}
_REMOVE: Dict[str, Callable[[str, str, str], str]] = {
    "json": _remove_json, "toml": _remove_toml, "yaml": _remove_yaml}
