import pytest

from mcplite.revisions import JUNE_2025, MARCH_2025, NOVEMBER_2024, REVISIONS
from mcplite.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from mcplite.types.content import downgrade


def test_content_of_every_revision_is_left_alone():
    content = [TextContent("x"), ImageContent("", "image/png"), EmbeddedResource(TextResourceContents("a:b", "t"))]
    for revision in REVISIONS:
        assert downgrade(content, revision) is content


def test_audio_becomes_a_note_with_its_type_and_size():
    content = [AudioContent("AAECAw==", "audio/wav"), TextContent("x")]
    assert downgrade(content, NOVEMBER_2024) == [
        TextContent("[audio, audio/wav, 4 bytes: this client cannot receive audio]"), TextContent("x")]
    assert downgrade(content, MARCH_2025) is content
    assert len(content) == 2 and isinstance(content[0], AudioContent), "the original is left alone"


def test_a_link_becomes_its_name_and_uri():
    link = ResourceLink("file:///a.txt", "a", description="about it")
    for revision in (NOVEMBER_2024, MARCH_2025):
        assert downgrade([link], revision) == [TextContent("[resource a: file:///a.txt: about it]")]
    assert downgrade([ResourceLink("a:b", "a", title="The A")], MARCH_2025)[0].text == "[resource The A: a:b]"
    assert downgrade([link], JUNE_2025) == [link]


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_other_kinds_are_named(revision):
    for item in (UnknownContent({"type": "video"}), ToolUseContent("1", "t", {}), ToolResultContent("1")):
        (text,) = downgrade([item], revision)
        assert isinstance(text, TextContent) and item.wire_type in text.text
