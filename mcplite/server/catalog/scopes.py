"""The scopes that a message needs: those of the tools, resources and prompts that it is about.

Both eras and all HTTP endpoints ask here, and a batch needs what all of its requests need (AUTH-11, AUTH-12).
"""

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...protocol import jsonrpc
from .catalog import Catalog

__all__ = ["MOST_URIS", "needed_scopes"]

Scopes = Tuple[str, ...]
#: URIs that one ``subscriptions/listen`` may name.
MOST_URIS = 10_000


def needed_scopes(catalog: Catalog, message: Any, uri_limit: int) -> Scopes:
    """Return all scopes that a message needs, each once.

    :param uri_limit: characters of a URI; a longer one is refused later, and not looked up.
    """
    found: Dict[str, None] = {}
    items: List[Any] = message.items if type(message) is jsonrpc.Batch else [message]
    for item in items:
        needs = _NEEDS.get(item.method) if type(item) is jsonrpc.Request else None
        if needs is not None:
            found.update(dict.fromkeys(needs(catalog, item.params or {}, uri_limit)))
    return tuple(found)


def _of_entry(catalog: Catalog, kind: str, name: Any) -> Scopes:
    entry = catalog.registry.get(kind, name) if isinstance(name, str) else None
    return () if entry is None else entry.scopes


def _of_uri(catalog: Catalog, uri: Any, uri_limit: int) -> Scopes:
    found = catalog.find_resource(uri) if isinstance(uri, str) and len(uri) <= uri_limit else None
    return () if found is None else found.scopes


def _of_completion(catalog: Catalog, params: Mapping[str, Any]) -> Scopes:
    reference = params.get("ref")
    if not isinstance(reference, dict):
        return ()
    if reference.get("type") == "ref/prompt":
        return _of_entry(catalog, "prompts", reference.get("name"))
    uri = reference.get("uri")
    return _of_entry(catalog, "templates", uri) + _of_entry(catalog, "resources", uri)


def _of_listening(catalog: Catalog, params: Mapping[str, Any], uri_limit: int) -> Scopes:
    wanted = params.get("notifications")
    uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
    if not isinstance(uris, list) or len(uris) > MOST_URIS:
        return ()  # what is longer is refused
    found: Dict[str, None] = {}
    for uri in dict.fromkeys(uri for uri in uris if isinstance(uri, str)):
        found.update(dict.fromkeys(_of_uri(catalog, uri, uri_limit)))
    return tuple(found)


_NEEDS: Mapping[Optional[str], Callable[[Catalog, Mapping[str, Any], int], Scopes]] = {
    "tools/call": lambda catalog, params, _: _of_entry(catalog, "tools", params.get("name")),
    "prompts/get": lambda catalog, params, _: _of_entry(catalog, "prompts", params.get("name")),
    "resources/read": lambda catalog, params, most: _of_uri(catalog, params.get("uri"), most),
    "resources/subscribe": lambda catalog, params, most: _of_uri(catalog, params.get("uri"), most),
    "completion/complete": lambda catalog, params, _: _of_completion(catalog, params),
    "subscriptions/listen": _of_listening,
}
