import base64

import pytest

from mcplite.llm.result_content import FAILED, Part, file_name, parts_of, split, text_of
from mcplite.types import (
    NULL,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from tests.support.models import PDF, PNG, WAV


def texts(*content, structured=None):
    return [part.text for part in parts_of(CallToolResult(list(content), structured_content=structured))]


def blob(data, mime_type, uri="file:///a/b.bin"):
    return EmbeddedResource(BlobResourceContents(uri, data, mime_type))


def test_text_images_and_audio():
    parts = parts_of(CallToolResult([TextContent("hello"), ImageContent(PNG, "image/png"), AudioContent(WAV, "audio/wav")]))
    assert parts == [Part("text", "hello"), Part("image", "", PNG, "image/png"), Part("audio", "", WAV, "audio/wav")]
    assert parts[1].data_url == f"data:image/png;base64,{PNG}"


def test_base64_and_media_types_as_apis_take_them():
    for data in ("/9j/\r\n4AA=\n", "_9j_4AA=", "_9j_4AA", "data:image/jpeg;base64,/9j/4AA=", "data:;base64,%2F9j%2F4AA%3D"):
        (part,) = parts_of(CallToolResult([ImageContent(data, "IMAGE/JPG; q=1")]))
        assert part == Part("image", "", "/9j/4AA=", "image/jpeg")


SIGNED = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff\xe0", "image/gif": b"GIF89a",
          "image/webp": b"RIFF\x04\0\0\0WEBPVP8 ", "image/heic": b"\0\0\0\x18ftypheic", "application/pdf": b"\n%PDF-1.4"}


@pytest.mark.parametrize("said", [*SIGNED, "image/x-png", "image/svg+xml", "", "application/octet-stream"])
@pytest.mark.parametrize("real", SIGNED)
def test_the_type_of_a_picture_is_that_of_its_first_bytes(said, real):
    data = base64.b64encode(SIGNED[real] + bytes(80)).decode()
    for item in (ImageContent(data, said), blob(data, said)):
        (part,) = parts_of(CallToolResult([item]))
        assert (part.kind, part.data, part.mime_type) == ("file" if real == "application/pdf" else "image", data, real)


@pytest.mark.parametrize("said", [*SIGNED, "image/jpg", "image/x-png"])
@pytest.mark.parametrize("data, why", [
    ("", "it is empty"), (" \n", "it is empty"), ("====", "it is empty"), ("data:image/png;base64,", "it is empty"),
    ("PGh0bWw+", "its data is of another type"), ("AAAA", "its data is of another type"), ("#", "its data is not base64"),
    ("data:image/png,x", "its data is not base64"), ("äöü=", "its data is not base64"), ("a===", "its data is not base64"),
    ("a", "its data is not base64"), ("no base64!!!", "its data is not base64")])
def test_pictures_that_are_none_are_told_in_words(said, data, why):
    kind = "file" if said == "application/pdf" else "image"
    assert texts(blob(data, said)) == [f"[{kind} file:///a/b.bin ({said}) is left out: {why}]"]


def test_embedded_resources():
    text = EmbeddedResource(TextResourceContents("file:///a.txt", "words", "text/plain"))
    assert texts(text) == ["Resource file:///a.txt (text/plain):\nwords"]
    assert texts(EmbeddedResource(TextResourceContents("x://y", "words"))) == ["Resource x://y:\nwords"]
    assert texts(blob("aGk=", "text/csv")) == ["Resource file:///a/b.bin (text/csv):\nhi"]
    assert texts(blob("e30=", "application/json")) == ["Resource file:///a/b.bin (application/json):\n{}"]


def test_resources_that_are_bytes():
    def kind(*arguments):
        (part,) = parts_of(CallToolResult([blob(*arguments)]))
        return part.kind, part.mime_type, file_name(part)

    assert kind(PNG, "image/png", "file:///a/b.png") == ("image", "image/png", "b.png")
    assert kind(WAV, "audio/wav") == ("audio", "audio/wav", "b.bin")
    assert kind(PDF, "application/pdf", "https://x/y/z.pdf?page=1") == ("file", "application/pdf", "z.pdf")
    assert kind("//8=", "text/plain") == ("file", "text/plain", "b.bin")  # not UTF-8
    assert kind("AAA=", None, "x://") == ("file", "application/octet-stream", "file")


@pytest.mark.parametrize("said, structured", [
    (['{"a": 1}'], {"a": 1}), (["3"], {"result": 3}), (['"x"'], {"result": "x"}), (["x"], {"result": "x"}), (["x"], "x"),
    (["a", "b"], {"result": ["a", "b"]}), (["1", "2"], {"result": [1, 2]}), (["[1, 2]"], [1, 2]), (["null"], {"result": None}),
    (["before", '{"a": 1}'], {"a": 1}),
])
def test_structured_content_that_a_text_says_is_not_repeated(said, structured):
    assert texts(*map(TextContent, said), structured=structured) == said


@pytest.mark.parametrize("said, structured, added", [
    ([], {"a": "ä"}, '{"a": "ä"}'), (["A summary"], {"a": 1}, '{"a": 1}'), ([], {"result": []}, '{"result": []}'),
    (["{"], {}, "{}"), ([], NULL, "null"), (["2"], {"result": 3}, '{"result": 3}'),
])
def test_structured_content_that_no_text_says_is_added(said, structured, added):
    assert texts(*map(TextContent, said), structured=structured) == [*said, added]


def test_what_an_api_does_not_take_is_told():
    image, sound = Part("image", "", PNG, "image/png"), Part("audio", "", WAV, "audio/wav", "x.wav")
    kept, rest = split([Part("text", "a"), image, sound], lambda part: part.kind == "image")
    assert kept == [Part("text", "a"), image,
                    Part("text", "[audio x.wav (audio/wav, 4 bytes) is left out: this API takes no such content here]")]
    assert rest == []
    kept, rest = split([image, sound], lambda part: False, lambda part: part.kind == "image")
    assert [part.text for part in kept] == [
        "[image (image/png, 68 bytes) follows after the results]",
        "[audio x.wav (audio/wav, 4 bytes) is left out: this API takes no such content here]"]
    assert rest == [image]


def test_errors_as_text():
    assert text_of([Part("text", "a"), Part("text", "b")], False) == "a\nb"
    assert text_of([Part("text", "a")], True) == "Error: a"
    assert text_of([], True) == f"Error: {FAILED}"
    assert text_of([], False) == ""
