"""The target of a request: its entry, scopes and marked parameters, looked up once.

:meth:`Catalog.resolve` creates a target as soon as a message is parsed. The HTTP decision, authorization, the endpoint,
both sessions and the dispatcher read it.
"""

from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...protocol.meta import RESOURCE_SUBSCRIPTIONS
from .provider import Found, ProvidedEntry
from .registry import Registry

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark

__all__ = ["MOST_URIS", "Scopes", "Target", "completed_entry", "completion_scopes", "listen_scopes"]

Scopes = Tuple[str, ...]
#: URIs that one ``subscriptions/listen`` may name, whatever ``Limits.subscriptions`` says.
MOST_URIS = 10_000


class Target(NamedTuple):
    """What one request is about.

    :param custom_handler: of a custom method, which replaces a built-in one; None for built-in methods.
    :param entry: the tool, the prompt, or the reader of the resource; None if there is none.
    :param scopes: required of callers over HTTP.
    :param marks: the parameters of a tool that also travel in headers (MHDR-11).
    :param may_run_inline: whether the handler may run on the thread of an HTTP request: it can neither send nor ask
        anything before it returns.
    :param named: the member of the params that ``Mcp-Name`` repeats, of a method that an extension adds.
    """

    custom_handler: Optional[Callable[..., Any]]
    entry: Any
    scopes: Scopes
    marks: "Sequence[Mark]"
    may_run_inline: bool
    named: Optional[str] = None


def completion_scopes(registry: Registry, params: Mapping[str, Any]) -> Scopes:
    """Return the scopes of the prompt or resource whose argument is completed."""
    reference = params.get("ref")
    if not isinstance(reference, dict):
        return ()
    if reference.get("type") == "ref/prompt":
        return _entry_scopes(registry, "prompts", reference.get("name"))
    uri = reference.get("uri")
    return _entry_scopes(registry, "templates", uri) + _entry_scopes(registry, "resources", uri)


def completed_entry(registry: Registry, params: Mapping[str, Any]) -> Optional[ProvidedEntry]:
    """Return the prompt, template or resource of a provider whose argument is completed; None for the server's own."""
    reference = params.get("ref")
    if not isinstance(reference, dict):
        return None
    if reference.get("type") == "ref/prompt":
        kinds, name = ["prompts"], reference.get("name")
    else:
        kinds, name = ["templates", "resources"], reference.get("uri")
    if not isinstance(name, str):
        return None
    entry = next((found for found in (registry.get(kind, name) for kind in kinds) if found is not None), None)
    if entry is None:
        return registry.find_provided(kinds[-1], name)
    return entry if type(entry) is ProvidedEntry else None


def _entry_scopes(registry: Registry, kind: str, name: Any) -> Scopes:
    entry = registry.get(kind, name) if isinstance(name, str) else None
    return () if entry is None else entry.scopes


def listen_scopes(find: Callable[[Any], Optional[Found]], params: Mapping[str, Any]) -> Scopes:
    """Return the scopes of all resources that a ``subscriptions/listen`` names.

    :param find: returns the reader of a URI.
    """
    wanted = params.get("notifications")
    uris = wanted.get(RESOURCE_SUBSCRIPTIONS) if isinstance(wanted, dict) else None
    if not isinstance(uris, list) or len(uris) > MOST_URIS:
        return ()  # a longer list is refused
    scopes: Dict[str, None] = {}
    for uri in dict.fromkeys(uri for uri in uris if isinstance(uri, str)):
        found = find(uri)
        if found is not None:
            scopes.update(dict.fromkeys(found.scopes))
    return tuple(scopes)
