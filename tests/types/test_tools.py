import pytest

from mcplite.errors import ToolError
from mcplite.types import CallToolResult, ImageContent, TextContent, Tool, ToolAnnotations


def test_the_display_name_is_the_first_there_is():
    tool = Tool("name", {"type": "object"}, title="Title", annotations=ToolAnnotations(title="Hint"))
    assert tool.display_name == "Title"
    tool.title = None
    assert tool.display_name == "Hint"
    tool.annotations.title = ""
    assert tool.display_name == "name"
    tool.annotations = None
    assert tool.display_name == "name"


@pytest.mark.parametrize("hint, name, default", [
    ("read_only_hint", "is_read_only", False), ("destructive_hint", "is_destructive", True),
    ("idempotent_hint", "is_idempotent", False), ("open_world_hint", "is_open_world", True),
])
def test_hints_have_the_defaults_of_the_specification(hint, name, default):
    assert getattr(ToolAnnotations(), name) is default
    assert getattr(ToolAnnotations(**{hint: True}), name) is True
    assert getattr(ToolAnnotations(**{hint: False}), name) is False


def test_text_is_all_text_blocks():
    image = ImageContent("", "image/png")
    assert CallToolResult([TextContent("a"), image, TextContent("b")]).text == "a\nb"
    assert CallToolResult([image]).text == ""


def test_raise_for_error_returns_a_successful_result():
    result = CallToolResult([TextContent("a")])
    assert result.raise_for_error() is result


def test_raise_for_error_raises_with_the_text_and_the_rest():
    image = ImageContent("", "image/png")
    with pytest.raises(ToolError, match="^a\nb$") as caught:
        CallToolResult([TextContent("a"), image, TextContent("b")], is_error=True).raise_for_error()
    assert caught.value.message == "a\nb" and caught.value.content == [image]
    with pytest.raises(ToolError, match="without a message"):
        CallToolResult(is_error=True).raise_for_error()
