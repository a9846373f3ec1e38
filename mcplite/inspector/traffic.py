"""Traffic: what the inspector has seen, in order, as events for its page.

Three kinds of entries share one numbering, which an event stream resumes by:

- *Messages* of both directions, with their times, and which response answers which request.
- *Notes*: lines of stderr, changed lists, questions that are closed.
- *States*: of a server, a call, an open question. A new state replaces the one before.

Messages and notes are bounded, and the oldest ones are dropped first. A page that reads slowly needs no memory here: there is
no queue for each page, and a page reads on from the number of the last entry that it has.
"""

import itertools
import json
import math
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

__all__ = ["TrafficEntry", "Message", "Traffic", "to_json"]

#: Messages that are kept, and their bytes.
_MOST_MESSAGES, _MOST_BYTES = 10_000, 16 << 20
#: Notes that are kept, their characters, and those of one line of stderr.
_MOST_NOTES, _MOST_NOTE_CHARACTERS, _LONGEST_LINE = 2_000, 4 << 20, 4_000
#: Bytes of a message up to which the page gets it whole, and the bytes that the page gets of a longer one.
_WHOLE_BYTES, _BEGINNING_BYTES = 256 << 10, 16 << 10
#: Messages of one batch that are shown one by one.
_MOST_IN_BATCH = 1_000
#: Characters of a method or of an id that is shown beside a message.
_LONGEST_NAME = 200
#: Digits of an integer; Python takes quadratic time for more, or refuses them.
_MOST_DIGITS = 4_300


class TrafficEntry(NamedTuple):
    """One event for the page: its number, its name, and a function that returns its JSON."""

    number: int
    event: str
    text: Callable[[], str]
    #: If the event adds facts to a message: the number of this message. 0 for all other events.
    about: int = 0


class Message:
    """One message that was sent or received. Its members are those of the event for the page; ``raw`` has its bytes."""

    def __init__(self, number: int, server: str, direction: str, raw: bytes, connection: int) -> None:
        self.number, self.server, self.direction, self.raw, self.connection = number, server, direction, raw, connection
        self.time, self.clock = time.time(), time.monotonic()
        self.kind, self.method = "invalid", ""
        self.id: Union[None, int, str] = None
        self.answers: Optional[int] = None
        self.duration: Optional[float] = None
        self.http: Optional[Dict[str, Any]] = None
        #: Bytes that count to the limit of all messages: those of the message, and of its HTTP heads.
        self.kept_bytes = len(raw)

    def read(self, value: Any) -> None:
        """Set kind, method and id by the JSON value of the message."""
        if not isinstance(value, dict):
            return
        method, id = value.get("method"), value.get("id")
        if isinstance(method, str):
            self.kind = "request" if "id" in value else "notification"
            self.method = method[:_LONGEST_NAME]
        elif "error" in value or "result" in value:
            self.kind = "error" if "error" in value else "response"
        if isinstance(id, int) or isinstance(id, str) and len(id) <= _LONGEST_NAME:
            self.id = id

    def content(self) -> Tuple[str, int]:
        """Return the JSON of the content as the page gets it, and how many bytes it lacks."""
        if self.kind != "invalid" and len(self.raw) <= _WHOLE_BYTES:
            return self.raw.decode("utf-8"), 0
        shown = self.raw if len(self.raw) <= _WHOLE_BYTES else self.raw[:_BEGINNING_BYTES]
        return json.dumps(shown.decode("utf-8", "backslashreplace")), len(self.raw) - len(shown)

    def text(self) -> str:
        """Return the JSON of the event."""
        content, cut = self.content()
        head = json.dumps({
            "message": self.number, "server": self.server, "direction": self.direction, "time": self.time, "kind": self.kind,
            "method": self.method, "id": self.id, "size": len(self.raw), "cut": cut, "answers": self.answers,
            "duration": self.duration, "http": self.http})
        return f'{head[:-1]}, "content": {content}}}'


class Traffic:
    """The record of all servers of one inspector; any thread may use it.

    :param most_messages, most_bytes: of the messages that are kept.
    """

    def __init__(self, most_messages: int = _MOST_MESSAGES, most_bytes: int = _MOST_BYTES) -> None:
        self._most_messages, self._most_bytes = most_messages, most_bytes
        #: Guards all fields, and wakes the threads that wait for entries; held for work in memory only.
        self._lock = threading.Condition()
        self._numbers = itertools.count(1)
        self._messages: Deque[Tuple[TrafficEntry, Optional[Message]]] = deque()
        #: Each note, with the number of its characters.
        self._notes: Deque[Tuple[TrafficEntry, int]] = deque()
        self._note_characters = 0
        #: By kind and key; the entry of the latest state.
        self._states: Dict[Tuple[str, str], TrafficEntry] = {}
        #: The messages that are kept, by number, and their bytes.
        self._kept: Dict[int, Message] = {}
        self._bytes = 0
        #: By connection, direction and id: the requests that are not answered.
        self._asked: Dict[Tuple[int, str, Any], Message] = {}
        #: By server: how many messages were dropped.
        self._dropped: Dict[str, int] = {}
        self._closed = False

    # --- what is recorded --------------------------------------------------------------------------------------

    def add(self, server: str, direction: str, raw: bytes, connection: int = 0) -> None:
        """Record bytes that were sent or received: one message, a batch of messages, or bytes that are no message.

        :param connection: the number of the connection; each has ids of its own.
        """
        value = _json_of(raw)
        if isinstance(value, list) and 0 < len(value) <= _MOST_IN_BATCH:
            for item in value:
                self._add(server, direction, json.dumps(item, ensure_ascii=False).encode("utf-8", "replace"), item, connection)
        else:
            self._add(server, direction, raw, value, connection)

    def _add(self, server: str, direction: str, raw: bytes, value: Any, connection: int) -> None:
        with self._lock:
            message = Message(next(self._numbers), server, direction, raw, connection)
            message.read(value)
            if message.kind == "request":
                self._asked[connection, direction, message.id] = message
            elif message.kind in ("response", "error"):
                asked = self._asked.pop((connection, "<-" if direction == "->" else "->", message.id), None)
                if asked is not None:
                    message.method, message.answers, message.http = asked.method, asked.number, asked.http
                    message.duration = message.clock - asked.clock
            self._kept[message.number] = message
            self._bytes += len(raw)
            self._messages.append((TrafficEntry(message.number, "message", message.text), message))
            self._drop()
            self._lock.notify_all()

    def _drop(self) -> None:
        """Drop the oldest messages while there are too many; one message alone always stays."""
        servers = set()
        while (len(self._messages) > self._most_messages or self._bytes > self._most_bytes) and len(self._messages) > 1:
            message = self._messages.popleft()[1]
            if message is not None:
                self._forget(message)
                servers.add(message.server)
                self._dropped[message.server] = self._dropped.get(message.server, 0) + 1
        for server in servers:
            self._set("dropped", server, to_json({"server": server, "messages": self._dropped[server]}))

    def _forget(self, message: Message) -> None:
        del self._kept[message.number]
        self._bytes -= message.kept_bytes
        key = message.connection, message.direction, message.id
        if self._asked.get(key) is message:
            del self._asked[key]

    def add_http(self, server: str, body: Any, http: Dict[str, Any]) -> None:
        """Note the HTTP request and response that carried a message.

        :param body: of the request. The latest messages are searched for the one with these bytes.
        """
        with self._lock:
            for _, message in itertools.islice(reversed(self._messages), 200):
                if (message is not None and message.http is None and message.direction == "->" and message.server == server
                        and message.raw == body):
                    message.http = http
                    heads = len(to_json(http))
                    message.kept_bytes += heads
                    self._bytes += heads
                    update = TrafficEntry(next(self._numbers), "message-update", message.text, message.number)
                    self._messages.append((update, None))
                    self._drop()
                    self._lock.notify_all()
                    return

    def note(self, event: str, values: Mapping[str, Any]) -> None:
        """Record an event that no later one replaces."""
        text = to_json(values)
        with self._lock:
            self._notes.append((TrafficEntry(next(self._numbers), event, lambda: text), len(text)))
            self._note_characters += len(text)
            while len(self._notes) > _MOST_NOTES or self._note_characters > _MOST_NOTE_CHARACTERS and len(self._notes) > 1:
                self._note_characters -= self._notes.popleft()[1]
            self._lock.notify_all()

    def note_line(self, server: str, line: str) -> None:
        """Record a line of a server's stderr."""
        cut = f" ... ({len(line) - _LONGEST_LINE} more characters)" if len(line) > _LONGEST_LINE else ""
        self.note("stderr", {"server": server, "time": time.time(), "line": line[:_LONGEST_LINE] + cut})

    def set(self, event: str, key: object, values: Mapping[str, Any]) -> int:
        """Record a state, which replaces the earlier state of this event and key; return the characters of its JSON."""
        text = to_json(values)
        with self._lock:
            self._set(event, str(key), text)
            self._lock.notify_all()
        return len(text)

    def _set(self, event: str, key: str, text: str) -> None:
        self._states.pop((event, key), None)
        self._states[event, key] = TrafficEntry(next(self._numbers), event, lambda: text)

    def unset(self, event: str, key: object) -> None:
        """Forget a state."""
        with self._lock:
            self._states.pop((event, str(key)), None)

    def clear(self, server: str) -> None:
        """Forget the messages of a server."""
        with self._lock:
            gone = [message for message in self._kept.values() if message.server == server]
            for message in gone:
                self._forget(message)
            numbers = {message.number for message in gone}
            self._messages = deque(item for item in self._messages
                                   if item[0].number not in numbers and item[0].about not in numbers)
            self._dropped.pop(server, None)
            self._states.pop(("dropped", server), None)
        self.note("cleared", {"server": server})

    # --- what is read ------------------------------------------------------------------------------------------

    def find(self, number: int) -> Optional[Message]:
        """Return a message; None if there is none of that number, or none any more."""
        with self._lock:
            return self._kept.get(number)

    def messages(self, server: str) -> List[Message]:
        """Return the messages of a server that are kept, oldest first."""
        with self._lock:
            return [message for message in self._kept.values() if message.server == server]

    def after(self, number: int, seconds: float) -> List[TrafficEntry]:
        """Return the entries behind a number, in order; wait for the first, *seconds* at most.

        :param number: 0 for all. An entry that adds facts to a message is left out if the message itself is returned.
        """
        with self._lock:
            found = self._after(number)
            if not found and not self._closed:
                self._lock.wait(seconds)
                found = self._after(number)
            return found

    def _after(self, number: int) -> List[TrafficEntry]:
        found = [entry for entry in self._states.values() if entry.number > number]
        for entry, _ in reversed(self._messages):
            if entry.number <= number:
                break
            if entry.about <= number:
                found.append(entry)
        for entry, _ in reversed(self._notes):
            if entry.number <= number:
                break
            found.append(entry)
        found.sort(key=lambda entry: entry.number)
        return found

    @property
    def closed(self) -> bool:
        """Whether nothing more is recorded."""
        return self._closed

    def close(self) -> None:
        """Wake all threads that wait for entries; idempotent."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()


def _json_of(raw: bytes) -> Any:
    """Return the value of a JSON text that a browser can read, too; None if the bytes are no such text."""
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse, parse_int=_integer)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError("an integer has too many digits")
    return int(text)


def to_json(value: Any) -> str:
    """Return a value as JSON that a browser can read: an infinite number, which a server may spell as 1e999, becomes null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
