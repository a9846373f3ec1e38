"""Recordings of the messages between clients and servers: in memory for a test, or as a cassette, a file to be replayed later.

Both are functions for ``ClientOptions(on_message=)``, so that they see every message of every transport. A cassette has JSON
lines: the first describes it, and each other has one message, with the seconds since the beginning and the side that sent it.
HTTP headers are no messages and are never in it; values under names of secrets are masked, as they are in a trace.
"""

import json
import os
import threading
import time
from types import TracebackType
from typing import Any, Dict, List, NamedTuple, Optional, Type, Union

from ..revisions import find_revision
from ..rpc.tracing import masked

__all__ = ["CassetteWriter", "Recorded", "Recording", "head_line", "message_line", "revision_in"]

#: Characters that the first line of a cassette reserves for its revision. The revision becomes known later, and the line is
#: then written again with an equal length.
_PLACE = 12
_SIDES = {"->": "client", "<-": "server"}
_VERSION = "io.modelcontextprotocol/protocolVersion"


class Recorded(NamedTuple):
    """One message: its direction, "->" for sent and "<-" for received, its content, and the number of its connection."""

    direction: str
    message: Any
    connection: int = 1


class Recording:
    """The messages of one client or of several, in order.

    It is for a test: ``connect(target, options=ClientOptions(on_message=recording))``.
    """

    def __init__(self) -> None:
        #: Guards the fields below; held for list work only.
        self._lock = threading.Lock()
        self._messages: List[Recorded] = []
        self._connections: Dict[int, int] = {}

    def __call__(self, connection: int, direction: str, data: bytes) -> None:
        """Keep one message; the client calls this."""
        message = _content(data)
        with self._lock:
            number = self._connections.setdefault(connection, len(self._connections) + 1)
            self._messages.append(Recorded(direction, message, number))

    @property
    def messages(self) -> List[Recorded]:
        """The messages so far, in order; those that are not JSON are kept as bytes."""
        with self._lock:
            return list(self._messages)

    def sent(self, method: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return the messages that this side has sent, all or those of one method.

        Those of a batch are returned one by one, and what is not JSON is left out.

        :param method: by default all.
        """
        sent = [item.message for item in self.messages if item.direction == "->"]
        each = [message for content in sent for message in (content if isinstance(content, list) else [content])]
        return [message for message in each
                if isinstance(message, dict) and (method is None or message.get("method") == method)]


class CassetteWriter:
    """Writes a cassette, for ``connect(target, options=ClientOptions(on_message=writer))``; a ``with`` block closes it.

    Each message is written to the file at once. So if the program is killed, the cassette has all messages until then. Values
    under names of secrets (``password``, ``api_key``, ...) are written as ``***``.

    :param path: of the file. A cassette that is there is replaced.
    :param target: what was connected to, for people who read the file.
    :raises ValueError: the file exists, is not empty, and is no cassette.
    :raises OSError: the file cannot be written.
    """

    def __init__(self, path: "Union[str, os.PathLike[str]]", target: str = "") -> None:
        self.path = os.fspath(path)
        if os.path.exists(self.path) and os.path.getsize(self.path) and not _is_cassette(self.path):
            raise ValueError(f"choose another file for the recording: {self.path} is there, and is no cassette")
        self._target = masked(target)
        self._recorded = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._began = time.monotonic()
        # A lone surrogate, which UTF-8 has not, becomes its escape in JSON.
        self._file = open(self.path, "w", encoding="utf-8", errors="backslashreplace", newline="\n")  # noqa: SIM115
        #: Guards the file and the fields below; held while a line is written.
        self._lock = threading.Lock()
        self._connections: Dict[int, int] = {}
        self._revision: Optional[str] = None
        self._masked = 0
        self._file.write(head_line(self._target, None, self._recorded))
        self._file.flush()

    @property
    def masked(self) -> int:
        """How many messages had a value that looks like a secret, and was written as ``***``."""
        return self._masked

    def __call__(self, connection: int, direction: str, data: bytes) -> None:
        """Write one message; the client calls this."""
        at, message = time.monotonic() - self._began, _content(data)
        if isinstance(message, bytes):
            message = message.decode("utf-8", "backslashreplace")
        shown = masked(message)
        with self._lock:
            if self._file.closed:
                return
            number = self._connections.setdefault(connection, len(self._connections) + 1)
            self._masked += shown != message and _has_secret(message)
            self._file.write(_line(at, _SIDES[direction], shown, number))
            self._file.flush()
            revision = revision_in(message)
            if revision is not None and revision != self._revision:
                self._revision = revision
                self._file.seek(0)
                self._file.write(head_line(self._target, revision, self._recorded))
                self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Close the file; messages that pass later are not recorded."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> "CassetteWriter":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def head_line(target: str, revision: Optional[str], recorded: str) -> str:
    """Return the first line of a cassette; its length does not depend on the revision.

    :param target: what was connected to.
    :param revision: None if it is not known yet.
    :param recorded: when, in ISO 8601.
    """
    shown = json.dumps(revision)
    head = json.dumps({"mcplite": "cassette", "version": 1, "target": target, "recorded": recorded, "revision": None})
    return f"{head[:-5]}{shown}}}{' ' * (_PLACE - len(shown))}\n"


def message_line(at: float, sender: str, message: Any, connection: int = 1) -> str:
    """Return the line of one message in a cassette, with secrets masked.

    :param at: seconds since the beginning.
    :param sender: "client" or "server".
    :param message: its JSON.
    :param connection: its number in this cassette.
    """
    return _line(at, sender, masked(message), connection)


def _line(at: float, sender: str, message: Any, connection: int) -> str:
    line = {"at": round(at, 6), "from": sender, **({} if connection == 1 else {"connection": connection})}
    return json.dumps({**line, "message": message}, ensure_ascii=False) + "\n"


def revision_in(message: Any) -> Optional[str]:
    """Return the revision that the answer to a handshake, or a request without a handshake, names; None for other messages."""
    if not isinstance(message, dict):
        return None
    found: Any = None
    result, params = message.get("result"), message.get("params")
    if isinstance(result, dict) and "capabilities" in result:
        found = result.get("protocolVersion")
    elif isinstance(params, dict) and isinstance(params.get("_meta"), dict):
        found = params["_meta"].get(_VERSION)
    return found if isinstance(found, str) and find_revision(found) is not None else None


def _has_secret(message: Any) -> bool:
    """Return whether something is masked besides ``requestState``, a member of the protocol and no secret of a user."""
    parts = [value for value in message.values() if isinstance(value, dict)] if isinstance(message, dict) else []
    parts = [{name: value for name, value in part.items() if name != "requestState"} for part in parts]
    return bool(masked(parts) != parts)


def _content(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data


def _is_cassette(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(64).lstrip().startswith(b'{"mcplite": "cassette"')
