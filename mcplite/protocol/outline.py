"""What the two ends of a text show of a message that is too large to be read: its id, and whether it is a request.

With it the one call fails, and not the connection. A module of its own, since it is loaded with the first such message.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Tuple, Union

from ..errors import INVALID_REQUEST
from .jsonio import DEFAULT_LIMITS, JSONLimits, encode_json
from .jsonrpc import Batch, Id, Invalid, Message, Request, parse

__all__ = ["refuse_unread"]


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


#: Members of a message that may stand behind a long one, and how many places are tried where they may begin.
_MEMBER = re.compile(r'(?<!\\)"(?:id|jsonrpc|method)"\s*:')
_MOST_PLACES = 64
#: Stands for a value that was cut.
_CUT = object()
_decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
_blanks: Callable[[str, int], Any] = re.compile(r"[ \t\r\n]*").match


def refuse_unread(head: bytes, tail: bytes, invalid: Invalid, answers: bool, limits: JSONLimits = DEFAULT_LIMITS,
                  ) -> Union[Invalid, Batch]:
    """Return what to refuse in place of a text that is not read as a whole, with the ids that its ends show.

    An id counts if it is certain that it is a member of a message itself, and not of its params.

    :param head, tail: the beginning and the end of the text; they may overlap.
    :param invalid: says why it is refused; returned as it is if there is no id.
    :param answers: whether a message of which neither the method nor the params or the result are to be seen is a response.
    """
    front, back = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n"), tail.decode("utf-8", "replace")
    if front[:1] == "[":  # an array of messages
        first, last = _messages_in_front(front), _messages_behind(back)
        if first and last and "id" not in first[-1]:
            first[-1].update(last.pop(0))
        read = [_refusal(members, invalid, answers, limits) for members in first + last]
        found: Dict[Id, Message] = {refused.id: refused for refused in reversed(read) if refused.id is not None}
        return Batch([*reversed(found.values())]) if found else invalid
    if front[:1] != "{":
        return invalid
    members, _ = _members(front, 1)
    behind = _messages_behind(back)
    return _refusal({**behind[0], **members} if len(behind) == 1 else members, invalid, answers, limits)


def _refusal(members: Dict[str, Any], invalid: Invalid, answers: bool, limits: JSONLimits) -> Invalid:
    method = members.get("method")
    if "method" in members or "params" in members:
        answers = False
    elif "result" in members or "error" in members:
        answers = True
    if members.get("id", _CUT) is not _CUT:
        read = parse(encode_json({"jsonrpc": "2.0", "id": members["id"], "method": ""}).encode("utf-8", "replace"), limits)
        if isinstance(read, Request):
            return Invalid(read.id, INVALID_REQUEST, invalid.message, answers, invalid.oversized)
    if type(method) is str and method.startswith("notifications/"):
        return Invalid(None, invalid.code, invalid.message, True, invalid.oversized)
    return invalid


def _members(text: str, at: int) -> Tuple[Dict[str, Any], int]:
    """Return the members of an object as far as it goes, and where it ends; 0 if that is not to be seen.

    :param at: the place behind its first brace.
    """
    members: Dict[str, Any] = {}
    try:
        while True:
            key, at = _decode(text, _blanks(text, at).end())
            at = _blanks(text, at).end()
            if type(key) is not str or text[at] != ":":
                break
            members[key] = _CUT
            value, at = _decode(text, _blanks(text, at + 1).end())
            end = _blanks(text, at).end()
            sign = text[end]  # without it, a number might go on
            if sign not in ",}":
                break
            members[key], at = value, end + 1
            if sign == "}":
                return members, at
    except (ValueError, IndexError, RecursionError):
        pass  # cut here
    return members, 0


def _messages_in_front(text: str) -> List[Dict[str, Any]]:
    """Return the members of the messages at the beginning of an array; the last one may be cut."""
    found = []
    at = _blanks(text, 1).end()
    while at and text[at:at + 1] == "{":
        members, at = _members(text, at + 1)
        found.append(members)
        if at:
            at = _blanks(text, at).end()
            at = _blanks(text, at + 1).end() if text[at:at + 1] == "," else 0
    return found


def _messages_behind(text: str) -> List[Dict[str, Any]]:
    """Return the members of the messages at the end of a text: of one, or of an array. The first one may lack some.

    The text may begin in the middle of a string. A place is right if what follows it is balanced up to the end.
    """
    for place in list(_MEMBER.finditer(text))[-_MOST_PLACES:]:
        members, at = _members(text, place.start())
        found = [members]
        while at:
            at = _blanks(text, at).end()
            if at == len(text) or text[at] == "]" and not text[at + 1:].strip():
                return found
            at = _blanks(text, at + 1).end() if text[at] == "," else 0
            if not at or text[at:at + 1] != "{":
                break
            members, at = _members(text, at + 1)
            found.append(members)
    return []
