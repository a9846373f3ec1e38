import base64
import os
import pathlib

import pytest

from mcplite.types.media import Audio, Image

PNG = b"\x89PNG\r\n\x1a\n" + b"rest"
SOUND = b"ID3" + b"rest"


@pytest.mark.parametrize("data, mime_type", [
    (PNG, "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"GIF89a", "image/gif"), (b"BM12", "image/bmp"),
    (b"RIFF1234WEBPVP8", "image/webp"),
])
def test_the_mime_type_of_an_image_is_detected(data, mime_type):
    content = Image(data).content()
    assert (content.mime_type, content.bytes) == (mime_type, data)


@pytest.mark.parametrize("data, mime_type", [
    (SOUND, "audio/mpeg"), (b"\xff\xfb\x90", "audio/mpeg"), (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"),
    (b"RIFF1234WAVEfmt ", "audio/wav"),
])
def test_the_mime_type_of_audio_is_detected(data, mime_type):
    content = Audio(data).content()
    assert (content.mime_type, content.bytes) == (mime_type, data)


@pytest.mark.parametrize("make, data", [
    (Image, b""), (Image, b"what is it"), (Audio, b"what is it"), (Image, b"RIFF1234AVI "), (Image, SOUND), (Audio, PNG),
])
def test_a_mime_type_that_cannot_be_detected_must_be_given(make, data):
    kind = make.__name__.lower()
    with pytest.raises(ValueError, match=f"the MIME type of the {kind} cannot be detected from its bytes; give mime_type="):
        make(data)
    assert make(data, "image/x-odd").content().mime_type == "image/x-odd"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_like_object_is_accepted(kind):
    image = Image(kind(bytes(range(256))), "image/png")
    assert image.data == bytes(range(256)) and base64.b64decode(image.content().data, validate=True) == image.data


def test_the_mime_type_of_a_file_is_detected_by_name_or_bytes(tmp_path):
    for name, data, make, mime_type in [
            ("a.PNG", b"anything", Image, "image/png"), ("a.svg", b"<svg/>", Image, "image/svg+xml"),
            ("b", PNG, Image, "image/png"), ("c.mp3", PNG, Image, "image/png"), ("d.m4a", b"anything", Audio, "audio/mp4")]:
        (tmp_path / name).write_bytes(data)
        for path in (tmp_path / name, os.fspath(tmp_path / name)):
            made = make(path=path)
            assert (made.mime_type, made.data) == (mime_type, data)
    assert Image(path=tmp_path / "a.svg", mime_type="image/png").mime_type == "image/png"


@pytest.mark.parametrize("options", [{}, {"data": PNG, "path": "x.png"}])
def test_data_and_path_exclude_each_other(options):
    with pytest.raises(ValueError, match="Image needs data or path=, and not both"):
        Image(**options)


@pytest.mark.parametrize("data", ["chart.png", pathlib.Path("chart.png"), [1, 2]])
def test_a_string_is_not_data(data):
    with pytest.raises(TypeError, match="Image takes bytes, not .*; for a file use path="):
        Image(data)
