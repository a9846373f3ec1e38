"""Replaces ``${...}`` in configuration files: environment variables, the placeholders of editors, and a user's values.

``inputs`` of an editor's configuration are values that the user is asked for, in place of ``${input:id}``.
"""

import os
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ..errors import TransportError

__all__ = ["ConfigInput", "InputValues", "Placeholders"]


@dataclass
class ConfigInput:
    """A value that a configuration asks its user for."""

    id: str
    #: What to ask; empty if the file does not say.
    description: str = ""
    #: Whether the value is secret and must not be shown while it is typed.
    password: bool = False
    default: str = ""
    #: The values to choose from, each with its label; empty for any text.
    options: List[Tuple[str, str]] = field(default_factory=list)


class InputValues:
    """The values of a file's inputs, each asked for once, and only when an entry needs it.

    :param document: the file's content.
    :param ask: returns the user's value for an input.
    """

    def __init__(self, document: Any, ask: Callable[[ConfigInput], str]) -> None:
        found = document.get("inputs") if isinstance(document, Mapping) else None
        self._raw = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        self._ask = ask
        self._values: Dict[str, str] = {}

    def value(self, name: str) -> str:
        """Return the value of the input *name*.

        :raises TransportError: the file has no such input, or one that runs a command of the editor.
        """
        if name not in self._values:
            self._values[name] = self._ask(self._input(name))
        return self._values[name]

    def _input(self, name: str) -> ConfigInput:
        raw = next((one for one in self._raw if one.get("id") == name), None)
        if raw is None:
            raise TransportError(f"${{input:{name}}}: the file's 'inputs' have no entry with the id {name!r}")
        if raw.get("type", "promptString") not in ("promptString", "pickString"):
            raise TransportError(f"${{input:{name}}}: an input of the type {raw['type']!r} works in an editor only; write"
                                 f" ${{VARIABLE}} and set that variable")
        options = raw.get("options")
        return ConfigInput(name, str(raw.get("description") or ""), raw.get("password") is True,
                           str(raw.get("default") or ""),
                           [_option(one) for one in options] if isinstance(options, list) else [])


def _option(one: Any) -> Tuple[str, str]:
    if isinstance(one, Mapping):
        value = str(one.get("value", ""))
        return value, str(one.get("label") or value)
    return str(one), str(one)


_BRACE = re.compile(r"\$?\{|\}")
#: Defaults inside of defaults.
_MOST_DEFAULTS = 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Placeholders:
    """Replaces ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``, ``${workspaceFolder}``, ``${userHome}`` and the like.

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

        A default may hold placeholders, which count only if it is used.

        :raises TransportError: a variable is not set, or a kind of placeholder is not supported.
        """
        return self._fill(text, _MOST_DEFAULTS)

    def _fill(self, text: str, depth: int) -> str:
        parts: List[str] = []
        position = 0
        for begin, end in _placeholders(text):
            name, separator, default = text[begin + 2:end].partition(":-")
            if begin >= position and "{" not in name:  # ${{ secrets.KEY }} is of another language
                parts += text[position:begin], self._value(name, default if separator else None, depth)
                position = end + 1
        return "".join([*parts, text[position:]])

    def _value(self, inside: str, default: Optional[str], depth: int) -> str:
        if inside in ("workspaceFolder", "workspaceFolderBasename"):
            if self._folder is None:
                raise TransportError(f"${{{inside}}} has no meaning for a configuration that is not in a file")
            return self._folder if inside == "workspaceFolder" else os.path.basename(self._folder)
        if inside == "userHome":
            return os.path.expanduser("~")
        if inside in ("pathSeparator", "/"):
            return os.sep
        kind, colon, rest = inside.partition(":")
        if kind == "input" and colon:
            if self._ask is not None:
                return self._ask(rest)
            raise TransportError(f"${{{inside}}} would ask the user in an editor, which is not supported here;"
                                 f" write ${{VARIABLE}} and set that variable")
        name = rest if kind == "env" and colon else inside
        if name is inside and not _NAME.match(name):
            raise TransportError(f"${{{inside}}} is not supported; supported are ${{VARIABLE}}, ${{VARIABLE:-default}},"
                                 f" ${{env:VARIABLE}}, ${{workspaceFolder}} and ${{userHome}}")
        value = self._environ.get(name)
        if default is not None:
            if value:
                return value
            if not depth:
                raise TransportError(f"${{{inside}:-...}}: more than {_MOST_DEFAULTS} defaults stand inside of each other")
            return self._fill(default, depth - 1)
        if value is None:
            raise TransportError(f"the environment variable {name} is not set; set it, or write"
                                 f" ${{{name}:-default}}")
        return value


def _placeholders(text: str) -> List[Tuple[int, int]]:
    """Return where each ``${`` begins and where the brace is that ends it, in their order."""
    found: List[Tuple[int, int]] = []
    begun: List[int] = []
    for match in _BRACE.finditer(text):
        if match.group() != "}":
            begun.append(match.start())
        elif begun:
            begin = begun.pop()
            if text[begin] == "$":
                found.append((begin, match.start()))
    return sorted(found)
