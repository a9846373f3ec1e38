"""StdioFront: the pipes of a host application, which stay open while the server's process is replaced."""

import contextlib
import json
import secrets
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import INTERNAL_ERROR, ConnectionClosed, MCPError, ProtocolError
from ..protocol.error_text import one_line
from ..protocol.jsonrpc import Failure, Notification, Request, dump, encode_json
from ..rpc.stdio.pipes import PipeChannel
from ..rpc.threads import start_thread
from .reload_fronts import LINE_BYTES, WRITE_SECONDS, Events, Front, show

if TYPE_CHECKING:
    from ..client.stdio.stdio_channel import ChildChannel

__all__ = ["StdioFront"]

_RESTARTED = "send the request again: the server has ended, or its files have changed, before it had answered"


class StdioFront(Front):
    """The host application on stdin and stdout, and its session.

        held --its session is open--> handed on --the child is about to end--> held
        held --the child has ended by itself--> refused --another child--> held

    Requests of the host keep their ids. Requests of a child get new ids, since the next child may use its ids again.
    """

    def __init__(self, events: Events, streams: Tuple[int, int]) -> None:
        super().__init__(events)
        self._host = PipeChannel(*streams, name="the client", line_limit=LINE_BYTES, end_unread=True)
        #: Keeps the messages to the child in order; held while one is written.
        self._order = threading.Lock()
        #: Guards the fields below; held for assignments only.
        self._lock = threading.Lock()
        self._state = "held"
        self._child: "Optional[ChildChannel]" = None
        self._reason = ""
        self._held: List[bytes] = []
        #: The requests that the child has not answered, by their ids as JSON.
        self._running: Dict[str, Dict[str, Any]] = {}
        #: The child's ids of its requests, by the ids that the host gets.
        self._asked: Dict[int, Any] = {}
        self._last_id = 0
        #: The messages of the host that a server remembers, from the handshake on: the next child is sent them again.
        self._handshake: Optional[Dict[str, Any]] = None
        self._opened = self._initialized = False
        self._level: Optional[Dict[str, Any]] = None
        self._subscribed: Dict[Any, Dict[str, Any]] = {}
        self._areas: List[str] = []
        #: The beginning of the ids of the requests that this process makes itself.
        self._own = f"reload-{secrets.token_hex(8)}-"
        # Ends with the host's pipe, and blocks on it and on a child that does not read.
        start_thread(self._read_host, "mcplite stdin of the host")

    # --- the host's messages --------------------------------------------------------------------------------

    def _read_host(self) -> None:
        try:
            while True:
                line = self._host.read()
                if line is not None:
                    self._from_host(bytes(line))
                    self._host.consume()
        except (ConnectionClosed, ProtocolError):
            self._events.put(("stop", None))

    def _from_host(self, line: bytes) -> None:
        with self._order:
            with self._lock:
                state, child = self._state, self._child
                if state == "held":
                    self._held.append(line)
                    return
            if state == "refused":
                self._refuse_line(line)
            elif child is not None:
                self._hand_on(child, line)

    def _hand_on(self, child: "ChildChannel", line: bytes) -> None:
        value, items = _items(line)
        handed: List[Any] = []
        changed = False
        with self._lock:
            for item in items:
                self._note(item)
                if "method" in item and "id" in item:
                    self._running[encode_json(item["id"])] = item
                elif "id" in item:
                    changed = True
                    number = item["id"]
                    if type(number) is not int or number not in self._asked:
                        continue  # it answers an earlier child
                    item["id"] = self._asked.pop(number)
                handed.append(item)
        try:
            if not changed:
                child.write(line, WRITE_SECONDS)
            elif handed:
                child.write(_encoded(value, handed), WRITE_SECONDS)
        except MCPError as error:
            self._fail(items, str(error))

    def _note(self, item: Mapping[str, Any]) -> None:
        """Remember the parts of a message that the next child has to get, too."""
        method, params = item.get("method"), item.get("params")
        if method == "initialize":
            self._handshake, self._opened, self._initialized = dict(item), False, False
        elif method == "notifications/initialized":
            self._initialized = True
        elif not isinstance(params, dict):
            return
        elif method == "logging/setLevel":
            self._level = params
        elif method == "resources/subscribe":
            self._subscribed[str(params.get("uri"))] = params
        elif method == "resources/unsubscribe":
            self._subscribed.pop(str(params.get("uri")), None)
        elif method == "notifications/cancelled":
            self._running.pop(encode_json(params.get("requestId")), None)  # the host waits for no answer

    def _refuse_line(self, line: bytes) -> None:
        _, items = _items(line)
        if any(item.get("method") == "initialize" for item in items):
            with self._lock:
                self._held.append(line)  # hosts give up a server that refuses it
            return
        with self._lock:
            for item in items:
                self._note(item)
        self._fail(items, self._reason)

    def _fail(self, items: Sequence[Mapping[str, Any]], reason: str) -> None:
        for item in items:
            if "method" in item and "id" in item:
                with self._lock:
                    self._running.pop(encode_json(item["id"]), None)
                self._to_host(dump(Failure(item["id"], INTERNAL_ERROR, reason)))

    def _to_host(self, line: bytes) -> None:
        with contextlib.suppress(MCPError):  # the thread that reads from the host sees its end
            self._host.write(line)

    # --- the child's messages -------------------------------------------------------------------------------

    def _from_child(self, child: "ChildChannel", line: bytes) -> None:
        value, items = _items(line)
        handed: List[Any] = []
        changed = False
        for item in items:
            if "method" not in item and str(item.get("id")).startswith(self._own):
                changed = True
                if item["id"] == self._own + "initialize":
                    self._note_opened(child, item)
                continue
            handed.append(item)
            with self._lock:
                if "method" not in item:
                    if self._running.pop(encode_json(item.get("id")), {}).get("method") == "initialize":
                        self._opened, self._areas = "result" in item, _areas_of(item)
                elif "id" in item:
                    if self._state != "handed on":
                        handed.pop()  # the host's answer could not reach this child
                    else:
                        self._last_id += 1
                        self._asked[self._last_id], item["id"] = item["id"], self._last_id
                    changed = True
                elif item["method"] == "notifications/cancelled" and isinstance(item.get("params"), dict):
                    changed, params = True, item["params"]
                    number = next((number for number, own in self._asked.items() if own == params.get("requestId")), None)
                    if number is None:
                        handed.pop()  # the host has answered it, or was told that an earlier child has ended
                    else:
                        del self._asked[number]
                        params["requestId"] = number
        if not changed:
            self._to_host(line)
        elif handed:
            self._to_host(_encoded(value, handed))

    def _note_opened(self, child: "ChildChannel", answer: Mapping[str, Any]) -> None:
        with self._lock:
            self._areas = list(dict.fromkeys([*self._areas, *_areas_of(answer)]))
        if "error" in answer:
            show(f"the session of the host cannot be opened again: {one_line(encode_json(answer['error']), 500)}")
        self._events.put(("opened", child))

    # --- the supervisor -------------------------------------------------------------------------------------

    def serve(self, child: "ChildChannel") -> None:
        with self._lock:
            self._state, self._child = "held", child
            handshake = self._handshake if self._opened else None
        super().serve(child)
        if handshake is None:
            self.resume(child)
            return
        with contextlib.suppress(MCPError):  # a child that has ended at once
            child.write(dump(Request(self._own + "initialize", "initialize", handshake.get("params"))), WRITE_SECONDS)

    def resume(self, child: "ChildChannel") -> None:
        with self._order:
            with self._lock:
                opened, held = self._opened, self._held
                self._held = []
                level, subscribed, areas = self._level, list(self._subscribed.values()), list(self._areas)
                self._state = "handed on"
            if opened and self._initialized:
                told = [("logging/setLevel", level)] if level is not None else []
                lines = [dump(Notification("notifications/initialized"))]
                lines += [dump(Request(f"{self._own}{number}", method, params)) for number, (method, params) in enumerate(
                    [*told, *(("resources/subscribe", params) for params in subscribed)])]
                with contextlib.suppress(MCPError):  # a child that has ended meanwhile
                    for line in lines:
                        child.write(line, WRITE_SECONDS)
            for line in held:
                self._hand_on(child, line)
        for area in areas if opened else ():
            self._to_host(dump(Notification(f"notifications/{area}/list_changed")))

    def pause(self) -> None:
        with self._order, self._lock:
            self._state = "held"
            asked, self._asked = self._asked, {}
        for number in asked:
            self._to_host(dump(Notification("notifications/cancelled", {
                "requestId": number, "reason": "the server is restarted, since its files have changed"})))

    def gone(self, loaded: bool) -> None:
        with self._order:
            with self._lock:
                running, self._running = self._running, {}
                again = [item for item in running.values() if not loaded or item["method"] == "initialize"]
                self._held[:0] = [_encoded(None, [item]) for item in again]
            self._fail([item for item in running.values() if item not in again], _RESTARTED)

    def refuse(self, reason: str) -> None:
        with self._order:
            with self._lock:
                self._state, self._reason = "refused", reason
                held, self._held = self._held, []
            for line in held:
                self._refuse_line(line)

    def close(self) -> None:
        with self._order:
            with self._lock:
                self._state, self._reason = "refused", "the server ends"
                held, self._held = self._held, []
            for line in held:
                self._fail(_items(line)[1], self._reason)
        self._host.close()


def _items(line: bytes) -> Tuple[Any, List[Dict[str, Any]]]:
    """Return the value of a line, and the messages in it; None and no messages for a line that is not JSON."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None, []
    return value, [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]


def _encoded(value: Any, items: List[Any]) -> bytes:
    """Return messages as a line, as a batch if *value* is one."""
    return encode_json(items if isinstance(value, list) else items[0]).encode("utf-8", "backslashreplace")


def _areas_of(answer: Mapping[str, Any]) -> List[str]:
    """Return the lists that a server has, by its answer to ``initialize``."""
    result = answer.get("result")
    offered = result.get("capabilities") if isinstance(result, dict) else None
    return [area for area in ("tools", "resources", "prompts") if isinstance(offered, dict) and area in offered]
