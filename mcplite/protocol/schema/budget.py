"""Limits of work: the steps of one validation against a JSON Schema (SEC-76), and the extent of what is built from one.

A schema of a few hundred bytes can double the work with each level, and an ordinary one can meet a value that was
made to be slow. A step takes about 15 microseconds.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List

__all__ = ["Budget", "BudgetExceeded", "Extent", "check_names", "counted", "name_patterns"]

_MAX_STEPS = 50_000
_MAX_LEVELS = 200
#: Characters of a member's name that is matched against patterns.
_MAX_NAME = 256


class BudgetExceeded(Exception):
    """A validation reached one of its limits; the text is for the user."""


class Budget:
    """The remaining steps of one validation.

    :param patterns: how many patterns for names the schema has; each may be tried with each name.
    """

    __slots__ = ("left", "levels", "patterns")

    def __init__(self, patterns: int) -> None:
        self.left = _MAX_STEPS
        self.levels = 0
        self.patterns = patterns

    def spend(self, steps: int) -> None:
        """Count steps.

        :raises BudgetExceeded: no steps are left.
        """
        self.left -= steps
        if self.left < 0:
            raise BudgetExceeded(f"validation was stopped after {_MAX_STEPS} steps: the schema or the value is too complex")


def counted(keyword: str, check: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap jsonschema's function for a keyword, so that it spends steps of the budget.

    The budget travels as the validator's ``format_checker``, the only member that jsonschema hands down.
    """
    names = keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties")
    square = keyword in ("unevaluatedItems", "unevaluatedProperties")

    def run(validator: Any, argument: Any, instance: Any, schema: Any) -> Iterator[Any]:
        budget: Budget = validator.format_checker
        steps = 1
        # A keyword walks a long list or object within one step.
        if isinstance(argument, (list, dict)):
            steps += len(argument) >> 4
        if isinstance(instance, (list, dict)):
            size = len(instance)
            steps += size >> 8
            if names:
                steps += size * budget.patterns >> 4
            if square:
                steps += size * size >> 10
        budget.spend(steps)
        budget.levels += 1
        try:
            if budget.levels > _MAX_LEVELS:
                raise BudgetExceeded(f"validation was stopped at {_MAX_LEVELS} levels: the schema or the value is too complex")
            for error in check(validator, argument, instance, schema) or ():
                # The message quotes the value, which takes time for a large one.
                budget.spend(len(error.message) >> 10)
                yield error
        finally:
            budget.levels -= 1

    return run


def name_patterns(schema: Any) -> List[str]:
    """Return the patterns for names in a schema and its subschemas."""
    named = (item.get("patternProperties") for item in _objects(schema))
    return [pattern for patterns in named if isinstance(patterns, dict) for pattern in patterns]


def check_names(instance: Any, most: int) -> None:
    """Check that all names of members are short enough for patterns.

    :param most: characters that the patterns may be matched against; 256 if they may be more.
    :raises BudgetExceeded: one is too long.
    """
    most = min(most, _MAX_NAME)
    if any(isinstance(name, str) and len(name) > most for item in _objects(instance) for name in item):
        raise BudgetExceeded(f"names of more than {most} characters are not matched against patterns")


def _objects(value: Any) -> Iterator[Dict[Any, Any]]:
    """Yield all objects in a JSON value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


class Extent:
    """How much may still be built from a foreign schema or text: nodes, and characters of texts.

    References multiply what they refer to with each level, so that a schema of a few kilobytes could describe more than any
    memory holds. A schema that a person or a model can use is far below both limits.

    :param nodes: subschemas, values, rows.
    :param characters: of names, values and texts.
    """

    __slots__ = ("_characters", "_nodes")

    def __init__(self, nodes: int = 5000, characters: int = 200_000) -> None:
        self._nodes = nodes
        self._characters = characters

    def take(self, nodes: int = 1, characters: int = 0) -> bool:
        """Count what is about to be built; return whether it still may be."""
        self._nodes -= nodes
        self._characters -= characters
        return (not nodes or self._nodes >= 0) and (not characters or self._characters >= 0)

    def cut(self, text: str) -> str:
        """Count a text, and return it; what is too much of it is replaced by "..."."""
        left = max(0, self._characters)
        self._characters -= len(text)
        return text if len(text) <= left else text[:left] + "..."
