"""Resources, templates and contents."""

from typing import Any, Dict, List, Optional

from ..revisions import JULY_2026, JUNE_2025, NOVEMBER_2025
from .codec import Icon, Model, Titled
from .content import Annotations, BlobResourceContents, Displayed, ResourceContents, TextResourceContents, bundle_of
from .lazy_dataclass import record, wire


@record
class Resource(Titled, Model):
    """A resource at one URI."""

    uri: str
    name: str
    description: Optional[str] = None
    mime_type: Optional[str] = None
    #: Bytes of the content, when known.
    size: Optional[int] = None
    annotations: Optional[Annotations] = None
    title: Optional[str] = wire(since=JUNE_2025)
    icons: Optional[List[Icon]] = wire(since=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class ResourceTemplate(Titled, Model):
    """Resources at every URI that a template (RFC 6570) expands to."""

    uri_template: str
    name: str
    description: Optional[str] = None
    #: The MIME type of all its resources; None if they have different ones.
    mime_type: Optional[str] = None
    annotations: Optional[Annotations] = None
    title: Optional[str] = wire(since=JUNE_2025)
    icons: Optional[List[Icon]] = wire(since=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class ListResourcesResult(Model):
    """One page of resources."""

    resources: List[Resource]
    next_cursor: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)
    ttl_ms: Optional[int] = wire(since=JULY_2026)
    cache_scope: Optional[str] = wire(since=JULY_2026)


@record
class ListResourceTemplatesResult(Model):
    """One page of templates."""

    resource_templates: List[ResourceTemplate]
    next_cursor: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)
    ttl_ms: Optional[int] = wire(since=JULY_2026)
    cache_scope: Optional[str] = wire(since=JULY_2026)


@record
class ReadResourceResult(Displayed, Model):
    """The contents of a resource: usually one, several for a directory."""

    contents: List[ResourceContents]
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)
    ttl_ms: Optional[int] = wire(since=JULY_2026)
    cache_scope: Optional[str] = wire(since=JULY_2026)

    def _bundle(self) -> Dict[str, Any]:
        return bundle_of(self.contents)

    @property
    def text(self) -> str:
        """All text contents, joined by line ends."""
        return "\n".join(item.text for item in self.contents if isinstance(item, TextResourceContents))

    @property
    def bytes(self) -> bytes:
        """The first contents as bytes; text as UTF-8.

        :raises ValueError: there are no contents, or they are not base64.
        """
        if not self.contents:
            raise ValueError("the resource has no contents")
        first = self.contents[0]
        return first.bytes if isinstance(first, BlobResourceContents) else first.text.encode("utf-8")
