"""The value that a tool returned, taken from a result: from its structured content, else from its text.

Servers send a value that is no object in three ways: as ``{"result": value}``, as the value itself (from July 2026 on), and
as text alone (before June 2025). Python servers of others wrap as this package does, so a program need not know the server.
"""

import json
from typing import Any, List, Mapping, Optional, Sequence

__all__ = ["value_of"]


def value_of(structured: Any, content: Sequence[Any], meta: Optional[Mapping[str, Any]], texts_are_json: bool) -> Any:
    """Return the value that a result without an error stands for.

    :param structured: the structured content; None for none.
    :param content: the blocks beside it.
    :param meta: the ``_meta`` of the result.
    :param texts_are_json: whether the revision has no structured content, so that texts are all that data travels in.
    :returns: the structured content, or the value in it if it wraps one; else the text of the only block, a list of the
        texts of several, and None for no block. A block that is no text stands for itself.
    """
    if structured is not None:
        return structured["result"] if _wraps(structured, content, meta) else structured
    values = [getattr(item, "text", item) for item in content]
    if texts_are_json:
        values = [_parsed(value) if isinstance(value, str) else value for value in values]
    if len(values) == 1:
        return values[0]
    return values or None


def _wraps(structured: Any, content: Sequence[Any], meta: Optional[Mapping[str, Any]]) -> bool:
    """Return whether structured content is ``{"result": value}`` for a value, and not an object of the tool's own.

    FastMCP says so. Of all others the text decides, which is that of the value, or else that of the object.
    """
    if type(structured) is not dict or len(structured) != 1 or "result" not in structured:
        return False
    mark = (meta or {}).get("fastmcp")
    if isinstance(mark, dict) and mark.get("wrap_result") is True:
        return True
    value = structured["result"]
    texts = [getattr(item, "text", None) for item in content]
    if not texts:
        return value is None or value == []
    if len(texts) == 1 and _says(texts[0], value):
        return True
    # The official SDKs write one block for each item of a list.
    items = _flat(value) if isinstance(value, list) else []
    return len(items) == len(texts) and all(map(_says, texts, items))


def _says(text: Optional[str], value: Any) -> bool:
    """Return whether a text is that of a value: the string itself, or its JSON."""
    return text is not None and (text == value or _parsed(text) == value)


def _flat(items: List[Any]) -> List[Any]:
    flat: List[Any] = []
    waiting = items[::-1]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(reversed(item))
        else:
            flat.append(item)
    return flat


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, and any other text itself."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
