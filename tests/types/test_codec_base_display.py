import base64
import json

import pytest

from mcplite.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    assistant,
    user,
)

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n pixels").decode("ascii")
IMAGE = ImageContent(PIXEL, "image/png")
SOUND = AudioContent(base64.b64encode(b"RIFF").decode("ascii"), "audio/wav")
ATTACK = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shown():
    """Return what a notebook gets for an object, by media type."""
    formatters = pytest.importorskip("IPython.core.formatters", reason="IPython is not installed")
    formatter = formatters.DisplayFormatter()
    formatter.active_types = formatter.format_types  # as in a kernel; a terminal takes text alone

    def shown(value):
        data, _ = formatter.format(value)
        json.dumps(data)  # a kernel sends it as JSON
        return data

    return shown


def test_an_image_is_an_image(shown):
    for value in (IMAGE, CallToolResult([IMAGE]), EmbeddedResource(BlobResourceContents("a://b", PIXEL, "image/png")),
                  ReadResourceResult([BlobResourceContents("a://b", PIXEL, "image/png")])):
        data = shown(value)
        assert data["image/png"] == PIXEL and "text/html" not in data
        assert len(data["text/plain"]) < 250


def test_text_is_plain_text_and_never_a_page(shown):
    for value in (TextContent(ATTACK), CallToolResult([TextContent(ATTACK)]), TextResourceContents("a://b", ATTACK),
                  ReadResourceResult([TextResourceContents("a://b", ATTACK, "text/html")])):
        assert shown(value) == {"text/plain": ATTACK}


def test_data_is_json(shown):
    result = CallToolResult([TextContent('{"rows": [1]}')], structured_content={"rows": [1]})
    assert shown(result) == {"text/plain": '{"rows": [1]}', "application/json": {"rows": [1]}}
    wrapped = CallToolResult([TextContent("[1, 2]")], structured_content={"result": [1, 2]})
    assert shown(wrapped)["application/json"] == [1, 2]
    assert shown(CallToolResult([TextContent("3")], structured_content={"result": 3})) == {"text/plain": "3"}
    assert json.loads(shown(CallToolResult(structured_content={"a": 1}))["text/plain"]) == {"a": 1}


def test_images_beside_text_are_a_page_of_escaped_text(shown):
    page = shown(CallToolResult([TextContent(ATTACK), IMAGE, SOUND]))["text/html"]
    assert f'<img src="data:image/png;base64,{PIXEL}">' in page and '<audio controls src="data:audio/wav;' in page
    assert ATTACK not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize("item", [
    ImageContent("PHN2Zz4=", "image/svg+xml"), ImageContent('"><script>', "image/png"), ImageContent(PIXEL, "text/html"),
    ImageContent("", "image/png"), ImageContent(PIXEL, 'image/png" onerror="x'), BlobResourceContents("a://b", PIXEL),
], ids=["svg", "no-base64", "html", "empty", "attribute", "no-type"])
def test_what_is_no_picture_is_described(item, shown):
    for value in (item, CallToolResult([item, TextContent("x")])):
        assert list(shown(value)) == ["text/plain"]


def test_a_failed_tool_says_so(shown):
    assert shown(CallToolResult([TextContent("no such city")], is_error=True)) == {
        "text/plain": "the tool failed: no such city"}


def test_a_prompt_shows_who_says_what(shown):
    assert shown(GetPromptResult([user("Hi"), assistant("Hello")])) == {"text/plain": "user: Hi\nassistant: Hello"}


def test_other_objects_show_their_repr(shown):
    link = ResourceLink("a://b", "b")
    assert shown(link) == {"text/plain": "ResourceLink(uri='a://b', name='b')"}
    assert shown(CallToolResult([link]))["text/plain"] == repr(link)
