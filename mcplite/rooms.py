"""The rooms around the core: what a user writes, and the function of the folder that does it, loaded when it is used.

The core imports no room. A copy of the package without one of these folders works, but for what is written here.
"""

from importlib import import_module
from typing import Any, Dict, Tuple

__all__ = ["ROOMS", "load"]

#: By what a user writes: the module, and the name in it.
ROOMS: Dict[str, Tuple[str, str]] = {
    "backend=": ("backend.from_url", "open_backend"),
    "a shared backend": ("backend.sealed", "SealedBackend"),
    "auth=": ("auth.verify.bearer_auth", "BearerAuth"),
    "--token-env": ("auth.verify.bearer_auth", "StaticTokens"),
    "Server.mount()": ("proxy.mount", "mount"),
}


def load(word: str) -> Any:
    """Return what does what a user has written.

    :param word: of the table.
    :raises ImportError: this copy of the package has no such folder; the text names it, and the word.
    """
    module, name = ROOMS[word]
    folder = module.partition(".")[0]
    try:
        found = import_module(f".{module}", __package__)
    except ModuleNotFoundError as error:
        if error.name != f"{__package__}.{folder}":
            raise  # a library that the folder uses
        raise ImportError(f"this copy of {__package__} has no folder {folder}/ ({word})") from error
    return getattr(found, name)
