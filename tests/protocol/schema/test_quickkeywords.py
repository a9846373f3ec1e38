import pytest

from mcplite.protocol.schema.quickkeywords import JSON, KEYWORDS, TooMuch, anything, ask


def check(keyword, argument, value, steps=1000):
    return KEYWORDS[keyword](argument)(value, [steps])


def test_the_ends():
    assert anything(object(), [0]) is True and ask(1, [0]) is None


@pytest.mark.parametrize("keyword, argument, good, bad", [
    ("type", "integer", [1, 0, -1, 1.0, 1e25], [1.5, True, "1", None, [], {}]), ("type", "number", [1, 1.5], [False, "1"]),
    ("type", ["string", "null"], ["", None], [0, False, []]), ("type", ["integer", "number"], [1, 1.5], ["x"]),
    ("type", ["integer", "boolean"], [1.0, True], [1.5]), ("type", [], [], [1, None]),
    ("enum", ["a", 1, None, True], ["a", 1, 1.0, None, True], ["b", 2, False, [], {}, 0]),
    ("enum", [0], [0, 0.0, -0.0], [False, "0"]), ("enum", ["x"] * 3, ["x"], [1]), ("enum", [], [], ["x", 1]),
    ("const", "a", ["a"], ["b", 1]), ("const", True, [True], [1, 1.0]),
    ("minimum", 1, [1, 1.0, 2, "x", None, True, [], {}], [0, 0.99]), ("maximum", 1.5, [1, 1.5, "x", True], [2, 10**400]),
    ("exclusiveMinimum", 1, [1.01, 2, "x"], [1, 0]), ("exclusiveMaximum", 1, [0.99, False], [1, 1.0]),
    ("minLength", 2, ["ab", "éé", 5, []], ["a", ""]), ("maxLength", 1, ["", "é", {"a": 1, "b": 2}], ["ab"]),
    ("minItems", 1, [[1], "", {}], [[]]), ("maxItems", 1, [[], [1], "abc"], [[1, 2]]),
    ("minProperties", 1, [{"a": 1}, [], ""], [{}]), ("maxProperties", 0, [{}, [1]], [{"a": 1}]),
    ("multipleOf", 3, [3, 0, -6, "x", True, None, []], [1, 4]),
    ("uniqueItems", True, [[], [1, True], [0, False], ["1", 1], "aa", {}, [None, False]],
     [[1, 1], [1, 1.0], ["a", "a"], [None, None], [True, True]]), ("uniqueItems", False, [[1, 1]], []),
    ("pattern", "b", ["abc", 5, None, [], {}], ["", "ac", "B"]), ("pattern", "^a$", ["a"], ["ab"]),
])
def test_keywords(keyword, argument, good, bad):
    for value in good:
        assert check(keyword, argument, value) is True, value
    for value in bad:
        assert check(keyword, argument, value) is False, value


@pytest.mark.parametrize("keyword, argument, value", [
    ("type", "any", 1), ("type", 5, 1), ("type", ["string", 5], 1), ("type", [["string"]], 1), ("enum", "abc", "a"),
    ("enum", [[1]], [1]), ("const", {}, {}), ("minimum", "1", 1), ("minimum", True, 1), ("maxLength", 1.0, "x"),
    ("minItems", None, []), ("multipleOf", 0.5, 1), ("multipleOf", 0, 1), ("multipleOf", -1, 1), ("multipleOf", True, 1),
    ("multipleOf", 2, 4.0), ("uniqueItems", 1, []), ("uniqueItems", True, [[1], [1]]), ("uniqueItems", True, [{}]),
    ("pattern", "(", "x"), ("pattern", 5, "x"), ("pattern", "a", "a" * 257),
    # SEC-77: numbers that are made to have the same hash
    ("uniqueItems", True, [2**61 - 1]), ("uniqueItems", True, [-(2**61 - 1)]),
])
def test_keywords_left_to_jsonschema(keyword, argument, value):
    assert check(keyword, argument, value) is None


@pytest.mark.parametrize("keyword, argument", [
    ("type", "string"), ("type", "object"), ("enum", ["x"]), ("const", 1), ("minimum", 1), ("maxLength", 1), ("minItems", 1),
    ("multipleOf", 2), ("uniqueItems", True), ("pattern", "x"), ("maxProperties", 1),
])
def test_nothing_is_certain_about_other_classes(keyword, argument):
    for value in ((1,), b"x", object(), type("Text", (str,), {})("x"), type("Many", (list,), {})([1])):
        assert type(value) not in JSON
        assert check(keyword, argument, value) is None


@pytest.mark.parametrize("keyword, argument, value", [("enum", list(range(100)), -1), ("uniqueItems", True, list(range(100)))])
def test_steps_are_counted(keyword, argument, value):
    assert check(keyword, argument, value, steps=100) is not None
    with pytest.raises(TooMuch):
        check(keyword, argument, value, steps=99)


def test_long_lists_of_texts_are_looked_up():
    assert check("enum", [str(number) for number in range(100_000)], "x", steps=0) is False
