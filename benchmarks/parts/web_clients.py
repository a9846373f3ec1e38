"""The floor's clients over HTTP: one session each, one request after the other, no timeouts.

One speaks through ``http.client``, which is the least that Python brings; the other writes and reads a
socket, which is the least that there is.
"""

import http.client
import json
import re
import socket

from common import REVISION, STATELESS

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SESSION = re.compile(rb"\r\nmcp-session-id: *(\S+)", re.IGNORECASE)


def encode(message):
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


decode = json.loads


def messages(pieces):
    """Yield the messages of an event stream; each is one ``data`` line here."""
    begun = []
    for piece in pieces:
        end = piece.rfind(b"\n")
        if end < 0:
            begun.append(piece)
            continue
        begun.append(piece[:end])
        lines = b"".join(begun).split(b"\n")
        begun = [piece[end + 1:]]
        for line in lines:
            if line.startswith(b"data:") and len(line) > 7:
                yield decode(line[5:])


class Web:
    """What the two have in common."""

    def __init__(self, url, meta=None):
        place, _, path = url.partition("://")[2].partition("/")
        self.host, _, port = place.rpartition(":")
        self.port, self.path = int(port), "/" + path
        self.headers = {"Host": place, "Content-Type": "application/json",
                        "Accept": "application/json, text/event-stream"}
        self.last_id = 0
        self.meta = meta
        self.said = None
        self.connect()

    def initialize(self):
        self.request("initialize", {"protocolVersion": REVISION, "capabilities": {},
                                    "clientInfo": {"name": "floor", "version": "1"}})
        self.headers["MCP-Protocol-Version"] = REVISION
        self.changed()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def stand_alone(self, method, name):
        """Say in the headers what each request says in its body, from now on, and begin no session."""
        self.headers.update({"MCP-Protocol-Version": STATELESS, "Mcp-Method": method, "Mcp-Name": name})
        self.changed()

    def send(self, message):
        status, _, pieces = self.post(encode(message))
        if status != 202:
            raise RuntimeError("a notification was answered with %r: %.500r" % (status, b"".join(pieces)))

    def request(self, method, params=None, progress=None):
        """Send a request and return its result; *progress* gets the params of progress notifications."""
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method}
        if self.meta is not None:
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **self.meta}}
            if self.said != (method, params.get("name")):
                self.said = method, params.get("name")
                self.stand_alone(method, params.get("name") or method)
        if params is not None:
            message["params"] = params
        status, events, pieces = self.post(encode(message))
        if not events:
            answer = decode(b"".join(pieces))
        else:
            answer = None
            for message in messages(pieces):
                if "method" not in message:
                    answer = message
                elif progress is not None and message["method"] == "notifications/progress":
                    progress(message["params"])
        if status != 200 or "error" in answer:
            raise RuntimeError("%r: %.500r" % (status, answer))
        return answer["result"]

    def call(self, name, arguments, progress=None):
        params = {"name": name, "arguments": arguments}
        if progress is not None:
            params["_meta"] = {"progressToken": self.last_id + 1}
        return self.request("tools/call", params, progress)

    def changed(self):
        """Called when the headers have changed."""

    def post(self, body):
        """Return the status of the answer, whether it is an event stream, and its bytes in pieces."""
        try:
            return self.exchange(body)
        except ConnectionError:  # servers close connections that were idle
            self.disconnect()
            self.connect()
            return self.exchange(body)


class LibraryWeb(Web):
    """``http.client``."""

    def connect(self):
        self.http = http.client.HTTPConnection(self.host, self.port)

    def disconnect(self):
        self.http.close()

    def exchange(self, body):
        self.http.request("POST", self.path, body, self.headers)
        response = self.http.getresponse()
        if self.meta is None and "Mcp-Session-Id" not in self.headers:
            self.headers["Mcp-Session-Id"] = response.getheader("Mcp-Session-Id")
        if response.getheader("Content-Type", "").startswith("text/event-stream"):
            return response.status, True, iter(lambda: response.read1(65536), b"")
        return response.status, False, [response.read()]

    def close(self):
        if self.meta is None:
            self.http.request("DELETE", self.path, headers=self.headers)
            self.http.getresponse().read()
        self.http.close()


class SocketWeb(Web):
    """A socket."""

    def connect(self):
        self.sock = socket.create_connection((self.host, self.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.changed()

    def disconnect(self):
        self.sock.close()

    def head(self, method):
        lines = ["%s %s HTTP/1.1" % (method, self.path), *("%s: %s" % item for item in self.headers.items())]
        return "\r\n".join(lines).encode("ascii")

    def changed(self):
        self.top = self.head("POST") + b"\r\nContent-Length: %d\r\n\r\n%b"

    def exchange(self, body):
        self.sock.sendall(self.top % (len(body), body))
        return self.answer()

    def receive(self):
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("the server has closed the connection")
        return data

    def answer(self):
        data = self.receive()
        end = data.find(b"\r\n\r\n")
        while end < 0:
            data += self.receive()
            end = data.find(b"\r\n\r\n")
        head, data = data[:end], data[end + 4:]
        if self.meta is None and "Mcp-Session-Id" not in self.headers:
            self.headers["Mcp-Session-Id"] = _SESSION.search(head).group(1).decode("ascii")
            self.changed()
        status, events = int(head[9:12]), b"text/event-stream" in head
        found = _LENGTH.search(head)
        if found is None:
            # Pieces may wait for the server, so they are not collected first.
            return status, events, self.chunks(data)
        left = int(found.group(1)) - len(data)
        pieces = [data]
        while left > 0:
            pieces.append(self.receive())
            left -= len(pieces[-1])
        return status, events, pieces

    def chunks(self, data):
        while True:
            end = data.find(b"\r\n")
            while end < 0:
                data += self.receive()
                end = data.find(b"\r\n")
            size = int(data[:end], 16)
            pieces = [data[end + 2:]]
            left = size + 2 - len(pieces[0])
            while left > 0:
                pieces.append(self.receive())
                left -= len(pieces[-1])
            data = b"".join(pieces)
            if not size:
                return
            yield data[:size]
            data = data[size + 2:]

    def listen(self):
        """Return a connection with the session's own event stream."""
        other = SocketWeb.__new__(SocketWeb)
        other.__dict__.update(self.__dict__)
        other.connect()
        other.sock.sendall(other.head("GET").replace(b"application/json, ", b"") + b"\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += other.receive()
        if b" 200 " not in head[:13] or b"text/event-stream" not in head:
            raise RuntimeError("no stream: %.500r" % head)
        return other

    def close(self):
        if self.headers.get("MCP-Protocol-Version") == STATELESS:
            self.sock.close()
            return
        try:
            self.sock.sendall(self.head("DELETE") + b"\r\n\r\n")
            self.answer()
        except ConnectionError:
            pass  # it was idle for too long; the session ends with the server
        finally:
            self.sock.close()


CLIENTS = {"http.client": LibraryWeb, "socket": SocketWeb}
