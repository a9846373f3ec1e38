"""Middleware about results: one that keeps them for the next call, and one that tries again where a tool fails."""

import random
from typing import Any, Collection, Dict, Optional

from ..errors import InternalError, RemoteError
from ..protocol.meta import REPEATABLE
from ..protocol.opaque import digest, request_params
from ..server.handling.context import Context
from ..types import Tool
from .call_limits import Proceed, check_number, names_in, sender_of

__all__ = ["CacheResults", "RepeatCalls"]


def _may_run_twice(tool: Optional[Tool]) -> bool:
    hints = None if tool is None else tool.annotations
    return hints is not None and (hints.is_read_only or hints.is_idempotent)


class CacheResults:
    """Answers a call with the result of an earlier one that had the same arguments.

    It is for tools that only read: those with the hint ``readOnlyHint``, or those that are named. Each sender has results of
    its own. The results are in ``ctx.store``; those that failed, that asked the client, or that have more than a
    megabyte are not kept.

    :param ttl: seconds for which a result is kept; default 60.
    :param tools: the names of the tools; None for those that say that they only read.
    :param shared: whether all senders get the same results: for tools that do not look at who calls.
    :raises ValueError: *ttl* is no number of at least a thousandth.
    :raises TypeError: *tools* is one text.
    """

    def __init__(self, ttl: float = 60.0, *, tools: Optional[Collection[str]] = None, shared: bool = False) -> None:
        check_number("CacheResults(ttl)", ttl, 0.001)
        self.ttl, self.shared = ttl, shared
        self.tools = None if tools is None else names_in("tools", tools)

    def __call__(self, ctx: Context, proceed: Proceed) -> Dict[str, Any]:
        if not self._caches(ctx.tool) or {"task", "inputResponses", "requestState"} & ctx.params.keys():
            return proceed()
        owner = "" if self.shared else sender_of(ctx)
        key = digest(["result", ctx.protocol_version, owner, request_params(ctx.params)])
        try:
            kept = ctx.store.apart("results").get(key)
        except RemoteError:
            kept = None  # the store is away, and the tool can do without
        if kept is not None:
            return kept  # type: ignore[no-any-return]
        result = proceed()
        unfit = ctx.has_asked or result.get("isError") or "task" in result
        if not unfit and result.get("resultType", "complete") == "complete":
            try:
                ctx.store.apart("results").put(key, result, ttl=self.ttl)
            except (RemoteError, ValueError):
                return result  # the store is away, or the result is too large for it
        return result

    def _caches(self, tool: Optional[Tool]) -> bool:
        if tool is None:
            return False
        return tool.name in self.tools if self.tools is not None else bool(tool.annotations and tool.annotations.is_read_only)


class RepeatCalls:
    """Repeats a failed request if it may run twice: a call of a tool that allows it, or one for a list, a resource or a prompt.

    A tool may run twice if it has the hint ``readOnlyHint`` or ``idempotentHint``. The pause before the next attempt doubles
    each time, with jitter, and ends when the client cancels.

    :param attempts: in all; default 3.
    :param pause: seconds before the second attempt; default 0.2.
    :param longest: seconds of a pause at most; default 5.
    :raises ValueError: one of them is no number, *attempts* is below 1, or a pause is negative.
    """

    def __init__(self, attempts: int = 3, *, pause: float = 0.2, longest: float = 5.0) -> None:
        for name, value, least in (("attempts", attempts, 1), ("pause", pause, 0), ("longest", longest, 0)):
            check_number(f"RepeatCalls({name})", value, least)
        self.attempts, self.pause, self.longest = int(attempts), pause, longest

    def __call__(self, ctx: Context, proceed: Proceed) -> Dict[str, Any]:
        if not (_may_run_twice(ctx.tool) if ctx.method == "tools/call" else ctx.method in REPEATABLE):
            return proceed()
        for attempt in range(self.attempts - 1):
            try:
                result = proceed()
            except InternalError:
                result = {"isError": True}
            if not result.get("isError"):
                return result
            ctx.sleep(min(self.pause * 2 ** attempt, self.longest) * random.uniform(0.5, 1.0))
        return proceed()
