"""What a session holds besides the handshake, so that a lost one can be opened anew."""

import threading
from typing import Any, Dict, Iterator, Optional, Tuple

__all__ = ["Remembered", "REPEATABLE"]

#: What may run twice without harm, so that it is sent again when nobody knows whether it has run.
REPEATABLE = frozenset({
    "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
    "completion/complete", "server/discover", "subscriptions/listen", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
})


class Remembered:
    """What a client has told a server, and a new session would not know: the log level, the subscriptions."""

    def __init__(self) -> None:
        #: Guards the two fields below; held for assignments only.
        self._lock = threading.Lock()
        self._level: Optional[Dict[str, Any]] = None
        self._subscriptions: Dict[str, Dict[str, Any]] = {}

    def note(self, method: str, params: Optional[Dict[str, Any]]) -> None:
        """Take note of a request that has succeeded."""
        if not params:
            return
        uri = params.get("uri")
        with self._lock:
            if method == "logging/setLevel":
                self._level = params
            elif method == "resources/subscribe" and isinstance(uri, str):
                self._subscriptions[uri] = params
            elif method == "resources/unsubscribe" and isinstance(uri, str):
                self._subscriptions.pop(uri, None)

    def again(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """Give the requests that tell it to a new session."""
        with self._lock:
            requests = [("resources/subscribe", params) for params in self._subscriptions.values()]
            if self._level is not None:
                requests.insert(0, ("logging/setLevel", self._level))
        return iter(requests)
