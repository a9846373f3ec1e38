"""LangChain: tools whose ``invoke()`` calls a server, on the thread that calls it."""

import re
from typing import Any, Callable, Dict, Tuple

from .result_content import FAILED, Part, split
from .tool_names import PARAMETERS
from .toolset import CallOptions, Entry, Outcome, Toolset, ToolUse

__all__ = ["LangChainTools"]

#: LangChain passes arguments as keywords, beside keywords of its own, whose names no parameter may have.
_PARAMETERS = re.compile(r"(?!(?:config|run_manager|self)$)" + PARAMETERS.pattern)
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class LangChainTools(Toolset):
    """The tools of a client for LangChain; :func:`mcplite.llm.langchain_tools` returns its :attr:`tools`."""

    _parameter_names = _PARAMETERS

    def _declare(self, entry: Entry) -> Any:
        from langchain_core.tools import StructuredTool

        return StructuredTool(name=entry.name, description=entry.description,
                              args_schema={"title": entry.name, **entry.schema}, func=self._runner(entry),
                              response_format="content_and_artifact", handle_tool_error=_error_content)

    def _runner(self, entry: Entry) -> Callable[..., Tuple[Any, Any]]:
        def run(**arguments: Any) -> Tuple[Any, Any]:
            from langchain_core.tools import ToolException

            outcome = self._run(ToolUse(None, entry.name, arguments), CallOptions())
            if outcome.is_error:
                raise ToolException(_content(outcome))
            return _content(outcome), outcome.result

        return run


def _error_content(error: Any) -> Any:
    return error.args[0] if error.args else FAILED


def _content(outcome: Outcome) -> Any:
    """Return a text, or a list of blocks if there are images, in the form that every integration of LangChain reads."""
    parts, _ = split(outcome.parts, lambda part: part.mime_type in _IMAGES)
    if all(part.kind == "text" for part in parts):
        return "\n".join(part.text for part in parts) or (FAILED if outcome.is_error else "")
    return [_block(part) for part in parts]


def _block(part: Part) -> Dict[str, Any]:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.data_url}}
