"""Forms for ``ctx.elicit``: a Python type becomes the form's JSON Schema, and the answer becomes a value of the type."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ...errors import RegistrationError
from .nodes import Convert
from .schemas import Schemas, unwrap_annotated

__all__ = ["Form", "form_type"]

#: The string formats that the specification allows in a form. Other formats are checked when the answer is converted.
_FORMATS = ("email", "uri", "date", "date-time")


class Form(NamedTuple):
    """The JSON Schema of a form, and the converter from its answer to the Python value."""

    schema: Dict[str, Any]
    convert: Convert


def form_type(wanted: Any) -> Form:
    """Return the form for a dataclass, TypedDict, NamedTuple, plain type or JSON Schema.

    A plain type becomes one field named ``value``. None becomes a form without fields. The converter raises
    :class:`Mismatch` for an answer that does not fit the type.

    :raises RegistrationError: the type has no form in JSON, or contains itself.
    """
    if wanted is None:
        return Form({"type": "object", "properties": {}}, lambda content: None)
    if isinstance(wanted, Mapping):
        return Form(dict(wanted), lambda content: content)
    schemas = Schemas("elicitation")
    node = schemas.compile(unwrap_annotated(wanted)[0], "value")
    if schemas.definitions:
        raise RegistrationError(f"elicitation: {wanted!r} contains itself, but forms are flat; ask for its members one by one")
    fields: Optional[Dict[str, Dict[str, Any]]] = node.schema.get("properties")
    if fields is not None:
        schema: Dict[str, Any] = {"type": "object", "properties": {name: _field(item) for name, item in fields.items()}}
        required = [name for name in node.schema.get("required", ()) if not _is_optional(fields[name])]
        if required:
            schema["required"] = required
        nullable = [name for name in node.schema.get("required", ()) if name not in required]
        return Form(schema, _known(node.convert, list(fields), nullable))
    node = schemas.compile(wanted, "value")
    value: Dict[str, Any] = {"type": "object", "properties": {"value": _field(node.schema)}}
    if not _is_optional(node.schema):
        value["required"] = ["value"]
    return Form(value, lambda content: node.convert(content.get("value")))


def _known(convert: Convert, names: List[str], nullable: List[str]) -> Convert:
    """Return a converter that ignores unknown fields and fills in missing nullable ones, before it calls *convert*."""

    def convert_answer(content: Any) -> Any:
        found = dict.fromkeys(nullable)
        found.update((name, content[name]) for name in names if name in content)
        return convert(found)

    return convert_answer


def _is_optional(field: Dict[str, Any]) -> bool:
    return {"type": "null"} in field.get("anyOf", ())


def _field(field: Dict[str, Any]) -> Dict[str, Any]:
    """Return a field's schema within the limits of forms: no null (the field is optional instead), and few formats."""
    if _is_optional(field):
        left = [item for item in field["anyOf"] if item != {"type": "null"}]
        rest = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
        field = {**left[0], **rest} if len(left) == 1 else {**rest, "anyOf": left}
    if field.get("format") not in (None, *_FORMATS):
        field = {key: value for key, value in field.items() if key != "format"}
    return field
