"""Nodes of types whose library makes the schema and reads the values: pydantic and msgspec."""

import re
from typing import Any, Dict, Mapping

from ....errors import RegistrationError
from ....protocol.schema.ecma import problem_of
from ....protocol.schema.rules import check_rules, patterns_in
from ....protocol.schema.validation import Validator
from ..nodes import Convert, Mismatch, Node
from .compiler import Compiler
from .inlining import Inliner, without_patterns

__all__ = ["adapted", "without_own_title"]

#: One step of the place in a validator's sentence: a name, an index, or a quoted name.
_STEP = re.compile(r"""\.(\w+)|\[(\d+)\]|\[('[^']*'|"[^"]*")\]""")


def adapted(schema: Mapping[str, Any], load: Convert, name: str, compiler: Compiler, *, patterns: bool) -> Node:
    """Return the node of a type with a schema of its library's making.

    A value is accepted if *load* accepts it and it is valid under the schema: these libraries convert more than their
    schemas say, such as the text "3" to a number.

    :param load: makes the Python value of a JSON value; raises Mismatch.
    :param patterns: whether texts are matched against the schema's patterns here; False where *load* does so safely.
    :raises RegistrationError: the schema is not JSON, or too large.
    """
    inliner = Inliner(schema.get("$defs", {}), compiler.free_label)
    own = inliner.expand(schema)
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
    """Whether a pattern is none of JSON Schema, and so not in the schema that is sent; the library matches it."""
    return bool(problem_of(pattern))


def without_own_title(schema: Mapping[str, Any], title: str) -> Dict[str, Any]:
    """Return a schema without a title that is only the name of its class."""
    return {keyword: value for keyword, value in schema.items() if keyword != "title" or value != title}
