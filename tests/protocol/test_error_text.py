import pickle

import pytest

from mcplite.protocol.error_text import Option, OptionText, did_you_mean, json_words, missing_library, printable, shown, worded


@pytest.mark.parametrize("url, text", [
    ("https://a.example/mcp", "https://a.example/mcp"), ("https://user:secret@a.example/mcp", "https://a.example/mcp"),
    ("https://a.example/mcp?token=secret#secret", "https://a.example/mcp"), ("http://a.example:8000", "http://a.example:8000"),
])
def test_urls_are_shown_without_secrets(url, text):
    assert shown(url) == text


@pytest.mark.parametrize("module, library", [
    ("requests", "requests"), ("urllib3.util", "requests"), ("referencing", "jsonschema")])
def test_what_an_installation_brings_along_is_named(module, library):
    error = missing_library(ModuleNotFoundError("x", name=module))
    assert type(error) is ModuleNotFoundError and error.name == library
    assert str(error) == f"install {library}, which this needs: pip install {library}"
    assert missing_library(ModuleNotFoundError("x", name="redis")) is None


@pytest.mark.parametrize("text, cleaned", [
    ("plain", "plain"), ("two\nlines\tand a tab", "two\nlines\tand a tab"), ("\x1b[2J", "\\x1b[2J"), ("\r", "\\r"),
    ("\x9b", "\\x9b"), ("\u2028", "\\u2028"), ("Größe", "Größe"),
])
def test_control_characters_are_spelled_out(text, cleaned):
    assert printable(text) == cleaned


def test_options_are_named_as_python_and_as_a_command_line_spell_them():
    inner = OptionText("see ", Option("redirect_uri"), " or ", Option("unknown"))
    text = OptionText("give ", Option("issuer", "issuer='x'", "x"), ": ", inner)
    assert text == str(text) == "give issuer='x': see redirect_uri= or unknown="
    names = {"issuer": "--issuer", "redirect_uri": "--redirect-uri"}
    assert text.on_command_line(names) == "give --issuer x: see --redirect-uri or unknown="
    assert worded(ValueError(text), names) == "give --issuer x: see --redirect-uri or unknown="
    assert worded(pickle.loads(pickle.dumps(ValueError(text))), {}) == str(text)
    assert worded(ValueError("issuer= is bad"), names) == "issuer= is bad" and worded(ValueError(), names) == ""


@pytest.mark.parametrize("text, words", [
    ("True is not one of 1, 'b', None", "true is not one of 1, 'b', null"), ("{'a': False}", "{'a': false}"),
    ("plain", "plain"),
    ("'None' is not None", "'None' is not null"),
    ('"True\'s" and \'it\\\'s True\' or True', '"True\'s" and \'it\\\'s True\' or true'),
    ("Nones, _True, xFalse", "Nones, _True, xFalse"), ("'cut off None", "'cut off None"),
    ("[None, {'x': True}]", "[null, {'x': true}]"),
])
def test_models_read_the_words_of_json(text, words):
    assert json_words(text) == words


@pytest.mark.parametrize("name, most, hint", [
    ("forcast", 1, "; did you mean 'forecast'?"), ("forcast", 2, "; did you mean 'forecast' or 'forecasts'?"), ("add", 2, ""),
])
def test_a_hint_names_what_is_near(name, most, hint):
    assert did_you_mean(name, iter(["forecast", "forecasts", "weather"]), most) == hint
