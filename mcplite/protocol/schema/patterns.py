"""The cost of an untrusted pattern, judged before it is matched: how long may the text be?

Python's matcher goes back and tries again, and no other thread runs meanwhile. A pattern is safe when
each of its choices (to repeat once more or to go on, this alternative or that one) is decided by the
next character. Where it is not, each such choice multiplies the time by the length of the text; within
a repeat it does so over and over, which takes hours for a few dozen characters. The judgement errs on
the safe side: some patterns are refused that would do no harm.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any, Callable, Dict, List, Tuple

from .ecma import python_pattern

#: Bytes of an untrusted pattern.
MAX_PATTERN = 512
#: Characters of the longest text that any pattern is matched against.
MAX_SUBJECT = 8 << 10
#: Characters of the longest text that an unsafe pattern of the server's author is matched against. With each character the time
#: may double, so that thirty take minutes.
UNSAFE_SUBJECT = 20
#: Steps of the matcher that take a tenth of a second at most: some ten nanoseconds each, and twice that on a busy machine.
_STEPS = 4 * 10**6
#: A pattern that may be matched only against texts of fewer characters is refused as useless.
_MIN_SUBJECT = 100
#: A choice of more repeats than this counts as one without a bound.
_MANY = 64
#: If the upper number of a repeat is above this, Python's parser means that the repeat has no bound.
_MAX_TIMES = 2 ** 31

# Sets of characters are integers with one bit for each of the first 256 characters, and for all others
# one bit for each kind: digits, letters, blanks, the rest.
_DIGIT, _LETTER, _BLANK, _REST = (1 << (256 + kind) for kind in range(4))
_OTHERS = _DIGIT | _LETTER | _BLANK | _REST
_ANY = (1 << 260) - 1
#: The bit that marks a node which may match without a character.
_EMPTY = 1 << 260


class _Dangerous(Exception):
    """The pattern has a choice within a repeat, or something that cannot be judged; the text says what."""


def longest_own_subject(pattern: str) -> int:
    """Return :func:`longest_subject` of a pattern of the server's author, but 20 in place of 0: the author wants to use it."""
    return longest_subject(pattern) or UNSAFE_SUBJECT


def unsafe_repeat(pattern: str) -> str:
    """Return what makes a pattern unsafe, for its author; empty if it is safe."""
    return _judged(pattern)[1]


def longest_subject(pattern: str) -> int:
    """Return the length of the longest text to match in a fraction of a second; 0 if *pattern* is unsafe or malformed."""
    return _judged(pattern)[0]


def _judged(pattern: str) -> Tuple[int, str]:
    """Return the length of the longest text to match in a fraction of a second, and the reason if it is 0."""
    if len(pattern.encode("utf-8", "replace")) > MAX_PATTERN:
        return 0, f"it has more than {MAX_PATTERN} bytes"
    judge = _Judge()
    try:
        anchored = _read(pattern, judge)
    except _Dangerous as error:
        return 0, str(error) or "it has a part that cannot be judged"
    except (re.error, RecursionError, OverflowError, AttributeError, ImportError, Warning):
        return 0, "it cannot be judged"
    # Without an anchor the match is tried at each character, and a repeat may go to the end of the text each time.
    power = judge.power + (1 if anchored or not judge.endless else 2)
    steps = _STEPS // 32 if r"\p" in pattern.lower() else _STEPS  # a set of hundreds of ranges takes longer
    longest = min(MAX_SUBJECT, int((steps / judge.factor) ** (1 / power) + 0.001))
    return (longest, "") if longest >= _MIN_SUBJECT else (0, "its repeats overlap too often")


def _read(pattern: str, judge: "_Judge") -> bool:
    """Judge a pattern; return whether it matches only at the beginning.

    :raises _Dangerous: it is not safe.
    """
    parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
    tree = parser.parse(python_pattern(pattern))
    if tree.state.flags & ~re.UNICODE:
        raise _Dangerous("it has flags, such as (?i)")
    judge.sequence(tree, 0, False)
    return len(tree) > 0 and str(tree[0][1]).startswith("AT_BEGINNING")


class _Judge:
    """The cost of a pattern's open choices: ``factor`` times the length of the text to the ``power``."""

    def __init__(self) -> None:
        self.factor = 1
        self.power = 0
        #: Whether anything repeats without a bound.
        self.endless = False

    def sequence(self, nodes: Any, follow: int, repeated: bool) -> None:
        """Judge nodes that stand one after the other.

        :param follow: the characters that may come after them.
        :param repeated: whether the nodes stand within a repeat.
        """
        for kind, value in reversed(list(nodes)):
            judge = _JUDGES.get(str(kind))
            if judge is None:
                raise _Dangerous
            judge(self, value, follow, repeated)
            first = _first(kind, value)
            follow = first & ~_EMPTY | (follow if first & _EMPTY else 0)

    def _open(self, ways: int, repeated: bool, what: str) -> None:
        if repeated:
            raise _Dangerous(f"within something that repeats, {what}")
        if ways > _MANY:
            self.power += 1
        else:
            self.factor *= ways

    def _nothing(self, value: Any, follow: int, repeated: bool) -> None:
        """A single character and an anchor are no choice."""

    def _repeat(self, value: Any, follow: int, repeated: bool) -> None:
        low, high, body = value[0], int(value[1]), value[2]
        first = _first_of(body)
        self.endless = self.endless or high > _MANY
        times = f"{{{low},{high if high <= _MAX_TIMES else ''}}}"
        if high > 1 and first & _EMPTY:
            raise _Dangerous(f"what repeats {times} times may be empty")
        if low != high and first & follow:
            self._open(high - low + 1, repeated, f"a repeat of {times} times overlaps with what may follow it")
        self.sequence(body, follow | (first if high > 1 else 0), repeated or high > 1)

    def _branch(self, value: Any, follow: int, repeated: bool) -> None:
        seen = 0
        overlap = False
        for branch in value[1]:
            first = _first_of(branch)
            if first & _EMPTY:
                first = first & ~_EMPTY | follow
            overlap = overlap or bool(seen & first)
            seen |= first
            self.sequence(branch, follow, repeated)
        if overlap:
            self._open(len(value[1]), repeated, f"{len(value[1])} alternatives begin alike")

    def _group(self, value: Any, follow: int, repeated: bool) -> None:
        _, add, drop, body = value
        if add & ~int(re.ASCII) or drop:
            raise _Dangerous  # other flags within the group
        self.sequence(body, follow, repeated)

    def _look(self, value: Any, follow: int, repeated: bool) -> None:
        # A look-around reads on from its place, again for each way in which the match comes to this place.
        self._open(_MANY + 1, repeated, "it looks ahead or back")
        self.sequence(value[1], 0, repeated)


_JUDGES: Dict[str, Callable[[_Judge, Any, int, bool], None]] = {
    "LITERAL": _Judge._nothing, "NOT_LITERAL": _Judge._nothing, "ANY": _Judge._nothing, "IN": _Judge._nothing,
    "AT": _Judge._nothing, "MAX_REPEAT": _Judge._repeat, "MIN_REPEAT": _Judge._repeat,
    "POSSESSIVE_REPEAT": _Judge._repeat, "BRANCH": _Judge._branch, "SUBPATTERN": _Judge._group,
    "ATOMIC_GROUP": _Judge.sequence, "ASSERT": _Judge._look, "ASSERT_NOT": _Judge._look,
}


def _first_of(nodes: Any) -> int:
    """Return the characters that a sequence may begin with."""
    found = 0
    for kind, value in nodes:
        first = _first(kind, value)
        found |= first & ~_EMPTY
        if not first & _EMPTY:
            return found
    return found | _EMPTY


def _first(kind: Any, value: Any) -> int:
    name = str(kind)
    if name == "LITERAL":
        return _one(value)
    if name == "NOT_LITERAL":
        return _ANY & ~_one(value) | (_OTHERS if value > 255 else 0)
    if name == "ANY":
        return _ANY
    if name == "IN":
        return _class(value)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _first_of(value[2]) | (0 if value[0] else _EMPTY)
    if name == "BRANCH":
        found = 0
        for branch in value[1]:
            found |= _first_of(branch)
        return found
    if name == "SUBPATTERN":
        return _first_of(value[3])
    if name == "ATOMIC_GROUP":
        return _first_of(value)
    return _EMPTY


def _one(code: int) -> int:
    if code < 256:
        return 1 << code
    character = chr(code)
    if character.isdecimal():
        return _DIGIT
    if character.isalnum():
        return _LETTER
    return _BLANK if character.isspace() else _REST


def _class(items: List[Any]) -> int:
    # The characters that may be in the class, and those that are in it for certain: a negated class needs the certain ones.
    may = certain = 0
    negated = False
    for kind, value in items:
        name = str(kind)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            may |= _one(value)
            certain |= 1 << value if value < 256 else 0
        elif name == "RANGE":
            low, high = value
            part = (1 << min(high, 255) + 1) - (1 << low) if low < 256 else 0
            may |= part | (_OTHERS if high > 255 else 0)
            certain |= part
        elif name == "CATEGORY":
            part = _category(str(value))
            may |= part
            certain |= part
        else:
            raise _Dangerous
    return _ANY & ~certain if negated else may


def _category(name: str) -> int:
    kind = name.rpartition("_")[2]
    tests: Dict[str, Any] = {"DIGIT": (str.isdecimal, _DIGIT), "SPACE": (str.isspace, _BLANK),
                             "WORD": (lambda character: character.isalnum() or character == "_", _DIGIT | _LETTER)}
    if kind not in tests:
        raise _Dangerous
    test, found = tests[kind]
    for code in range(256):
        if test(chr(code)):
            found |= 1 << code
    return int(_ANY & ~found if "NOT" in name else found)
