"""Forms for ``ctx.elicit``: a Python type becomes the form's JSON Schema, and the answer becomes a value of the type."""

from typing import Any, Dict, List, Mapping, Optional

from ...errors import RegistrationError
from ...protocol.elicitation_forms import options
from ...protocol.jsonrpc import encode_json
from .converters import Convert, Node
from .schemas import Schemas, unwrap_annotated

#: The string formats that the specification allows in a form. Other formats are checked when the answer is converted.
_FORMATS = ("email", "uri", "date", "date-time")
#: Keywords of numbers, which the texts of a choice do not have.
_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def form_type(wanted: Any) -> Node:
    """Return the form for a dataclass, TypedDict, NamedTuple, plain type or JSON Schema, and the converter of its answer.

    A plain type becomes one field named ``value``. None becomes a form without fields. Choices that are numbers or booleans are
    sent as texts, since forms have no others, and converted back. The converter raises :class:`Mismatch` for an answer that
    does not fit the type.

    :raises RegistrationError: the type has no form in JSON, contains itself, or has two choices that read alike.
    """
    if wanted is None:
        return Node({"type": "object", "properties": {}}, lambda content: None)
    return _with_text_choices(_form(wanted))


def _form(wanted: Any) -> Node:
    if isinstance(wanted, Mapping):
        return Node(dict(wanted), lambda content: content)
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
        return Node(schema, _known(node.convert, list(fields), nullable))
    node = schemas.compile(wanted, "value")
    value: Dict[str, Any] = {"type": "object", "properties": {"value": _field(node.schema)}}
    if not _is_optional(node.schema):
        value["required"] = ["value"]
    return Node(value, lambda content: node.convert(content.get("value")))


def _known(convert: Convert, names: List[str], nullable: List[str]) -> Convert:
    """Return a converter that ignores unknown fields and fills in missing nullable ones, before it calls *convert*."""

    def convert_answer(content: Any) -> Any:
        found = dict.fromkeys(nullable)
        found.update((name, content[name]) for name in names if name in content)
        return convert(found)

    return convert_answer


def _is_optional(field: Dict[str, Any]) -> bool:
    return {"type": "null"} in field.get("anyOf", ()) or None in field.get("enum", ())


def _field(field: Dict[str, Any]) -> Dict[str, Any]:
    """Return a field's schema within the limits of forms: no null (the field is optional instead), and few formats."""
    if None in field.get("enum", ()):
        field = {key: value for key, value in field.items() if key != "default" or value is not None}
        field["enum"] = [value for value in field["enum"] if value is not None]
    elif _is_optional(field):
        left = [item for item in field["anyOf"] if item != {"type": "null"}]
        rest = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
        field = {**left[0], **rest} if len(left) == 1 else {**rest, "anyOf": left}
    if field.get("format") not in (None, *_FORMATS):
        field = {key: value for key, value in field.items() if key != "format"}
    return field


def _with_text_choices(form: Node) -> Node:
    """Return a form whose choices are all texts, and whose converter takes these."""
    fields = form.schema.get("properties")
    if not isinstance(fields, Mapping):
        return form
    meant: Dict[str, Dict[str, Any]] = {}
    made = {name: _text_choices(name, field, meant) for name, field in fields.items()}

    def convert(content: Any) -> Any:
        found = dict(content)
        for name in meant.keys() & found.keys():
            value, values = found[name], meant[name]
            found[name] = [values.get(item, item) for item in value] if isinstance(value, list) else values.get(value, value)
        return form.convert(found)

    return Node({**form.schema, "properties": made}, convert) if meant else form


def _text_choices(name: str, field: Any, meant: Dict[str, Dict[str, Any]]) -> Any:
    """Return a field whose choices are texts; if not all were texts, put the values that they stand for into *meant*."""
    if not isinstance(field, Mapping):
        return field
    if field.get("type") == "array":
        items = _text_choices(name, field.get("items"), meant)
        return field if items is field.get("items") else _with_default({**field, "items": items})
    kinds = field.get("anyOf")
    whole = dict(field)
    if isinstance(kinds, list) and options(field) is None and all(options(kind) for kind in kinds):
        # A union of choices is one choice.
        whole = {**{key: value for key, value in field.items() if key != "anyOf"},
                 "enum": [value for kind in kinds for value, _ in options(kind) or ()]}
    if "const" in whole and options(whole) is None:
        whole["enum"] = [whole.pop("const")]
    choices = options(whole)
    if choices is None or all(isinstance(value, str) for value, _ in choices):
        return field if choices is None or whole == field else {**whole, "type": "string"}
    values = {_text(value): value for value, _ in choices}
    if len(values) < len(choices):
        raise RegistrationError(f"elicitation: make the choices of the field {name!r} differ as texts, which they are sent as:"
                                f" some read alike, such as 1 and '1'")
    meant[name] = values
    whole = {key: value for key, value in whole.items() if key not in _OF_NUMBERS}
    whole["type"] = "string"
    for key in ("oneOf", "anyOf"):
        if key in whole:
            whole[key] = [{**item, "const": _text(item["const"])} for item in whole[key]]
    if "enum" in whole:
        whole["enum"] = [_text(value) for value in whole["enum"]]
    return _with_default(whole)


def _with_default(field: Dict[str, Any]) -> Dict[str, Any]:
    default = field.get("default")
    if default is not None:
        field["default"] = [_text(item) for item in default] if isinstance(default, list) else _text(default)
    return field


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode_json(value)
