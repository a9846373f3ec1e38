import mcplite
from mcplite.types import (
    CompleteResult,
    Completion,
    ImageContent,
    Prompt,
    PromptMessage,
    TextContent,
    ToolResultContent,
    assistant,
    user,
)


def test_messages_are_made_of_text_or_content():
    image = ImageContent("", "image/png")
    assert user("x") == PromptMessage("user", TextContent("x"))
    assert assistant("x") == PromptMessage("assistant", TextContent("x"))
    assert user(image).content is image and assistant(image).content is image


def test_the_display_name_is_the_title_or_the_name():
    assert Prompt("name").display_name == "name"
    assert Prompt("name", title="Title").display_name == "Title"


def test_the_values_of_a_completion_are_at_hand():
    assert CompleteResult(Completion(["a", "b"])).values == ["a", "b"]


def test_media_become_their_content_block():
    picture = mcplite.Image(b"\x89PNG\r\n\x1a\n")
    assert user(picture).content == picture.content() == assistant(picture).content
    result = ToolResultContent(tool_use_id="1", content=[TextContent("x")])
    assert user(result).content is result  # its member of that name is data
