"""Middleware that refuses: too many calls, results that are too large, tools that a caller may not see."""

import math
import time
from typing import Any, Callable, Collection, Dict, FrozenSet, List, Optional

from ..errors import RATE_LIMITED, InternalError, InvalidParams, ProtocolError, RemoteError, ToolError
from ..protocol.jsonrpc import encode_json
from ..protocol.opaque import digest
from ..server.handling.context import Context
from ..types import Tool, codec

__all__ = ["FilterTools", "LimitRate", "LimitResults", "Proceed", "check_number", "names_in", "sender_of"]

#: Runs the rest of a request, and returns its result.
Proceed = Callable[[], Dict[str, Any]]


def sender_of(ctx: Context) -> str:
    """Return who has sent a request: the key of its principal, or its address if it has no principal.

    The text is empty on a pipe, which has one client.
    """
    if ctx.principal is not None:
        return ctx.principal.key
    return "" if ctx.http is None else ctx.http.network


def names_in(what: str, names: Collection[str]) -> FrozenSet[str]:
    """Return the names of tools or methods as a set.

    :param what: the parameter, for the error.
    :raises TypeError: it is one text, of which any part would count as a name, or not all are texts.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what}= takes several names, such as {what}=['...'], not {names!r}")
    return frozenset(names)


def check_number(what: str, value: float, least: float) -> None:
    """Check that *value* is a finite number of at least *least*.

    :raises ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
        raise ValueError(f"{what} is a number of at least {least:g}, not {value!r}")


class LimitRate:
    """Refuses calls of one sender beyond a rate, with the seconds after which it may try again.

    A sender may make *calls* calls at once, and gets one more every ``per / calls`` seconds. The counters are in ``ctx.store``:
    with ``backend=`` all processes count together, by their clocks. While the backend is away, calls are refused.

    A refusal is the JSON-RPC error ``RATE_LIMITED`` with ``{"retryAfter": seconds}`` as data; the handler did not run.

    :param calls: how many in *per* seconds.
    :param per: seconds; default 60.
    :param tools: the names of the tools whose calls count; None for all.
    :param together: whether all of these tools have one counter for each sender; by default each has its own.
    :param methods: the methods that count; default calls of tools.
    :param by: called with the context; returns the name of the sender whose calls are counted: by default the principal, or the
        address without one.
    :raises ValueError: *calls* is below 1, or *per* is not positive.
    :raises TypeError: *tools* or *methods* is one text.
    """

    def __init__(self, calls: int, per: float = 60.0, *, tools: Optional[Collection[str]] = None, together: bool = False,
                 methods: Collection[str] = ("tools/call",), by: Callable[[Context], str] = sender_of) -> None:
        if not (calls >= 1 and 0 < per < math.inf):
            raise ValueError(f"LimitRate takes at least one call in a number of seconds above 0, not {calls!r} in {per!r}")
        self.calls, self.per, self.together, self.by = calls, per, together, by
        self.tools, self.methods = None if tools is None else names_in("tools", tools), names_in("methods", methods)

    def __call__(self, ctx: Context, proceed: Proceed) -> Dict[str, Any]:
        if ctx.method in self.methods:
            tool = ctx.tool  # None for an unknown name: all unknown names share a counter
            name = "" if tool is None else tool.name
            if self.tools is None or name in self.tools:
                self._count(ctx, name)
        return proceed()

    def _count(self, ctx: Context, name: str) -> None:
        now, interval = time.time(), self.per / self.calls

        def add(until: float) -> float:
            # The generic cell rate algorithm: *until* is when all calls so far are paid for.
            wait = max(until, now) - now - self.per + interval
            if wait > 1e-6:
                raise _too_many(wait, self.calls, self.per, name)
            return min(max(until, now), now + self.per) + interval

        counter = digest(["rate", self.calls, self.per, self.by(ctx), "" if self.together else name])
        ctx.store.apart("rates").update(counter, add, 0.0, ttl=self.per + 1)


def _too_many(wait: float, calls: int, per: float, name: str) -> RemoteError:
    seconds = round(wait + 0.05, 1)
    what = f"calls of {name!r}" if name else "requests"
    return RemoteError(f"Try again in {seconds:g} s: {calls} {what} are allowed in {per:g} s", code=RATE_LIMITED,
                       data={"retryAfter": seconds})


class LimitResults:
    """Keeps results below a size, so that one call does not fill the context of a model.

    A tool whose result is larger fails with a text that says so, for the model to ask for less. With ``cut=True`` the texts
    of a result without structured content are cut off instead, so that they have this size as JSON together. Another method
    fails with an internal error.

    :param bytes: of the result as JSON; default a million.
    :param cut: whether texts are cut off.
    :param methods: whose results are bounded.
    :raises ValueError: *bytes* is no number of at least 1.
    :raises TypeError: *methods* is one text.
    """

    def __init__(self, bytes: int = 1_000_000, *, cut: bool = False,
                 methods: Collection[str] = ("tools/call", "resources/read", "prompts/get")) -> None:
        check_number("LimitResults(bytes)", bytes, 1)
        self.bytes, self.cut, self.methods = bytes, cut, names_in("methods", methods)

    def __call__(self, ctx: Context, proceed: Proceed) -> Dict[str, Any]:
        result = proceed()
        size = _size(result) if ctx.method in self.methods else 0
        if size <= self.bytes:
            return result
        if self.cut and "structuredContent" not in result and all(
                item.get("type") == "text" for item in result.get("content", [{}])):
            return {**result, "content": self._shortened(result["content"])}
        text = f"The result has {size:,} bytes, and {self.bytes:,} are allowed: ask for less"
        raise ToolError(text) if ctx.method == "tools/call" else InternalError(text)

    def _shortened(self, content: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        left, kept = self.bytes, []
        for item in content:
            text = item["text"]
            if _size(text) - 2 <= left:
                kept.append(item)
                left -= _size(text) - 2
                continue
            # The longest beginning that fits; each character takes a byte at least.
            fits, most = 0, min(len(text), left)
            while fits < most:
                middle = (fits + most + 1) // 2
                fits, most = (middle, most) if _size(text[:middle]) - 2 <= left else (fits, middle - 1)
            return [*kept, {**item, "text": f"{text[:fits]}\n[{fits:,} of {len(text):,} characters]"}]
        return kept


def _size(value: Any) -> int:
    return len(encode_json(value).encode("utf-8", "backslashreplace"))


class FilterTools:
    """Shows each caller only some tools; the others do not exist for it, neither in the list nor in calls.

    :param allowed: called with the context and a tool; returns whether the caller may see and call it.
    """

    def __init__(self, allowed: Callable[[Context, Tool], Any]) -> None:
        self.allowed = allowed

    def __call__(self, ctx: Context, proceed: Proceed) -> Dict[str, Any]:
        tool = ctx.tool
        if tool is not None and not self.allowed(ctx, tool):
            raise InvalidParams(f"Unknown tool: {tool.name}")
        result = proceed()
        if ctx.method == "tools/list":
            return {**result, "tools": [listed for listed in result["tools"] if self._shows(ctx, listed)]}
        return result

    def _shows(self, ctx: Context, listed: Dict[str, Any]) -> bool:
        try:
            return bool(self.allowed(ctx, codec.decode(Tool, listed)))
        except ProtocolError:
            return False  # a handler of the user for tools/list has listed something else
