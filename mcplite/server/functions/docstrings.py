"""Parses docstrings in Google, NumPy and reST style: the description of a function and of its parameters."""

import re
from typing import Dict, List, NamedTuple, Optional

__all__ = ["Documentation", "parse"]

_SECTIONS = ("args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters",
             "attributes")
#: Sections that are left out, since they do not describe how to call the function.
_ENDS = ("returns", "return", "yields", "yield", "raises", "raise", "except", "exceptions")
_GOOGLE_ITEM = r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)"
_NUMPY_ITEM = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_REST_ITEM = r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)"
#: Does not match a role, such as :class:`X`, which is part of the text.
_REST_FIELD = r":\w+[^:`]*:(?=\s|$)"


class Documentation(NamedTuple):
    """The description of a function, and the description of each parameter by name."""

    text: Optional[str]
    parameters: Dict[str, str]


def parse(docstring: Optional[str]) -> Documentation:
    """Return the parsed *docstring*. Sections about results and exceptions are dropped; unknown sections stay text."""
    if not docstring or not isinstance(docstring, str):
        return Documentation(None, {})
    line = docstring.strip()
    if line.isprintable() and line[:1] != ":" != line[-1:]:  # one line, and nothing but text
        return Documentation(line or None, {})
    lines = _dedent(docstring)
    text: List[str] = []
    parameters: Dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        title = line.strip().rstrip(":").lower()
        underlined = at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}
        if title in _SECTIONS + _ENDS and line == line.lstrip() and (line.rstrip().endswith(":") or underlined):
            body, at = _section(lines, at + (2 if underlined else 1), underlined)
            if title in _SECTIONS:
                parameters.update(_numpy(body) if underlined else _google(body))
        elif line.startswith(":") and re.match(_REST_FIELD, line):
            field, at = _field(lines, at)
            match = re.match(_REST_ITEM, field)
            if match:
                parameters[match.group(1)] = match.group(2).strip()
        else:
            text.append(line)
            at += 1
    return Documentation("\n".join(text).strip() or None, parameters)


def _dedent(docstring: str) -> List[str]:
    lines = docstring.expandtabs().splitlines()
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins) if margins else 0
    # If the first line is a section title, indent the following lines, so that they belong to the section.
    first = lines[0].strip()
    titled = first.endswith(":") and first[:-1].lower() in _SECTIONS + _ENDS
    inside = " " if titled and margins and margins[0] == margin else ""
    return [first] + [(inside + line[margin:]).rstrip() for line in lines[1:]]


def _section(lines: List[str], at: int, underlined: bool) -> "tuple[List[str], int]":
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


def _google(body: List[str]) -> Dict[str, str]:
    margin = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    found: Dict[str, List[str]] = {}
    current: Optional[List[str]] = None
    for line in body:
        match = re.match(_GOOGLE_ITEM, line[margin:]) if line[margin:margin + 1].strip() else None
        if match:
            current = found[match.group(1)] = [(match.group(2) or "").strip()]
        elif current is not None and line.strip():
            current.append(line.strip())
    return {name: " ".join(parts).strip() for name, parts in found.items()}


def _numpy(body: List[str]) -> Dict[str, str]:
    found: Dict[str, List[str]] = {}
    current: Optional[List[str]] = None
    for line in body:
        if line and line == line.lstrip():
            match = re.match(_NUMPY_ITEM, line)
            current = []
            for name in match.group(1).split(",") if match else ():
                found[name.strip(" *")] = current
        elif current is not None and line.strip():
            current.append(line.strip())
    return {name: " ".join(parts) for name, parts in found.items()}


def _field(lines: List[str], at: int) -> "tuple[str, int]":
    parts = [lines[at].strip()]
    at += 1
    while at < len(lines) and lines[at][:1].isspace() and lines[at].strip():
        parts.append(lines[at].strip())
        at += 1
    return " ".join(parts), at
