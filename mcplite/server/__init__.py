"""The server's side: register tools, resources and prompts, and serve them.

May import: server.app, server.context, server.limits, server.media, server.questions, types
"""

from ..types import assistant, user
from .app import Server
from .context import Context
from .limits import Limits
from .media import Audio, Image
from .questions import Elicit, Elicited, InputRequired, ListRoots, Sample

__all__ = [
    "Audio", "Context", "Elicit", "Elicited", "Image", "InputRequired", "Limits", "ListRoots", "Sample", "Server",
    "assistant", "user",
]
