"""Images and audio that handlers return."""

from __future__ import annotations

import base64
import os
from typing import Optional, Union

from .content import AudioContent, ImageContent

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"), (b"ID3", "audio/mpeg"), (b"\xff\xfb", "audio/mpeg"), (b"\xff\xf3", "audio/mpeg"),
    (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"),
)
_ENDINGS = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".svg": "image/svg+xml",
            ".webp": "image/webp", ".bmp": "image/bmp", ".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg",
            ".flac": "audio/flac", ".m4a": "audio/mp4"}


class _Media:
    """Bytes with a MIME type, which is given or detected."""

    #: The prefix that a detected MIME type must have.
    _kind = ""

    def __init__(self, data: Optional[bytes] = None, mime_type: Optional[str] = None, *,
                 path: "Union[None, str, os.PathLike[str]]" = None) -> None:
        if (data is None) == (path is None):
            raise ValueError(f"{type(self).__name__} needs data or path=, and not both")
        if path is not None:
            with open(path, "rb") as file:
                data = file.read()
            ending = _ENDINGS.get(os.path.splitext(os.fspath(path))[1].lower(), "")
            mime_type = mime_type or (ending if ending.startswith(self._kind) else None)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"{type(self).__name__} takes bytes, not {type(data).__name__}; for a file use path=")
        self.data = bytes(data)
        self.mime_type = mime_type or self._sniffed()

    def _sniffed(self) -> str:
        if self.data[:4] == b"RIFF":
            found = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(self.data[8:12], "")
        else:
            found = next((mime_type for magic, mime_type in _MAGIC if self.data.startswith(magic)), "")
        if found.startswith(self._kind):
            return found
        kind = type(self).__name__.lower()
        raise ValueError(f"the MIME type of the {kind} cannot be detected from its bytes; give mime_type=")

    def _base64(self) -> str:
        return base64.b64encode(self.data).decode("ascii")


class Image(_Media):
    """An image to return from a tool: ``Image(data, "image/png")`` or ``Image(path="chart.png")``.

    :param data: the bytes.
    :param mime_type: by default detected from the bytes or the file's extension.
    :param path: a file to read, instead of *data*.
    :raises ValueError: neither or both of *data* and *path* are given, or the MIME type cannot be detected.
    """

    _kind = "image/"

    def content(self) -> ImageContent:
        """Return the content block."""
        return ImageContent(data=self._base64(), mime_type=self.mime_type)


class Audio(_Media):
    """Audio to return from a tool; the parameters are those of :class:`Image`."""

    _kind = "audio/"

    def content(self) -> AudioContent:
        """Return the content block."""
        return AudioContent(data=self._base64(), mime_type=self.mime_type)
