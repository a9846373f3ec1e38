"""Parses JSON with comments and trailing commas, as settings files have them."""

import json
import re
from collections import Counter
from typing import Any, Dict, List, Tuple

from ...errors import TransportError

__all__ = ["parse", "to_json"]

# Each pattern matches what it has begun, also at the end of the text: a string or a comment without an end would otherwise be
# searched for its end from each quote or slash in it, which takes quadratic time.
_STRING = r'"(?:[^"\\]|\\.)*"?'
_COMMENT = re.compile(_STRING + r"|//[^\r\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_TOKEN = re.compile(_STRING + r"|\S", re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")
#: Digits of one integer; longer ones take quadratic time, or are refused by newer versions of Python.
_MOST_DIGITS = 4300


def to_json(text: str) -> str:
    """Return *text* with comments and trailing commas replaced by spaces, so that positions stay the same.

    Strings do not change. Text that is invalid for any other reason stays invalid.
    """
    plain = _COMMENT.sub(_without_comment, text)
    pieces: List[str] = []
    done = 0
    # The two tokens before the current one: a comma is trailing if it follows a value.
    before, comma = "", ""
    comma_at = -1
    for token in _TOKEN.finditer(plain):
        now = token.group()
        if now in "]}" and comma == "," and before not in ("", "[", "{", ",", ":"):
            pieces += [plain[done:comma_at], " "]
            done = comma_at + 1
        before, comma, comma_at = comma, now, token.start()
    return "".join(pieces) + plain[done:]


def _without_comment(found: "re.Match[str]") -> str:
    text = found.group()
    if text[0] == '"' or (text[1] == "*" and (len(text) < 4 or not text.endswith("*/"))):
        return text  # a string, or a comment that has no end
    return _VISIBLE.sub(" ", text)


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"an integer has more than {_MOST_DIGITS} digits")
    return int(text)


def parse(text: str, where: str) -> Tuple[Any, List[str]]:
    """Return the value of a JSON text, and the names that occur more than once in an object.

    :param text: the whole file.
    :param where: the file, for errors.
    :raises TransportError: it is not JSON, and the error has line and column; or it has an integer of more than 4300 digits.
    """
    twice: List[str] = []

    def build(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice.extend(sorted(name for name, count in counts.items() if count > 1))
        return result

    try:
        return json.loads(to_json(text), object_pairs_hook=build, parse_int=_integer), twice
    except json.JSONDecodeError as error:
        raise TransportError(f"{where}: line {error.lineno} column {error.colno} is not JSON: {error.msg}") from error
    except ValueError as error:
        raise TransportError(f"{where} is not usable JSON: {error}") from error
    except RecursionError as error:
        raise TransportError(f"{where} is nested too deeply") from error
