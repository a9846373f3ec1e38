"""Reads the head of a SKILL.md: YAML between two lines of three dashes, as an object of JSON.

Server and host compare the head field by field, so both have to read a text alike. This reader knows the part of YAML that
heads of skills have: mappings, lists, texts of several lines, quotes and comments. Plain words get the types of YAML 1.2.
PyYAML reads what goes beyond that, if it is installed.
"""

import json
import math
import re
from typing import Any, Dict, List, Tuple

__all__ = ["FrontmatterError", "name_problem", "read_frontmatter"]

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#&*!|>%@`{}\[\],?:-][^#:]*?|-[^\s:]+)\s*:(?:\s+|$)""")
_INTEGER, _FLOAT = re.compile(r"[-+]?[0-9]+\Z"), re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True, "TRUE": True,
          "false": False, "False": False, "FALSE": False}
#: Where lines end. There are other characters at which Python splits a text, and a head may have them in its values.
_LINE_END = re.compile(r"\r\n|\r|\n")
#: Patterns: of the text before the mark of an alias or of an anchor, and of the name behind the mark.
_MARK, _ANCHOR = r"(?:^|[\s\[{,:?])", r"([\w-]+)"
_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")


class FrontmatterError(ValueError):
    """The text has no head, or one that cannot be read; the message says where."""


class _Beyond(Exception):
    """This reader does not know such YAML.

    :param line: its number in the file.
    """

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def name_problem(name: Any) -> str:
    """Return what is wrong with the name of a skill; empty if it is valid."""
    if isinstance(name, str) and _NAME.match(name):
        return ""
    return (f"the name {str(name)[:80]!r} of a skill has 1 to 64 characters from a-z, 0-9 and -, neither begins nor ends with"
            " a hyphen, and has no two of them in a row")


def read_frontmatter(text: str) -> Dict[str, Any]:
    """Return the head of a SKILL.md as an object of JSON.

    :raises FrontmatterError: there is none, it is not an object, has no name or description, or cannot be read.
    """
    lines = _LINE_END.split(text[1:] if text.startswith("\ufeff") else text)
    if lines[0].rstrip() != "---":
        raise FrontmatterError("the first line is not ---, so that the file has no head with a name and a description")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise FrontmatterError("a second line of --- has to end the head")
    head = lines[1:end]
    try:
        found = _HeadReader(head).read()
    except _Beyond as error:
        found = _by_library("\n".join([*head, ""]), error.line)
    except RecursionError:
        raise FrontmatterError("the head is nested too deeply") from None
    if not isinstance(found, dict):
        raise FrontmatterError("the head is not an object with name: and description:")
    for member in ("name", "description"):
        if not isinstance(found.get(member), str) or not found[member].strip():
            raise FrontmatterError(f"the head has no text as its {member}:")
    return found


def _by_library(head: str, line: int) -> Any:
    try:
        import yaml
    except ImportError:
        raise FrontmatterError(f"line {line} has YAML that only PyYAML reads: write it more simply, or install pyyaml"
                               ) from None
    aliases = {*re.findall(_MARK + "&" + _ANCHOR, head)}.intersection(re.findall(_MARK + r"\*" + _ANCHOR, head))
    if aliases:  # a few lines of aliases to aliases would fill the memory
        raise FrontmatterError(f"the head has an alias, *{aliases.pop():.80}: write out what it stands for")
    try:
        # Dates, which JSON does not have, become their text.
        return json.loads(json.dumps(yaml.safe_load(head), default=str, allow_nan=False))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise FrontmatterError(f"the head is not valid YAML: {error}") from None


class _HeadReader:
    """Reads lines of YAML, each once and in order.

    :param lines: without the lines of dashes; the first is line 2 of the file.
    """

    def __init__(self, lines: List[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> Any:
        found = self._block(0)
        if self._peek()[0] >= 0:
            raise _Beyond(self._at + 2)
        return found

    def _peek(self) -> Tuple[int, str]:
        """Return the indentation and the text of the next line with content; -1 at the end."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.strip()
            if text and not text.startswith("#"):
                if "\t" in line[:len(line) - len(line.lstrip())]:
                    raise FrontmatterError(f"line {self._at + 2} is indented by a tab; YAML wants spaces")
                return len(line) - len(line.lstrip()), text
            self._at += 1
        return -1, ""

    def _block(self, least: int) -> Any:
        """Return the mapping or the list that begins at the next line; None if that is less indented."""
        indent, text = self._peek()
        if indent < least:
            return None
        if text == "-" or text.startswith("- "):
            return self._list(indent)
        return self._mapping(indent)

    def _mapping(self, indent: int) -> Dict[str, Any]:
        found: Dict[str, Any] = {}
        while True:
            here, text = self._peek()
            if here < indent:
                return found
            key = _KEY.match(text)
            if here > indent or key is None:
                raise _Beyond(self._at + 2)
            name, line = _scalar(key.group(1), self._at + 2), self._at + 2
            if not isinstance(name, str):
                raise _Beyond(line)
            if name in found:
                raise FrontmatterError(f"line {line} has the key {name!r} a second time")
            self._at += 1
            found[name] = self._value(text[key.end():], indent, line)

    def _list(self, indent: int) -> List[Any]:
        found: List[Any] = []
        while True:
            here, text = self._peek()
            if here < indent or not (text == "-" or text.startswith("- ")):
                if here > indent:
                    raise _Beyond(self._at + 2)
                return found
            item, line = text[1:].strip(), self._at + 2
            if here > indent or item.startswith("- ") or (_KEY.match(item) and item[0] not in "\"'"):
                raise _Beyond(line)
            self._at += 1
            found.append(self._value(item, indent, line))

    def _value(self, text: str, indent: int, line: int) -> Any:
        """Return the value that begins behind a key, or behind the dash of a list.

        :param indent: of the line with the key.
        """
        if text.startswith("#"):
            text = ""
        if text[:1] in "|>" and text:
            return self._text_block(text, indent, line)
        below, next_text = self._peek()
        if not text:
            is_list = next_text == "-" or next_text.startswith("- ")
            if below > indent or (below == indent and is_list and self._lines[line - 2].strip()[:1] != "-"):
                return self._block(below)
            return None
        # A plain text goes on in lines that are indented more.
        if text[0] not in "\"'[{":
            while below > indent:
                if " #" in text:
                    raise _Beyond(line)
                text += "\n" * self._empty_before() + ("" if text.endswith("\n") else " ") + next_text
                self._at += 1
                below, next_text = self._peek()
            text = re.sub(r" ?(\n+) ?", r"\1", text)
        elif below > indent:
            raise _Beyond(line)
        return _scalar(text, line)

    def _empty_before(self) -> int:
        """Return how many empty lines stand directly before the next line.

        :raises _Beyond: a comment stands before them.
        """
        count = 0
        while not self._lines[self._at - count - 1].strip():
            count += 1
        if self._lines[self._at - count - 1].strip().startswith("#"):
            raise _Beyond(self._at + 2)
        return count

    def _text_block(self, text: str, indent: int, line: int) -> str:
        """Return a text of several lines, behind | or >."""
        style = re.fullmatch(r"([|>])([-+]?)(?:\s+#.*)?", text)
        if style is None:
            raise _Beyond(line)
        lines: List[str] = []
        while self._at < len(self._lines):
            one = self._lines[self._at]
            if one.strip() and len(one) - len(one.lstrip(" ")) <= indent:
                break
            lines.append(one)
            self._at += 1
        # The first line with text says how much all are indented.
        first = next((at for at, one in enumerate(lines) if one.strip()), len(lines))
        indents = [len(one) - len(one.lstrip(" ")) for one in lines[first:] if one.strip()] or [0]
        if min(indents) < indents[0] or first < len(lines) and max(map(len, lines[:first]), default=0) > indents[0]:
            raise _Beyond(line)
        lines = [one[indents[0]:] if at > first else one.lstrip(" ") for at, one in enumerate(lines)]
        content = len(lines)
        while content and not lines[content - 1]:
            content -= 1
        ending = {"": "\n" if content else "", "-": "", "+": "\n" * (len(lines) - content + bool(content))}[style.group(2)]
        if style.group(1) == "|":
            return "\n".join(lines[:content]) + ending
        if any(one[:1] in " \t" for one in lines[:content] if one):
            raise _Beyond(line)  # lines that are indented more are not folded
        # Between lines of text, the first line end of several is folded away, and a single one becomes a space.
        return re.sub(r"(?<=[^\n])\n(\n*)", lambda ends: ends[1] or " ", "\n".join(lines[:content])) + ending


def _scalar(text: str, line: int) -> Any:
    """Return the value of a text without line structure."""
    if text[0] == '"':
        quoted = re.fullmatch(r'("(?:[^"\\]|\\.)*")(?:\s+#.*)?', text)
        try:
            return json.loads(quoted.group(1)) if quoted else _beyond(line)
        except ValueError:
            raise _Beyond(line) from None
    if text[0] == "'":
        quoted = re.fullmatch(r"'((?:[^']|'')*)'(?:\s+#.*)?", text)
        return quoted.group(1).replace("''", "'") if quoted else _beyond(line)
    text = re.split(r"\s+#", text)[0].rstrip()
    if text[0] == "[":
        return _flow_list(text, line)
    if text == "{}":
        return {}
    if text[0] in "{&*!%@`|>,]}?#" or text.startswith("- ") or ": " in text or text.endswith(":"):
        return _beyond(line)
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text) if len(text) < 20 else _beyond(line)
    if _FLOAT.match(text):
        if not math.isfinite(float(text)):
            raise FrontmatterError(f"line {line} has a number that is too large")
        return float(text)
    if re.match(r"0[xob]|[-+]?\.(inf|nan)", text, re.IGNORECASE):
        return _beyond(line)
    return text


def _flow_list(text: str, line: int) -> List[Any]:
    item = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\[\]{},][^"'\[\]{},]*)"""
    parts = re.fullmatch(rf"\[\s*((?:{item}\s*(?:,\s*|(?=\])))*)\]", text)
    if parts is None:
        return list(_beyond(line))
    return [_scalar(part.strip(), line) for part in
            re.findall(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"',][^"',]*""", parts.group(1))]


def _beyond(line: int) -> Any:
    raise _Beyond(line)
