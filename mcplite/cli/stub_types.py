"""The types of a written client: what a JSON Schema of a server is as a type of Python, with a TypedDict for each object.

Names and texts come from the server. A name becomes an identifier that nothing else in the file has; a text becomes a literal.
"""

import json
import keyword
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from ..protocol.schema.references import Extent, LenientReferences, References

__all__ = ["ObjectMember", "Identifiers", "SchemaTypes", "literal", "object_parts"]

_PLAIN = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}
#: Limits of what is written: levels of a schema, values of an enum, characters of a literal, and characters of a name.
_DEPTH = 24
_MOST_VALUES = 100
_MOST_CHARACTERS = 200
_MOST_NAME = 60


class ObjectMember(NamedTuple):
    """A member of an object: its name on the wire, its schema, and whether it has to be there."""

    name: str
    schema: Any
    required: bool


class Identifiers:
    """Gives each name from a server an identifier of its own.

    :param reserved: identifiers that are in use.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._used: Set[str] = set(reserved)

    def take(self, name: str, otherwise: str, capitals: bool = False) -> str:
        """Return an identifier like *name* that is not in use; from then on it is.

        :param otherwise: the identifier, if the name has no letter or digit of ASCII; its beginning, if the name begins with a
            digit.
        :param capitals: whether it is the name of a class.
        """
        words = [word for word in re.split(r"[^0-9A-Za-z]+" if capitals else r"[^0-9A-Za-z_]+", name) if word]
        base = "".join(word[0].upper() + word[1:] for word in words) if capitals else "_".join(words)
        base = base.strip("_")[:_MOST_NAME] or otherwise
        if base[0].isdigit():
            base = f"{otherwise}{'' if capitals else '_'}{base}"
        if keyword.iskeyword(base):
            base += "_"
        found, number = base, 2
        while found in self._used:
            found = f"{base}_" if number == 2 and not base.endswith("_") and not capitals else f"{base.rstrip('_')}{number}"
            number += 1
        self._used.add(found)
        return found


def literal(value: Any) -> Optional[str]:
    """Return a JSON value as a literal of Python, in ASCII; None for a list, an object, or a value that is too long."""
    if not isinstance(value, (str, int, float, type(None))):
        return None
    text = ascii(value)
    return text if len(text) <= _MOST_CHARACTERS else None


def object_parts(schema: Any, root: References) -> Tuple[List[ObjectMember], bool]:
    """Return the members of an object that a schema names, and whether the schema describes further members.

    Members from ``allOf`` and from references are included.
    """
    fields: Dict[str, Any] = {}
    required: Set[str] = set()
    is_open = False
    waiting, left = [schema], _MOST_VALUES
    while waiting and left:
        left -= 1
        one = waiting.pop()
        if not isinstance(one, Mapping):
            continue
        if isinstance(one.get("$ref"), str):
            waiting.append(root.find(one["$ref"], "")[0])
        waiting += one["allOf"] if isinstance(one.get("allOf"), list) else []
        properties = one.get("properties")
        if isinstance(properties, Mapping):
            fields = {**properties, **fields}
        names = one.get("required")
        required |= {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
        is_open = is_open or one.get("additionalProperties", False) is not False or bool(
            one.get("patternProperties") or one.get("anyOf") or one.get("oneOf"))
    return [ObjectMember(name, found, name in required) for name, found in fields.items()], is_open


class SchemaTypes:
    """The types of all schemas of one server.

    :param names: gives the classes their names.
    """

    def __init__(self, names: Identifiers) -> None:
        self._names = names
        #: The lines of the classes, each after those that it inherits from.
        self.lines: List[str] = []
        #: The names of the module ``typing`` that the types use.
        self.used: Set[str] = set()
        #: The names of the classes, by the JSON of their schema; by the ``id()`` of the schema, if it has references.
        self._known: Dict[str, str] = {}
        self._extent = Extent()

    def of(self, schema: Any, whole: Any, name: str) -> str:
        """Return the type of a schema; ``Any`` if nothing better is known.

        :param whole: the schema around it, in which references are looked up.
        :param name: the name from which a class for it gets its own.
        """
        return self._type(schema, LenientReferences(whole), name, ())

    def optional(self, kind: str) -> str:
        """Return a type with None."""
        return self._union([kind, "None"])

    def _any(self) -> str:
        self.used.add("Any")
        return "Any"

    def _type(self, schema: Any, root: References, name: str, above: Tuple[int, ...]) -> str:
        if not isinstance(schema, Mapping) or len(above) > _DEPTH or not self._extent.take(1, len(name)):
            return self._any()
        above = (*above, id(schema))
        if isinstance(schema.get("$ref"), str):
            target = root.find(schema["$ref"], "")[0]
            if not isinstance(target, Mapping):
                return self._any()
            if self._is_class(target, root):
                return self._class(target, root, schema["$ref"].rpartition("/")[2].strip("#") or name, above)
            return self._any() if id(target) in above else self._type(target, root, name, above)
        values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else None
        if values is not None:
            return self._values(values, schema)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and schema[key] and not isinstance(schema.get("properties"), Mapping):
                return self._union([self._type(one, root, name, above) for one in schema[key][:_MOST_VALUES]])
        if self._is_class(schema, root):
            return self._class(schema, root, name, above)
        every = schema.get("allOf")
        if isinstance(every, list) and len(every) == 1 and "type" not in schema:
            return self._type(every[0], root, name, above)
        kinds = schema.get("type")
        return self._union([self._of_kind(kind, schema, root, name, above)
                            for kind in (kinds[:_MOST_VALUES] if isinstance(kinds, list) else [kinds])])

    def _of_kind(self, kind: Any, schema: Mapping[str, Any], root: References, name: str, above: Tuple[int, ...]) -> str:
        if kind == "array":
            self.used.add("List")
            items = schema.get("items") if "prefixItems" not in schema else None
            return f"List[{self._type(items, root, f'{name} item', above)}]"
        if kind == "object":
            self.used.add("Dict")
            more = schema.get("additionalProperties") if "patternProperties" not in schema else None
            return f"Dict[str, {self._type(more, root, f'{name} value', above)}]"
        return _PLAIN.get(kind, "") if isinstance(kind, str) and kind in _PLAIN else self._any()

    def _values(self, values: List[Any], schema: Mapping[str, Any]) -> str:
        written = {literal(value) for value in values if not isinstance(value, float)} if len(values) <= _MOST_VALUES else set()
        if not values or len(written) < len({json.dumps(value) for value in values}) or None in written:
            kind = schema.get("type")
            return _PLAIN[kind] if isinstance(kind, str) and kind in _PLAIN else self._any()
        self.used.add("Literal")
        return f"Literal[{', '.join(dict.fromkeys(text for text in map(literal, values) if text))}]"

    def _union(self, kinds: List[str]) -> str:
        parts = [kind for kind in dict.fromkeys(kinds) if kind != "None"]
        if "Any" in parts or not kinds:
            return self._any()
        if not parts:
            return "None"
        union = parts[0]
        if len(parts) > 1:
            self.used.add("Union")
            union = f"Union[{', '.join(parts)}]"
        if "None" not in kinds or union.startswith("Optional["):
            return union
        self.used.add("Optional")
        return f"Optional[{union}]"

    @staticmethod
    def _is_class(schema: Mapping[str, Any], root: References) -> bool:
        """Return whether a schema allows only objects, names members of them, and describes no further ones."""
        if schema.get("type", "object") != "object" or "enum" in schema or "const" in schema:
            return False
        fields, is_open = object_parts(schema, root)
        return bool(fields) and not is_open

    def _class(self, schema: Mapping[str, Any], root: References, name: str, above: Tuple[int, ...]) -> str:
        text = json.dumps(schema, sort_keys=True)
        # An equal reference within another schema can refer to something else.
        key = str(id(schema)) if '"$ref"' in text else text
        if key in self._known:
            return self._known[key]
        # The name is stored before the types of the members are made, since these may refer to the class.
        made = self._known[key] = self._names.take(name, "Object", capitals=True)
        fields, _ = object_parts(schema, root)
        types = [(one, self._type(one.schema, root, f"{made} {one.name}", above)) for one in fields]
        self.used.add("TypedDict")
        self.lines += self._body(made, [(one.name, kind) for one, kind in types if one.required],
                                 [(one.name, kind) for one, kind in types if not one.required])
        return made

    def _body(self, name: str, required: List[Tuple[str, str]], rest: List[Tuple[str, str]]) -> List[str]:
        """Return the lines of a class, and of its bases.

        If there are required and other members, the required ones are in a base. In the functional form, the other ones are in
        a second base.
        """
        # In the body of a class, a member would hide a type of its name.
        types = {word for _, kind in [*required, *rest] for word in re.findall(r"\w+", kind)}
        plain = all(one.isidentifier() and one.isascii() and not keyword.iskeyword(one) and not one.startswith("__")
                    and one not in types for one, _ in [*required, *rest])
        if required and rest:
            first = self._names.take(f"{name} required", "Object", capitals=True)
            if plain:
                return [*_plain(first, "TypedDict", required), *_plain(name, f"{first}, total=False", rest)]
            second = self._names.take(f"{name} optional", "Object", capitals=True)
            return [*_functional(first, required, True), *_functional(second, rest, False),
                    f"class {name}({first}, {second}):", "    pass", "", ""]
        if plain:
            return _plain(name, "TypedDict" if required else "TypedDict, total=False", required or rest)
        return _functional(name, required or rest, bool(required))


def _plain(name: str, base: str, fields: List[Tuple[str, str]]) -> List[str]:
    return [f"class {name}({base}):", *(f"    {field}: {kind}" for field, kind in fields), "", ""]


def _functional(name: str, fields: List[Tuple[str, str]], total: bool) -> List[str]:
    # Only in this form can a member have a name that is no identifier. The types are in quotes, as a class may follow later.
    return [f'{name} = TypedDict("{name}", {{', *(f"    {ascii(field)}: {ascii(kind)}," for field, kind in fields),
            f"}}{'' if total else ', total=False'})", "", ""]
