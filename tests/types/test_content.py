import itertools

import pytest

from mcplite.errors import ProtocolError
from mcplite.types import AudioContent, BlobResourceContents, CallToolResult, Icon, ImageContent
from mcplite.types.codec import decode
from mcplite.types.content import read_tool_result


@pytest.mark.parametrize("make", [
    lambda data: ImageContent(data, "image/png"), lambda data: AudioContent(data, "audio/wav"),
    lambda data: BlobResourceContents("a:b", data),
], ids=["image", "audio", "blob"])
def test_bytes_are_the_decoded_base64(make):
    assert make("AAEC/w==").bytes == b"\x00\x01\x02\xff"
    assert make("").bytes == b""
    assert make("AAEC\r\n/w==\n").bytes == b"\x00\x01\x02\xff", "line breaks are common"
    for wrong in ("AAE", "AAEC-_==", "AA*=", "é"):
        with pytest.raises(ValueError):
            make(wrong).bytes


@pytest.mark.parametrize("src, safe", [
    ("https://example.com/i.png", True), ("HTTPS://example.com/i.png", True), ("data:image/png;base64,aGk=", True),
    ("Data:image/png,x", True), ("http://example.com/i.png", False), ("javascript:alert(1)", False), ("", False),
    ("file:///etc/passwd", False), ("ftp://example.com/i.png", False), ("ws://example.com", False), ("myapp:icon", False),
    (" https://example.com/i.png", False), ("/i.png", False), ("https:i.png", False),
    # SVG may run scripts.
    ("https://example.com/i.svg", False), ("https://example.com/I.SVG?size=1#x", False), ("https://example.com/i.svgz", False),
    ("https://example.com/svg", True), ("https://example.com/i.png?a=.svg", True), ("data:image/svg+xml,<svg/>", False),
    ("DATA:Image/SVG+xml;base64,aGk=", False), ("data:image/png;name=a.png,.svgx", True),
])
def test_icons_come_from_https_and_data_uris_only(src, safe):
    assert Icon(src).is_safe is safe  # ICON-05


@pytest.mark.parametrize("mime_type, safe", [
    ("image/svg+xml", False), (" Image/SVG+XML; charset=utf-8", False), ("image/png", True), ("", True), (None, True)])
def test_an_icon_that_is_said_to_be_svg_is_not_safe(mime_type, safe):
    assert Icon("https://example.com/icon", mime_type=mime_type).is_safe is safe


@pytest.mark.parametrize("make, hint", [
    (lambda data: ImageContent(data=data, mime_type="image/png"), "use mcplite.Image"),
    (lambda data: AudioContent(data=data, mime_type="audio/wav"), "use mcplite.Audio"),
    (lambda data: BlobResourceContents(uri="a://b", blob=data), "return the bytes"),
])
@pytest.mark.parametrize("data", [b"iVBO", bytearray(b"iVBO"), memoryview(b"iVBO")], ids=lambda data: type(data).__name__)
def test_bytes_in_the_place_of_base64_are_refused_with_the_fix(make, hint, data):
    with pytest.raises(TypeError, match=f"{hint}.*decode"):
        make(data)


def outcome(read, wire):
    """Return the attributes that a result is read as, or the text of the error."""
    try:
        result = read(wire)
    except ProtocolError as error:
        return str(error)
    assert type(result) is CallToolResult
    return {**vars(result), "content": [(type(block), vars(block)) for block in result.content]}


ABSENT = object()
#: Values of each member: usual ones, of a wrong type, null and absent.
BLOCKS = [
    {"type": "text", "text": "a"}, {"text": "", "type": "text"}, {"type": "text", "text": 1}, {"type": "text", "text": None},
    {"type": "text"}, {"type": "text", "other": "a"}, {"type": "text", "text": "a", "_meta": {"b": 1}},
    {"type": [], "text": "a"},
    {"type": "text", "text": "a", "annotations": {"priority": 1}}, {"type": "acme", "text": "a"}, {"text": "a"}, "ab", None, [],
]
CONTENTS = [ABSENT, None, {}, "a", [], *([block] for block in BLOCKS), BLOCKS[:2]]
MEMBERS = {
    "structuredContent": [ABSENT, None, {"result": 3}, [], 0], "isError": [ABSENT, None, True, False, 0],
    "_meta": [ABSENT, None, {"a": 1}, [], 1], "resultType": [ABSENT, None, "complete", 1], "acme": [ABSENT, 1],
}


def test_results_of_tools_are_read_as_the_codec_reads_them():
    read = 0
    for content, *values in itertools.product(CONTENTS, *MEMBERS.values()):
        wire = {name: value for name, value in zip(("content", *MEMBERS), (content, *values)) if value is not ABSENT}
        expected = outcome(lambda wire: decode(CallToolResult, wire), wire)
        assert outcome(read_tool_result, wire) == expected, wire
        read += type(expected) is dict
    assert read > 1000, "most of them are errors"
    for wire in ([], None, "text", 1, [{"content": []}]):
        assert outcome(read_tool_result, wire) == outcome(lambda wire: decode(CallToolResult, wire), wire)
