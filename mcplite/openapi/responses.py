"""Responses of an API as results of tools: JSON as structured content, media and files as content, errors as tool errors."""

from __future__ import annotations

import base64
import json
import math
import re
from http import HTTPStatus
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..errors import RegistrationError, ToolError
from ..protocol.schema.rules import as_object, in_result
from ..protocol.schema.validation import Validator
from ..types import AudioContent, BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, TextContent
from .document import Document
from .json_schemas import SchemaBuilder, kinds_of_schema
from .operations import JSON, APIOperation

__all__ = ["APIResponse", "APIOutput", "output_of"]

#: Characters of an error's body that are shown to a model.
_MOST_SHOWN = 20_000
_TEXT = r"text/.*|application/(?:[\w.+-]+\+)?(?:xml|yaml|x-yaml)|application/(?:javascript|graphql|x-ndjson|sql)"


class APIResponse:
    """One response of an API.

    :param headers: by name in lower case.
    :param url: of the request, without credentials and query.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, url: str) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.url = url

    @property
    def content_type(self) -> str:
        """The media type, without parameters and in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body as text, in the charset that the response names."""
        found = re.search(r"charset\s*=\s*\"?([\w.:-]+)", self.headers.get("content-type", ""), re.IGNORECASE)
        try:
            return self.body.decode(found.group(1) if found else "utf-8", "replace")
        except (LookupError, UnicodeError):  # no charset, or one such as idna, which replaces nothing
            return self.body.decode("utf-8", "replace")

    @property
    def status_line(self) -> str:
        """The status and its phrase."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)

    @property
    def is_json(self) -> bool:
        """Whether the response says that its body is JSON, or says nothing and the body looks like it."""
        kind = self.content_type
        return re.fullmatch(JSON, kind) is not None if kind else self.body.lstrip()[:1] in (b"{", b"[")

    @property
    def is_text(self) -> bool:
        """Whether the body is text."""
        return re.fullmatch(_TEXT, self.content_type) is not None or not self.content_type and _is_utf8(self.body)

    def error(self, hint: str = "") -> ToolError:
        """Return the error for a status that reports one, with the body, cut if it is long.

        :param hint: the likely reason, which stands before the body.
        """
        shown = self.text if self.is_json or self.is_text else f"{len(self.body)} bytes of {self.content_type}"
        if len(shown) > _MOST_SHOWN:
            shown = f"{shown[:_MOST_SHOWN]}... ({len(shown)} characters)"
        return ToolError(": ".join(part for part in (self.status_line, hint, shown.strip()) if part))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class APIOutput:
    """The structured results of one tool.

    :param schema: the JSON Schema as it is listed; None if results are not structured by a schema.
    :param wrapped: whether a value stands in ``{"result": value}``.
    """

    def __init__(self, schema: Optional[Dict[str, Any]] = None, wrapped: bool = False) -> None:
        self.schema = schema
        self._wrapped = wrapped
        self._validator = None if schema is None else Validator(schema)

    def result(self, response: APIResponse) -> CallToolResult:
        """Return the result of a tool for a response that reports no error.

        :raises ToolError: the schema does not allow the response; the error has the response as its content.
        """
        text = response.text if not response.body or response.is_json or response.is_text else None
        if response.status >= 300:
            location = response.headers.get("location", "")
            text = f"{response.status_line}: {location}" if location else response.status_line
            return CallToolResult(content=[TextContent(text=text)], is_error=self._validator is not None)
        data, is_data = None, not response.body
        if text is not None and response.body and response.is_json:
            try:
                data, is_data = json.loads(text, parse_constant=_number, parse_float=_number), True
            except (ValueError, RecursionError):
                is_data = False
        if self._validator is None:
            structured = data if isinstance(data, dict) else None
            return CallToolResult(content=_content(response, text), structured_content=structured)
        structured = {"result": data} if self._wrapped else {} if not response.body else data
        problems = self._validator.problems(structured) if is_data else [
            f"the API answered with {response.content_type or 'no media type'}, and its document says JSON"]
        if problems:
            raise ToolError("the API answered with what its document does not allow: " + "; ".join(problems[:3]),
                            content=_content(response, text))
        return CallToolResult(content=_content(response, text), structured_content=structured)


def _number(text: str) -> float:
    """Return a number of JSON with a point or an exponent.

    :raises ValueError: it is one that cannot be sent on, such as 1e999 and NaN.
    """
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not JSON")
    return number


def _content(response: APIResponse, text: Optional[str]) -> List[Any]:
    if text is not None:
        return [TextContent(text=text if response.body else response.status_line)]
    kind = response.content_type or "application/octet-stream"
    data = base64.b64encode(response.body).decode("ascii")
    if kind.startswith("image/"):
        return [ImageContent(data=data, mime_type=kind)]
    if kind.startswith("audio/"):
        return [AudioContent(data=data, mime_type=kind)]
    return [EmbeddedResource(resource=BlobResourceContents(uri=response.url, blob=data, mime_type=kind))]


# --- what a document says ------------------------------------------------------------------------------------


def output_of(operation: APIOperation, how: str) -> APIOutput:
    """Return the output of an operation's tool.

    :param how: "lenient", "strict" or "none".
    """
    found = None if how == "none" else _schemas(operation, how == "strict")
    if not found:
        return APIOutput()
    document: Document = operation.document
    builder = SchemaBuilder(document, response=True, lenient=how == "lenient", tools=operation.offered)
    made = [builder.build(*_target(document, node, place)) for node, place in found]
    kinds = {kind for node, place in found for kind in kinds_of_schema(document, node, place) or {""}}
    schema = made[0] if len(made) == 1 else {"anyOf": made}
    if kinds == {"object"}:
        schema = {**_without_null(schema), "type": "object"}
    schema = builder.finish(schema)
    whole = as_object(schema)
    return APIOutput(whole) if whole is not None else APIOutput(in_result(schema), wrapped=True)


def _target(document: Document, node: Any, place: str) -> Tuple[Any, str]:
    """Return the schema that a reference alone refers to, so that it stands at the top; any other schema as it is."""
    try:
        return document.resolve(node, place) if isinstance(node, dict) and set(node) == {"$ref"} else (node, place)
    except RegistrationError:
        return {}, place


def _without_null(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return a schema of an object without the null that a lenient schema allows at its top."""
    parts = schema.get("anyOf")
    if isinstance(parts, list):
        rest = [part for part in parts if part != {"type": "null"}]
        others = {word: value for word, value in schema.items() if word not in ("anyOf", "type")}
        if len(rest) == 1 and isinstance(rest[0], dict):
            return {**others, **rest[0]}
        return {**others, "anyOf": rest}
    return schema


def _schemas(operation: APIOperation, strict: bool) -> Optional[List[Tuple[Any, str]]]:
    """Return the schemas of the responses that report no error; None if there are none, or a response is not JSON.

    Content without a schema counts as content that is not JSON. A response without content is left out; if *strict*, the result
    is None for it.
    """
    found: List[Tuple[Any, str]] = []
    for _, node, place in successes(operation):
        if operation.document.version == "2":
            schema = node.get("schema")
            kinds = operation.node.get("produces", operation.document.root.get("produces"))
            kinds = kinds if isinstance(kinds, list) else []
            if schema is not None and kinds and not any(re.fullmatch(JSON, str(kind)) for kind in kinds):
                return None
            if isinstance(schema, dict) and schema.get("type") == "file":
                return None
        else:
            content = node.get("content")
            if isinstance(content, dict) and content:
                if not all(re.fullmatch(JSON, kind, re.IGNORECASE) for kind in content):
                    return None
                media = next(iter(content.values()))
                schema = media.get("schema") if isinstance(media, dict) else None
                if schema is None:
                    return None
            else:
                schema = None
        if schema is None and strict:
            return None
        if isinstance(schema, dict) and schema and not any(schema == one for one, _ in found):
            found.append((schema, place))
    return found or None


def successes(operation: APIOperation) -> List[Tuple[str, Dict[str, Any], str]]:
    """Return the responses that report no error: status, response object, and the file of the object."""
    given = operation.node.get("responses")
    if not isinstance(given, dict):
        return []
    listed = [status for status in map(str, given) if re.fullmatch(r"2(\d\d|XX)", status, re.IGNORECASE)]
    found = []
    for status in listed or [status for status in map(str, given) if status == "default"]:
        node, place = operation.resolved(given.get(status, given.get(int(status) if status.isdigit() else status)))
        if isinstance(node, dict):
            found.append((status, node, place))
    return found


def accepted(operation: APIOperation) -> str:
    """Return the value of ``Accept``: the media types that the document says, JSON first."""
    kinds: List[str] = []
    for _, node, _ in successes(operation):
        content = node.get("content")
        kinds.extend(content if isinstance(content, dict) else ())
    if operation.document.version == "2":
        given = operation.node.get("produces", operation.document.root.get("produces"))
        kinds.extend(kind for kind in given if isinstance(kind, str)) if isinstance(given, list) else None
    kinds = [kind for kind in dict.fromkeys(kinds) if re.fullmatch(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+(?:\s*;[\x20-\x7e]*)?", kind)]
    kinds.sort(key=lambda kind: re.fullmatch(JSON, kind, re.IGNORECASE) is None)
    kinds = kinds[:10]
    return ", ".join([*kinds, "*/*;q=0.1"]) if kinds else "application/json, */*;q=0.5"
