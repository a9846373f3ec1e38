"""The server: register tools, resources and prompts, and serve them."""

from ..types import assistant, user
from .app import Server
from .functions.media import Audio, Image
from .handling.context import Context
from .handling.questions import Elicit, Elicited, InputRequired, ListRoots, Sample
from .limits import Limits

__all__ = [
    "Audio", "Context", "Elicit", "Elicited", "Image", "InputRequired", "Limits", "ListRoots", "Sample", "Server",
    "assistant", "user",
]
