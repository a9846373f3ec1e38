import pytest

from mcplite.protocol.schema.validation import Budget, BudgetExceeded, check_names, counted, name_patterns


class Error:
    def __init__(self, message=""):
        self.message = message


class Validator:
    """What jsonschema hands to the function of a keyword, as far as it is used here."""

    def __init__(self, patterns=0):
        self.format_checker = Budget(patterns)


def spent(keyword, argument, instance, errors=(), patterns=0):
    validator = Validator(patterns)
    before = validator.format_checker.left
    assert list(counted(keyword, lambda *given: errors)(validator, argument, instance, {})) == list(errors)
    assert validator.format_checker.levels == 0
    return before - validator.format_checker.left


def test_a_budget_ends():
    budget = Budget(0)
    budget.spend(50_000)
    with pytest.raises(BudgetExceeded, match="stopped after 50000 steps: the schema or the value is too complex"):
        budget.spend(1)


@pytest.mark.parametrize("keyword, argument, instance, steps", [
    ("type", "string", "x", 1), ("type", "string", "x" * 10_000, 1), ("enum", list(range(160)), 1, 11),
    ("properties", dict.fromkeys(range(32)), {}, 3), ("items", {}, [0] * 2560, 11),
    ("propertyNames", {}, dict.fromkeys(range(512)), 3), ("unevaluatedItems", False, [0] * 1024, 1 + 4 + 1024),
    ("unevaluatedProperties", False, dict.fromkeys(range(64)), 1 + 4),
])
def test_the_cost_of_keywords(keyword, argument, instance, steps):
    assert spent(keyword, argument, instance) == steps


def test_each_name_may_meet_each_pattern():
    for keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
        free = spent(keyword, False, dict.fromkeys(range(64)))
        assert spent(keyword, False, dict.fromkeys(range(64)), patterns=8) == free + 32
    assert spent("type", "object", dict.fromkeys(range(64)), patterns=8) == 1


def test_the_cost_of_errors_is_the_size_of_their_quotes():
    assert spent("type", "string", 5, [Error("x" * 100), Error("x" * 10_240)]) == 11


def test_keywords_without_errors_may_return_none():
    assert list(counted("type", lambda *given: None)(Validator(), "string", "x", {})) == []


def test_levels_end_and_are_given_back():
    def deeper(validator, argument, instance, schema):
        yield from run(validator, argument, instance, schema)

    run = counted("allOf", deeper)
    validator = Validator()
    with pytest.raises(BudgetExceeded, match="stopped at 200 levels"):
        list(run(validator, [], 1, {}))
    assert validator.format_checker.levels == 0


def test_a_validation_that_is_left_early_gives_its_level_back():
    validator = Validator()
    errors = counted("type", lambda *given: [Error(), Error()])(validator, "string", 5, {})
    next(errors)
    assert validator.format_checker.levels == 1
    errors.close()
    assert validator.format_checker.levels == 0


def test_patterns_for_names_are_found_everywhere():
    part = {"patternProperties": {"a": {}, "b": {"patternProperties": {"c": {}}}}}
    assert len(name_patterns({"allOf": [part, {"x-hidden": part}]})) == 6
    assert len(name_patterns({"properties": {"patternProperties": {"type": "string"}}})) == 1  # too many are no harm
    assert name_patterns({"patternProperties": 5}) == name_patterns(True) == name_patterns({}) == []


def test_long_names_are_not_matched_against_patterns():
    check_names({"x" * 256: [{"y": 1}], "z": "x" * 1000}, 8192)
    check_names(5, 256)
    for value in ({"x" * 257: 1}, [{"a": [{"x" * 257: 1}]}]):
        with pytest.raises(BudgetExceeded, match="names of more than 256 characters"):
            check_names(value, 8192)
