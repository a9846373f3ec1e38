"""The card of a server over HTTP: what it is and where, for clients that have no connection yet (SEP-2127).

The SEP is final, and leaves the form of a card to an extension that is a draft; so the form may change.
"""

import hashlib
import json
import re
from typing import Any, Callable, Dict, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from ..errors import RegistrationError
from ..revisions import NEWEST
from ..server.app import Server
from ..server.handling.http_request import HTTPRequest
from ..types import codec

__all__ = ["card_routes"]

_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_CARD, _CATALOG = "application/mcp-server-card+json", "application/ai-catalog+json"
_NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+\Z")
_URL = re.compile(r"https?://[^\s/]+(/[^\s?#]*)?\Z")
_MOST = 100
#: The headers by which web pages of any origin may read the card.
_OF_PAGES = {"Access-Control-Allow-Methods": "GET", "Access-Control-Allow-Headers": "Content-Type, If-None-Match",
             "Access-Control-Expose-Headers": "ETag"}
Answer = Tuple[int, str, bytes, Dict[str, str]]


def card_routes(server: Server, url: str, *, name: str, description: Optional[str] = None, path: Optional[str] = None,
                repository: Optional[Mapping[str, str]] = None) -> Dict[str, Callable[[HTTPRequest], Answer]]:
    """Return routes for ``routes=`` of ``serve``, ``run`` and ``wsgi``: the card of a server, and a catalog that names it.

    The form of the card is a draft of an extension, and may change. The card is beside the endpoint (``/mcp/server-card``), and
    the catalog at ``/.well-known/ai-catalog.json``, where clients look that know the host alone. Anyone may read both, so they
    say nothing of tools. Version, title, website and icons are those of the server, at each request.

    :param server: the server to describe.
    :param url: of its endpoint, as clients reach it, such as ``https://example.com/mcp``.
    :param name: of the server in the registry: the reversed name of a host, a slash, and a name.
    :param description: up to 100 characters; by default the beginning of the server's own.
    :param path: of the card at this server, if a proxy in front of it changes paths; by default that of *url* and
        ``/server-card``.
    :param repository: of the source: a dict with ``url`` and ``source``, such as ``github``.
    :raises RegistrationError: an argument has another form, or the server has no description.
    """
    what = "card_routes"
    if not isinstance(name, str) or not _NAME.match(name) or not 3 <= len(name) <= 200:
        raise RegistrationError(f"{what}: give name= as in the registry, such as 'com.example/weather', not {name!r}")
    if not isinstance(url, str) or not _URL.match(url):
        raise RegistrationError(f"{what}: give url= as clients reach the endpoint, such as 'https://example.com/mcp', not"
                                f" {url!r}")
    if description is not None and not (isinstance(description, str) and 1 <= len(description) <= _MOST):
        raise RegistrationError(f"{what}: description= is a text of 1 to {_MOST} characters, not {description!r}")
    if not description and not server.runtime.catalog.description.info.description:
        raise RegistrationError(f"{what}: give description=, which the card must have and the server has none")
    if repository is not None and not {"url", "source"} <= set(repository):
        raise RegistrationError(f"{what}: repository= is a dict with 'url' and 'source', not {repository!r}")
    given = {"name": name, "description": description, "repository": None if repository is None else dict(repository)}
    address = url.rstrip("/") + "/server-card"

    def card(request: HTTPRequest) -> Answer:
        return _answer(request, _CARD, _card(server, url, given))

    def catalog(request: HTTPRequest) -> Answer:
        return _answer(request, _CATALOG, {"specVersion": "1.0", "entries": [
            {"identifier": _identifier(name), "type": _CARD, "url": address}]})

    for route in (card, catalog):
        route.any_origin = True  # type: ignore[attr-defined]
    return {path or urlsplit(address).path: card, "/.well-known/ai-catalog.json": catalog}


def _card(server: Server, url: str, given: Mapping[str, Any]) -> Dict[str, Any]:
    described = server.runtime.catalog
    info = codec.encode(described.description.info, NEWEST)
    versions = [revision.name for revision in described.revisions]
    found = {
        "$schema": _SCHEMA, **given, "version": info["version"], "title": (info.get("title") or "")[:_MOST],
        "description": given["description"] or info["description"][:_MOST], "websiteUrl": info.get("websiteUrl"),
        "icons": info.get("icons"),
        "remotes": [{"type": "streamable-http", "url": url, "supportedProtocolVersions": versions}]}
    return {member: value for member, value in found.items() if value}


def _identifier(name: str) -> str:
    """Return the name of a catalog's entry for a server: ``urn:air:example.com:mcp:weather`` for ``com.example/weather``."""
    space, _, own = name.partition("/")
    return f"urn:air:{'.'.join(reversed(space.split('.')))}:mcp:{own}"


def _answer(request: HTTPRequest, kind: str, said: Dict[str, Any]) -> Answer:
    if request.method == "OPTIONS":
        return 204, kind, b"", dict(_OF_PAGES)
    if request.method not in ("GET", "HEAD"):
        return 405, "text/plain", b"The card can be read by GET\n", {"Allow": "GET, HEAD, OPTIONS"}
    content = json.dumps(said, ensure_ascii=False).encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**_OF_PAGES, "Cache-Control": "public, max-age=3600", "ETag": tag}
    asked = [one.strip().removeprefix("W/") for one in (request.headers.get("if-none-match") or "").split(",")]
    return (304, kind, b"", headers) if tag in asked or "*" in asked else (200, kind, content, headers)
