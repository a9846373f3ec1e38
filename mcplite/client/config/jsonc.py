"""Parses JSON with comments and trailing commas, as settings files have them."""

import json
import re
from typing import Any, Dict, List, Tuple

from ...errors import TransportError

__all__ = ["parse", "to_json"]

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(_STRING + r"|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(_STRING + r"|\S", re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")


def to_json(text: str) -> str:
    """Return *text* with comments and trailing commas replaced by spaces, so that positions stay the same.

    Strings do not change. Text that is invalid for any other reason stays invalid.
    """
    plain = _COMMENT.sub(
        lambda found: found.group() if found.group().startswith('"') else _VISIBLE.sub(" ", found.group()), text)
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


def parse(text: str, where: str) -> Tuple[Any, List[str]]:
    """Return the value of a JSON text, and the names that occur more than once in an object.

    :param text: the whole file.
    :param where: the file, for errors.
    :raises TransportError: it is not JSON; the error has line and column.
    """
    twice: List[str] = []

    def build(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            names = [name for name, _ in pairs]
            twice.extend(sorted({name for name in names if names.count(name) > 1}))
        return result

    try:
        return json.loads(to_json(text), object_pairs_hook=build), twice
    except json.JSONDecodeError as error:
        raise TransportError(f"{where}: line {error.lineno} column {error.colno} is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise TransportError(f"{where} is nested too deeply") from error
