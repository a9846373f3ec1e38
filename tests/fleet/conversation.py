"""A client of the handshake revisions written by hand: each message goes over a connection of its own."""

import json

from tests.support.rawhttp import Wire, begin, post, request


class Stream:
    """The events of one response, as they come."""

    def __init__(self, wire, head):
        self._wire, self._rest, self._ended = wire, b"", False
        self.status, self.worker = head.status, head.headers.get("x-worker")
        #: The id of the last event.
        self.last = None

    def event(self):
        """Return the message of the next event that has one; None at the end of the stream."""
        while True:
            while b"\n\n" not in self._rest:
                piece = b"" if self._ended else self._wire.piece()
                self._ended = self._ended or not piece
                if self._ended:
                    return None
                self._rest += piece.replace(b"\r\n", b"\n")
            event, _, self._rest = self._rest.partition(b"\n\n")
            data = []
            for line in event.decode().split("\n"):
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last = value
                elif name == "data":
                    data.append(value)
            if "".join(data):
                return json.loads("\n".join(data))

    def until_result(self):
        """Return the messages up to the response, which is the last one."""
        found = []
        while True:
            message = self.event()
            assert message is not None, f"the stream ended without a response, after {found}"
            found.append(message)
            if "method" not in message:
                return found

    def close(self):
        self._wire.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Conversation:
    """A session whose messages go to any worker.

    :param revision: that the handshake agrees on.
    """

    def __init__(self, fleet, revision="2025-11-25"):
        self._port, self.revision = fleet.port, revision
        with Wire(self._port) as first, Wire(self._port) as second:
            self.id = begin(_Pair(first, second), revision)

    def _headers(self):
        return {"MCP-Protocol-Version": self.revision} if self.revision > "2025-03-26" else {}

    def post(self, message):
        """Post a message; return the reply."""
        with Wire(self._port) as wire:
            return wire.send(post(message, self.id, **self._headers())).reply()

    def stream(self, message):
        """Post a request; return the stream of its response."""
        return self._open(post(message, self.id, **self._headers()))

    def get(self, last=None, not_from=None):
        """Open a GET stream, behind an event if *last* is its id; from another worker than *not_from*."""
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": self.id, **self._headers()}
        if last is not None:
            headers["Last-Event-ID"] = last
        for _ in range(100):
            stream = self._open(request("GET", headers=headers))
            if stream.worker != not_from:
                return stream
            stream.close()
        raise AssertionError("all connections went to one worker")

    def _open(self, data):
        wire = Wire(self._port)
        try:
            return Stream(wire, wire.send(data).head())
        except BaseException:
            wire.close()
            raise

    def delete(self):
        with Wire(self._port) as wire:
            return wire.ask("DELETE", headers={"Mcp-Session-Id": self.id, **self._headers()})


class _Pair:
    """Two connections for the two messages of a handshake."""

    def __init__(self, *wires):
        self._wires = list(wires)

    def post(self, message, session=None):
        return self._wires.pop(0).post(message, session)
