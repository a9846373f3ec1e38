"""ToolIndex: which tools fit some words, and what a model reads about them.

A :class:`ToolIndex` belongs to each search of :mod:`mcplite.llm`, and to each server with ``mount(search=True)``. The ranking
is BM25 over the words of names, titles, descriptions and parameters.
"""

import json
import math
import re
from collections import Counter
from typing import Any, Dict, List, Tuple

from ..types import CallToolResult, TextContent, Tool
from .error_text import one_line

__all__ = ["ToolIndex", "failed", "object_schema", "words_of"]

#: Parameters of BM25: how soon further repetitions of a word no longer count, and how much the length of a text lowers its
#: score.
_SATURATION, _LENGTH = 1.5, 0.75
#: How often the words of a name, a title, a description and the parameters count.
_WEIGHTS = (3, 2, 1, 1)
_WORD = re.compile(r"[^\W_]+")
_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Scripts without spaces between words: pairs of their characters are taken for words.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")


def words_of(text: str) -> List[str]:
    """Return the words of a text as they are compared: in lower case, ``camelCase`` and ``snake_case`` apart, no plural s."""
    found: List[str] = []
    for word in _WORD.findall(_CASE.sub(" ", text)):
        for run in _UNSPACED.findall(word):
            found += [run[at:at + 2] for at in range(max(len(run) - 1, 1))]
        plain = _UNSPACED.sub("", word).lower()
        if len(plain) > 1 or plain.isdigit():  # "a" stands in most texts
            found.append(plain[:-1] if len(plain) > 3 and plain.endswith("s") and not plain.endswith("ss") else plain)
    return found


class ToolIndex:
    """The words of some tools, and which tools fit a question."""

    def __init__(self, tools: List[Tool]) -> None:
        self.tools = tools
        self._counts: List[Counter[str]] = [self._words(tool) for tool in tools]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / len(tools) if tools else 1.0
        having = Counter(word for counts in self._counts for word in counts)
        self._rarity = {word: math.log(1 + (len(tools) - count + 0.5) / (count + 0.5)) for word, count in having.items()}

    @staticmethod
    def _words(tool: Tool) -> "Counter[str]":
        schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
        properties = schema.get("properties")
        parameters = [f"{name} {one.get('description', '') if isinstance(one, dict) else ''}"
                      for name, one in (properties.items() if isinstance(properties, dict) else ())]
        counts: Counter[str] = Counter()
        for weight, text in zip(_WEIGHTS, (tool.name, tool.title or "", tool.description or "", " ".join(parameters))):
            for word in words_of(text):
                counts[word] += weight
        return counts

    def search(self, query: str, limit: int) -> List[Tool]:
        """Return the tools that fit best, at most *limit*; a tool without a word of the query is left out."""
        asked, ranked = set(words_of(query)), []
        for position, counts in enumerate(self._counts):
            weight = _SATURATION * (1 - _LENGTH + _LENGTH * self._lengths[position] / self._mean)
            score = sum(self._rarity[word] * counts[word] * (_SATURATION + 1) / (counts[word] + weight)
                        for word in asked if word in counts)
            if score > 0:
                ranked.append((-score, position))
        return [self.tools[position] for _, position in sorted(ranked)[:limit]]

    def refreshed(self, tools: List[Tool]) -> "ToolIndex":
        """Return an index of *tools*: this index, if it was made for equal tools."""
        return self if self.tools == tools else ToolIndex(tools)

    # --- the two tools of a search ------------------------------------------------------------------------

    @staticmethod
    def declarations(search: str, describe: str, which: str, then: str) -> Tuple[Tool, Tool]:
        """Return the two tools that a model gets in place of all tools.

        :param search, describe: their names.
        :param which: the tools that are searched, such as ``among 50``.
        :param then: what can be done with those that are found, as a sentence.
        """
        query = {"type": "string", "description": "Words about what the tool should do"}
        name = {"type": "string", "description": "The name of a tool"}
        return (Tool(search, object_schema({"query": query}), description=(
                    f"Find tools {which}, by words. {then} Search before you say that something cannot be done.")),
                Tool(describe, object_schema({"name": name}),
                     description="Show a tool's whole description and its parameters."))

    def answer_search(self, query: Any, limit: int, lead: str) -> Tuple[CallToolResult, List[Tool]]:
        """Return the answer to a search, and the tools that it names.

        :param query: as the model has given it.
        :param lead: the line before the tools.
        """
        if not isinstance(query, str) or not words_of(query):
            return failed("Give a query: some words about what the tool should do."), []
        tools = self.search(query, limit)
        if not tools:
            text = f"No tool has a word of the query. There are {len(self.tools)} tools; try other words."
            return CallToolResult([TextContent(text)]), []
        lines = [f"{tool.name}: {one_line(tool.description or tool.display_name, 300)}" for tool in tools]
        return CallToolResult([TextContent("\n".join([lead, *lines]))]), tools

    def answer_description(self, name: Any) -> Tuple[CallToolResult, List[Tool]]:
        """Return the description of a tool as a model reads it, and the tool.

        :param name: as the model has given it.
        """
        found = [tool for tool in self.tools if tool.name == name][:1]
        if not found:
            return self.no_such_tool(name), []
        shown = {"name": found[0].name, "description": found[0].description, "input_schema": found[0].input_schema}
        return CallToolResult([TextContent(json.dumps(shown, ensure_ascii=False))]), found

    @staticmethod
    def no_such_tool(name: Any) -> CallToolResult:
        """Return the answer about a name that no tool has."""
        return failed(f"There is no tool {one_line(str(name), 100)}. Search for one.")


def object_schema(properties: Dict[str, Any], *optional: str) -> Dict[str, Any]:
    """Return the schema of an object with these properties, all of which but the *optional* ones are required."""
    return {"type": "object", "properties": properties, "required": [name for name in properties if name not in optional]}


def failed(text: str) -> CallToolResult:
    """Return the result of a call that went wrong, with what the model reads."""
    return CallToolResult([TextContent(text)], is_error=True)
