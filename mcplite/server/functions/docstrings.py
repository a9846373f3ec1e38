"""Parses docstrings in Google, NumPy and reST style: the description of a function and of its parameters.

A part that is not understood stays in the description: an author's text is for the model, wherever it stands.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple

_SECTIONS = ("args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters",
             "attributes")
_MARKS = r"[`'\"*]*"
_NAMES = rf"{_MARKS}\w+{_MARKS}(?:\s*,\s*{_MARKS}\w+{_MARKS})*"
#: A bullet, names, a type in brackets, a colon or a dash, and a text.
_GOOGLE_ITEM = (rf"(?:[-+*\u2022]\s+)?({_NAMES})\s*(?:\(.*?\){_MARKS})?"
                rf"(?:\s*:{_MARKS}|\s+(?:-{{1,3}}|[\u2013\u2014]))(?:\s+(.*)|$)")
#: The beginning of a line that is an item, but not one that is understood, such as ``options.depth: ...`` or ``- ...``.
_LIKE_AN_ITEM = rf"[-+*\u2022]\s|{_MARKS}[\w.\[\]<>]+{_MARKS}\s*(?:\(.*?\))?\s*(?:[:=]|\s-)"
_NUMPY_ITEM = rf"({_NAMES})\s*(?::\s*(.*))?$"
_REST_ITEM = r"[:@](?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)"
#: Does not match a role, such as :class:`X`, which is part of the text.
_REST_FIELD = r"[:@]\w+[^:`]*:(?=\s|$)"
#: Fields that name types; they are left out, since the schema has the types.
_REST_TYPE = r"[:@](?:type|rtype|kwtype)\b"
_FENCES = ("```", "~~~")


#: The description of a function, and that of each parameter by name.
Documentation = Tuple[Optional[str], Dict[str, str]]


def parse(docstring: Any, names: Optional[Collection[str]] = None) -> Documentation:
    """Return the descriptions of the parameters *names*, and everything else as the description of the function.

    :param names: the parameters whose descriptions are taken out of the text; None for all that the docstring describes.
    """
    if docstring is not None and not isinstance(docstring, str):
        from ...protocol.jsonable import as_text  # for the few that are lazy translations

        docstring = as_text(docstring)
    if not docstring:
        return None, {}
    line = docstring.strip()
    if line.isprintable() and line[:1] not in ":@" and line[-1:] != ":":  # one line, and nothing but text
        return line or None, {}
    lines = _dedent(docstring)
    text: List[str] = []
    parameters: Dict[str, str] = {}
    at = 0
    fence = ""
    while at < len(lines):
        line = lines[at]
        underlined = at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}
        if fence or line[:3] in _FENCES:
            mark = line[:3]
            fence = "" if mark == fence else fence or mark
            text.append(line)
            at += 1
        elif line.rstrip(": ").lower() in _SECTIONS and (line.endswith(":") or underlined):
            first = at
            body, at = _section(lines, at + (2 if underlined else 1), underlined)
            found, kept = _items(body, names, underlined)
            parameters.update(found)
            if kept and any(kept):
                text.extend([*lines[first:at - len(body)], *kept])
        elif line.startswith((":", "@")) and re.match(_REST_FIELD, line):
            field, after = _field(lines, at)
            match = re.match(_REST_ITEM, field)
            if match and _known(match.group(1), names):
                parameters[match.group(1)] = match.group(2).strip()
            elif not re.match(_REST_TYPE, line):
                text.extend(lines[at:after])
            at = after
        else:
            text.append(line)
            at += 1
    return "\n".join(text).strip() or None, parameters


def _known(name: str, names: Optional[Collection[str]]) -> bool:
    return names is None or name in names


def _dedent(docstring: str) -> List[str]:
    lines = docstring.expandtabs().splitlines()
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins) if margins else 0
    # If the first line is a section title, indent the following lines, so that they belong to the section.
    first = lines[0].strip()
    titled = first.endswith(":") and first[:-1].lower() in _SECTIONS
    inside = " " if titled and margins and margins[0] == margin else ""
    return [first] + [(inside + line[margin:]).rstrip() for line in lines[1:]]


def _section(lines: List[str], at: int, underlined: bool) -> "Tuple[List[str], int]":
    body: List[str] = []
    while at < len(lines):
        line = lines[at]
        if line and line == line.lstrip():
            follows_underline = at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}
            if not underlined or follows_underline:
                break
        body.append(line)
        at += 1
    return body, at


def _named(text: str, names: Optional[Collection[str]]) -> Sequence[str]:
    """Return the parameters that an item names; none if one of its names is not a parameter."""
    found = re.findall(r"\w+", text)
    return found if names is None or all(name in names for name in found) else []


def _items(body: List[str], names: Optional[Collection[str]], numpy: bool) -> "Tuple[Dict[str, str], List[str]]":
    """Return the descriptions of the parameters in a section, and the lines that are none of them.

    :param numpy: whether the items are those of NumPy style, whose texts stand below their names; of Google style otherwise.
    """
    margin = 0 if numpy else min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    item = re.compile(_NUMPY_ITEM if numpy else _GOOGLE_ITEM).match
    found: Dict[str, Tuple[List[str], str]] = {}
    kept: List[str] = []
    #: The lines of the parameter that is being read; None outside of the items.
    current: Optional[List[str]] = None
    blank = False
    for line in body:
        text = line[margin:]
        match = item(text)
        named = _named(match.group(1), names) if match else ()
        if match and named:
            said = (match.group(2) or "").strip()
            current = [said] if said and not numpy else []
            # After the colon NumPy style has the type, which the schema has too. It is used only if no text follows.
            found.update(dict.fromkeys(named, (current, said)))
            continue
        if current is None or text and text[0] != " " and (numpy or blank or re.match(_LIKE_AN_ITEM, text)):
            current = None
            kept.append(line)
        elif text:
            current.append(text.strip())
        blank = not text
    return {name: " ".join(parts).strip() or said for name, (parts, said) in found.items()}, kept


def _field(lines: List[str], at: int) -> "Tuple[str, int]":
    parts = [lines[at].strip()]
    at += 1
    while at < len(lines) and lines[at][:1].isspace() and lines[at].strip():
        parts.append(lines[at].strip())
        at += 1
    return " ".join(parts), at
