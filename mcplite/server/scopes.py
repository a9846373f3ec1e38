"""What a message needs: the scopes of the tools, resources and prompts that it is about.

Both eras and all doors ask here, and a batch needs what all of its requests need (AUTH-11, AUTH-12).
"""

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from ..errors import RegistrationError
from ..protocol import jsonrpc
from .auth.principals import checked_scopes
from .runtime.subscriptions import MOST_URIS

if TYPE_CHECKING:
    from .app import Server

__all__ = ["needed_scopes", "registered_scopes"]

Scopes = Tuple[str, ...]


def registered_scopes(scopes: Union[str, Iterable[str]], what: str) -> Scopes:
    """Return the scopes that something is registered with.

    :raises RegistrationError: one is no scope.
    """
    try:
        return checked_scopes(scopes, what)
    except (TypeError, ValueError) as error:
        raise RegistrationError(str(error)) from error


def needed_scopes(app: "Server", message: Any) -> Scopes:
    """Return all scopes that a message needs, each once."""
    found: Dict[str, None] = {}
    items: List[Any] = message.items if type(message) is jsonrpc.Batch else [message]
    for item in items:
        needs = _NEEDS.get(item.method) if type(item) is jsonrpc.Request else None
        if needs is not None:
            found.update(dict.fromkeys(needs(app, item.params or {})))
    return tuple(found)


def _of_entry(app: "Server", kind: str, name: Any) -> Scopes:
    entry = app.registry.get(kind, name) if isinstance(name, str) else None
    return () if entry is None else entry.scopes


def _of_uri(app: "Server", uri: Any) -> Scopes:
    found = app.find_resource(uri) if isinstance(uri, str) and len(uri) <= app.limits.uri else None
    return () if found is None else found.scopes


def _of_completion(app: "Server", params: Mapping[str, Any]) -> Scopes:
    reference = params.get("ref")
    if not isinstance(reference, dict):
        return ()
    if reference.get("type") == "ref/prompt":
        return _of_entry(app, "prompts", reference.get("name"))
    uri = reference.get("uri")
    return _of_entry(app, "templates", uri) + _of_entry(app, "resources", uri)


def _of_listening(app: "Server", params: Mapping[str, Any]) -> Scopes:
    wanted = params.get("notifications")
    uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
    if not isinstance(uris, list) or len(uris) > MOST_URIS:
        return ()  # what is longer is refused
    found: Dict[str, None] = {}
    for uri in dict.fromkeys(uri for uri in uris if isinstance(uri, str)):
        found.update(dict.fromkeys(_of_uri(app, uri)))
    return tuple(found)


_NEEDS: Mapping[Optional[str], Callable[["Server", Mapping[str, Any]], Scopes]] = {
    "tools/call": lambda app, params: _of_entry(app, "tools", params.get("name")),
    "prompts/get": lambda app, params: _of_entry(app, "prompts", params.get("name")),
    "resources/read": lambda app, params: _of_uri(app, params.get("uri")),
    "resources/subscribe": lambda app, params: _of_uri(app, params.get("uri")),
    "completion/complete": _of_completion,
    "subscriptions/listen": _of_listening,
}
