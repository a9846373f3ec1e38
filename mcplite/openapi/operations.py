"""The operations of a document: their names, which of them are offered, and the arguments that a call of one takes.

The parameters of path, query, header and cookie and the members of the body are the arguments of one flat object. They keep
their names; if two places have one name, each argument gets its place before the name. Swagger 2 is read as if it were 3.0.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ..errors import RegistrationError
from ..protocol.error_text import quoted
from ..proxy.mount_names import model_name, with_digits
from ..rpc.tracing import get_logger
from .document import Document
from .json_schemas import SchemaBuilder, inherited, kinds_of_schema, merged, with_null

__all__ = ["OperationArgument", "Body", "CallShape", "Include", "APIOperation", "operations_of", "selection"]

_log = get_logger(__name__)
METHODS = ("get", "put", "post", "delete", "patch")
PLACES = ("path", "query", "header", "cookie")
#: Headers that the specification leaves to other parts of a document, and those of the connection.
_NOT_ARGUMENTS = {"accept", "content-type", "authorization", "host", "content-length", "transfer-encoding", "connection",
                  "cookie", "te", "upgrade", "expect", "trailer", "proxy-authorization"}
#: How Swagger 2 writes a list, and the style and explode of 3.0 for that.
_COLLECTIONS = {"csv": ("form", False), "ssv": ("spaceDelimited", False), "tsv": ("tabDelimited", False),
                "pipes": ("pipeDelimited", False), "multi": ("form", True)}
_STYLES = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
JSON = r"application/(?:[\w.+-]+\+)?json(?:\s*;.*)?|text/json|\*/\*|application/\*"
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
#: A file as an argument: its text, or its bytes in base64.
FILE_SCHEMA: Dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {
            "text": {"type": "string"}, "base64": {"type": "string", "contentEncoding": "base64"},
            "filename": {"type": "string"}, "type": {"type": "string", "description": "the media type"}},
         "anyOf": [{"required": ["text"]}, {"required": ["base64"]}], "additionalProperties": False}]}
#: Which operations are offered; see :func:`mcplite.openapi.from_openapi`.
Include = Union[None, str, Sequence[str], "Callable[[APIOperation], bool]"]


class APIOperation:
    """One operation of a document: a method of a path.

    :param method: in capital letters.
    :param path: as the document writes it, such as ``/pets/{petId}``.
    :param node: the operation object.
    :param item: the path item object around it.
    :param place: the file in which it stands.
    """

    def __init__(self, document: Document, method: str, path: str, node: Dict[str, Any], item: Dict[str, Any], place: str
                 ) -> None:
        self.document = document
        self.method = method
        self.path = path
        self.node = node
        self.item = item
        self.place = place
        #: The name of its tool; set together with the names of the other operations.
        self.name = ""
        #: Place and name of each parameter that credentials fill in, the name of a header in lower case; these are no
        #: arguments.
        self.filled_in: Set[Tuple[str, str]] = set()
        #: How many operations are offered, this one included.
        self.offered = 1
        self._shape: Optional[CallShape] = None

    def __repr__(self) -> str:
        return f"<APIOperation {self.method} {self.path}>"

    @property
    def operation_id(self) -> str:
        """Its ``operationId``; empty without one."""
        found = self.node.get("operationId")
        return found if isinstance(found, str) else ""

    @property
    def tags(self) -> List[str]:
        """Its tags."""
        found = self.node.get("tags")
        return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []

    @property
    def changes(self) -> Mapping[str, Any]:
        """What ``x-mcp`` says: ``name``, ``title``, ``description``, ``annotations``, ``hidden``, ``meta``."""
        found: Dict[str, Any] = {}
        for one in (self.item.get("x-mcp"), self.node.get("x-mcp")):
            if one is False:
                found["hidden"] = True
            elif isinstance(one, dict):
                found.update(one)
        return found

    @property
    def title(self) -> Optional[str]:
        """A name for people."""
        found = self.changes.get("title") or self.node.get("summary")
        return found.strip() or None if isinstance(found, str) else None

    @property
    def description(self) -> str:
        """What it does, for models: summary and description, or the method and the path."""
        given = self.changes.get("description")
        if isinstance(given, str):
            return given
        texts = [text.strip() for text in (self.node.get("summary"), self.node.get("description"))
                 if isinstance(text, str) and text.strip()]
        if len(texts) == 2 and texts[1].startswith(texts[0]):
            del texts[0]
        text = "\n\n".join(texts) or f"{self.method} {self.path}"
        return f"Deprecated. {text}" if self.node.get("deprecated") is True else text

    @property
    def annotations(self) -> Dict[str, Any]:
        """Hints for clients, which follow from the method (RFC 9110, section 9.2), and what ``x-mcp`` says besides."""
        hints: Dict[str, Any] = {}
        if self.method == "GET":
            hints["readOnlyHint"] = True
        elif self.method in ("PUT", "DELETE"):
            hints.update(idempotentHint=True, destructiveHint=True)
        given = self.changes.get("annotations")
        return {**hints, **(given if isinstance(given, dict) else {})}

    @property
    def shape(self) -> "CallShape":
        """The arguments of a call; read on first use."""
        if self._shape is None:
            self._shape = CallShape(self)
        return self._shape

    def resolved(self, node: Any) -> Tuple[Any, str]:
        """Return the part that *node* is or refers to, and its file; an empty object if the reference leads to nothing."""
        try:
            return self.document.resolve(node, self.place)
        except RegistrationError as error:
            _log.warning("%s %s: a part is left out: %s", self.method, self.path, error)
            return {}, self.place

    @property
    def security(self) -> Sequence[Mapping[str, Any]]:
        """The alternatives of its security requirements; empty if it needs none."""
        found = self.node.get("security", self.document.root.get("security"))
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def servers(self) -> List[str]:
        """Return the URLs of servers of its own, in place of those of the document."""
        for node in (self.node, self.item):
            given = node.get("servers")
            if isinstance(given, list) and given:
                return [url for url in (server_url(one) for one in given) if url]
        return []


def server_url(server: Any) -> str:
    """Return the URL of a server object, with the defaults of its variables; empty if it has none."""
    if not isinstance(server, dict) or not isinstance(server.get("url"), str):
        return ""
    given = server.get("variables")
    variables: Dict[str, Any] = given if isinstance(given, dict) else {}

    def value(found: "re.Match[str]") -> str:
        variable = variables.get(found.group(1))
        return str(variable.get("default", found.group()) if isinstance(variable, dict) else found.group())

    return re.sub(r"\{([^{}]*)\}", value, server["url"]).strip()


# --- which there are, and their names -----------------------------------------------------------------------


def operations_of(document: Document, include: Include) -> List[APIOperation]:
    """Return the operations that are offered, each with its name.

    :raises RegistrationError: a pattern of *include* cannot be read, or the reference of a path item leads to nothing.
    """
    wanted = selection(include)
    found = [one for one in _each_operation(document) if not one.changes.get("hidden") and wanted(one)]
    _name(found)
    for one in found:
        one.offered = len(found)
    return found


def _each_operation(document: Document) -> Iterator[APIOperation]:
    for path, item in (document.root.get("paths") or {}).items():
        if not path.startswith("/"):
            continue  # an extension
        item, place = document.resolve(item, document.location)
        for method in METHODS if isinstance(item, dict) else ():
            node = item.get(method)
            if isinstance(node, dict):
                yield APIOperation(document, method.upper(), path, node, item, place)


def selection(include: Include) -> "Callable[[APIOperation], bool]":
    """Return a function that says whether an operation is chosen.

    :raises RegistrationError: the patterns cannot be read.
    """
    if include is None:
        return lambda operation: True
    if callable(include):
        return include
    patterns = [include] if isinstance(include, str) else list(include) if isinstance(include, Iterable) else [""]
    if not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise RegistrationError(f"include= takes patterns such as 'tag:pets', 'GET /pets*' and 'listPets', or a function of an"
                                f" APIOperation, not {quoted(include)}")
    return lambda operation: any(_fits(operation, pattern) for pattern in patterns)


def _fits(operation: APIOperation, pattern: str) -> bool:
    if pattern.startswith("tag:"):
        return any(fnmatch.fnmatchcase(tag, pattern[4:].strip()) for tag in operation.tags)
    method, blank, path = pattern.partition(" ")
    if blank and path.strip().startswith("/") or pattern.startswith("/"):
        if not blank:
            method, path = "*", pattern
        return fnmatch.fnmatchcase(operation.method, method.upper()) and fnmatch.fnmatchcase(
            operation.path, path.strip().replace("[", "[[]"))
    return fnmatch.fnmatchcase(operation.operation_id, pattern) or fnmatch.fnmatchcase(operation.name, pattern)


def _own_name(operation: APIOperation) -> str:
    given = operation.changes.get("name")
    if isinstance(given, str) and given:
        return given
    if operation.operation_id:
        return operation.operation_id
    words = re.sub(r"\{([^{}]*)\}", r"by_\1", operation.path)
    return "_".join([operation.method.lower(), *re.findall(r"[A-Za-z0-9]+", words)])


def _name(operations: List[APIOperation]) -> None:
    """Give each operation a name that the APIs of models take; of equal names, all but the first get digits."""
    taken: Set[str] = set()
    for operation in operations:
        own = _own_name(operation)
        name = model_name(re.sub(r"[/.\s:]+", "_", own).strip("_") or own)
        if name in taken:
            name = with_digits(f"{operation.method} {operation.path}", name)
        operation.name = name
        taken.add(name)


# --- the arguments of one ------------------------------------------------------------------------------------


class OperationArgument:
    """One argument of a tool, and where its value goes.

    :param wire: its name in the request.
    :param location: "path", "query", "header", "cookie", or "body" for a member of the body.
    :param schema, place: its schema in the document, and the file of the schema.
    """

    def __init__(self, wire: str, location: str, schema: Any, place: str, required: bool = False) -> None:
        self.wire = wire
        self.location = location
        self.schema = schema
        self.place = place
        self.required = required
        #: Its name for callers; set again once the names of all arguments are known.
        self.name = wire
        self.description: Optional[str] = None
        self.style = _STYLES.get(location, "form")
        self.explode = self.style == "form"
        self.allow_reserved = False
        #: Whether the value is sent as JSON text.
        self.as_json = False
        #: Whether its value may have slashes, which stand for themselves in the path.
        self.multi_segment = False
        #: The media type of its part of a form; empty for the usual type of such a value.
        self.media_type = ""
        #: Whether it is a file, or a list of files.
        self.is_file = False
        #: Whether a value is sent if the caller gives none, and this value.
        self.has_default = False
        self.default: Any = None
        #: Whether callers cannot give it.
        self.fixed = False


class Body:
    """The body of a request.

    :param media_type: as it is sent.
    :param required: whether there must be one.
    """

    def __init__(self, media_type: str, required: bool) -> None:
        self.media_type = media_type
        self.required = required
        #: The argument that is the whole body; None if the members are arguments.
        self.whole: Optional[OperationArgument] = None
        self.members: List[OperationArgument] = []
        #: Whether arguments that the schema does not name are members.
        self.open = False

    @property
    def is_json(self) -> bool:
        """Whether the body is JSON."""
        return re.fullmatch(JSON, self.media_type, re.IGNORECASE) is not None


class CallShape:
    """What a call of one operation takes: its arguments, its body, and the JSON Schema of both."""

    def __init__(self, operation: APIOperation) -> None:
        self._operation = operation
        self._document = operation.document
        self._builder = SchemaBuilder(operation.document, tools=operation.offered)
        self.parameters: List[OperationArgument] = []
        self.body: Optional[Body] = None
        self._read_parameters()
        if self.body is None:
            self._read_body()
        self._add_undeclared()
        self._choose_names()
        self.input_schema = self._build()

    @property
    def arguments(self) -> List[OperationArgument]:
        """All arguments, in the order of the document."""
        body = self.body
        return [*self.parameters, *((body.members if body.whole is None else [body.whole]) if body is not None else ())]

    # --- parameters ---------------------------------------------------------------------------------------

    def _read_parameters(self) -> None:
        operation, found = self._operation, {}
        for node in (operation.item, operation.node):
            given = node.get("parameters")
            for one in given if isinstance(given, list) else ():
                parameter, place = operation.resolved(one)
                if isinstance(parameter, dict) and isinstance(parameter.get("name"), str) and parameter["name"]:
                    where, name = str(parameter.get("in")), parameter["name"]
                    found[name.lower() if where == "header" else name, where] = parameter, place
        form: List[OperationArgument] = []
        kept = set(re.findall(r"\{([^{}]*)\}", operation.path))
        for (_, where), (parameter, place) in found.items():
            name = parameter["name"]
            if where == "body":
                self._take_body([("", parameter.get("schema"))], parameter, place)
            elif where == "formData":
                form.append(self._parameter(name, "body", parameter, place))
            elif where in PLACES and not (where == "header" and name.lower() in _NOT_ARGUMENTS) and (
                    where != "path" or name in kept) and (
                    where, name.lower() if where == "header" else name) not in operation.filled_in:
                self.parameters.append(self._parameter(name, where, parameter, place))
        if form:
            consumed = self._media_types("consumes")
            files = any(argument.is_file for argument in form)
            self.body = Body(MULTIPART if files or MULTIPART in consumed and FORM not in consumed else FORM,
                             any(argument.required for argument in form))
            self.body.members = form

    def _parameter(self, name: str, where: str, parameter: Dict[str, Any], place: str) -> OperationArgument:
        schema: Any = parameter.get("schema")
        as_json = False
        content = parameter.get("content")
        if schema is None and isinstance(content, dict) and content:
            media_type, media = next(iter(content.items()))
            schema = media.get("schema") if isinstance(media, dict) else None
            as_json = re.fullmatch(JSON, media_type, re.IGNORECASE) is not None
        elif self._document.version == "2":
            schema = {word: value for word, value in parameter.items()
                      if word not in ("name", "in", "required", "description", "collectionFormat", "x-mcp")}
        made = OperationArgument(name, where, {} if schema is None else schema, place,
                        parameter.get("required") is True or where == "path")
        made.as_json = as_json
        made.description = parameter["description"] if isinstance(parameter.get("description"), str) else None
        style, explode = parameter.get("style"), parameter.get("explode")
        if isinstance(style, str):
            made.style = style
            made.explode = style == "form"
        if isinstance(explode, bool):
            made.explode = explode
        if self._document.version == "2":
            style, explode = _COLLECTIONS.get(str(parameter.get("collectionFormat", "csv")), ("form", False))
            made.explode = bool(explode)
            if where in ("query", "body"):
                made.style = str(style)
        made.allow_reserved = parameter.get("allowReserved") is True
        made.multi_segment = parameter.get("x-multi-segment") is True
        made.is_file = where == "body" and self._is_file(made.schema, place)
        self._take_default(made)
        self._take_changes(made, parameter.get("x-mcp"))
        return made

    def _take_default(self, argument: OperationArgument) -> None:
        schema, _ = self._operation.resolved(argument.schema)
        if argument.required and isinstance(schema, dict) and "default" in schema and schema["default"] is not None:
            argument.has_default, argument.default, argument.required = True, schema["default"], False

    @staticmethod
    def _take_changes(argument: OperationArgument, changes: Any) -> None:
        if not isinstance(changes, dict):
            return
        if isinstance(changes.get("name"), str):
            argument.name = changes["name"]
        if isinstance(changes.get("description"), str):
            argument.description = changes["description"]
        if "value" in changes:
            argument.has_default, argument.default, argument.required = True, changes["value"], False
        argument.fixed = changes.get("hidden") is True

    def _add_undeclared(self) -> None:
        """Add an argument for each variable of the path that the document does not declare."""
        known = {argument.wire for argument in self.parameters if argument.location == "path"}
        for name in re.findall(r"\{([^{}]*)\}", self._operation.path):
            if name not in known:
                known.add(name)
                self.parameters.append(OperationArgument(name, "path", {"type": "string"}, self._operation.place, True))

    # --- the body -----------------------------------------------------------------------------------------

    def _media_types(self, word: str) -> List[str]:
        given = self._operation.node.get(word, self._document.root.get(word))
        return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []

    def _read_body(self) -> None:
        given = self._operation.node.get("requestBody")
        if given is None:
            return
        body, place = self._operation.resolved(given)
        content = body.get("content") if isinstance(body, dict) else None
        if isinstance(content, dict) and content:
            self._take_body([(media_type, media if isinstance(media, dict) else {}) for media_type, media in content.items()],
                            body, place)

    def _take_body(self, content: List[Tuple[str, Any]], node: Dict[str, Any], place: str) -> None:
        if self._document.version == "2":
            kinds = self._media_types("consumes")
            json = next((kind for kind in kinds if re.fullmatch(JSON, kind, re.IGNORECASE)), None)
            media_type, media = json or (kinds[0] if kinds else "application/json"), {"schema": content[0][1]}
        else:
            media_type, media = min(content, key=lambda one: _rank(one[0]))
        if media_type in ("*/*", "application/*"):
            media_type = "application/json"
        body = self.body = Body(media_type, node.get("required") is True)
        schema = media.get("schema")
        schema = {} if schema is None else schema
        whole = merged(self._document, schema, place)
        kind = media_type.partition(";")[0].strip().lower()
        if whole is not None and (body.is_json or kind in (FORM, MULTIPART)):
            members = {**whole[0]["properties"]}
            if "discriminator" in whole[0]:
                for name, part in inherited(self._document, self._document.resolve(schema, place)[0], whole[1]).items():
                    members.setdefault(name, part)
            self._spread(body, {**whole[0], "properties": members}, whole[1], media.get("encoding"))
            return
        body.whole = argument = OperationArgument("body", "body", schema, place, body.required)
        argument.description = node["description"] if isinstance(node.get("description"), str) else None
        argument.is_file = not (body.is_json or kind.startswith("text/") or "xml" in kind or kind in (FORM, MULTIPART))
        self._take_default(argument)
        self._take_changes(argument, node.get("x-mcp"))

    def _spread(self, body: Body, schema: Dict[str, Any], place: str, encoding: Any) -> None:
        required = schema.get("required")
        needed = [one for one in required if isinstance(one, str)] if isinstance(required, list) and body.required else []
        # A member that is required and not described may have any value.
        for name, part in {**schema["properties"], **{one: {} for one in needed if one not in schema["properties"]}}.items():
            if self._builder.is_hidden(part, place):
                continue
            argument = OperationArgument(name, "body", part, place, name in needed)
            if not body.is_json:
                said = encoding.get(name) if isinstance(encoding, dict) else None
                how: Dict[str, Any] = said if isinstance(said, dict) else {}
                kinds = kinds_of_schema(self._document, part, place)
                # A list of media types says what a file may be; then the caller tells which it is.
                given = str(how.get("contentType", "")).strip()
                argument.media_type = given if re.fullmatch(r"[^,*]+", given) else ""
                argument.is_file = self._is_file(part, place) or bool(given) and "object" not in kinds and is_of_files(given)
                argument.as_json = "style" not in how and not argument.is_file and (
                    "object" in kinds or re.fullmatch(JSON, given, re.IGNORECASE) is not None)
                argument.style = str(how.get("style", "form"))
                argument.explode = how["explode"] if isinstance(how.get("explode"), bool) else argument.style == "form"
            self._take_default(argument)
            self._take_changes(argument, part.get("x-mcp") if isinstance(part, dict) else None)
            body.members.append(argument)
        more = schema.get("additionalProperties")
        body.open = isinstance(more, dict) or more is True

    def _is_file(self, node: Any, place: str, steps: int = 8) -> bool:
        """Whether a member of a form is a file, or a list of files; also if it may be null or of another kind as well.

        :param steps: the most lists and unions within each other that are followed.
        """
        try:
            schema, place = self._document.resolve(node, place)
        except RegistrationError:
            return False
        if not isinstance(schema, dict) or steps < 0:
            return False
        if schema.get("type") == "file" or schema.get("format") == "binary":
            return True
        kind = schema.get("contentMediaType")
        if isinstance(kind, str) and is_of_files(kind) and "contentEncoding" not in schema:
            return True
        parts = [schema.get("items"), *(part for word in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(word), list)
                                        for part in schema[word])]
        return any(self._is_file(part, place, steps - 1) for part in parts)

    # --- names and schema --------------------------------------------------------------------------------------

    def _choose_names(self) -> None:
        """Give each argument a name of its own: if several have one name, each gets its place before the name."""
        by_name: Dict[str, List[OperationArgument]] = {}
        for argument in self.arguments:
            by_name.setdefault(argument.name, []).append(argument)
        taken = {name for name, found in by_name.items() if len(found) == 1}
        for name, found in by_name.items():
            for argument in found if len(found) > 1 else ():
                wanted = f"{argument.location}_{name}"
                while wanted in taken:
                    wanted += "_"
                argument.name = wanted
                taken.add(wanted)

    def _build(self) -> Dict[str, Any]:
        properties: Dict[str, Any] = {}
        required: List[str] = []
        for argument in self.arguments:
            if argument.fixed:
                continue
            properties[argument.name] = self._schema_of(argument)
            if argument.required:
                required.append(argument.name)
        schema: Dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        if self.body is not None and self.body.open:
            schema["additionalProperties"] = True
        return self._builder.finish(schema)

    def _schema_of(self, argument: OperationArgument) -> Dict[str, Any]:
        if argument.is_file:
            kinds = kinds_of_schema(self._document, argument.schema, argument.place)
            made: Dict[str, Any] = {"type": "array", "items": FILE_SCHEMA} if "array" in kinds else dict(FILE_SCHEMA)
        else:
            made = self._builder.build(argument.schema, argument.place)
        if argument.description:
            made = {**made, "description": argument.description.strip()}
        elif argument.is_file:
            made["description"] = "A file: its text, or an object with its text or its bytes in base64"
        if argument.has_default and "default" not in made:
            made["default"] = argument.default
        if not argument.required and argument.location != "body" and "default" in made and made["default"] is None:
            made = with_null(made)
        return made


def is_of_files(media_type: str) -> bool:
    """Whether a part of a form with this media type is a file, and neither text nor data."""
    return re.match(rf"text/|application/xml|{JSON}", media_type, re.IGNORECASE) is None


def _rank(media_type: str) -> int:
    """Return the rank of a media type among those that a request may have; the type of the lowest rank is sent."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind in ("*/*", "application/*"):
        return 2
    if re.fullmatch(JSON, kind):
        return 0 if kind == "application/json" else 1
    order = {MULTIPART: 3, FORM: 4}
    return order.get(kind, 5 if kind.startswith("text/") else 6)
