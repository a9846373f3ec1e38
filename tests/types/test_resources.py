import pytest

from mcplite.types import BlobResourceContents, ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

TEXT = TextResourceContents("a:1", "caf\u00e9")
BLOB = BlobResourceContents("a:2", "AAE=")


def test_text_is_all_text_contents():
    assert ReadResourceResult([TEXT, BLOB, TEXT]).text == "caf\u00e9\ncaf\u00e9"
    assert ReadResourceResult([BLOB]).text == ""


def test_bytes_are_the_first_contents():
    assert ReadResourceResult([BLOB, TEXT]).bytes == b"\x00\x01"
    assert ReadResourceResult([TEXT, BLOB]).bytes == b"caf\xc3\xa9"
    with pytest.raises(ValueError, match="no contents"):
        ReadResourceResult([]).bytes
    with pytest.raises(ValueError):
        ReadResourceResult([BlobResourceContents("a:3", "*")]).bytes


@pytest.mark.parametrize("cls", [Resource, ResourceTemplate])
def test_the_display_name_is_the_title_or_the_name(cls):
    assert cls("a:{b}", "name").display_name == "name"
    assert cls("a:{b}", "name", title="Title").display_name == "Title"
