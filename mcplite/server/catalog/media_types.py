"""The media types of files: by their extension, the same on every system.

:class:`~.directory.Directory` uses it. Python's own table without the system's, which differs from machine to machine.
"""

import mimetypes
from typing import Optional

__all__ = ["is_textual", "media_type"]

#: What Python's table lacks, or has only in newer versions.
_MORE = {".md": "text/markdown", ".markdown": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml",
         ".toml": "application/toml", ".webp": "image/webp", ".woff": "font/woff", ".woff2": "font/woff2", ".rst": "text/x-rst",
         ".js": "text/javascript", ".mjs": "text/javascript", ".ico": "image/x-icon", ".ipynb": "application/x-ipynb+json"}
_TABLE = mimetypes.MimeTypes()
#: Of compressed files, whose extension is the last of two.
_COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz",
               "compress": "application/x-compress", "br": "application/x-brotli"}
_BINARY = frozenset({"application/pdf", "application/zip", "application/octet-stream"})


def media_type(name: str) -> Optional[str]:
    """Return the media type of a file by its name; None for an unknown extension."""
    dot = name.rfind(".")
    more = _MORE.get(name[dot:].lower()) if dot > 0 else None
    if more is not None:
        return more
    found, encoding = _TABLE.guess_type("file:///" + name.replace("/", "_"), strict=False)
    return found if encoding is None else _COMPRESSED.get(encoding, "application/octet-stream")


def is_textual(kind: Optional[str]) -> bool:
    """Whether the contents of this media type are read as text, if they are valid text; so they are for an unknown type."""
    if kind is None or kind.endswith(("+xml", "+json")):
        return True
    return not kind.startswith(("image/", "audio/", "video/", "font/")) and kind not in _BINARY
