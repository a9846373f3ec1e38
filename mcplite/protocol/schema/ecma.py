"""Regular expressions of ECMA-262, which JSON Schema has, as patterns of Python's re.

The two differ in what ``$``, ``.``, ``\\d``, ``\\w``, ``\\s`` and ``\\b`` match, in escapes, in groups and in sets. A pattern
is read as with the flag ``u``. An escaped punctuation mark and a brace without a count, which patterns without the flag have,
stand for themselves.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Dict, List, Optional, Tuple

Ranges = List[Tuple[int, int]]
_LAST = 0x10FFFF
_SETS: Dict[str, Ranges] = {
    "d": [(48, 57)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "s": [(9, 13), (32, 32), (160, 160), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
          (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)],
}
#: The characters that a dot does not match.
_LINE_ENDS: Ranges = [(10, 10), (13, 13), (0x2028, 0x2029)]
_CONTROLS = {"f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_COUNT = r"\{[0-9]+(?:,[0-9]*)?\}"
_NAME = r"<((?:[^\W\d]|\$)[\w$]*)>"
#: The escapes and groups that Python has and ECMA-262 does not, each with the remedy.
_FOREIGN_ESCAPES = {"A": "write ^", "Z": "write $", "z": "write $", "a": r"write \x07", "h": "write [0-9A-Fa-f] or [ \\t]"}
_FOREIGN_GROUPS = (("(?P<", "write (?<name>...)"), ("(?P=", r"write \k<name>"), ("(?>", "write (?:...)"),
                   ("(?#", "leave the comment out"), ("(?(", "write both alternatives"))
#: Names of the general categories beside their abbreviations.
_CATEGORIES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Combining_Mark": "M", "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl",
    "Other_Number": "No", "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd",
    "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk",
    "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
    "Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Surrogate": "Cs", "Private_Use": "Co", "Unassigned": "Cn",
}


def translated(pattern: str) -> str:
    """Return the pattern of Python's re that matches what *pattern* matches under ECMA-262.

    It is not compiled here, and Python may still refuse to compile it.

    :raises ValueError: *pattern* is not ECMA-262, or has a part that Python cannot match; the text has the remedy.
    """
    return _PatternReader(pattern).read()


def python_pattern(pattern: str) -> str:
    """Return the pattern of Python's re to match for *pattern*; one that is not ECMA-262 is read as Python's own."""
    try:
        return translated(pattern)
    except ValueError:
        return re.sub(r"\\.|\[\^?(?:\\.|[^\\])(?:\\.|[^\]\\])*\]", _without_operators, pattern, flags=re.DOTALL)


def _without_operators(found: "re.Match[str]") -> str:
    """Return a set of a Python pattern with escapes for [[, --, &&, || and ~~: Python warns of them as future operators.

    An escape outside of sets is returned as it is.
    """
    whole = found.group()
    if whole.startswith("\\"):
        return whole
    begin = "[^" if whole.startswith("[^") else "["
    # Read as Python reads it, one character or range at a time: which hyphen of two makes a range depends on what precedes.
    return begin + re.sub(r"(\\.|[^\\])(?:-(\\.|[^\\]))?", _escaped_ends, whole[len(begin):-1], flags=re.DOTALL) + "]"


def _escaped_ends(found: "re.Match[str]") -> str:
    return "-".join("\\" + end if end in "[&|~-" else end for end in found.groups() if end is not None)


def problem_of(pattern: Any) -> str:
    """Return why a pattern is not ECMA-262, or cannot be matched here, with the remedy; empty if it can be matched."""
    if not isinstance(pattern, str):
        return "it is no text"
    try:
        re.compile(translated(pattern))
    except (ValueError, re.error, RecursionError, OverflowError) as error:
        return str(error) or type(error).__name__
    return ""


class _PatternReader:
    """One pass through a pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._groups, self._names = _count_groups(text)

    def read(self) -> str:
        out: List[str] = []
        text = self._text
        while self._at < len(text):
            out.append(self._next(text[self._at]))
        return "".join(out)

    def _next(self, character: str) -> str:
        """Return the translation of what begins at the present place, and go behind it."""
        if character == "\\":
            return self._escape()
        if character == "[":
            return self._set()
        if character == "(":
            return self._group()
        count = self._take(_COUNT) if character == "{" else None
        if character in "*+?" or count is not None:
            return self._repeat(count)
        if character == "{" and re.compile(r"\{,[0-9]+\}").match(self._text, self._at):
            raise ValueError("{,n} is not ECMA-262; write {0,n}")
        self._at += 1
        if character == "$":
            return r"\Z"
        if character == ".":
            return _in_set(_LINE_ENDS, True)
        return character if character in "^|)" else _literal(ord(character))

    def _take(self, expression: str) -> Optional[str]:
        """Return what matches at the present place, and go behind it."""
        found = re.compile(expression).match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found.group(found.lastindex or 0)

    def _repeat(self, count: Optional[str]) -> str:
        if count is None:
            count = self._text[self._at]
            self._at += 1
        if self._text.startswith("?", self._at):
            count += "?"
            self._at += 1
        elif self._text.startswith("+", self._at):
            raise ValueError(f"the possessive {count}+ is not ECMA-262; write {count}")
        return count

    def _group(self) -> str:
        text, at = self._text, self._at
        for start in ("(?:", "(?=", "(?!", "(?<=", "(?<!"):
            if text.startswith(start, at):
                self._at += len(start)
                return start
        if not text.startswith("(?", at):
            self._at += 1
            return "("
        self._at += 2
        if self._take(_NAME) is not None:
            return "("
        modifiers = self._take(r"(-?i):")
        if modifiers is not None:
            return f"(?{modifiers}:"
        for start, remedy in _FOREIGN_GROUPS:
            if text.startswith(start, at):
                raise ValueError(f"{start}...) is not ECMA-262; {remedy}")
        if self._take(r"[aiLmsux-]+\)") is not None:
            raise ValueError(f"flags such as {text[at:self._at]} are not ECMA-262; write both cases into sets, as in [Aa]")
        raise ValueError(f"{text[at:at + 4]!r} begins no group of ECMA-262")

    def _escape(self) -> str:
        """Translate an escape outside of a set."""
        if self._take(r"\\b") is not None:
            return r"(?a:\b)"
        if self._take(r"\\B") is not None:
            return r"(?!(?a:\b))"  # before Python 3.14 its \B does not match in an empty text
        number = self._take(r"\\([1-9][0-9]*)")
        if number is not None:
            return self._reference(int(number), f"\\{number}")
        name = self._take(r"\\k" + _NAME)
        if name is not None:
            return self._reference(self._names.get(name, 0), f"\\k<{name}>")
        found = self._atom()
        return _literal(found) if isinstance(found, int) else _in_set(found, False)

    def _reference(self, number: int, shown: str) -> str:
        if not 0 < number <= min(self._groups, 99):
            raise ValueError(f"{shown} refers to no group")
        return f"(?({number})\\{number}|)"  # a group that has not matched is empty

    def _atom(self) -> Any:
        """Read one character or escape, in a set or outside; return its code, or the ranges of a set."""
        if not self._text.startswith("\\", self._at):
            self._at += 1
            return ord(self._text[self._at - 1])
        kind = self._text[self._at + 1:self._at + 2]
        self._at += 2
        if kind and kind in "dwsDWS":
            return _SETS[kind] if kind in _SETS else _opposite(_SETS[kind.lower()])
        if kind in ("p", "P"):
            name = self._take(r"\{([A-Za-z0-9_=]*)\}")
            if name is None:
                raise ValueError(f"\\{kind} needs the name of a property, as in \\{kind}{{L}}")
            return _property(name) if kind == "p" else _opposite(_property(name))
        if kind in _CONTROLS:
            return _CONTROLS[kind]
        digits = {"x": r"([0-9A-Fa-f]{2})", "c": r"([A-Za-z])", "0": r"(?![0-9])"}.get(kind)
        if digits is not None:
            found = self._take(digits)
            if found is not None:
                return int(found, 16) if kind == "x" else ord(found) % 32 if kind == "c" else 0
        elif kind == "u":
            return self._unicode()
        elif kind and not (kind.isalnum() and kind.isascii()):
            return ord(kind)
        if not kind:
            raise ValueError("a \\ ends it; write \\\\")
        raise ValueError(f"the escape \\{kind} is not ECMA-262; {_FOREIGN_ESCAPES.get(kind, 'leave the backslash out')}")

    def _unicode(self) -> int:
        code = self._take(r"([0-9A-Fa-f]{4})")
        if code is not None:
            high = int(code, 16)
            low = self._take(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})") if 0xD800 <= high < 0xDC00 else None
            return high if low is None else 0x10000 + (high - 0xD800 << 10) + int(low, 16) - 0xDC00
        code = self._take(r"\{([0-9A-Fa-f]{1,8})\}")
        if code is None or int(code, 16) > _LAST:
            raise ValueError(r"\u needs four hexadecimal digits, or a character's number in braces")
        return int(code, 16)

    def _set(self) -> str:
        text, start = self._text, self._at
        self._at += 1
        negated = self._take(r"\^") is not None
        ranges: Ranges = []
        while not text.startswith("]", self._at):
            if self._at >= len(text):
                raise ValueError(f"the set that begins at {start} is not closed; write \\[ for the character")
            low = self._set_atom()
            if not text.startswith("-", self._at) or text.startswith("-]", self._at):
                ranges.extend(_ranges(low))
                continue
            self._at += 1
            if self._at >= len(text):
                continue
            high = self._set_atom()
            if isinstance(low, int) and isinstance(high, int):
                if low > high:
                    raise ValueError(f"the range {chr(low)}-{chr(high)} in a set is in the wrong order")
                ranges.append((low, high))
            else:
                ranges.extend([*_ranges(low), (45, 45), *_ranges(high)])
        self._at += 1
        return _in_set(ranges, negated)

    def _set_atom(self) -> Any:
        return 8 if self._take(r"\\b") is not None else 45 if self._take(r"\\-") is not None else self._atom()


def _count_groups(text: str) -> Tuple[int, Dict[str, int]]:
    """Return how many groups are captured, and the numbers of those with a name."""
    count, names = 0, {}
    for found in re.finditer(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?" + _NAME + r"|(?!\?))", text, re.DOTALL):
        if found.group().startswith("("):
            count += 1
            if found.group(1):
                names[found.group(1)] = count
    return count, names


def _ranges(found: Any) -> Ranges:
    return [(found, found)] if isinstance(found, int) else found


def _opposite(ranges: Ranges) -> Ranges:
    found: Ranges = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return [*found, (start, _LAST)] if start <= _LAST else found


def _in_set(ranges: Ranges, negated: bool) -> str:
    if not ranges:
        return r"[\x00-\U0010ffff]" if negated else "(?!)"
    parts = (_literal(low) if low == high else f"{_literal(low)}-{_literal(high)}" for low, high in ranges)
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _literal(code: int) -> str:
    """Return one character as Python's re has it, in a set or outside."""
    character = chr(code)
    if character.isalnum() or code > 127 and character.isprintable() or character in " _":
        return character
    if 32 < code < 127:
        return character if character in "!\"%',/:;<=>@`" else "\\" + character
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _property(name: str) -> Ranges:
    """Return the characters with a property of Unicode.

    :raises ValueError: there is no such property, or Python has no table of it.
    """
    label, _, value = name.rpartition("=")
    if label in ("", "gc", "General_Category"):
        if value in ("Any", "ASCII") and not label:
            return [(0, _LAST if value == "Any" else 127)]
        short = _CATEGORIES.get(value, value)
        wanted = {"Lu", "Ll", "Lt"} if short == "LC" else {each for each in _categories() if each.startswith(short) and short}
        if wanted:
            return sorted(span for each in wanted for span in _categories()[each])
    raise ValueError(f"\\p{{{name}}} cannot be matched: the properties that can be are the general categories, such as"
                     " \\p{L}, \\p{Nd} and \\p{Punctuation}")


@functools.lru_cache(maxsize=1)
def _categories() -> Dict[str, Ranges]:
    """Return the characters of each general category; it takes a few tenths of a second, once."""
    import unicodedata  # for the patterns that name properties

    found: Dict[str, Ranges] = {}
    start, kind = 0, unicodedata.category("\0")
    for code in range(1, _LAST + 1):
        here = unicodedata.category(chr(code))
        if here != kind:
            found.setdefault(kind, []).append((start, code - 1))
            start, kind = code, here
    found.setdefault(kind, []).append((start, _LAST))
    return found
