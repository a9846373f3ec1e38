"""The vocabulary: the protocol's objects as plain records, the superset of all revisions.

Each module is loaded with the first use of one of its names: a server that asks no questions does not make the classes for
them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

from .codec import Icon as Icon, Model as Model
from .lazy_dataclass import NULL as NULL

if TYPE_CHECKING:
    from .client_requests import *  # noqa: F403
    from .content import *  # noqa: F403
    from .lifecycle import *  # noqa: F403
    from .prompts import *  # noqa: F403
    from .resources import *  # noqa: F403
    from .tools import *  # noqa: F403

__all__ = [
    "Annotations", "AudioContent", "BlobResourceContents", "CallToolResult", "ClientCapabilities", "CompleteResult",
    "Completion", "Content", "CreateMessageRequest", "CreateMessageResult", "DiscoverResult", "ElicitRequest",
    "ElicitResult", "EmbeddedResource", "GetPromptResult", "Icon", "ImageContent", "Implementation", "InitializeResult",
    "ListPromptsResult", "ListResourceTemplatesResult", "ListResourcesResult", "ListRootsResult", "ListToolsResult",
    "LogMessage", "Model", "ModelHint", "ModelPreferences", "NULL", "Progress", "Prompt", "PromptArgument", "PromptMessage",
    "ReadResourceResult", "Resource", "ResourceContents", "ResourceLink", "ResourceTemplate", "Root", "SamplingMessage",
    "ServerCapabilities", "TextContent", "TextResourceContents", "Tool", "ToolAnnotations", "ToolChoice",
    "ToolResultContent", "ToolUseContent", "UnknownContent", "assistant", "user",
]

#: By module: the names that it defines.
_HOMES = {
    "client_requests": (
        "CreateMessageRequest", "CreateMessageResult", "ElicitRequest", "ElicitResult", "ListRootsResult", "ModelHint",
        "ModelPreferences", "Root", "SamplingMessage", "ToolChoice",
    ),
    "content": (
        "Annotations", "AudioContent", "BlobResourceContents", "CallToolResult", "Content", "EmbeddedResource", "ImageContent",
        "ResourceContents", "ResourceLink", "TextContent", "TextResourceContents", "ToolResultContent", "ToolUseContent",
        "UnknownContent",
    ),
    "lifecycle": (
        "ClientCapabilities", "DiscoverResult", "Implementation", "InitializeResult", "LogMessage", "Progress",
        "ServerCapabilities",
    ),
    "prompts": (
        "CompleteResult", "Completion", "GetPromptResult", "ListPromptsResult", "Prompt", "PromptArgument", "PromptMessage",
        "assistant", "user",
    ),
    "resources": (
        "ListResourceTemplatesResult", "ListResourcesResult", "ReadResourceResult", "Resource", "ResourceTemplate",
    ),
    "tools": ("ListToolsResult", "Tool", "ToolAnnotations"),
}


def __getattr__(name: str) -> Any:
    """Load *name*, or the module of this name, on its first use (PEP 562)."""
    if name in _HOMES:
        return import_module(f".{name}", __name__)
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f".{module}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
