"""An HTTP client on plain sockets, which can send invalid requests; it shares no code with the package."""

import json
import select
import socket
import ssl
import struct
import time

#: For waits that end by an event; long enough for a busy machine.
LIMIT = 30
BOTH = "application/json, text/event-stream"


def request(method="POST", path="/mcp", body=b"", headers=(), version="1.1"):
    """Return a request as bytes. *headers* come on top of a Host and a Content-Length, or instead of them."""
    given = {"Host": "localhost", **({"Content-Length": str(len(body))} if body else {}), **dict(headers)}
    lines = [f"{method} {path} HTTP/{version}"] + [f"{name}: {value}" for name, value in given.items() if value is not None]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(*pieces):
    """Return a body in chunks, its end included."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])


class Reply:
    """One response."""

    def __init__(self, version, status, reason, headers):
        self.version, self.status, self.reason, self.headers, self.body = version, status, reason, headers, b""

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        """The data of the events in the body, decoded."""
        return [json.loads(line[6:]) for line in self.body.split(b"\n") if line.startswith(b"data: ")]


class Wire:
    """One connection.

    :param small: has the kernel take little before it makes the server wait.
    :param source: the address that the client has; another one is another client to the server.
    """

    def __init__(self, port, host="127.0.0.1", small=False, source=None):
        self.sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.sock.settimeout(LIMIT)
        if small:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if source is not None:
            self.sock.bind((source, 0))
        self.sock.connect((host, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        #: State of a body that is read in pieces.
        self._chunked = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def secure(self, context):
        """Speak TLS from here on."""
        self.sock = context.wrap_socket(self.sock, server_hostname="127.0.0.1")
        return self

    # --- sending ----------------------------------------------------------------------------------

    def send(self, data):
        self.sock.sendall(data)
        return self

    def ask(self, *arguments, **options):
        """Send a request and return the response."""
        return self.send(request(*arguments, **options)).reply()

    def post(self, message, session=None, **headers):
        """Post a JSON-RPC message and return the response."""
        return self.send(post(message, session, **headers)).reply()

    def finish(self):
        """Close our side, as a half-open peer does."""
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_WR)  # ssl's own would end reading as well
        except OSError:
            pass  # the server has reset the connection; what it said before can still be read

    def reset(self):
        """End the connection so that the other side sees an error."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    # --- receiving --------------------------------------------------------------------------------

    def _more(self):
        data = self.sock.recv(65536)
        self._buffer += data
        return bool(data)

    def answered(self, seconds):
        """Whether the server says something within some seconds, or ends the connection."""
        if self._buffer or not select.select([self.sock], [], [], seconds)[0]:
            return bool(self._buffer)
        if not isinstance(self.sock, ssl.SSLSocket):
            return True
        self.sock.settimeout(0)
        try:
            self._more()
        except ssl.SSLWantReadError:
            return False  # such as a ticket for another session
        finally:
            self.sock.settimeout(LIMIT)
        return True

    def _until(self, end):
        while end not in self._buffer:
            assert self._more(), f"the connection ended behind {self._buffer[:200]!r}"
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _exactly(self, count):
        pieces, missing = [self._buffer[:count]], count - len(self._buffer)
        self._buffer = self._buffer[count:]
        while missing > 0:
            data = self.sock.recv(min(missing, 1 << 20))
            assert data, f"the connection ended {missing} bytes early"
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def head(self):
        """Return the next response without its body."""
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, reason = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, value = line.split(": ", 1)
            assert name.lower() not in headers, f"{name} twice"
            headers[name.lower()] = value
        self._chunked = "transfer-encoding" in headers
        assert not (self._chunked and "content-length" in headers)
        return Reply(version, int(status), reason, headers)

    def reply(self, method="POST"):
        """Return the next response, whole."""
        reply = self.head()
        if method == "HEAD" or reply.status in (100, 204, 304):
            return reply
        if self._chunked:
            while True:
                piece = self.piece()
                reply.body += piece
                if not piece:
                    return reply
        if "content-length" in reply.headers:
            reply.body = self._exactly(int(reply.headers["content-length"]))
        else:
            assert reply.version == "HTTP/1.0" or reply.headers["connection"] == "close"
            reply.body = self.rest()
        return reply

    def piece(self):
        """Return the next piece of a chunked body; b"" is its end."""
        size = int(self._until(b"\r\n"), 16)
        data = self._exactly(size)
        assert self._exactly(2) == b"\r\n"
        return data

    def rest(self):
        """Return everything up to the end of the connection; b"" too when it was reset."""
        try:
            while self._more():
                continue
        except ConnectionError:
            pass  # what was unread when the server closed
        data, self._buffer = self._buffer, b""
        return data

    def ended(self):
        """Whether the server has closed the connection without sending more."""
        return self.rest() == b""


def post(message, session=None, **headers):
    """Return a POST of a JSON-RPC message as bytes; a session is its id."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    given = {"Content-Type": "application/json", "Accept": BOTH, **({"Mcp-Session-Id": session} if session else {}),
             **{name.replace("_", "-"): value for name, value in headers.items()}}
    return request(body=body, headers=given)


def call(tool, id=1, **arguments):
    """Return a call of a tool as a message."""
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def initialize(revision="2025-11-25", id=0):
    """Return the handshake's first message."""
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}


def begin(wire, revision="2025-11-25"):
    """Do the handshake on a connection and return the session's id."""
    reply = wire.post(initialize(revision))
    assert reply.status == 200, reply
    session = reply.headers["mcp-session-id"]
    assert wire.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session).status == 202
    return session


def listen(port, session, path="/mcp", **options):
    """Open a GET stream and return its connection, the head of the response read."""
    wire = Wire(port, **options)
    try:
        wire.send(request("GET", path, headers={"Accept": "text/event-stream",
                                                **({"Mcp-Session-Id": session} if session else {})}))
        head = wire.head()
        assert (head.status, head.headers["content-type"]) == (200, "text/event-stream"), head
    except BaseException:
        wire.close()
        raise
    return wire


def refuses(port):
    """Wait until no server listens at a port; return whether that happened."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), LIMIT).close()
        except ConnectionRefusedError:
            return True
        except ConnectionError:
            pass  # it was on its way out
        time.sleep(0.01)
    return False
