"""Input schemas of tools, brought into a form that every API of a model takes.

An API refuses the whole request if the schema of one tool breaks a rule of its own: the top level must be a plain object,
malformed keywords and those of older drafts are errors, lists need ``items``, and a type stands neither beside a reference
nor beside alternatives. Patterns must be of the kind of RE2, which never goes back, and mean one thing to ECMA-262, RE2,
Rust's regex and Python. The server still checks the parts that a schema loses here.
"""

import json
import math
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from ..protocol.error_text import well_formed
from ..protocol.schema.references import Extent, LenientReferences
from .tool_names import PARAMETERS, NameMap

__all__ = ["Schema", "described", "is_portable", "kind_of", "nullable", "portable", "resolve", "types_of"]

#: The most repeats that RE2 takes; the numbers of repeats within each other are multiplied.
_MOST_REPEATS = 1000
_LONGEST = 2000
_ESCAPE = r"\\(?:[dDwWsStnrfv]|x[0-9A-Fa-f]{2}|[!-/:;=?@\[-`{-~])"
#: The parts of a pattern outside of character classes.
_PART = re.compile(
    rf"(?P<atom>[^\\\[\](){{}}*+?|^$.\ud800-\udfff]|\.|{_ESCAPE})|(?P<anchor>[\^$]|\\[bB])|(?P<open>\((?!\?)|\(\?:)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<class>\[\^?)|(?P<repeat>(?:[*+?]|\{(?P<low>[0-9]{1,4})(?P<comma>,(?P<high>[0-9]{0,4}))?\})\??)", re.DOTALL)
#: One member of a class: an escape for several characters, or one character. Other engines read "--" and the like in a class as
#: operations.
_MEMBER = re.compile(rf"(?P<several>\\[dDwWsS])|(?P<one>(?:[^\\\[\]\ud800-\udfff]|{_ESCAPE}))", re.DOTALL)
_OPERATION = re.compile(r"--|&&|~~|\|\|")


def is_portable(pattern: str) -> bool:
    """Tell whether every API of a model can compile a pattern of JSON Schema."""
    if len(pattern) > _LONGEST:
        return False
    # For each open group: how often its inner repeats multiply. *last* is that of the part before this place, which a repeat
    # may follow.
    groups: List[int] = [1]
    last = 0  # nothing that can be repeated
    at = 0
    while at < len(pattern):
        found = _PART.match(pattern, at)
        if found is None:
            return False
        at = found.end()
        kind = found.lastgroup
        if found["repeat"]:
            times = _times(found)
            last *= times
            if not last or last > _MOST_REPEATS:
                return False
            groups[-1] = max(groups[-1], last)
            last = 0
        elif kind == "open":
            groups.append(1)
            last = 0
        elif kind == "close":
            if len(groups) == 1:
                return False
            last = groups.pop()
            groups[-1] = max(groups[-1], last)
        elif kind == "class":
            at = _end_of_class(pattern, at)
            if not at:
                return False
            last = 1
        else:
            last = 1 if kind == "atom" else 0
    return len(groups) == 1


def _times(repeat: "re.Match[str]") -> int:
    """Return the factor of a repeat, 0 if it is none."""
    if not repeat["low"]:
        return 1
    low = int(repeat["low"])
    high = int(repeat["high"]) if repeat["high"] else low
    return max(1, high) if low <= high else 0


def _end_of_class(pattern: str, at: int) -> int:
    """Return where a class ends, 0 if it is not portable; *at* is behind its first bracket."""
    begin = at
    while at < len(pattern):
        if pattern[at] == "]":
            return at + 1 if at > begin and not _OPERATION.search(pattern, begin, at) else 0
        found = _MEMBER.match(pattern, at)
        if found is None:
            return 0
        at = found.end()
        if pattern[at:at + 1] == "-" and pattern[at + 1:at + 2] not in ("", "]"):
            end = _MEMBER.match(pattern, at + 1)
            if end is None or found["several"] or end["several"] or _code(found.group()) > _code(end.group()):
                return 0
            at = end.end()
    return 0


def _code(member: str) -> int:
    """Return the code of a character, or of an escape for one."""
    if member.startswith("\\x"):
        return int(member[2:], 16)
    if member.startswith("\\"):
        return ord({"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}.get(member[1], member[1]))
    return ord(member)


Schema = Dict[str, Any]
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
#: Levels of nesting; deeper parts are left open.
_DEEPEST = 40
#: Alternatives that the description of the top level names, and the characters of that sentence.
_MOST_GROUPS, _LONGEST_NOTE = 20, 1000


def portable(schema: Any) -> Schema:
    """Return a schema of JSON Schema 2020-12 whose top level is a plain object; the given one is not changed.

    References point into ``$defs`` at the top. Each schema says its type, as far as its keywords tell it. Parts beyond the
    :class:`Extent` are left open.
    """
    return _PortableForm(schema if isinstance(schema, dict) else {}).whole()


def resolve(root: Schema, reference: str) -> Optional[Schema]:
    """Return the definition that a reference inside a portable schema points to; None if there is none."""
    found = root.get("$defs", {}).get(reference[len(_TO):]) if reference.startswith(_TO) else None
    return found if isinstance(found, dict) else None


def described(schema: Schema, note: str) -> None:
    """Add a sentence to a schema's description."""
    schema["description"] = " ".join(text for text in (schema.get("description"), note) if text)


def nullable(schema: Schema) -> Schema:
    """Return a schema that allows null as well."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return schema if {"type": "null"} in schema[key] else {**schema, key: [*schema[key], {"type": "null"}]}
    found = dict(schema)
    if types_of(schema):
        found["type"] = list(dict.fromkeys([*types_of(schema), "null"]))
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if "enum" in found and None not in found["enum"]:
        found["enum"] = [*found["enum"], None]
    return found


def types_of(schema: Schema) -> List[str]:
    """Return the types that a portable schema names."""
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else types


# --- one keyword at a time ---------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    # JSON has no infinity, and what no float can hold is an error for other languages.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_anything(value: Any) -> bool:
    return True


_TO = "#/$defs/"
#: The keywords that are kept, if their value has the right form. Other keywords say nothing to a model.
_PLAIN: Dict[str, Callable[[Any], bool]] = {
    "title": _is_text, "description": _is_text, "format": _is_text, "pattern": _is_text, "contentEncoding": _is_text,
    "contentMediaType": _is_text, "default": _is_anything, "const": _is_anything, "enum": _is_list, "examples": _is_list,
    "minimum": _is_number, "maximum": _is_number, "exclusiveMinimum": _is_number, "exclusiveMaximum": _is_number,
    "multipleOf": lambda value: _is_number(value) and value > 0, "minLength": _is_count, "maxLength": _is_count,
    "minItems": _is_count, "maxItems": _is_count, "minProperties": _is_count, "maxProperties": _is_count,
    "uniqueItems": _is_bool, "required": _is_names, "deprecated": _is_bool,
}
_SCHEMA = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "unevaluatedProperties")
_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
#: Keywords that do not change what a reference means. A few APIs refuse any others beside it.
_NOTES = ("description", "default")
_REMARKS = ("title", "description", "default", "examples", "deprecated")
#: The type that a keyword is about, where a schema names none.
_TELLING = {**dict.fromkeys(("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "required",
                             "minProperties", "maxProperties", "propertyNames", "dependentSchemas"), "object"),
            **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"), "array"),
            **dict.fromkeys(("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"), "string"),
            **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number")}
_FORMATS = {"int32": "integer", "int64": "integer", "float": "number", "double": "number"}
#: Keywords that the plain object of the top level cannot have.
_APART = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "type", "dependentSchemas")
_KINDS = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (list, "array"), (dict, "object"))


class _Unsayable(Exception):
    """A value has no JSON that an API takes."""


class _PortableForm:
    """Writes one schema, and the definitions that it refers to."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._extent = Extent()
        self._references = LenientReferences(root)
        #: How often something was left out that restricts a value. A ``not`` or ``if`` around it would then exclude too much,
        #: and is left out.
        self._lost = 0
        self._names = NameMap(PARAMETERS)
        #: By the identity of a part that is referred to: its name. By name: the definitions that are written, and the parts
        #: that are not written yet.
        self._named: Dict[int, str] = {}
        self._definitions: Dict[str, Schema] = {}
        self._waiting: List[Tuple[str, Schema, str]] = []
        #: By name: the plain objects that definitions are at the top level.
        self._flats: Dict[str, Schema] = {}
        own = [(id(part), name) for key in ("$defs", "definitions") for name, part in _dict(root.get(key)).items()]
        self._own_names = dict(reversed(own))

    def whole(self) -> Schema:
        """Return the portable form."""
        own = {key: value for key, value in self._root.items() if key not in ("definitions", "$defs")}
        top = self._clean(own, "", _DEEPEST)
        while self._waiting:
            name, part, base = self._waiting.pop()
            self._definitions[name] = self._clean(part, base, _DEEPEST)
        flat = {"type": "object", "properties": {}, **self._flat(top)}
        if "required" in flat:
            flat["required"] = [name for name in flat["required"] if name in flat["properties"]]
        definitions = self._reached(flat)
        return {**flat, "$defs": definitions} if definitions else flat

    def _reached(self, schema: Schema) -> Dict[str, Schema]:
        reached: Set[str] = set()
        waiting: List[Any] = [schema]
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting += node
            elif isinstance(node, dict):
                name = node["$ref"][len(_TO):] if isinstance(node.get("$ref"), str) else None
                if name in self._definitions and name not in reached:
                    reached.add(name)
                    waiting.append(self._definitions[name])
                waiting += node.values()
        return {name: part for name, part in sorted(self._definitions.items()) if name in reached}

    # --- references ---

    def _reference(self, reference: str, schema: Schema, base: str, left: int, types: List[str]) -> Schema:
        """Return the portable form of a schema with a reference."""
        beside = {key: value for key, value in schema.items() if key not in _REFERENCES}
        target, around = self._references.find(reference, base)
        if target is False:
            return {"not": {}}
        if not isinstance(target, dict):
            self._lost += target is not True
            return self._keywords(beside, base, left, types)
        restricts = [key for key in beside if key in (*_PLAIN, *_SCHEMA, *_SCHEMAS, *_NAMED) and key not in _REMARKS]
        if restricts or "type" in beside and not any(key in target for key in (*_REFERENCES, *_SCHEMAS, *_TELLING, "type",
                                                                               "enum", "const")):
            # Most APIs read either the reference or the keywords beside it: the schema is written here with both.
            return self._clean(self._combined(target, beside), around, left - 1)
        notes = {key: value for key, value in beside.items() if key in _NOTES}
        return {"$ref": _TO + self._name(target, around, reference), **self._keywords(notes, base, left, [])}

    def _combined(self, target: Schema, beside: Schema) -> Schema:
        found = dict(target)
        for key, value in beside.items():
            if key in ("properties", "patternProperties") and isinstance(found.get(key), dict) and isinstance(value, dict):
                found[key] = {**found[key], **value}
            elif key == "required" and isinstance(found.get(key), list) and isinstance(value, list):
                found[key] = [*found[key], *value]
            elif key in _SCHEMAS and key in found:
                self._lost += 1
            else:
                found[key] = value
        return found

    def _name(self, target: Schema, base: str, reference: str) -> str:
        """Return the name of a definition, which is written later."""
        name = self._named.get(id(target))
        if name is None:
            key = self._own_names.get(id(target)) or reference.replace("#", "/").rpartition("/")[2] or "root"
            while self._names.has(key):
                key += "_"
            self._names.add([key])
            name = self._named[id(target)] = self._names.shown(key)
            self._waiting.append((name, target, base))
        return name

    # --- keywords ---

    def _clean(self, schema: Any, base: str, left: int, types: Optional[List[str]] = None) -> Schema:
        """Return a copy with known keywords in the forms of 2020-12.

        :param base: the base URI of references around it.
        :param left: how many levels of nesting may follow.
        :param types: the types of the schema that *schema* is an alternative of.
        """
        if schema is False:
            return {"not": {}}
        if not isinstance(schema, dict):
            schema = {}
        if left <= 0 or not self._extent.take():
            self._lost += 1
            return {}
        base = self._references.base(schema, base)
        reference = next((schema[key] for key in _REFERENCES if isinstance(schema.get(key), str)), None)
        found = (self._keywords(schema, base, left, types or []) if reference is None
                 else self._reference(reference, schema, base, left, types or []))
        return nullable(found) if schema.get("nullable") is True else found

    def _keywords(self, schema: Schema, base: str, left: int, types: List[str]) -> Schema:
        own = schema.get("type")
        names = [name for name in (own if isinstance(own, list) else [own]) if name in TYPES]
        types = list(dict.fromkeys(names)) or types or _told(schema)
        found: Schema = {}
        if types:
            found["type"] = types[0] if len(types) == 1 else list(types)
        is_whole = True
        for key, value in _renewed(schema):
            before = self._lost
            if key in _PLAIN:
                self._plain(found, key, value)
            elif key in _SCHEMA and isinstance(value, (dict, bool)):
                if isinstance(value, bool) and key.endswith("Properties"):
                    found[key] = value
                elif key == "items" and value is False:
                    found[key] = False  # see _complete_list
                else:
                    inner = self._clean(value, base, left - 1)
                    if key not in ("not", "if") or self._lost == before:
                        found[key] = inner
            elif key in _SCHEMAS and _is_list(value):
                alternatives = key in ("anyOf", "oneOf")
                parts = [self._clean(item, base, left - 1, types if alternatives else None) for item in value
                         if not (alternatives and item is False)]
                if key == "oneOf" and self._lost > before and "anyOf" not in schema:
                    key = "anyOf"  # if one has lost something, a value may fit two of them
                self._lost += not parts
                found.update({key: parts} if parts else {})
            elif key in _NAMED and isinstance(value, dict):
                found[key] = self._named_parts(key, value, base, left)
                is_whole = is_whole and len(found[key]) >= sum(part is not False for part in value.values())
        if not is_whole:
            # Members that were left out must not be forbidden.
            found.pop("additionalProperties", None)
            found.pop("unevaluatedProperties", None)
        return self._completed(found, types)

    def _named_parts(self, key: str, parts: Schema, base: str, left: int) -> Schema:
        found = {}
        for name, part in parts.items():
            if part is False and key != "dependentSchemas":
                continue
            if key == "patternProperties" and not is_portable(name) or not self._extent.take(0, len(name)):
                self._lost += 1
                continue
            found[well_formed(name)] = self._clean(part, base, left - 1)
        return found

    def _plain(self, found: Schema, key: str, value: Any) -> None:
        if not _PLAIN[key](value):
            return
        try:
            if key == "pattern" and not is_portable(value):
                raise _Unsayable
            if key in ("enum", "required"):
                values = {json.dumps(one): one for one in map(self._value, value)}
                found[key] = list(values.values())
            elif key in ("title", "description"):
                found[key] = self._extent.cut(well_formed(value))
            else:
                found[key] = self._value(value)
        except _Unsayable:
            self._lost += key not in _REMARKS

    def _value(self, value: Any, left: int = _DEEPEST) -> Any:
        """Return a copy of a JSON value that can be sent.

        :raises _Unsayable: there is none.
        """
        if isinstance(value, str):
            value = well_formed(value)
        if not self._extent.take(1, len(value) if isinstance(value, str) else 0) or not left:
            raise _Unsayable
        if isinstance(value, dict):
            return {well_formed(str(name)): self._value(one, left - 1) for name, one in value.items()}
        if isinstance(value, list):
            return [self._value(one, left - 1) for one in value]
        if isinstance(value, float) and not math.isfinite(value) or isinstance(value, int) and abs(value) > 1e300:
            raise _Unsayable
        return value

    def _completed(self, found: Schema, types: List[str]) -> Schema:
        """Return a schema with what APIs want of its keywords as a whole."""
        alternatives = "anyOf" in found or "oneOf" in found
        if alternatives:
            found.pop("type", None)  # each alternative has it
        if "prefixItems" in found or found.get("items") is False or "array" in types and not alternatives:
            self._complete_list(found)
        if "if" not in found:
            found.pop("then", None)
            found.pop("else", None)
        if "required" in found and "properties" in found:
            found["required"] = [name for name in found["required"] if name in found["properties"]]
        return found

    def _complete_list(self, found: Schema) -> None:
        """Give a list the ``items`` that some APIs require; of a tuple, other APIs read nothing else."""
        first = found.get("prefixItems", [])
        if found.get("items") is False:
            del found["items"]
            found["maxItems"] = min(len(first), found.get("maxItems", len(first)))
        if "items" in found:
            return
        found["items"] = {}
        if 0 < found.get("maxItems", 0) <= len(first):
            forms = {json.dumps(form, sort_keys=True): form for form in first}
            text = "".join(forms)
            if self._extent.take(text.count("{"), len(text)):
                found["items"] = {"anyOf": list(forms.values())} if len(forms) > 1 else next(iter(forms.values()))

    # --- the top level ---

    def _flat(self, schema: Schema, left: int = _DEEPEST) -> Schema:
        """Return an object schema without a combination of schemas at its top: their properties in one."""
        if not left:
            return {}
        if "$ref" in schema:
            name = schema["$ref"][len(_TO):]
            if name not in self._flats:
                self._flats[name] = {}  # a reference to itself adds nothing
                self._flats[name] = self._flat(self._definitions[name], left - 1)
            return {**self._flats[name], **{key: value for key, value in schema.items() if key != "$ref"}}
        flat = {key: value for key, value in schema.items() if key not in _APART}
        if not any(key in schema for key in ("allOf", "anyOf", "oneOf")):
            return flat
        flat["properties"] = dict(flat.get("properties", {}))
        required = list(flat.get("required", []))
        for one in schema.get("allOf", []):
            part = self._flat(one, left - 1)
            self._merge(flat["properties"], [part])
            required += part.get("required", [])
        for key in ("anyOf", "oneOf"):
            parts = [self._flat(one, left - 1) for one in schema.get(key, []) if types_of(one) != ["null"]]
            if parts:
                self._merge(flat["properties"], parts)
                needed = [set(part.get("required", [])) for part in parts]
                required += [name for name in parts[0].get("required", []) if all(name in names for names in needed)]
                groups = [", ".join(part.get("required") or part.get("properties", {})) for part in parts[:_MOST_GROUPS]]
                if len(groups) > 1 and all(groups):
                    note = f"Needs the parameters of one of these groups: {'; '.join(groups)}."
                    described(flat, note if len(note) <= _LONGEST_NOTE else note[:_LONGEST_NOTE] + "...")
        # A member that one part forbids may be in another part.
        flat.pop("additionalProperties", None)
        flat.pop("unevaluatedProperties", None)
        if required:
            flat["required"] = list(dict.fromkeys(required))
        return flat

    def _merge(self, properties: Dict[str, Any], parts: List[Schema]) -> None:
        """Add the properties of alternatives; a property that differs between them may have any of its forms."""
        forms: Dict[str, List[Schema]] = {}
        merged: Set[int] = set()
        for part in parts:
            found = part.get("properties", {})
            if id(found) in merged or not self._extent.take(len(found)):
                continue
            merged.add(id(found))
            for name, schema in found.items():
                known = forms.setdefault(name, [])
                if schema not in known:
                    known.append(schema)
        for name, known in forms.items():
            properties.setdefault(name, known[0] if len(known) == 1 else {"anyOf": known})


def _renewed(schema: Schema) -> Iterator[Tuple[str, Any]]:
    """Yield the members of a schema with those of older drafts and of OpenAPI in their form of 2020-12."""
    for key, value in schema.items():
        if key == "items" and isinstance(value, list):
            if value:
                yield "prefixItems", value
            rest = schema.get("additionalItems")
            yield "items", rest if isinstance(rest, dict) or rest is False else {}
        elif key in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
            bound = schema.get("minimum" if key == "exclusiveMinimum" else "maximum")
            if value and _is_number(bound):
                yield key, bound
        else:
            yield key, value


def _told(schema: Schema) -> List[str]:
    """Return the types of a schema that names none, by its values or its other keywords."""
    values = schema["enum"] if _is_list(schema.get("enum")) else [schema["const"]] if "const" in schema else []
    if values:
        return list(dict.fromkeys(kind_of(value) for value in values))
    told = [_FORMATS.get(str(value), _TELLING[key]) if key == "format" else _TELLING[key]
            for key, value in _renewed(schema) if key in _TELLING and _is_right(key, value)]
    return list(dict.fromkeys(told))


def _is_right(key: str, value: Any) -> bool:
    if key in _PLAIN:
        return _PLAIN[key](value)
    return _is_list(value) if key in _SCHEMAS else isinstance(value, dict) or key in _SCHEMA and isinstance(value, bool)


def kind_of(value: Any) -> str:
    """Return the type of a JSON value, as schemas name it."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}
