"""``${...}`` in configuration files: variables of the environment, and what editors define."""

import os
import re
from typing import Mapping, Optional

from ...errors import TransportError

__all__ = ["Placeholders"]

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Placeholders:
    """Replaces ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``, ``${workspaceFolder}`` and ``${userHome}``.

    :param environ: the variables.
    :param folder: stands for ``${workspaceFolder}``; None when the configuration is not in a file.
    """

    def __init__(self, environ: Mapping[str, str], folder: Optional[str]) -> None:
        self._environ = environ
        self._folder = folder

    def fill(self, text: str) -> str:
        """Return *text* with everything replaced; what replaces is not looked at again.

        :raises TransportError: a variable is not set, or a placeholder is of a kind that is not supported.
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
            raise TransportError(f"${{{inside}}} would ask the user in an editor, which is not supported here;"
                                 f" write ${{VARIABLE}} and set that variable")
        if kind == "env" and colon:
            return self._variable(rest, None)
        name, has_default, default = inside.partition(":-")
        if not _NAME.match(name):
            raise TransportError(f"${{{inside}}} is not supported; what is: ${{VARIABLE}}, ${{VARIABLE:-default}},"
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
