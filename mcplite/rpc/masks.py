"""The masks of a trace: the values of keys that name secrets, at any depth, also in JSON within texts.

A module of its own because only a program that traces its messages loads it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Tuple

__all__ = ["mask"]

#: Parts of the names of secrets, in lower case and without what separates words.
_SECRETS = re.compile("authorization|token(?!iz)|password|passwd|passphrase|passcode|secret(?!ar)|credential|cookie|apikey"
                      "|privatekey|accesskey|accountkey|sharedkey|signingkey|encryptionkey|sessionid|requeststate|codeverifier"
                      "|clientassertion|connectionstring|connectionur[il]|databaseur[il]|pincode|pwd$|dsn$")
#: Names of secrets that are parts of ordinary words, too: they count as whole words only.
_SECRET_WORDS = frozenset({"auth", "bearer", "jwt", "otp", "pass", "pin", "pwd", "totp"})
_NAME_WORDS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: The ends of names under which a number is a secret, too. Under any other name it is a count or a size.
_SECRET_NUMBERS = re.compile("(?:password|passwd|passphrase|passcode|pincode|secret|token|key)$")
_SECRET_NUMBER_WORDS = frozenset({"otp", "pin", "pwd", "totp"})
_NUMBER = re.compile(rb"-?[0-9]+(?:[.][0-9]+)?(?:[eE][-+]?[0-9]+)?")
#: Names that only look like secrets, and the ends of such names.
_HARMLESS = frozenset({"progresstoken", "maxtokens", "inputtokens", "outputtokens"})
_HARMLESS_ENDS = ("endpoint", "type", "types", "supported", "authorizationservers")
#: The keywords of JSON Schema that may stand in a schema of a parameter, and those that hold values of it.
_SCHEMA = frozenset(
    "type title description format pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"
    " items prefixItems minItems maxItems uniqueItems properties required additionalProperties minProperties maxProperties"
    " anyOf oneOf allOf not enum enumNames const default examples $ref $defs $id $anchor $comment deprecated readOnly"
    " writeOnly nullable x-mcp-header contentEncoding contentMediaType".split())
_SCHEMA_VALUES = frozenset({"const", "default", "enum", "examples"})
#: A key of JSON in a text that is not parsed, which may be JSON within strings, at any depth, and its value. A value that is
#: no plain string, number or word is masked together with the rest of the text, since its end is unknown.
_IN_TEXT = re.compile(rb'("([^"]*)"(?:\s|\\+[nrt])*:(?:\s|\\+[nrt])*)("(?:[^"\\]|\\.)*"|[^\s,}\]\[{"\\]+|.*)', re.DOTALL)
#: Secrets in texts that are no JSON: in queries and connection strings, before the host of a URL, and behind "Bearer".
_ASSIGNED = re.compile(
    rb"((?:password|passwd|passphrase|secret|token|api_?key|access_?key|accountkey|\bpwd|\bsig)\s*=\s*)[^\s;&,\"'\\]+"
    rb"|(://[^/\s:@\"\\]*:)[^/\s@\"\\]+(?=@)|(\bbearer\s+)(?=[^\s\"\\]*[0-9._-])[a-z0-9._~+/=-]{8,}", re.IGNORECASE)
_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
#: Bytes up to which a message is parsed. Longer ones are masked as text, and only as far as they are shown.
_PARSED_BYTES = 256 << 10
#: Bytes of a text that is not parsed; a trace shows fewer.
_MOST_BYTES = 40_000


def mask(data: bytes) -> bytes:
    """Return a JSON text with the values of keys that name secrets replaced, also in JSON within strings."""
    if len(data) <= _PARSED_BYTES:
        try:
            value = json.loads(data, object_pairs_hook=_once)
            masked = _masked(value)
            if masked == value:
                return data
            return json.dumps(masked, ensure_ascii=False).encode("utf-8", "backslashreplace")
        except (ValueError, RecursionError):
            return _masked_text(data)
    return _masked_text(data)


def _once(members: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a key comes twice, and the first value would be shown")
    return found


def _masked(value: Any, within: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _masked_member(key, item, within) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if isinstance(value, str) and ('"' in value and ":" in value or _ASSIGNED.search(value.encode("utf-8", "replace"))):
        text = value.lstrip("\ufeff \t\r\n")
        if text[:1] in ("{", "["):
            try:
                inner = json.loads(text, object_pairs_hook=_once)
                masked = _masked(inner)
                return value if masked == inner else json.dumps(masked, ensure_ascii=False)
            except (ValueError, RecursionError):
                pass
        return _masked_text(value.encode("utf-8", "backslashreplace"), len(value)).decode("utf-8", "backslashreplace")
    return value


def _masked_member(key: str, value: Any, within: str) -> Any:
    if not _is_secret(key, value):
        return _masked(value, key)
    if within == "properties" and isinstance(value, dict) and value and value.keys() <= _SCHEMA:
        # A parameter of a schema, which is named like a secret and is none; the values that it names may be.
        return {name: "***" if name in _SCHEMA_VALUES else _masked(item, name) for name, item in value.items()}
    return "***"


def _is_secret(key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return False
    joined = re.sub("[^a-z0-9]", "", key.lower())
    if joined in _HARMLESS or joined.endswith(_HARMLESS_ENDS):
        return False
    words = [word.lower() for word in _NAME_WORDS.findall(key)]
    if isinstance(value, (int, float)) and not (
            _SECRET_NUMBERS.search(joined) or words and words[-1] in _SECRET_NUMBER_WORDS):
        return False
    return (_SECRETS.search(joined) is not None
            or any(word in _SECRET_WORDS for word in words))


def _masked_text(data: bytes, most: int = _MOST_BYTES) -> bytes:
    """Return a text with the values of secret keys masked, in which JSON may stand anywhere.

    :param most: bytes that are looked at and returned, so that a megabyte of text costs no megabyte of matching.
    """
    def names_secret(match: "re.Match[bytes]") -> bool:
        key = _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), match.group(2).decode("utf-8", "replace").rstrip("\\"))
        value = match.group(3)
        plain = None if value in (b"null", b"true", b"false") else 0 if _NUMBER.fullmatch(value) else ""
        return _is_secret(key, plain)

    return _ASSIGNED.sub(lambda found: found.group(found.lastindex or 0) + b"***", _masked_keys(data[:most], names_secret))


def _masked_keys(data: bytes, names_secret: "Callable[[re.Match[bytes]], bool]") -> bytes:
    """Return a text with the values behind secret keys masked; behind any other key the search goes on in its value."""
    parts: List[bytes] = []
    position = 0
    while True:
        match = _IN_TEXT.search(data, position)
        if match is None:
            return b"".join([*parts, data[position:]])
        secret = names_secret(match)
        parts += data[position:match.end(1)], b'"***"' if secret else b""
        position = match.end() if secret else match.end(1)
