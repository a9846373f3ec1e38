"""Media types by extension, the same on every system."""

import pytest

from mcplite.server.catalog.directory import is_textual, media_type


@pytest.mark.parametrize("name, kind", [
    ("a.png", "image/png"), ("A.PNG", "image/png"), ("a/b.c/d.html", "text/html"), ("a.json", "application/json"),
    ("README.md", "text/markdown"), ("a.yml", "application/yaml"), ("a.tar.gz", "application/gzip"),
    ("a.js", "text/javascript"),
    ("Makefile", None), ("a.unheard", None), (".md", None), ("data:x", None), ("a.bin", "application/octet-stream"),
    ("http://example.com", None),
])
def test_the_extension_says_what_a_file_is(name, kind):
    assert media_type(name) == kind


@pytest.mark.parametrize("kind, textual", [
    (None, True), ("text/plain", True), ("application/json", True), ("image/svg+xml", True), ("application/yaml", True),
    ("image/png", False), ("audio/wav", False), ("font/woff2", False), ("application/pdf", False),
])
def test_some_kinds_are_read_as_text(kind, textual):
    assert is_textual(kind) is textual
