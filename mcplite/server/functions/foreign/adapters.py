"""Nodes of types whose library makes the schema and reads the values: pydantic and msgspec.

Brings a schema that another library made into the form of ours: parts in place of references, no invented titles.
"""

import re
from typing import Any, Callable, Dict, List, Mapping, Set

from ....errors import RegistrationError
from ....protocol.schema.ecma import problem_of
from ....protocol.schema.references import rebuilt
from ....protocol.schema.rules import check_rules, patterns_in
from ....protocol.schema.validation import Validator
from ..converters import Compiler, Convert, Mismatch, Node

#: Characters of another library's error that are sent on; some of them repeat the value.
_LONGEST = 500


def cut(text: str) -> str:
    """Return the text of an error of another library, of a bounded length."""
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def first_line(error: Exception) -> str:
    """Return the first line of an error of another library, without the full stop."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".:")[:300]


def no_schema(name: str, what: str, library: str, error: Exception, compiler: Compiler) -> RegistrationError:
    """Return the error for a parameter of a type of which its library makes no schema."""
    return compiler.refuse(name, f"is {what}, of which {library} makes no JSON Schema ({first_line(error)}); change the"
                                 " field, or give the schema as input_schema=")


#: Keywords whose values are data, and not schemas.
_DATA = frozenset({"const", "default", "enum", "examples"})
#: Keywords with an object of schemas.
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
#: Keywords that may stand beside a part that is put in place of a reference.
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_PREFIX = "#/$defs/"
#: References that are replaced in one schema at most: if parts share parts, the schema doubles with each level.
_MOST = 200


class Inliner:
    """Puts the parts of ``$defs`` where they are referred to; a part that contains itself stays in ``definitions``.

    Form builders and older clients do not follow references (NS-38). Of a schema with very many references, the last
    ones stay.

    :param parts: by name, as in ``$defs``.
    :param label: returns the name of a definition that is not taken.
    """

    def __init__(self, parts: Mapping[str, Any], label: Callable[[str], str]) -> None:
        self._parts = parts
        self._label = label
        self._labels: Dict[str, str] = {}
        self._recursive = frozenset(name for name in parts if name in _reachable(name, parts))
        self._count = 0
        #: The parts that are still referred to, by their new names.
        self.definitions: Dict[str, Any] = {}

    def expand(self, schema: Any) -> Any:
        """Return a copy of *schema* with its references replaced."""
        if isinstance(schema, list):
            return [self.expand(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        # The type comes first, as in our own schemas: people read them.
        result: Dict[str, Any] = {"type": schema["type"]} if "type" in schema else {}
        for keyword, value in schema.items():
            if keyword in _DATA:
                result[keyword] = value
            elif keyword in _MAPS and isinstance(value, dict):
                # pydantic makes a title of the name of a property.
                result[keyword] = {name: _untitled(self.expand(item), name.title().replace("_", " ").strip().__eq__)
                                   for name, item in value.items()}
            elif keyword not in ("$ref", "$defs", "discriminator"):  # OpenAPI's discriminator has references of its own
                result[keyword] = self.expand(value)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            part = self._part(reference)
            if result.keys() <= _NOTES:
                result = {**part, **result}
            else:
                result["allOf"] = [*result.get("allOf", ()), part]
        return result

    def _part(self, reference: str) -> Dict[str, Any]:
        name = reference[len(_PREFIX):]
        if not reference.startswith(_PREFIX) or name not in self._parts:
            return {"$ref": reference}
        part = self._parts[name]
        self._count += 1
        if name not in self._recursive and self._count <= _MOST:
            return _named(name, self.expand(part))
        if name not in self._labels:
            label = self._labels[name] = self._label(name)
            self.definitions[label] = {}  # the name is taken from here on
            self.definitions[label] = _named(name, self.expand(part))
        found = {"type": part["type"]} if isinstance(part.get("type"), str) else {}
        return {**found, "$ref": _PREFIX + self._labels[name]}


def _reachable(start: str, parts: Mapping[str, Any]) -> Set[str]:
    """Return the names of the parts that a part refers to, directly or through other parts."""
    found: Set[str] = set()
    waiting: List[Any] = [parts.get(start)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(value for keyword, value in item.items() if keyword not in _DATA and keyword != "discriminator")
            reference = item.get("$ref")
            if isinstance(reference, str) and reference.startswith(_PREFIX) and reference[len(_PREFIX):] not in found:
                found.add(reference[len(_PREFIX):])
                waiting.append(parts.get(reference[len(_PREFIX):]))
    return found


def _untitled(schema: Any, is_name: Callable[[str], bool]) -> Any:
    """Return a schema without a title that is only its name."""
    if isinstance(schema, dict) and isinstance(schema.get("title"), str) and is_name(schema["title"]):
        return {keyword: value for keyword, value in schema.items() if keyword != "title"}
    return schema


def _named(name: str, part: Any) -> Dict[str, Any]:
    return _untitled(part, lambda title: re.sub(r"[^a-zA-Z0-9.\-_]", "_", title) == name.rpartition("__")[2])  # type: ignore[no-any-return]


def without_patterns(schema: Any, drop: Callable[[str], bool]) -> Any:
    """Return a copy of *schema* without the patterns for which *drop* returns True."""
    def change(node: Dict[str, Any]) -> Dict[str, Any]:
        if isinstance(node.get("pattern"), str) and drop(node["pattern"]):
            del node["pattern"]
        named = node.get("patternProperties")
        if isinstance(named, dict) and any(map(drop, named)):
            node["patternProperties"] = {pattern: part for pattern, part in named.items() if not drop(pattern)}
            node.pop("additionalProperties", None)  # it would refuse the names that the patterns allowed
            if not node["patternProperties"]:
                del node["patternProperties"]
        return node

    return rebuilt(schema, change)


#: One step of the place in a validator's sentence: a name, an index, or a quoted name.
_STEP = re.compile(r"""\.(\w+)|\[(\d+)\]|\[('[^']*'|"[^"]*")\]""")


def adapted(schema: Mapping[str, Any], title: str, load: Convert, name: str, compiler: Compiler, *, patterns: bool) -> Node:
    """Return the node of a type whose library has made its schema.

    A value is accepted if *load* accepts it and it is valid under the schema: these libraries convert more than their
    schemas say, such as the text "3" to a number.

    :param title: the name of the type; if the title of the schema equals it, the title is left out.
    :param load: makes the Python value of a JSON value; raises Mismatch.
    :param patterns: whether texts are matched against the schema's patterns here; False where *load* does so safely.
    :raises RegistrationError: the schema is not JSON, or too large.
    """
    inliner = Inliner(schema.get("$defs", {}), compiler.free_label)
    own = inliner.expand({keyword: value for keyword, value in schema.items() if keyword != "title" or value != title})
    whole: Dict[str, Any] = {**own, "$defs": inliner.definitions} if inliner.definitions else own
    checked = whole if patterns else without_patterns(whole, lambda pattern: True)
    own = without_patterns(own, _is_unusable)
    inliner.definitions = {label: without_patterns(part, _is_unusable) for label, part in inliner.definitions.items()}
    try:
        check_rules({**own, "$defs": inliner.definitions}, compiler.place(name), trusted=True)
    except RegistrationError as error:
        raise RegistrationError(f"{error}; change the type's schema, or give input_schema=") from error
    compiler.definitions.update(inliner.definitions)
    if compiler.returned:
        return Node(own, load)
    validator = Validator(checked)
    first = bool(patterns_in(checked))
    if first:
        compiler.validators.append(validator)  # for the warning about patterns that could run for hours

    def check(value: Any) -> None:
        problems = [_placed(sentence) for sentence in validator.problems(value, "$")]
        if problems:
            raise Mismatch(problems[0].message, problems[0].path, problems[1:])

    def convert(value: Any) -> Any:
        if first:
            check(value)
            return load(value)
        made = load(value)  # the errors of the library name the place, and have the texts of the user's validators
        check(value)
        return made

    return Node(own, convert)


def _placed(sentence: str) -> Mismatch:
    """Return a sentence of a validator, which begins with the place as in ``$.items[0]: ``, as a Mismatch."""
    at, path = 1, []
    step = _STEP.match(sentence, at)
    while step is not None:
        path.append(int(step.group(2)) if step.group(2) else step.group(1) or step.group(3)[1:-1])
        at = step.end()
        step = _STEP.match(sentence, at)
    if not sentence.startswith("$") or sentence[at:at + 2] != ": ":
        return Mismatch(sentence)
    return Mismatch(sentence[at + 2:], tuple(path))


def _is_unusable(pattern: str) -> bool:
    """Whether JSON Schema does not have a pattern. It is then left out of the schema that is sent; the library matches it."""
    return bool(problem_of(pattern))
