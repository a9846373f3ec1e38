"""The routes of a Flask application as operations: from its own OpenAPI document, or read from its views.

Without a document, a route says what it takes by its rule, by the annotations and the docstring of its view, and by
:func:`route_arguments`, which names the query and the body that a view reads from ``flask.request``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, TypeVar, Union

from ..errors import RegistrationError
from ..protocol.schema.references import rebuilt
from ..rpc.tracing import get_logger
from ..server.app import Server
from ..server.functions.function import compile_function
from ..server.functions.schemas import Schemas
from .operations import Include
from .provider import OpenAPIProvider, served

if TYPE_CHECKING:
    from flask import Flask

    from .http_calls import Headers
    from .provider import Spec
    from .security import Credential
    from .wsgi_calls import Environ

__all__ = ["flask_document", "from_flask", "route_arguments"]

_log = get_logger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
#: The attribute of a view that has the arguments of :func:`route_arguments`.
_ATTRIBUTE = "__mcplite_route_arguments__"
#: The schemas of Flask's converters of paths.
_CONVERTERS: Mapping[str, Mapping[str, Any]] = {
    "IntegerConverter": {"type": "integer"}, "FloatConverter": {"type": "number"},
    "UUIDConverter": {"type": "string", "format": "uuid"}}


def route_arguments(*, query: Any = None, json: Any = None, form: Any = None, headers: Any = None) -> Callable[[F], F]:
    """Say what a view of Flask reads from ``flask.request``, for :func:`from_flask`; the view itself is unchanged.

    :param query: a class whose annotated fields are in ``request.args``: a dataclass, or any class with an annotated
        ``__init__``.
    :param json: the type of ``request.json``.
    :param form: a class whose annotated fields are in ``request.form``.
    :param headers: a class whose annotated fields are headers, with underscores for hyphens.
    :raises RegistrationError: more than one of *json* and *form*.
    """
    if json is not None and form is not None:
        raise RegistrationError("route_arguments: a request has one body: json= or form=, not both")

    def note(view: F) -> F:
        setattr(view, _ATTRIBUTE, {"query": query, "json": json, "form": form, "headers": headers})
        return view

    return note


def from_flask(app: "Flask", spec: "Optional[Spec]" = None, *, base_url: Optional[str] = None, include: Include = None,
               name: Optional[str] = None, resources: Union[bool, Include] = False,
               credentials: "Optional[Mapping[str, Credential]]" = None, environment_prefix: Optional[str] = None,
               headers: "Headers" = None, environ: "Optional[Environ]" = None, output_schemas: str = "lenient",
               response_bytes: int = 10_000_000) -> Server:
    """Return a server whose tools are the routes of a Flask application, called in this process.

    Hooks, sessions and error handlers of the application run as for any request. The parameters are explained at
    :class:`OpenAPIProvider`.

    :param app: the application, with all of its routes.
    :param spec: its OpenAPI document, or the path at which it serves one; by default the routes themselves are read.
    :param base_url: what the application takes for its own URL; by default ``http://localhost`` with the path of the first
        server in *spec*.
    :param include: which routes; the operationId of a route is its endpoint, with an underscore for each dot.
    :param name: of the server; by default that of the application, or the title of the document if *spec* is given.
    :param resources: which GET routes are resources, too.
    :param credentials: by the name of the security scheme.
    :param environment_prefix: of the variables of the environment that have the other credentials.
    :param headers: of each request, or a function of the context of a call that returns them.
    :param environ: returns variables of the environment for the context of a call, such as
        ``{"REMOTE_USER": ctx.principal.subject}``; the application trusts them.
    :param output_schemas: "lenient", "strict" or "none".
    :param response_bytes: bytes of one response, at most.
    :raises RegistrationError: the document cannot be loaded, or an option cannot be used.
    """
    provider = OpenAPIProvider(flask_document(app) if spec is None else spec, base_url=base_url, include=include,
                               resources=resources, credentials=credentials, environment_prefix=environment_prefix,
                               headers=headers, output_schemas=output_schemas, response_bytes=response_bytes,
                               application=app.wsgi_app, environ=environ)
    return served(provider, name or (app.name if spec is None else None))


def flask_document(app: "Flask") -> Dict[str, Any]:
    """Return an OpenAPI document of an application's routes."""
    paths: Dict[str, Any] = {}
    definitions: Dict[str, Any] = {}
    for rule in app.url_map.iter_rules():
        view = app.view_functions.get(rule.endpoint)
        if (view is None or rule.endpoint.rpartition(".")[2] == "static"
                or getattr(view, "__name__", "").startswith("mcp_view_")):
            continue
        methods = sorted(set(rule.methods or ()) - {"HEAD", "OPTIONS"})
        for method in methods:
            # A class-based view has a function for each method.
            function = getattr(getattr(view, "view_class", None), method.lower(), view)
            endpoint = rule.endpoint.replace(".", "_")
            operation = _operation(rule, function, endpoint if len(methods) == 1 else f"{endpoint}_{method.lower()}",
                                   definitions)
            path = "".join(f"{{{text}}}" if is_dynamic else text for is_dynamic, text in _parts(rule))
            paths.setdefault(path, {}).setdefault(method.lower(), operation)
    return {"openapi": "3.1.0", "info": {"title": app.name, "version": ""}, "paths": paths,
            "components": {"schemas": definitions}}


def _parts(rule: Any) -> List[Any]:
    """Return the parts of a rule's path: whether each is a variable, and its text or name."""
    found = []
    for text in re.split(r"(<[^<>]*>)", rule.rule):
        if text.startswith("<") and text.endswith(">"):
            found.append((True, text[1:-1].rpartition(":")[2].strip()))
        elif text:
            found.append((False, text))
    return found


def _operation(rule: Any, view: Callable[..., Any], name: str, definitions: Dict[str, Any]) -> Dict[str, Any]:
    operation: Dict[str, Any] = {"operationId": name, "responses": {}}
    known: Mapping[str, Any] = {}
    try:
        function = compile_function(view, name=name)
        known = function.input_schema.get("properties") or {}
        description, described = function.description, function.documentation[1]
    except RegistrationError as error:
        _log.debug("the annotations of the view %s are not read: %s", name, error)
        description, described = getattr(view, "__doc__", None), {}
    if description:
        operation["description"] = description.strip()
    parameters: List[Dict[str, Any]] = []
    for is_dynamic, variable in _parts(rule):
        if is_dynamic:
            schema = _schema_of_variable(rule, variable, known.get(variable))
            parameter = {"name": variable, "in": "path", "required": True, "schema": schema}
            if described.get(variable):
                parameter["description"] = described[variable]
            converter = type(rule._converters.get(variable)).__name__
            if converter == "PathConverter" or not getattr(rule._converters.get(variable), "part_isolating", True):
                parameter["x-multi-segment"] = True
            parameters.append(parameter)
    said: Mapping[str, Any] = getattr(view, _ATTRIBUTE, None) or {}
    for word, place in (("query", "query"), ("headers", "header")):
        if said.get(word) is not None:
            parameters += _fields(said[word], place, name, definitions)
    if parameters:
        operation["parameters"] = parameters
    for word, media_type in (("json", "application/json"), ("form", "application/x-www-form-urlencoded")):
        if said.get(word) is not None:
            schema = _schema(said[word], name, definitions)
            operation["requestBody"] = {"required": True, "content": {media_type: {"schema": schema}}}
    returned = _returned(view, name, definitions)
    if returned is not None:
        operation["responses"] = {"200": {"description": "", "content": {"application/json": {"schema": returned}}}}
    return operation


def _schema_of_variable(rule: Any, variable: str, annotated: Any) -> Dict[str, Any]:
    converter = rule._converters.get(variable)
    found = dict(_CONVERTERS.get(type(converter).__name__, {}))
    if type(converter).__name__ == "AnyConverter":
        found = {"type": "string", "enum": sorted(converter.items)}
    if annotated and not found:
        found = dict(annotated)
    return found or {"type": "string"}


def _fields(cls: Any, place: str, name: str, definitions: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return the parameters that a class stands for: one for each of its fields."""
    function = compile_function(cls, name=name)
    schema = _moved(function.input_schema, name, definitions)
    described, required = function.documentation[1], schema.get("required") or ()
    found = []
    for field, part in (schema.get("properties") or {}).items():
        wire = field.replace("_", "-") if place == "header" else field
        parameter = {"name": wire, "in": place, "required": field in required, "schema": part}
        if described.get(field):
            parameter["description"] = described[field]
        found.append(parameter)
    return found


def _moved(schema: Dict[str, Any], name: str, definitions: Dict[str, Any]) -> Dict[str, Any]:
    """Return a schema without definitions of its own, which are put into the document's under a name with *name* in it."""
    def move(part: Dict[str, Any]) -> Dict[str, Any]:
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            return {**part, "$ref": f"#/components/schemas/{name}.{reference[8:]}"}
        return part

    made = rebuilt(schema, move)
    for key, part in (made.pop("$defs", None) or {}).items():
        definitions[f"{name}.{key}"] = part
    return made  # type: ignore[no-any-return]


def _schema(annotation: Any, name: str, definitions: Dict[str, Any], returned: bool = False) -> Dict[str, Any]:
    schemas = Schemas(f"the view {name!r}", returned=returned)
    schema = dict(schemas.compile(annotation, "").schema)
    return _moved({**schema, "$defs": schemas.definitions} if schemas.definitions else schema, name, definitions)


def _returned(view: Callable[..., Any], name: str, definitions: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Return the schema of what a view returns; None if it is no plain data, such as a response or a page."""
    import typing

    try:
        annotation = typing.get_type_hints(view).get("return")
    except (NameError, TypeError):
        return None
    if annotation is None or annotation in (str, bytes, dict, list, Any, type(None)):
        return None
    try:
        schema = _schema(annotation, name, definitions, returned=True)
    except RegistrationError:
        return None
    return schema if schema.get("type") in ("object", "array") and len(schema) > 1 else None
