"""Repeats a call that has failed for the moment, where that is safe: :class:`SafeRetries`, for ``ClientOptions(retry=...)``.

A call may be repeated if it certainly was not begun, or if it may run twice::

    failed ── not for the moment ──────────────────────────────────────> raised as it is
      └ for the moment: lost connection, 429, 502, 503, 504, busy
          ├ not begun: no connection, 429, RATE_LIMITED, unknown session ──┐
          ├ list, read, prompt, completion, a tool that says so ───────────┤─> pause, the same call again
          └ anything else ───────────────────────────────────────────────> raised: it may have run

The pause doubles with each attempt, with jitter; if the server asks for a longer pause, that one is used. All attempts share
the time limits of the call, and a pause that would exceed them is not begun.
"""

from __future__ import annotations

import random
from typing import Any, Callable, Dict, List

from ..errors import RATE_LIMITED, SERVER_BUSY, ConnectionClosed, MCPError, RemoteError, SessionLost, TransportError, copied
from ..protocol.meta import REPEATABLE
from ..rpc.tracing import get_logger
from ..types import Tool
from .call import Call, Waiting, sleep
from .output_schemas import Listed

__all__ = ["SafeRetries"]

_log = get_logger(__name__)
#: Seconds before the second attempt, and at most before a later one, unless the server asks for more. The pause is a random
#: part of them, between a half and the whole.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
#: Statuses of a server or of a gateway that cannot serve at present; at 429 it has refused to begin.
_FOR_THE_MOMENT = frozenset({429, 502, 503, 504})
_REFUSED = 429
_MAY_HAVE_RUN = "the server may or may not have done what was asked"


class SafeRetries:
    """Repeats the calls of one client.

    :param attempts: of one call at most.
    :param session_for: returns the session for the next attempt, which it may have to open.
    :param list_tools: reads the list of tools, and calls :meth:`learn` with it; takes the keywords of ``Client.list_tools``.
    """

    def __init__(self, attempts: int, session_for: Callable[[Waiting], Any], list_tools: Callable[..., Any]) -> None:
        self._attempts = attempts
        self._session_for = session_for
        self._list_tools = list_tools
        #: By the name of a listed tool: whether it may run twice.
        self._safe: Listed[bool] = Listed()

    def learn(self, tools: List[Tool]) -> None:
        """Note which of the listed tools may run twice: those with ``readOnlyHint`` or ``idempotentHint``."""
        found: Dict[str, bool] = {tool.name: tool.annotations is not None and (
            tool.annotations.is_read_only or tool.annotations.is_idempotent) for tool in tools}
        self._safe.learn(list(found), found)

    def forget(self) -> None:
        """Note that the server's list has changed."""
        self._safe.forget()

    def send(self, session: Any, call: Call) -> Dict[str, Any]:
        """Send a call, again where that is safe, and return its result.

        :param session: the ``ClientSession`` for the first attempt.
        :raises MCPError: the failure of the last attempt; its text says so if the call may have run.
        """
        now = session.now
        begun, failed = now() - call.spent, 0
        while True:
            try:
                if failed:
                    session = self._reopened(call.waiting(now() - begun, now))
                    call = call._replace(id=None, spent=now() - begun)
                return session.request(call)  # type: ignore[no-any-return]
            except (TransportError, RemoteError) as error:
                failed += 1
                waiting = call.waiting(now() - begun, now)
                if not _may_pass(error, session):
                    raise
                if not (_is_unbegun(error) or self._may_run_twice(call, waiting)):
                    told = _with_doubt(error)
                    if told is error:
                        raise
                    raise told from error
                pause = max(min(_FIRST_PAUSE * 2 ** (failed - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0),
                            getattr(error, "retry_after", None) or 0.0)
                if failed >= self._attempts or pause >= waiting.least(None):
                    raise
                _log.info("%s: %r is sent again in %.2g s: %s", session.name, call.method, pause, error)
            sleep(pause, call.cancel)

    def _reopened(self, waiting: Waiting) -> Any:
        try:
            return self._session_for(waiting)
        except TransportError as error:
            error.unsent = True
            raise

    def _may_run_twice(self, call: Call, waiting: Waiting) -> bool:
        if call.method != "tools/call":
            return call.method in REPEATABLE
        name = str((call.params or {}).get("name"))
        safe = self._safe.found.get(name)
        if safe is None:
            try:
                self._list_tools(max_timeout=waiting.least(call.max_timeout), cancel=call.cancel)
            except MCPError as error:
                _log.info("a failed call of the tool %.100r is not repeated, since the list of tools cannot be read: %s", name,
                          error)
            safe = self._safe.found.get(name, False)
        return bool(safe)


def _may_pass(error: MCPError, session: Any) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, RemoteError):
        return error.received and (error.code in (SERVER_BUSY, RATE_LIMITED) or error.http_status in _FOR_THE_MOMENT)
    if isinstance(error, ConnectionClosed) and not isinstance(error, SessionLost):
        return bool(session.restartable and session.peer.closed)
    return isinstance(error, TransportError) and error.temporary


def _is_unbegun(error: MCPError) -> bool:
    """Whether it is certain that the call was not begun."""
    if isinstance(error, RemoteError):
        return error.code == RATE_LIMITED or error.http_status == _REFUSED
    return (getattr(error, "status", None) == _REFUSED or isinstance(error, SessionLost) and error.unserved
            or isinstance(error, TransportError) and error.unsent)


def _with_doubt(error: MCPError) -> MCPError:
    """Return the error of a call that may have run, with a text that says so."""
    if not isinstance(error, TransportError) or not error.args or "may or may not" in str(error.args[0]):
        return error
    told = copied(error)
    told.args = (f"{error.args[0]}; {_MAY_HAVE_RUN}, so it was not sent again", *error.args[1:])
    return told
