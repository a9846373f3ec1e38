"""Sends a request again when a busy server says so: after 429 or 503 with ``Retry-After``, if the request may run twice.

The sessions of both eras use it when a message was refused.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Optional, Union

from ...errors import HTTPStatusError, RemoteError
from ...protocol.methods import REPEATABLE
from ...rpc.cancel import CancelToken
from ..call import Call
from ..features.waiting import Waiting

__all__ = ["send_again"]

Refusal = Union[RemoteError, HTTPStatusError]
#: Seconds for which a request is repeated; its own time limits may be shorter.
_MOST_SECONDS = 60.0
#: Seconds between two attempts at most; a server that asks for longer pauses is not asked again.
_LONGEST_PAUSE_SECONDS = 10.0
#: Seconds between two attempts at least, whatever the server asks for.
_SHORTEST_PAUSE_SECONDS = 0.1
#: A handshake that was refused has opened no session.
_REPEATED = REPEATABLE | {"initialize"}
#: These have attempts of their own.
_OTHERWISE = frozenset({"subscriptions/listen"})


def send_again(send: Callable[[Call], Dict[str, Any]], call: Call, error: Refusal, spent: float) -> Dict[str, Any]:
    """Send a request again that a server has refused, while it is busy, and return its result.

    It is repeated only if it may run twice, or continues a call with ``requestState``, which a server takes once. The pause
    is the server's, and longer with each attempt. Both limits of the call hold for all attempts together.

    :param error: the refusal, which is raised again if it does not ask for another attempt.
    :param spent: the seconds of the call's limits that the first attempt took.
    :raises RemoteError, HTTPStatusError: the last answer of a server that stays busy, or what it answered otherwise.
    :raises Cancelled: the call was cancelled meanwhile.
    """
    if call.method in _OTHERWISE or (call.method not in _REPEATED and "requestState" not in (call.params or {})):
        raise error
    waiting, attempts = Waiting(call.timeout, call.max_timeout, call.cancel, spent=call.spent + spent), 0
    begun, left = time.monotonic(), waiting.least(_MOST_SECONDS)
    while True:
        attempts += 1
        asked = error.retry_after
        pause = None if asked is None else min(max(asked, _SHORTEST_PAUSE_SECONDS) * attempts,
                                               max(asked, _LONGEST_PAUSE_SECONDS))
        if pause is None or pause > _LONGEST_PAUSE_SECONDS or time.monotonic() - begun + pause >= left:
            raise error
        _wait(pause, call.cancel)
        try:
            return send(call._replace(id=None, spent=waiting.spent + time.monotonic() - begun))
        except (RemoteError, HTTPStatusError) as refusal:
            error = refusal


def _wait(seconds: float, cancel: Optional[CancelToken]) -> None:
    if cancel is None:
        time.sleep(seconds)
    elif cancel.wait(seconds):
        cancel.check()
