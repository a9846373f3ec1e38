import json
import time

import pytest
from hypothesis import given, strategies as st

from mcplite.client.config.jsonc import parse, to_json
from mcplite.errors import TransportError


def value(text):
    return parse(text, "settings.json")[0]


@pytest.mark.parametrize("text, expected", [
    ('{"a": 1, // one\n "b": 2}', {"a": 1, "b": 2}),
    ('/* head */ [1, /* two\nlines */ 2] // tail', [1, 2]),
    ('[1, 2,]', [1, 2]),
    ('{"a": [1, ], }', {"a": [1]}),
    ('{"a": {"b": "x",\n},\n}', {"a": {"b": "x"}}),
    ('[1, // last\n ]', [1]),
    ('[1 /* x */ , /* y */ ]', [1]),
    ('["// no comment", "/* nor this */", ",]", "a\\", // b"]', ["// no comment", "/* nor this */", ",]", 'a", // b']),
    ('{"url": "http://host/path"}', {"url": "http://host/path"}),
    ('"\\\\" // x', "\\"),
])
def test_comments_and_trailing_commas(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize("text", [
    "[,]", "{,}", "[1,,]", "[1,,2]", '{"a":,}', "[1] /* open", "/", "// only", ",", "", '["a', "[1],", "{// x\n,}",
])
def test_other_errors_stay_errors(text):
    with pytest.raises(TransportError, match="settings.json: line"):
        value(text)


def test_errors_name_the_position_in_the_original_file():
    with pytest.raises(TransportError, match=r"settings.json: line 3 column 7 is not JSON: Expecting ',' delimiter"):
        value('{ // comment\n "a": [1,], /* x */\n"b":2 "c"}')


def test_duplicate_names_are_returned():
    assert parse('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', "x") == ({"a": 3, "b": {"c": 2}}, ["c", "a"])


def test_deep_nesting_is_an_error():
    with pytest.raises(TransportError):
        value("[" * 200_000)


@pytest.mark.parametrize("piece", ["/*", '\\"', "*/*", "/", '"', "/*/"])
@pytest.mark.slow
def test_text_without_an_end_takes_linear_time(piece):
    def seconds(count):
        begun = time.process_time()
        to_json('{"a": "' + piece * count)
        to_json('{"a": /*' + piece * count)
        return time.process_time() - begun

    short = min(seconds(5_000) for _ in range(3))
    # Forty times the text: forty times the time, and not 1,600 times. Windows counts the time in steps of 16 milliseconds.
    assert seconds(200_000) < max(short, 0.016) * 400


@pytest.mark.parametrize("text", ["{} /*", "/*", "{} /*/", "{} /* *", '{} "', '{"a": "\\'])
def test_what_has_no_end_stays_invalid(text):
    assert to_json(text) == text
    with pytest.raises(TransportError, match="^settings[.]json: line [12] column"):
        value(text)


@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 5_000])
def test_a_number_that_is_too_long_is_an_error_of_the_file(number):
    with pytest.raises(TransportError, match="^settings[.]json is not usable JSON: an integer has more than 4300 digits"):
        value('{"a": ' + number + "}")


def test_many_duplicate_names_take_linear_time():
    names = [f'"n{number % 50_000}": 0' for number in range(100_000)]
    assert len(parse("{" + ", ".join(names) + "}", "x")[1]) == 50_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\/*,]}[{:\n ')),
    lambda inner: (st.lists(inner, max_size=4)
                   | st.dictionaries(st.text(st.sampled_from('a/*,"]'), max_size=3), inner, max_size=4)),
    max_leaves=12)


@given(JSON, st.sampled_from([None, 1]))
def test_plain_json_is_left_as_it_is(document, indent):
    text = json.dumps(document, indent=indent)
    assert to_json(text) == text


def spoilt(document, noise):
    """Write a document with comments between all tokens and with trailing commas."""
    if isinstance(document, list):
        return "[" + noise + "".join(spoilt(item, noise) + noise + "," + noise for item in document) + "]"
    if isinstance(document, dict):
        return "{" + noise + "".join(json.dumps(name) + noise + ":" + noise + spoilt(item, noise) + noise + "," + noise
                                     for name, item in document.items()) + "}"
    return json.dumps(document)


@given(JSON, st.sampled_from(["", " ", "/* , ] \" */", "// } \"\n", "/**/\n", "/* // */"]))
def test_comments_and_trailing_commas_anywhere(document, noise):
    text = noise + spoilt(document, noise) + noise
    assert value(text) == document
    assert len(to_json(text)) == len(text)
