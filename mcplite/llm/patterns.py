"""Regular expressions that the validators of models' APIs compile: those of RE2 and its kin, which never go back.

Only what ECMA-262, RE2, Rust's regex and Python read alike is accepted. A request with any other pattern is refused as a whole.
"""

import re
from typing import List

__all__ = ["is_portable"]

#: Repeats that RE2 takes, also multiplied where one is inside another.
_MOST_REPEATS = 1000
_LONGEST = 2000
_ESCAPE = r"\\(?:[dDwWsStnrfv]|x[0-9A-Fa-f]{2}|[!-/:;=?@\[-`{-~])"
#: The parts of a pattern outside of character classes.
_PART = re.compile(
    rf"(?P<atom>[^\\\[\](){{}}*+?|^$.\ud800-\udfff]|\.|{_ESCAPE})|(?P<anchor>[\^$]|\\[bB])|(?P<open>\((?!\?)|\(\?:)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<class>\[\^?)|(?P<repeat>(?:[*+?]|\{(?P<low>[0-9]{1,4})(?P<comma>,(?P<high>[0-9]{0,4}))?\})\??)", re.DOTALL)
#: A class: characters and ranges of them, and escapes that stand for several. Others read "--" and the like as operations.
_MEMBER = re.compile(rf"(?P<several>\\[dDwWsS])|(?P<one>(?:[^\\\[\]\ud800-\udfff]|{_ESCAPE}))", re.DOTALL)
_OPERATION = re.compile(r"--|&&|~~|\|\|")


def is_portable(pattern: str) -> bool:
    """Tell whether every API of a model can compile a pattern of JSON Schema."""
    if len(pattern) > _LONGEST:
        return False
    # For each open group: how often its inner repeats multiply. The last is that of the part which a repeat may follow.
    groups: List[int] = [1]
    last = 0  # nothing that can be repeated
    at = 0
    while at < len(pattern):
        found = _PART.match(pattern, at)
        if found is None:
            return False
        at = found.end()
        kind = found.lastgroup
        if found["repeat"]:
            times = _times(found)
            last *= times
            if not last or last > _MOST_REPEATS:
                return False
            groups[-1] = max(groups[-1], last)
            last = 0
        elif kind == "open":
            groups.append(1)
            last = 0
        elif kind == "close":
            if len(groups) == 1:
                return False
            last = groups.pop()
            groups[-1] = max(groups[-1], last)
        elif kind == "class":
            at = _end_of_class(pattern, at)
            if not at:
                return False
            last = 1
        else:
            last = 1 if kind == "atom" else 0
    return len(groups) == 1


def _times(repeat: "re.Match[str]") -> int:
    """Return the factor of a repeat, 0 if it is none."""
    if not repeat["low"]:
        return 1
    low = int(repeat["low"])
    high = int(repeat["high"]) if repeat["high"] else low
    return max(1, high) if low <= high else 0


def _end_of_class(pattern: str, at: int) -> int:
    """Return where a class ends, 0 if it is not portable; *at* is behind its first bracket."""
    begin = at
    while at < len(pattern):
        if pattern[at] == "]":
            return at + 1 if at > begin and not _OPERATION.search(pattern, begin, at) else 0
        found = _MEMBER.match(pattern, at)
        if found is None:
            return 0
        at = found.end()
        if pattern[at:at + 1] == "-" and pattern[at + 1:at + 2] not in ("", "]"):
            end = _MEMBER.match(pattern, at + 1)
            if end is None or found["several"] or end["several"] or _code(found.group()) > _code(end.group()):
                return 0
            at = end.end()
    return 0


def _code(member: str) -> int:
    """Return the code of a character, or of an escape for one."""
    if member.startswith("\\x"):
        return int(member[2:], 16)
    if member.startswith("\\"):
        return ord({"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}.get(member[1], member[1]))
    return ord(member)
