import pytest

from mcplite.protocol.show import printable, shown


@pytest.mark.parametrize("url, text", [
    ("https://a.example/mcp", "https://a.example/mcp"), ("https://user:secret@a.example/mcp", "https://a.example/mcp"),
    ("https://a.example/mcp?token=secret#secret", "https://a.example/mcp"), ("http://a.example:8000", "http://a.example:8000"),
])
def test_urls_are_shown_without_secrets(url, text):
    assert shown(url) == text


@pytest.mark.parametrize("text, cleaned", [
    ("plain", "plain"), ("two\nlines\tand a tab", "two\nlines\tand a tab"), ("\x1b[2J", "\\x1b[2J"), ("\r", "\\r"),
    ("\x9b", "\\x9b"), ("\u2028", "\\u2028"), ("Größe", "Größe"),
])
def test_control_characters_are_spelled_out(text, cleaned):
    assert printable(text) == cleaned
