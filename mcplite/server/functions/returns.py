"""Compiles a tool's return annotation, or the output schema given instead, to the schema of its structured result."""

from __future__ import annotations

import collections.abc
import functools
import typing
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Literal, Optional, Union

from ...errors import RegistrationError
from ...protocol.jsonio import encode_json
from ...revisions import Revision
from ...types import NULL, Model
from .scalars import SIMPLE
from .schemas import UNIONS, ImpossibleKey, Schemas, unwrap_annotated
from .signature import MISSING

# What a start and a list do not need is imported by the functions that use it.
if TYPE_CHECKING:
    from ...protocol.jsonrpc import Encoded
    from ...protocol.schema.validation import Validator

__all__ = ["Output", "StructuredOutput", "compile_output", "written_schema"]

#: What ``structured_output=`` of a tool may be.
StructuredOutput = Union[None, bool, Literal["bare"]]
_TEXT = (None, type(None), str, bytes)
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
_BARE = (MISSING, *_TEXT, Any, object, dict, set, *_LISTS)


class Output:
    """The declared output of a tool.

    :param schema: of the structured result, an object; None if no schema is declared.
    :param wrapped: whether the structured result is ``{"result": value}``, since the value is not an object.
    :param off: whether structured content is switched off.
    :param exact: a type whose instances always fit the schema, so that they are not checked.
    :param bare: the schema of a wrapped value itself, which then is the structured result in the revisions that allow it;
        None wraps it in all of them.
    """

    def __init__(self, schema: Optional[Dict[str, Any]] = None, *, wrapped: bool = False, off: bool = False,
                 exact: Optional[type] = None, bare: Optional[Dict[str, Any]] = None) -> None:
        self.schema = schema
        self.wrapped = wrapped
        self.off = off
        self.exact = exact
        self.bare = bare
        #: What writes the results, by revision; see :func:`~.results.result_writer`.
        self.writers: Dict[Revision, Callable[[Any, str], Optional[Encoded]]] = {}
        self._validator: Optional[Validator] = None

    @property
    def validator(self) -> Optional[Validator]:
        """Checks what a handler returns; None if no schema is declared. Made, and the rules of schemas loaded, on first use."""
        if self._validator is None and self.schema is not None:
            from ...protocol.schema.validation import Validator

            self._validator = Validator(self.schema)
        return self._validator

    def schema_for(self, revision: Revision) -> Optional[Dict[str, Any]]:
        """Return the schema to declare in a revision."""
        return self.schema if self.bare is None or revision.object_output_only else self.bare

    def value_for(self, structured: Any, revision: Revision) -> Any:
        """Return the structured result in the form of a revision (TOOL-40); None if the revision has no such form."""
        if not revision.structured_output:
            return None
        if revision.object_output_only:
            return structured if isinstance(structured, dict) else None
        if self.bare is None or not isinstance(structured, dict):
            return structured
        value = structured.get("result")
        return NULL if value is None else value

    def problems(self, structured: Any) -> List[str]:
        """Return what is wrong with a structured result under the declared schema, one sentence each."""
        validator = self.validator
        return [] if validator is None else validator.problems(structured)


def written_schema(schema: Any, what: str) -> Any:
    """Return a schema that an author wrote as JSON: itself, or a copy with the texts of objects that stand for texts.

    :param what: names it in errors, such as "tool 'add': input_schema".
    :raises RegistrationError: it is not JSON.
    """
    try:
        encode_json(schema)
        return schema
    except (TypeError, ValueError):
        from .jsonable import definition_json  # for those that have more in it

    try:
        return definition_json(schema)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}{error}") from error


def compile_output(annotation: Any, schema: Optional[Dict[str, Any]], structured: StructuredOutput, where: str,
                   owner: Any = None) -> Output:
    """Return the output that a return annotation, or *schema* instead of it, declares.

    :param structured: None decides by the annotation: objects and plain data are structured, text and content are
        not. True requires a schema, False switches structured content off. "bare" is True, and does not wrap a value
        that is not an object, in the revisions that allow that.
    :param where: names the tool in errors.
    :param owner: the function, whose module and variables have the names in the annotation.
    :raises RegistrationError: the schema is not valid, or *structured* is True and the annotation declares none.
    """
    if structured not in (None, True, False, "bare"):
        raise RegistrationError(f"{where}: structured_output is True, False, 'bare' or None, not {structured!r}")
    if structured is False:
        if schema is not None:
            raise RegistrationError(f"{where}: structured_output=False and output_schema contradict each other")
        return Output(off=True)
    bare = structured == "bare"
    if schema is not None:
        from ...protocol.schema.validation import check_schema

        schema = written_schema(schema, f"{where}: output_schema")
        check_schema(schema, what=f"{where}: output_schema")
        from ...protocol.schema.wrapping import as_object, in_result

        whole = as_object(schema)
        if whole is not None:
            return Output(whole)
        return Output(in_result(schema), wrapped=True, bare=dict(schema) if bare else None)
    if type(annotation) is type and (annotation in (int, float, bool) or annotation is str and structured is None):
        return _scalar_output(annotation, bare)
    base, _ = unwrap_annotated(annotation)
    if structured is None and (_is_bare(base) or _has_content(base)):
        return Output()
    if structured and (base is MISSING or _has_content(base)):
        raise RegistrationError(f"{where}: structured_output={structured!r} needs a return annotation of plain data, such as a"
                                f" dataclass, or output_schema=")
    schemas = Schemas(where, returned=True, owner=owner)
    try:
        node = schemas.compile(annotation, "")
    except ImpossibleKey:
        raise  # each call would fail
    except RegistrationError:
        if structured:
            raise
        return Output()
    built = dict(node.schema)
    if "$ref" in built:
        # Older clients expect "properties" at the top level.
        built = {**schemas.definitions[built.pop("$ref").rpartition("/")[2]], **built}
    if schemas.definitions:
        built["$defs"] = schemas.definitions
    return Output(built) if built.get("type") == "object" else _wrapping(built, bare)


@functools.lru_cache(maxsize=None)
def _scalar_output(annotation: type, bare: bool) -> Output:
    """Return the output of a str, int, float or bool. What it learns depends on the two alone, so all such tools share it."""
    return Output() if annotation is str else _wrapping(SIMPLE[annotation].schema, bare, annotation)


def _wrapping(schema: Dict[str, Any], bare: bool, exact: Optional[type] = None) -> Output:
    """Return the output for a value that is not an object, which clients get as ``{"result": value}``.

    :param bare: whether they get the value itself in the revisions that allow it.
    """
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    wrapped: Dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    for key in ("$defs", "$schema"):  # references are resolved from the top level
        if key in schema:
            wrapped[key] = schema[key]
    return Output(wrapped, wrapped=True, exact=exact, bare=dict(schema) if bare else None)


def _is_bare(annotation: Any) -> bool:
    if any(annotation is item for item in _BARE):
        return True
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in UNIONS:
        return any(_is_bare(item) for item in arguments if item not in _TEXT)
    # A list of Any can also hold images.
    return origin in _LISTS and all(item in (Any, object, Ellipsis) for item in arguments) or origin is dict and not arguments


def _has_content(annotation: Any) -> bool:
    """Whether a content class occurs in the annotation."""
    from .media import Audio, Image

    base, _ = unwrap_annotated(annotation)
    if isinstance(base, type) and not typing.get_args(base):
        return issubclass(base, (Model, Image, Audio)) or base.__name__ == "InputRequired" or base is bytes
    return any(_has_content(item) for item in typing.get_args(base) if item is not Ellipsis)
