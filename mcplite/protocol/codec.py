"""The codec as the rooms above use it, with content for peers of older revisions.

Encoding and decoding themselves are in :mod:`..types.codec`, since ``to_dict`` and ``from_dict`` of the vocabulary use them.
"""

from __future__ import annotations

from typing import Any, List

from ..revisions import Revision
from ..types import AudioContent, Content, ResourceLink, TextContent
from ..types.codec import decode, decode_own, decoder, encode

__all__ = ["decode", "decode_own", "decoder", "downgrade", "encode"]


def downgrade(content: "List[Content]", revision: Revision) -> "List[Content]":
    """Return *content* with text in place of the kinds that the revision lacks (TOOL-23).

    For the content of tools and prompts. The list is never changed; it is returned itself if nothing is replaced.
    """
    kinds = revision.content_kinds
    if all(item.wire_type in kinds for item in content):
        return content
    return [item if item.wire_type in kinds else TextContent(text=_as_text(item)) for item in content]


def _as_text(item: Any) -> str:
    if isinstance(item, AudioContent):
        size = len(item.data) * 3 // 4 - item.data[-2:].count("=")
        return f"[audio, {item.mime_type}, {size} bytes: this client cannot receive audio]"
    if isinstance(item, ResourceLink):
        about = f": {item.description}" if item.description else ""
        return f"[resource {item.title or item.name}: {item.uri}{about}]"
    return f"[content of the kind {item.wire_type!r}, which this client cannot receive]"
