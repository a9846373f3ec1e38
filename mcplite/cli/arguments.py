"""Arguments of tools and prompts on the command line: key=value, key:=json, key=@file, and - for stdin."""

import json
import shlex
import sys
from typing import Any, Dict, List, Mapping, Optional

__all__ = ["UsageError", "parse_arguments", "parse_strings"]


class UsageError(ValueError):
    """The command line is wrong; the text says what to type instead."""


def parse_arguments(items: List[str], schema: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    """Return the arguments that *items* spell.

    ``key=value`` is text, or JSON if the tool's schema has another type for the key; ``key:=json`` is any JSON
    value; ``key=@file`` is the text of a file; ``{...}`` is a JSON object with arguments, and ``-`` is one on stdin.

    :raises UsageError: an item has another form, or its JSON or file cannot be read.
    """
    arguments: Dict[str, Any] = {}
    properties = (schema or {}).get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    for item in items:
        if item == "-":
            value = _json("" if sys.stdin is None else sys.stdin.read(), "stdin")
            if not isinstance(value, dict):
                raise UsageError("stdin must hold a JSON object with the arguments")
            arguments.update(value)
            continue
        if item.startswith("{"):
            value = _json(item, "the arguments")
            if not isinstance(value, dict):
                raise UsageError(f"{item[:60]!r} must be a JSON object with the arguments")
            arguments.update(value)
            continue
        key, equals, text = item.partition("=")
        if not equals or not key.rstrip(":"):
            raise UsageError(f"{item!r} is not an argument: write key=value for text, key:=json for any other value")
        if key.endswith(":"):
            arguments[key[:-1]] = _json(text, key[:-1])
        else:
            if text.startswith("@"):
                text = _file(text[1:])
            arguments[key] = _typed(key, text, properties.get(key))
    return arguments


def parse_strings(items: List[str]) -> Dict[str, str]:
    """Return the arguments of a prompt, whose values are all text."""
    return {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in parse_arguments(items).items()}


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: {text[:60]!r} is not JSON ({error}); a string needs quotes in JSON") from error


def _file(path: str) -> str:
    try:
        with open(path, "r", encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _typed(key: str, text: str, schema: Any) -> Any:
    kinds = _kinds(schema)
    if "string" in kinds or not kinds & {"integer", "number", "boolean", "array", "object"}:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, str):
        raise UsageError(f"{key} must be of the type {' or '.join(sorted(kinds - {'null'}))}, not {text[:60]!r}"
                         f"{_spelling(key, text, kinds)}")
    return value


def _spelling(key: str, text: str, kinds: "set[str]") -> str:
    """Return how to spell a value that has parts; empty for one that has none."""
    if "array" in kinds:
        items = [_number(item.strip()) for item in text.split(",")][:20]
        return f"; write {key}:={shlex.quote(json.dumps(items, ensure_ascii=False))}"
    return f"; write {key}:='{{\"name\": \"value\"}}'" if "object" in kinds else ""


def _number(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (int, float)) else text


def _kinds(schema: Any) -> "set[str]":
    if not isinstance(schema, Mapping):
        return set()
    kind = schema.get("type")
    kinds = {item for item in (kind if isinstance(kind, list) else [kind]) if isinstance(item, str)}
    branches = schema.get("anyOf")
    for branch in branches if isinstance(branches, list) else ():
        kinds |= _kinds(branch)
    return kinds
