"""What the modules of this folder need of the compiler of annotations, which is above them."""

import sys
from typing import Any, Dict, List, Optional, Protocol, Set

from ....errors import RegistrationError
from ....protocol.schema.validation import Validator
from ..converters import Node

__all__ = ["Compiler", "cut", "first_line", "libraries_of", "loaded"]

#: Characters of another library's error that are sent on; some of them repeat the value.
_LONGEST = 500


class Compiler(Protocol):
    """Compiles the annotations of one function; ``Schemas`` is one."""

    returned: bool
    definitions: Dict[str, Any]
    validators: List[Validator]

    def compile(self, annotation: Any, name: str) -> Node:
        """Return the node of *annotation*."""

    def refuse(self, name: str, reason: str) -> RegistrationError:
        """Return the error for the parameter *name*, which cannot be served."""

    def place(self, name: str) -> str:
        """Return what errors call the parameter *name*."""

    def free_label(self, wanted: str) -> str:
        """Return a name for ``definitions`` that is not taken, *wanted* if possible."""


def loaded(library: str) -> Optional[Any]:
    """Return a library that the process has imported already; None if it has not."""
    return sys.modules.get(library)


def libraries_of(cls: type) -> Set[str]:
    """Return the top-level packages of a class and of its bases."""
    return {str(base.__module__).partition(".")[0] for base in cls.__mro__}


def cut(text: str) -> str:
    """Return the text of an error of another library, of a bounded length."""
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def first_line(error: Exception) -> str:
    """Return the first line of an error of another library, without the full stop."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".:")[:300]
