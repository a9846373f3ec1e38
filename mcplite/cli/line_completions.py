"""Completions: what may come next on a line with a command, at the prompt of ``shell`` and at that of the user's own shell."""

import contextlib
import re
from typing import Any, Callable, Iterable, List, Mapping

from ..errors import MCPError
from .command_table import COMMANDS

__all__ = ["COMMANDS_OF_LINE", "Completions", "listed_by"]

#: The commands of a line in ``shell``: those that need a client, and two of the shell itself.
COMMANDS_OF_LINE = [*(name for name, row in COMMANDS.items() if row.needs == "client"), "help", "exit"]


class Completions:
    """What may come next on a line: commands, tools, arguments and their values, URIs, prompts.

    :param client: connected. If it cannot read a list, there are no completions from it.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def of(self, words: List[str], begun: str) -> List[str]:
        """Return the possible words.

        :param words: before the one that is completed.
        :param begun: the part of that word that is typed already.
        """
        with contextlib.suppress(MCPError):
            return [word for word in self._candidates(words, begun) if word.startswith(begun)]
        return []

    def _candidates(self, words: List[str], begun: str) -> Iterable[str]:
        if not words:
            return [*(f"{name} " for name in COMMANDS_OF_LINE), *(f"{tool.name} " for tool in self._tools())]
        command, *rest = words
        if command not in COMMANDS_OF_LINE:
            command, rest = "call", words
        if command == "help":
            return COMMANDS_OF_LINE
        if command == "task" and not rest:
            return [f"{verb} " if " " in form else verb for verb, form in COMMANDS["task"].forms().items()]
        if command == "call":
            return self._of_call(rest, begun)
        if command == "prompt":
            return self._of_prompt(rest, begun)
        if command == "watch" or command == "read" and not rest:
            return self._uris()
        if command in ("describe", "complete") and not rest:
            return [*(tool.name for tool in self._tools() if command == "describe"),
                    *(one.name for one in self._prompts()), *self._uris(), *self._templates()]
        return []

    def _of_call(self, rest: List[str], begun: str) -> Iterable[str]:
        tools = self._tools()
        if not rest:
            return [f"{tool.name} " for tool in tools]
        schema = next((tool.input_schema for tool in tools if tool.name == rest[0]), None)
        properties = (schema or {}).get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        name, equals, _ = begun.partition("=")
        if equals:
            return [f"{name}={value} " for value in _values(properties.get(name))]
        given = {word.partition("=")[0].rstrip(":") for word in rest[1:]}
        return [f"{one}{'=' if _is_plain(found) else ':='}" for one, found in properties.items() if one not in given]

    def _of_prompt(self, rest: List[str], begun: str) -> Iterable[str]:
        prompts = self._prompts()
        if not rest:
            return [f"{prompt.name} " for prompt in prompts]
        arguments = next((prompt.arguments or [] for prompt in prompts if prompt.name == rest[0]), [])
        name, equals, value = begun.partition("=")
        given = dict(word.partition("=")[::2] for word in rest[1:])
        if not equals:
            return [f"{one.name}=" for one in arguments if one.name not in given]
        if self._client.server_capabilities.completions is None:
            return []
        found = self._client.complete(prompt=rest[0], argument=name, value=value, context=given)
        return [f"{name}={one} " for one in found.values if not re.search(r"\s", one)]

    def _tools(self) -> List[Any]:
        return listed_by(self._client, "tools", self._client.list_tools)

    def _prompts(self) -> List[Any]:
        return listed_by(self._client, "prompts", self._client.list_prompts)

    def _uris(self) -> List[str]:
        return [one.uri for one in listed_by(self._client, "resources", self._client.list_resources)]

    def _templates(self) -> List[str]:
        return [one.uri_template for one in listed_by(self._client, "resources", self._client.list_resource_templates)]


def listed_by(client: Any, kind: str, read: Callable[[], List[Any]]) -> List[Any]:
    """Read and return a list of the server; an empty list if the server does not declare this kind.

    :param kind: the capability, such as "tools".
    :param read: returns the list.
    """
    return read() if getattr(client.server_capabilities, kind) is not None else []


def _values(schema: Any) -> List[str]:
    """Return the values that a schema names, as far as they need no quotes; empty if it names none."""
    if not isinstance(schema, Mapping):
        return []
    if schema.get("type") == "boolean":
        return ["true", "false"]
    found = schema.get("enum")
    return [one for one in found if isinstance(one, str) and one and not re.search(r"[\s'\"\\]", one)] \
        if isinstance(found, list) else []


def _is_plain(schema: Any) -> bool:
    return not isinstance(schema, Mapping) or schema.get("type") not in ("array", "object")
