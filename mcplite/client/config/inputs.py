"""The ``inputs`` of an editor's configuration: values that the user is asked for, in place of ``${input:id}``."""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Tuple

from ...errors import TransportError

__all__ = ["ConfigInput", "InputValues"]


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
