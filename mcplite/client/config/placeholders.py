"""Replaces ``${...}`` in configuration files: environment variables, and the placeholders of editors."""

import os
import re
from typing import Callable, Mapping, Optional

from ...errors import TransportError

__all__ = ["Placeholders"]

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Placeholders:
    """Replaces ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``, ``${workspaceFolder}`` and ``${userHome}``.

    :param environ: the variables.
    :param folder: the value of ``${workspaceFolder}``; None if the configuration is not in a file.
    :param ask: returns the value of ``${input:id}`` for an id; without it such a placeholder is an error.
    """

    def __init__(self, environ: Mapping[str, str], folder: Optional[str],
                 ask: Optional[Callable[[str], str]] = None) -> None:
        self._environ = environ
        self._folder = folder
        self._ask = ask

    def fill(self, text: str) -> str:
        """Return *text* with all placeholders replaced, once; placeholders in the replacements stay.

        :raises TransportError: a variable is not set, or a kind of placeholder is not supported.
        """
        return _PLACEHOLDER.sub(lambda found: self._value(found.group(1)), text)

    def _value(self, inside: str) -> str:
        if inside == "workspaceFolder":
            if self._folder is None:
                raise TransportError("${workspaceFolder} has no meaning for a configuration that is not in a file")
            return self._folder
        if inside == "userHome":
            return os.path.expanduser("~")
        kind, colon, rest = inside.partition(":")
        if kind == "input" and colon:
            if self._ask is not None:
                return self._ask(rest)
            raise TransportError(f"${{{inside}}} would ask the user in an editor, which is not supported here;"
                                 f" write ${{VARIABLE}} and set that variable")
        if kind == "env" and colon:
            return self._variable(rest, None)
        name, has_default, default = inside.partition(":-")
        if not _NAME.match(name):
            raise TransportError(f"${{{inside}}} is not supported; supported are ${{VARIABLE}}, ${{VARIABLE:-default}},"
                                 f" ${{env:VARIABLE}}, ${{workspaceFolder}} and ${{userHome}}")
        return self._variable(name, default if has_default else None)

    def _variable(self, name: str, default: Optional[str]) -> str:
        value = self._environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            raise TransportError(f"the environment variable {name} is not set; set it, or write"
                                 f" ${{{name}:-default}}")
        return value
