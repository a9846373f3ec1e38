"""For the tests of those who write servers and clients: a transport that records, and a checker of handlers in a fleet.

A server is tested without a process by connecting to the object itself, in any revision::

    with mcplite.connect(mcp, revision=...) as client: ...
"""

import io
import json
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from .rpc.channels import MemoryChannel
from .rpc.interfaces import Channel

__all__ = ["Recorded", "Recording", "Replayed", "record", "replay"]

_META = "io.modelcontextprotocol/"


class Recorded(NamedTuple):
    """One message: "->" for sent and "<-" for received, and what it said."""

    direction: str
    message: Any


class Recording(Channel):
    """A transport that passes everything on to another one and remembers it.

    :param channel: the transport to listen to.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.name = channel.name
        self.interruptible = channel.interruptible
        #: Guards ``_messages``; held for list work only.
        self._lock = threading.Lock()
        self._messages: List[Recorded] = []

    @property
    def messages(self) -> List[Recorded]:
        """What has passed so far, in order; what is no JSON is kept as bytes."""
        with self._lock:
            return list(self._messages)

    def sent(self, method: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return the messages that this side has sent, all of them or those of one method."""
        return [item.message for item in self.messages
                if item.direction == "->" and (method is None or item.message.get("method") == method)]

    @property
    def buffered(self) -> bool:
        return self._channel.buffered

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        data = self._channel.read(timeout)
        if data is not None:
            self._note("<-", data)
        return data

    def consume(self) -> None:
        self._channel.consume()

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._note("->", data)
        self._channel.write(data, timeout)

    def wake(self) -> None:
        self._channel.wake()

    def close(self) -> None:
        self._channel.close()

    def _note(self, direction: str, data: bytes) -> None:
        try:
            message: Any = json.loads(data)
        except (ValueError, RecursionError):
            message = data
        with self._lock:
            self._messages.append(Recorded(direction, message))


def record(server: Any) -> Recording:
    """Return a recording transport to a Server object in this process; give it to ``connect``.

    :param server: anything with ``serve_channel(channel)``.
    """
    ours, theirs = MemoryChannel.pair(("the client", f"the server {getattr(server, 'name', server)!r}"))
    server.serve_channel(theirs)
    return Recording(ours)


class Replayed(NamedTuple):
    """What came of a call: the result as it was sent, and the questions of each round, by their keys."""

    result: Dict[str, Any]
    rounds: List[Dict[str, Any]]


def replay(server: Any, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
           answer: Callable[[str, Dict[str, Any]], Dict[str, Any]], rounds: int = 10, version: str = "") -> Replayed:
    """Call a tool as a fleet would, and each round of it twice; fail when the two differ.

    In a fleet a handler that asks starts anew with each answer. So whatever it does before a question has to come out
    the same each time, or be noted with ``ctx.once``; what has an effect and is not noted, happens here as often as
    it happens there, and once more for each round.

    :param server: a ``Server(fleet=True, state_keys=[...])``, without a ``state_store``: each state is used twice.
    :param name: of the tool.
    :param arguments: JSON values by name.
    :param answer: called with the method and the params of each question; returns the client's answer, as on the wire.
    :param rounds: as many as there may be.
    :param version: the revision to speak, one without a handshake; by default the server's newest.
    :raises AssertionError: a round that was run twice has come out differently, or there was no end to them, or the
        server refuses; with what it said.
    :raises TypeError: the server is no fleet.
    """
    if not getattr(server, "fleet", False):
        raise TypeError(f"{server!r} is no fleet: make it with Server(fleet=True, state_keys=[...])")
    version = version or str(server.revisions[-1])
    capabilities: Dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
    params: Dict[str, Any] = {"name": name, "arguments": dict(arguments or {}), "_meta": {
        _META + "protocolVersion": version, _META + "clientCapabilities": capabilities}}
    seen: List[Dict[str, Any]] = []
    application = server.wsgi()
    try:
        while len(seen) <= rounds:
            first, second = _post(application, params, version), _post(application, params, version)
            for result in (first, second):
                assert "result" in result, f"{name}: {json.dumps(result.get('error'))}"
            mine, again = _comparable(first["result"]), _comparable(second["result"])
            assert mine == again, (f"{name}: round {len(seen)} comes out differently when it is run again:\n"
                                   f"{json.dumps(mine, indent=1)}\n{json.dumps(again, indent=1)}")
            questions = first["result"].get("inputRequests")
            if questions is None:
                return Replayed(first["result"], seen)
            assert questions not in seen, f"{name}: a question is asked again although it was answered: {json.dumps(questions)}"
            seen.append(questions)
            params["inputResponses"] = {key: answer(asked["method"], asked.get("params", {})) for key, asked in questions.items()}
            params["requestState"] = first["result"].get("requestState")
        raise AssertionError(f"{name}: there was no end after {rounds} rounds")
    finally:
        application.close()


def _comparable(result: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in result.items() if key != "requestState"}


def _post(application: Any, params: Dict[str, Any], version: str) -> Dict[str, Any]:
    """Return the answer of a WSGI application to a call."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode("utf-8")
    environ = {
        "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": "/", "QUERY_STRING": "", "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "HTTP_HOST": "localhost", "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)), "HTTP_ACCEPT": "application/json, text/event-stream",
        "HTTP_MCP_PROTOCOL_VERSION": version, "HTTP_MCP_METHOD": "tools/call", "HTTP_MCP_NAME": _header(params["name"]),
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True, "wsgi.multiprocess": True, "wsgi.run_once": False,
    }

    def start(status: str, headers: List[Tuple[str, str]], error: Any = None) -> None:
        """Take the status and the headers, which the body says as well."""

    pieces = application(environ, start)
    try:
        text = b"".join(pieces).decode("utf-8")
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
    if not text.startswith("{"):
        # Events: the answer is the last of them.
        text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
    answer: Dict[str, Any] = json.loads(text)
    return answer


def _header(name: str) -> str:
    import base64  # for the few names that no header can carry

    plain = name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?base64?")
    return name if plain else "=?base64?" + base64.b64encode(name.encode("utf-8")).decode("ascii") + "?="
