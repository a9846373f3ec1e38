"""The server: register tools, resources and prompts, and serve them. Each name is loaded on its first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..types import assistant as assistant, user as user
    from ..types.media import Audio as Audio, Image as Image
    from .app import Server as Server
    from .handling.context import Context as Context
    from .handling.questions import (
        Elicit as Elicit,
        Elicited as Elicited,
        InputRequired as InputRequired,
        ListRoots as ListRoots,
        Sample as Sample,
    )
    from .limits import Limits as Limits
    from .server_options import ServerOptions as ServerOptions

__all__ = [
    "Audio", "Context", "Elicit", "Elicited", "Image", "InputRequired", "Limits", "ListRoots", "Sample", "Server",
    "ServerOptions", "assistant", "user",
]

#: Where each name lives, relative to this package.
_HOMES = {
    "Server": ".app", "Audio": "..types.media", "Image": "..types.media", "Context": ".handling.context",
    "Elicit": ".handling.questions", "Elicited": ".handling.questions", "InputRequired": ".handling.questions",
    "ListRoots": ".handling.questions", "Sample": ".handling.questions", "Limits": ".limits",
    "ServerOptions": ".server_options",
    "assistant": "..types", "user": "..types",
}


def __getattr__(name: str) -> Any:
    """Load *name* on its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value
