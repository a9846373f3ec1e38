"""Rules for sampling messages, and a helper for the host that chooses the model."""

from typing import Any, List, Optional, Sequence

from ..types import ModelPreferences

__all__ = ["check_messages", "pick_model"]


def check_messages(messages: Sequence[Any]) -> Optional[str]:
    """Return what is wrong with a conversation's tool uses and results, or None.

    A user message with tool results holds nothing else (SAMP-11), and every tool use is answered by
    the next user message, id for id, before anything else is said (SAMP-12).

    :param messages: as on the wire.
    """
    waiting: List[str] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            return f"messages[{index}] needs a role, 'user' or 'assistant'"
        content = message.get("content")
        items = content if isinstance(content, list) else [content]
        blocks = [item for item in items if isinstance(item, dict)]
        if len(blocks) < len(items):
            return f"messages[{index}] needs content: a block, or a list of blocks"
        results = [str(block.get("toolUseId")) for block in blocks if block.get("type") == "tool_result"]
        if results and (message["role"] != "user" or len(results) != len(blocks)):
            return f"messages[{index}]: tool results stand alone in a user message"
        if waiting:
            if sorted(results) != sorted(waiting):
                return (f"messages[{index}] must answer the tool uses {', '.join(sorted(waiting))}"
                        f" and nothing else; it answers {', '.join(sorted(results)) or 'none'}")
            waiting = []
        elif results:
            return f"messages[{index}] answers tool uses that nobody asked for: {', '.join(results)}"
        uses = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        if uses and message["role"] != "assistant":
            return f"messages[{index}]: only an assistant message can use tools"
        waiting = uses
    if waiting:
        return f"the tool uses {', '.join(waiting)} have no results"
    return None


def pick_model(preferences: Optional[ModelPreferences], models: Sequence[str]) -> Optional[str]:
    """Return the first of the host's *models* that a hint names (SAMP-18, SAMP-19).

    Hints are tried in order and match as parts of the name, whatever the case; without a match the
    first model is returned, since priorities are for the host to weigh. None when there are no models.
    """
    for hint in (preferences.hints or []) if preferences is not None else []:
        wanted = (hint.name or "").lower()
        for model in models:
            if wanted and wanted in model.lower():
                return model
    return models[0] if models else None
