"""Builds the request of a call: path, query, headers and cookies in their styles, and the body in its media type.

A value stays where it belongs. In the path every character but the unreserved ones is escaped, and a value that a server could
read as a step to another path is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple
from urllib.parse import quote, unquote

from ..errors import ToolError
from ..protocol.error_text import quoted
from ..protocol.http.headers import check_header
from ..protocol.jsonrpc import encode_json
from .operations import FORM, MULTIPART, APIOperation, Body, OperationArgument

__all__ = ["APIRequest", "build_request"]

#: Reserved characters that stay in a query with allowReserved; the other reserved characters have a meaning there.
_RESERVED = ":/?@!$'()*,;"
#: The separator between the values of a list that is not exploded, by style.
_BETWEEN = {"spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}
#: Times that a server, and the proxies before it, may decode a path.
_DECODINGS = 3


class APIRequest:
    """One request to an API.

    :param method: in capital letters.
    :param path: escaped, and relative to the base URL.
    """

    def __init__(self, method: str, path: str) -> None:
        self.method = method
        self.path = path
        #: Escaped; each a name with its value.
        self.query: List[str] = []
        self.headers: Dict[str, str] = {}
        self.cookies: List[str] = []
        self.body: Optional[bytes] = None

    @property
    def target(self) -> str:
        """The path with the query."""
        if not self.query:
            return self.path
        return f"{self.path}{'&' if '?' in self.path else '?'}{'&'.join(self.query)}"

    def add_header(self, name: str, value: str) -> None:
        """Add a header.

        :raises ToolError: it cannot be sent.
        """
        try:
            check_header(name, value)
            value.encode("latin-1")
        except ValueError as error:
            raise ToolError(f"the value of {name} has characters that cannot stand in a header") from error
        self.headers[name] = value

    def all_headers(self) -> Dict[str, str]:
        """Return the headers with that of the cookies."""
        return {**self.headers, "Cookie": "; ".join(self.cookies)} if self.cookies else dict(self.headers)


def build_request(operation: APIOperation, arguments: Mapping[str, Any], decoded_path: bool = False) -> APIRequest:
    """Return the request of a call, without credentials.

    :param arguments: by name, checked against the operation's schema.
    :param decoded_path: whether the API sees the path without escapes, so that no value may have a slash.
    :raises ToolError: a value cannot be sent.
    """
    shape, given = operation.shape, dict(arguments)
    values: Dict[int, Any] = {}
    for argument in shape.arguments:
        if argument.name in given and not argument.fixed:
            values[id(argument)] = given.pop(argument.name)
        elif argument.has_default:
            values[id(argument)] = argument.default
    in_path = {one.wire: one for one in shape.parameters if one.location == "path"}

    def place(found: "re.Match[str]") -> str:
        argument = in_path.get(found.group(1))
        value = None if argument is None else values.get(id(argument))
        if argument is None or value is None:
            raise ToolError(f"{found.group(1)} is required: it is a part of the path")
        return _path_value(argument, value, decoded_path)

    path = re.sub(r"\{([^{}]*)\}", place, operation.path.partition("#")[0])
    _check_segments(operation.path, path)
    request = APIRequest(operation.method, path)
    for argument in shape.parameters:
        value = values.get(id(argument))
        if value is None or argument.location == "path":
            continue
        if argument.location == "query":
            request.query.extend(_pairs(argument, value))
        elif argument.location == "cookie":
            request.cookies.extend(_pairs(argument, value))
        else:
            request.add_header(argument.wire, encode_json(value) if argument.as_json else _simple(value, argument.explode, str))
    if shape.body is not None:
        _add_body(request, shape.body, values, given)
    return request


# --- values --------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    """Return a value as it stands in a URL or a form: as in JSON, without quotation marks."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < 1 << 53:
        return str(int(value))  # JSON has one kind of numbers, and 1.0 is an integer
    return encode_json(value)


def _escaped(value: Any) -> str:
    return quote(_text(value), safe="", errors="replace")


def _simple(value: Any, explode: bool, write: Any, between: str = ",") -> str:
    """Return a value in the style "simple", or with another separator in a style that is like it."""
    if isinstance(value, list):
        return between.join(write(_text(one)) for one in value)
    if isinstance(value, dict):
        if explode:
            return between.join(f"{write(name)}={write(_text(one))}" for name, one in value.items())
        return between.join(f"{write(name)}{between}{write(_text(one))}" for name, one in value.items())
    return str(write(_text(value)))


def _path_value(argument: OperationArgument, value: Any, decoded_path: bool) -> str:
    def write(text: str) -> str:
        _check_part(argument, text, decoded_path)
        return quote(text, safe="/" if argument.multi_segment else "", errors="replace")

    name = quote(argument.wire, safe="")
    if argument.as_json:
        return write(encode_json(value))
    if argument.style == "label":
        # Lists and objects that are not exploded have commas between their parts.
        return "." + _simple(value, argument.explode, write, "." if argument.explode else ",")
    if argument.style == "matrix":
        if isinstance(value, list) and argument.explode:
            return "".join(f";{name}={write(_text(one))}" for one in value)
        if isinstance(value, dict) and argument.explode:
            return "".join(f";{write(key)}={write(_text(one))}" for key, one in value.items())
        return f";{name}={_simple(value, False, write)}"
    return _simple(value, argument.explode, write)


def _check_part(argument: OperationArgument, text: str, decoded_path: bool) -> None:
    """Refuse a value of the path that some server could read as more than a part of one segment.

    :raises ToolError: it is empty, has a dot segment or a NUL, however escaped, or a slash that it must not have.
    """
    if not text:
        raise ToolError(f"{argument.name} must not be empty: it is a part of the path")
    decoded = text
    for _ in range(_DECODINGS):
        if any(part in (".", "..") for part in re.split(r"[/\\]", decoded.partition("?")[0])) or "\0" in decoded:
            raise ToolError(f"{argument.name} must not have '.' or '..' as a name in it: it is a part of the path")
        decoded = unquote(decoded)
    if decoded_path and not argument.multi_segment and re.search(r"[/\\]", text):
        raise ToolError(f"{argument.name} must not have a slash in it: it is one segment of the path")


def _check_segments(template: str, path: str) -> None:
    """Refuse a path with a segment that several values together have made a dot segment.

    :raises ToolError: there is one.
    """
    made = path.partition("?")[0].split("/")
    if any(unquote(segment) in (".", "..") for segment in made) and not {".", ".."} & set(template.split("/")):
        raise ToolError("the values make a step to another path; give other ones")


def _pairs(argument: OperationArgument, value: Any) -> Iterator[str]:
    """Yield the names with values of a query, a cookie or a form."""
    def write(text: str) -> str:
        return quote(text, safe=_RESERVED if argument.allow_reserved else "", errors="replace")

    name, style = quote(argument.wire, safe="", errors="replace"), argument.style
    if argument.as_json:
        yield f"{name}={write(encode_json(value))}"
    elif style == "deepObject" and isinstance(value, (dict, list)):
        yield from _deep(name, value, write)
    elif isinstance(value, list):
        if argument.explode:
            yield from (f"{name}={write(_text(one))}" for one in value if one is not None)
        elif value:
            yield f"{name}={_BETWEEN.get(style, ',').join(write(_text(one)) for one in value if one is not None)}"
    elif isinstance(value, dict):
        if argument.explode:
            for key, one in value.items():
                for each in one if isinstance(one, list) else [one]:
                    if each is not None:
                        yield f"{write(key)}={write(_text(each))}"
        elif value:
            given = {key: one for key, one in value.items() if one is not None}
            yield f"{name}={_simple(given, False, write, _BETWEEN.get(style, ','))}"
    else:
        yield f"{name}={write(_text(value))}"


def _deep(name: str, value: Any, write: Any) -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in items:
        inner = f"{name}%5B{quote(str(key), safe='', errors='replace')}%5D"
        if isinstance(one, (dict, list)):
            yield from _deep(inner, one, write)
        elif one is not None:
            yield f"{inner}={write(_text(one))}"


# --- bodies ----------------------------------------------------------------------------------------------------


def _add_body(request: APIRequest, body: Body, values: Mapping[int, Any], others: Mapping[str, Any]) -> None:
    """Add the body of a request.

    :param others: arguments that the schema does not name.
    :raises ToolError: a value cannot be sent.
    """
    media_type = body.media_type.partition(";")[0].strip().lower()
    if body.whole is not None:
        if id(body.whole) not in values:
            return
        value = values[id(body.whole)]
        if body.is_json:
            data = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
        elif media_type == FORM and isinstance(value, dict):
            data = "&".join(pair for name, one in value.items() for pair in _pairs(OperationArgument(name, "body", {}, ""), one)
                            ).encode("ascii")
        elif media_type == MULTIPART and isinstance(value, dict):
            return _add_multipart(request, [(OperationArgument(name, "body", {}, ""), one) for name, one in value.items()])
        else:
            data = _file(value, "body")[0] if body.whole.is_file or isinstance(value, dict) else _text(value).encode(
                "utf-8", "replace")
        _set_body(request, body.media_type, data)
        return
    given = [(argument, values[id(argument)]) for argument in body.members if id(argument) in values]
    if not given and not others and not body.required:
        return
    if body.is_json:
        members = {argument.wire: value for argument, value in given}
        data = json.dumps({**others, **members}, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
        _set_body(request, body.media_type, data)
        return
    given += [(OperationArgument(name, "body", {}, ""), value) for name, value in others.items()]
    if media_type == MULTIPART:
        _add_multipart(request, given)
    else:
        pairs = [pair for argument, value in given if value is not None for pair in _pairs(argument, value)]
        _set_body(request, body.media_type, "&".join(pairs).encode("ascii"))


def _set_body(request: APIRequest, media_type: str, data: bytes) -> None:
    request.headers["Content-Type"], request.body = media_type, data


def _file(value: Any, name: str, media_type: str = "") -> Tuple[bytes, str, str]:
    """Return the bytes of a file, its name and its media type.

    :param media_type: of a file that does not say its own.
    :raises ToolError: the bytes are not in base64.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace"), name, media_type or "text/plain; charset=utf-8"
    if not isinstance(value, dict):
        return _text(value).encode("utf-8"), name, "application/json"
    filename = value.get("filename") if isinstance(value.get("filename"), str) else name
    kind = value["type"] if isinstance(value.get("type"), str) else media_type
    if isinstance(value.get("text"), str):
        return value["text"].encode("utf-8", "replace"), str(filename), str(kind or "text/plain; charset=utf-8")
    try:
        data = base64.b64decode(str(value.get("base64", "")), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"{name}: its base64 cannot be read: {error}") from error
    return data, str(filename), str(kind or "application/octet-stream")


def _add_multipart(request: APIRequest, given: List[Tuple[OperationArgument, Any]]) -> None:
    boundary = f"mcplite-{os.urandom(16).hex()}"
    parts: List[bytes] = []
    for argument, value in given:
        if value is None:
            continue
        if isinstance(value, list) and not argument.is_file and not argument.explode:
            value = unquote(_BETWEEN.get(argument.style, ",")).join(map(_text, value))
        for one in value if isinstance(value, list) else [value]:
            disposition = f'form-data; name="{_quoted(argument.wire)}"'
            kind = argument.media_type
            if argument.is_file:
                data, filename, kind = _file(one, argument.name, kind)
                disposition += f'; filename="{_quoted(filename)}"'
                try:
                    check_header("Content-Type", kind)
                except ValueError as error:
                    raise ToolError(f"{argument.name}: {quoted(kind)} is no media type") from error
            elif isinstance(one, (dict, list)) or argument.as_json:
                data, kind = encode_json(one).encode("utf-8"), kind or "application/json"
            else:
                data = _text(one).encode("utf-8", "replace")
            head = f"--{boundary}\r\nContent-Disposition: {disposition}\r\n"
            head += f"Content-Type: {kind}\r\n\r\n" if kind else "\r\n"
            parts += [head.encode("utf-8", "replace"), data, b"\r\n"]
    _set_body(request, f"{MULTIPART}; boundary={boundary}", b"".join([*parts, f"--{boundary}--\r\n".encode("ascii")]))


def _quoted(text: str) -> str:
    """Return a name for ``Content-Disposition``, as browsers write it."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
