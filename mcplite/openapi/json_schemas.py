"""Schemas of OpenAPI as JSON Schema 2020-12: what 3.0 and Swagger 2 say otherwise, and what documents say wrongly.

A schema keeps its references: what they lead to, in whatever file, stands under ``$defs``. Documents are written by hand, and
a keyword that JSON Schema does not allow would make a whole tool unusable. So such a keyword is left out.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..errors import RegistrationError
from ..protocol.schema.ecma import problem_of
from ..protocol.schema.quickcheck import compile_check
from ..protocol.schema.references import Extent
from ..protocol.schema.validation import is_wellformed
from .document import Document, Located

__all__ = ["SchemaBuilder", "inherited", "kinds_of_schema", "merged"]

_DEFINITIONS = "#/$defs/"
_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
#: Keywords that say what a value means, and not which values there are.
_NOTES = ("title", "description", "default", "examples", "deprecated", "format", "contentEncoding", "contentMediaType",
          "readOnly", "writeOnly")
#: Keywords that count beside a reference before 3.1.
_BESIDE = ("title", "description", "default", "deprecated", "nullable", "x-nullable")
_BOUNDS = ("const", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum",
           "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "uniqueItems")
#: Keywords of 3.1 with schemas in them that the other versions do not have.
_NEW_ONE = ("contains", "else", "if", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")
_NEW_MAPS = ("dependentSchemas", "patternProperties")
#: Levels of one schema, of the 64 that are possible; deeper ones describe nothing.
_MOST_LEVELS = 40
#: Characters of a schema's texts and names, with ``_CHARACTERS_OF_PART`` for each of its parts: of arguments, and of a
#: response, which a model can do without. The first number of each pair is for one tool; the second is for all tools of one
#: page of the list, which is one message.
_ARGUMENTS, _RESPONSE = (60_000, 10_000_000), (8_000, 3_000_000)
_TOOLS_OF_PAGE = 1000
_CHARACTERS_OF_PART = 40


class SchemaBuilder:
    """Builds the schemas of one tool, which share their definitions.

    A document may describe more than a tool can carry. Parts beyond the limits become ``{}``, the deepest first.

    :param document: whose references are followed.
    :param response: whether the schemas are of responses, which have other members than those of requests.
    :param tools: how many tools are listed together.
    :param lenient: builds what most responses satisfy although their document says more: every value may be null, no member is
        required, and lists of allowed values, bounds and patterns are left out.
    """

    def __init__(self, document: Document, response: bool = False, lenient: bool = False, tools: int = 1
                 ) -> None:
        self._document = document
        self._response = response
        self._lenient = lenient
        self._old = document.version != "3.1"
        #: By the identity of a schema that a reference leads to: its name under ``$defs``.
        self._names: Dict[int, str] = {}
        self._taken: Dict[str, int] = {}
        self._waiting: List[Tuple[str, Any, str]] = []
        most, together = _RESPONSE if response else _ARGUMENTS
        self._extent = Extent(4000, min(most, together // min(max(tools, 1), _TOOLS_OF_PAGE)))
        self.definitions: Dict[str, Any] = {}

    def build(self, node: Any, place: str) -> Dict[str, Any]:
        """Return the schema of one part; what it refers to is in :attr:`definitions` after :meth:`finish`."""
        made = self._convert(node, place, 0)
        return made if isinstance(made, dict) else {} if made else {"not": {}}

    def finish(self, schema: Dict[str, Any]) -> Dict[str, Any]:
        """Return *schema* with all definitions that the built parts refer to, directly and through each other."""
        while self._waiting:
            name, node, place = self._waiting.pop(0)
            self.definitions[name] = self._convert(node, place, 0)
        _cut_circles(self.definitions)
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    # --- references -------------------------------------------------------------------------------------

    def _refer(self, node: Dict[str, Any], place: str, level: int) -> Any:
        try:
            target, where = self._document.resolve(node, place)
        except RegistrationError:
            return {}  # it leads to nothing, and allows anything
        if not isinstance(target, dict) or not target:
            return {}
        # Before 3.1 keywords beside a reference have no meaning, but many documents are written as if those in _BESIDE had a
        # meaning.
        siblings = {key: value for key, value in node.items() if key != "$ref" and (not self._old or key in _BESIDE)}
        if _is_plain(target):
            return self._convert({**target, **siblings}, where, level + 1)
        reference = {"$ref": _DEFINITIONS + self._name_of(node["$ref"], target, where)}
        if not siblings:
            return reference
        beside = self._convert(siblings, place, level + 1)
        made = {**beside, **reference}
        return with_null(made) if self._allows_null(siblings) else made

    def _name_of(self, reference: str, target: Dict[str, Any], place: str) -> str:
        name = self._names.get(id(target))
        if name is None:
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rstrip("/").rpartition("/")[2])[:60] or "definition"
            count = self._taken[name] = self._taken.get(name, 0) + 1
            if count > 1:
                name = f"{name}_{count}"
                self._taken.setdefault(name, 1)
            self._names[id(target)] = name
            self._waiting.append((name, target, place))
        return name

    # --- one schema -----------------------------------------------------------------------------------------

    def _convert(self, node: Any, place: str, level: int) -> Any:
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict) or level > _MOST_LEVELS or not self._extent.take(1, _CHARACTERS_OF_PART):
            return {}
        if isinstance(node.get("$ref"), str):
            return self._refer(node, place, level)
        if "allOf" in node:
            whole = merged(self._document, node, place)
            # Its parts inherit from each other, and each closed part would refuse the members of the other parts.
            if whole is not None and whole[0].get("additionalProperties") is False:
                node = whole[0]
        elif "discriminator" in node and isinstance(node.get("properties"), dict) and not (
                self._response or {"anyOf", "oneOf"} & node.keys()):
            node = {**node, "properties": {**inherited(self._document, node, place), **node["properties"]}}
        made: Dict[str, Any] = {}
        self._take_type(node, made)
        self._take_values(node, made)
        self._take_members(node, place, level, made)
        for keyword in ("allOf", "anyOf", "oneOf"):
            given = node.get(keyword)
            if isinstance(given, list) and given:
                parts = [self._convert(part, place, level + 1) for part in given]
                # Documents list kinds that overlap under oneOf, which would refuse what fits two of them.
                name = "anyOf" if keyword == "oneOf" and "anyOf" not in made else keyword
                made[name] = parts
        if not self._lenient:
            if "not" in node:
                made["not"] = self._convert(node["not"], place, level + 1)
            if not self._old:
                self._take_new(node, place, level, made)
        if self._allows_null(node) or self._lenient:
            made = with_null(made)
        return made

    def _take_type(self, node: Dict[str, Any], made: Dict[str, Any]) -> None:
        given = node.get("type")
        if given == "file":
            made.update(type="string", format="binary")
        elif isinstance(given, str) and given in _TYPES:
            made["type"] = given
        elif isinstance(given, list):
            kinds = list(dict.fromkeys(kind for kind in given if kind in _TYPES))
            if kinds:
                made["type"] = kinds if len(kinds) > 1 else kinds[0]
        elif isinstance(node.get("properties"), dict) and given is None:
            made["type"] = "object"
        elif "items" in node and given is None:
            made["type"] = "array"

    def _take_values(self, node: Dict[str, Any], made: Dict[str, Any]) -> None:
        for keyword in _NOTES:
            if keyword in node and keyword not in made and is_wellformed({keyword: node[keyword]}):
                value = node[keyword]
                made[keyword] = self._extent.cut(value) if isinstance(value, str) else value
        if made.get("default") is not None and "type" in made and not compile_check({"type": made["type"]})(made["default"]):
            del made["default"]
        if self._response:
            made.pop("examples", None)
        elif "example" in node and "examples" not in made and len(repr(node["example"])) <= 200:
            made["examples"] = [node["example"]]
        if self._lenient:
            return
        for keyword in _BOUNDS:
            if keyword in node and is_wellformed({keyword: node[keyword]}):
                made[keyword] = node[keyword]
        for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if node.get(exclusive) is True and bound in made:  # as in draft-04
                made[exclusive] = made.pop(bound)
        given = node.get("enum")
        if isinstance(given, list) and given and self._extent.take(0, sum(len(str(one)) + 4 for one in given)):
            made["enum"] = [one for at, one in enumerate(given) if one not in given[:at]]  # some clients refuse doubles
        if isinstance(node.get("pattern"), str) and not problem_of(node["pattern"]):
            made["pattern"] = node["pattern"]

    def _take_members(self, node: Dict[str, Any], place: str, level: int, made: Dict[str, Any]) -> None:
        properties, hidden = node.get("properties"), set()
        if isinstance(properties, dict):
            found = {}
            for name, part in properties.items():
                if self.is_hidden(part, place):
                    hidden.add(name)
                else:
                    self._extent.take(0, len(name))
                    found[name] = self._convert(part, place, level + 1)
            made["properties"] = found
        required = node.get("required")
        if isinstance(required, list) and not self._lenient:
            names = list(dict.fromkeys(name for name in required if isinstance(name, str) and name not in hidden))
            if names:
                made["required"] = names
        more = node.get("additionalProperties")
        if isinstance(more, dict) or isinstance(more, bool) and not (self._lenient and not more):
            made["additionalProperties"] = self._convert(more, place, level + 1)
        if "items" in node:
            made["items"] = self._convert(node["items"], place, level + 1)
        elif "array" in (made.get("type") or ()):
            made["items"] = {}  # several clients and models' APIs refuse a list without items

    def _take_new(self, node: Dict[str, Any], place: str, level: int, made: Dict[str, Any]) -> None:
        for keyword in _NEW_ONE:
            if isinstance(node.get(keyword), (dict, bool)):
                made[keyword] = self._convert(node[keyword], place, level + 1)
        for keyword in _NEW_MAPS:
            if isinstance(node.get(keyword), dict):
                made[keyword] = {name: self._convert(part, place, level + 1) for name, part in node[keyword].items()
                                 if keyword != "patternProperties" or not problem_of(name)}
        if isinstance(node.get("prefixItems"), list) and node["prefixItems"]:
            made["prefixItems"] = [self._convert(part, place, level + 1) for part in node["prefixItems"]]

    def is_hidden(self, part: Any, place: str) -> bool:
        """Whether a member is left out: it is read-only in a request, write-only in a response, or never there."""
        if part is False:
            return True
        try:
            target, _ = self._document.resolve(part, place)
        except RegistrationError:
            return False
        word = "writeOnly" if self._response else "readOnly"
        return any(isinstance(one, dict) and one.get(word) is True for one in (part, target))

    def _allows_null(self, node: Dict[str, Any]) -> bool:
        return node.get("nullable") is True or node.get("x-nullable") is True


def _cut_circles(definitions: Dict[str, Any]) -> None:
    """Remove a reference that leads back to the schema around it without going down into the value: it then allows anything.

    Documents have such circles: a kind lists its heirs under ``oneOf``, and each heir has it under ``allOf``.
    """
    done: Dict[str, bool] = {}  # False while the references of a definition are followed
    for start in definitions:
        path = [(start, _in_place(definitions[start]))] if start not in done else []
        while path:
            done.setdefault(path[-1][0], False)
            holder = next(path[-1][1], None)
            if holder is None:
                done[path.pop()[0]] = True
                continue
            name = holder["$ref"][len(_DEFINITIONS):]
            if name not in done:
                path.append((name, _in_place(definitions[name])))
            elif not done[name]:
                del holder["$ref"]


def _in_place(schema: Any) -> Iterator[Dict[str, Any]]:
    """Yield the schemas with a reference among a schema and those of its parts that apply to the value itself."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        for word in ("allOf", "anyOf", "oneOf"):
            waiting.extend(node.get(word) or ())
        waiting.extend(node.get(word) for word in ("not", "if", "then", "else"))
        waiting.extend((node.get("dependentSchemas") or {}).values())
        if "$ref" in node:
            yield node


def _is_plain(target: Dict[str, Any]) -> bool:
    """Whether a schema has no other schema in it, so that it can stand where a reference to it stands."""
    return not any(isinstance(value, dict) or isinstance(value, list) and any(isinstance(one, dict) for one in value)
                   for key, value in target.items() if key not in ("default", "enum", "example", "examples", "x-enum-varnames"))


def with_null(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return a schema that also allows null."""
    kind = schema.get("type")
    if kind is None:
        if not any(word in schema for word in ("anyOf", "allOf", "enum", "const", "$ref", "not", "if")):
            return schema  # it allows null already
        if set(schema) - {"anyOf", "title", "description"}:
            notes = _notes(schema)
            return {**notes, "anyOf": [{word: value for word, value in schema.items() if word not in notes}, {"type": "null"}]}
        parts = schema["anyOf"]
        return schema if {"type": "null"} in parts else {**schema, "anyOf": [*parts, {"type": "null"}]}
    kinds = kind if isinstance(kind, list) else [kind]
    made = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "enum" in made and None not in made["enum"]:
        made = {**made, "enum": [*made["enum"], None]}
    if {"anyOf", "allOf"} & made.keys():
        return {**_notes(schema), "anyOf": [schema, {"type": "null"}]}
    return made


def _notes(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return the title and the description of a schema, for the schema that it becomes a part of."""
    return {word: schema[word] for word in ("title", "description") if word in schema}


def merged(document: Document, node: Any, place: str, steps: int = 16) -> Optional[Located]:
    """Return an object schema without references and ``allOf`` at its top; None if it is no such schema.

    :param steps: the most references and lists within each other that are followed.
    """
    try:
        node, place = document.resolve(node, place)
    except RegistrationError:
        return None
    if not isinstance(node, dict) or steps < 0 or any(word in node for word in ("anyOf", "oneOf", "not", "if")):
        return None
    parts = node.get("allOf")
    if not isinstance(parts, list):
        return (node, place) if isinstance(node.get("properties"), dict) and node.get("type", "object") in (
            "object", ["object"]) else None
    properties: Dict[str, Any] = {}
    required: List[Any] = []
    made = {word: value for word, value in node.items() if word not in ("allOf", "properties", "required")}
    own = {word: node[word] for word in ("properties", "required", "additionalProperties") if word in node}
    for part in [*parts, {"properties": {}, **own}]:
        if isinstance(part, dict) and not part.keys() - {"description", "title", "example", "nullable"}:
            continue
        found = merged(document, part, place, steps - 1)
        if found is None:
            return None
        one, where = found
        if where != place and where:
            return None  # its references are relative to another file
        properties.update(one.get("properties") or {})
        required.extend(name for name in one.get("required") or () if isinstance(name, str))
        if "additionalProperties" in one:
            made.setdefault("additionalProperties", one["additionalProperties"])
    return {**made, "type": "object", "properties": properties, "required": list(dict.fromkeys(required))}, place


def inherited(document: Document, node: Any, place: str) -> Dict[str, Any]:
    """Return the members of the heirs of a schema with a discriminator, of which a value may be one; empty without heirs."""
    found: Dict[str, List[Any]] = {}
    seen: List[Any] = [node]
    for one in seen if place == document.location else ():
        for heir in document.heirs(one):
            if any(heir is other for other in seen):
                continue
            seen.append(heir)
            for part in [heir, *heir["allOf"]]:
                members = part.get("properties") if isinstance(part, dict) else None
                for name, member in members.items() if isinstance(members, dict) else ():
                    kinds = found.setdefault(name, [])
                    if member not in kinds:
                        kinds.append(member)
    return {name: kinds[0] if len(kinds) == 1 else {"anyOf": kinds} for name, kinds in found.items()}


def kinds_of_schema(document: Document, node: Any, place: str, steps: int = 8) -> frozenset:  # type: ignore[type-arg]
    """Return the JSON types that a schema allows, as far as it says; empty if it does not say.

    :param steps: the most references and lists within each other that are followed.
    """
    try:
        node, place = document.resolve(node, place)
    except RegistrationError:
        return frozenset()
    if not isinstance(node, dict) or steps < 0:
        return frozenset()
    kind = node.get("type")
    if isinstance(kind, (str, list)):
        return frozenset([kind] if isinstance(kind, str) else [one for one in kind if isinstance(one, str)])
    if isinstance(node.get("properties"), dict):
        return frozenset(["object"])
    found: frozenset = frozenset()  # type: ignore[type-arg]
    for word in ("anyOf", "oneOf"):
        for part in node.get(word) or () if isinstance(node.get(word), list) else ():
            one = kinds_of_schema(document, part, place, steps - 1)
            if not one:
                return frozenset()
            found |= one
    for part in node.get("allOf") or () if isinstance(node.get("allOf"), list) else ():
        found = found or kinds_of_schema(document, part, place, steps - 1)
    return found
