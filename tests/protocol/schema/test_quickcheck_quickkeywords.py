import pytest

from mcplite.protocol.schema.quickcheck import JSON, KEYWORDS, TooMuch, anything, ask


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
    ("multipleOf", 3, [3, 0, -6, 6.0, "x", True, None, []], [1, 4, 4.0, 3.5, float("inf"), float("nan")]),
    ("multipleOf", 0.01, [0.07, 0.29, 1.11, 4.35, -19.99, 600.03, 1070468.14, 5, 0, 0.0, -0.0, 1e300, "x", True],
     [0.015, 19.991, 1e-9, -0.001]),
    ("multipleOf", 0.1, [0.3, 0.7, 92.6, 10**400], [0.35, 0.31]), ("multipleOf", 1e-300, [1e300, 1, 3e-300], [1.5e-300]),
    ("multipleOf", 2.5, [5, 7.5, 10**30], [6, 7.4]), ("multipleOf", 1e23, [1e23, 10**23, 3e23], [10**22]),
    ("uniqueItems", True, [[], [1, True], [0, False], ["1", 1], "aa", {}, [None, False]],
     [[1, 1], [1, 1.0], ["a", "a"], [None, None], [True, True]]), ("uniqueItems", False, [[1, 1]], []),
    ("pattern", "b", ["abc", 5, None, [], {}], ["", "ac", "B"]), ("pattern", "^a$", ["a"], ["ab", "a\n"]),
    ("pattern", r"^\d\w\S$", ["1a\x1c"], ["\u0663aa", "1\u00e9a", "1a\ufeff"]),
])
def test_keywords(keyword, argument, good, bad):
    for value in good:
        assert check(keyword, argument, value) is True, value
    for value in bad:
        assert check(keyword, argument, value) is False, value


@pytest.mark.parametrize("keyword, argument, value", [
    ("type", "any", 1), ("type", 5, 1), ("type", ["string", 5], 1), ("type", [["string"]], 1), ("enum", "abc", "a"),
    ("enum", [[1]], [1]), ("const", {}, {}), ("minimum", "1", 1), ("minimum", True, 1), ("maxLength", 1.0, "x"),
    ("minItems", None, []), ("multipleOf", "1", 1), ("multipleOf", 0, 1), ("multipleOf", -1, 1), ("multipleOf", True, 1),
    ("uniqueItems", 1, []), ("uniqueItems", True, [[1], [1]]), ("uniqueItems", True, [{}]),
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
