"""Our own connections answer as those of ``requests`` do: both ways get the same generated responses, byte for byte."""

import random
import socket
import struct
import threading

import pytest
from requests.auth import HTTPBasicAuth

import mcplite
from mcplite.net.adapter_sender import AdapterSender
from mcplite.net.connections import DirectSender
from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import HTTPSettings
from mcplite.rpc.deadline import Deadline
from tests.support.webscript import Listener

LIMIT = 30
#: Responses of one run, and the seeds; together two thousand.
CASES, SEEDS = 250, range(8)
#: Not part of what a response says.
FRAMING = {"transfer-encoding", "content-length"}


class Case:
    """What the server sends: pieces of bytes, and whether it then waits for a request, closes, or resets."""

    def __init__(self, data, end="keep", cuts=()):
        self.data, self.end, self.cut = data, end, bool(cuts)
        marks = [0, *sorted(cuts), len(data)]
        self.pieces = [data[begin:stop] for begin, stop in zip(marks, marks[1:]) if begin < stop]


class CaseServer(Listener):
    """Sends the case that the path of each request names by its number; counts connections and their ends."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases
        #: What came, and how many of them are over: all of the response is sent, and the connection closed if it is to be.
        self.requests, self._over = [], 0
        self._settled = threading.Condition()

    def _serve(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with sock, sock.makefile("rb") as stream:
            try:
                while True:
                    head = b""
                    while not head.endswith(b"\r\n\r\n"):
                        line = stream.readline()
                        if not line:
                            return
                        head += line
                    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
                    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                    assert len(fields) == len(lines)
                    body = stream.read(int(fields.get("content-length", 0)))
                    self.requests.append((first, fields, body))
                    number = first.split(" ")[1].rpartition("/")[2].partition("?")[0]
                    case = self.cases[int(number) % len(self.cases) if number.isdigit() else 0]
                    for piece in case.pieces:
                        sock.sendall(piece)
                    if case.end != "keep":
                        if case.end == "reset":
                            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        stream.close()
                        sock.close()
                    self._note_over()
                    if case.end != "keep":
                        return
            except OSError:
                self._note_over()  # the client has left

    def _note_over(self):
        with self._settled:
            self._over += 1
            self._settled.notify_all()

    def settle(self):
        """Wait until all responses are over, so that the next request does not meet a connection that is about to close."""
        with self._settled:
            assert self._settled.wait_for(lambda: self._over >= len(self.requests), LIMIT)


def chunks(body, draw):
    out, at = b"", 0
    while at < len(body):
        size = draw.randint(1, max(1, len(body) - at))
        extension = draw.choice([b"", b"", b";x=1", b" ; y"])
        out += b"%x%b\r\n%b\r\n" % (size, extension, body[at:at + size])
        at += size
    trailers = draw.choice([b"", b"", b"", b"X-Sum: 1\r\n", b"bad trailer\r\n"])
    return out + b"0\r\n" + trailers + b"\r\n"


def generate(draw, port, count):
    """Return one response, as servers send it or as they should not."""
    status = draw.choice([200] * 8 + [202, 204, 304, 400, 401, 403, 404, 500, 503, 101, 307, 308, 302])
    reason = draw.choice(["OK", "", "Not At All", "\u00e9t\u00e9"])
    version = draw.choice(["1.1"] * 8 + ["1.0", "1.0", "1.2", "2.0"])
    first = f"HTTP/{version} {status} {reason}" if draw.random() < 0.95 else draw.choice(
        [f"HTTP/{version} {status}", "HTTP/1.1 20 OK", "HTTP/1.1 0200 OK", "ICY 200 OK", "HTTP/1.1  200 OK", "HTTP/1.1", ""])
    fields = draw.sample([
        ("Content-Type", draw.choice(["application/json", "text/event-stream; charset=utf-8", "text/html"])),
        ("Set-Cookie", "a=b; Path=/"), ("Set-Cookie", "c=d; Path=/"), ("Mcp-Session-Id", "s-1"), ("X-Empty", ""),
        ("Connection", draw.choice(["close", "keep-alive", "Keep-Alive, x", "upgrade"])), ("X-Text", "\u00e9 and\ttab"),
        ("WWW-Authenticate", 'Bearer error="insufficient_scope", scope="a b"'), ("Content-Encoding", "gzip"),
        ("Location", draw.choice([f"/case/{draw.randrange(count)}", "http://127.0.0.1:1/", "//other.example/x", "http://[",
                                  f"http://127.0.0.1:{port}/case/{draw.randrange(count)}", "ftp://x/", "?q=\u00e9"])),
    ], draw.randint(0, 6))
    body = bytes(draw.choices(b"abc{}\r\n\x00\xff", k=draw.choice([0, 1, 10, 300, 70_000 if draw.random() < 0.05 else 20])))
    end, behind = "keep", b""
    way = draw.choice(["length"] * 4 + ["chunked"] * 4 + ["close", "both", "twice", "wrong", "other", "nothing"])
    if way == "length":
        missing = draw.choice([0, 0, 0, 0, 5, -3])
        fields.append(("Content-Length", str(len(body) + missing)))
        if missing > 0:
            end = "close"
    elif way in ("chunked", "both", "other"):
        coding = "chunked" if way != "other" else draw.choice(["gzip", "gzip, chunked", "identity", "CHUNKED"])
        fields.append(("Transfer-Encoding", coding))
        if way == "both":
            fields.append(("Content-Length", str(draw.randint(0, 50))))
        body = chunks(body, draw)
        if draw.random() < 0.1:
            body = draw.choice([b"zz\r\n", b"-1\r\n", b"0x3\r\nabc\r\n", b"3\nabc\n0\n\n",
                                b"2\r\nabc\r\n0\r\n\r\n", b"+1\r\na\r\n"])
        if coding.lower() != "chunked" or draw.random() < 0.1:
            end = "close"
    elif way == "twice":
        fields += [("Content-Length", str(len(body))), ("Content-Length", str(len(body) + draw.choice([0, 1])))]
    elif way == "wrong":
        fields.append(("Content-Length", draw.choice(["abc", "-1", "+3", "", "1 2", "9" * 20])))
    if way in ("close", "wrong", "nothing") or status == 101 or version in ("1.0", "1.2", "2.0"):
        end = "close"
    if status in (204, 304) and draw.random() < 0.8:
        body = b""
    draw.shuffle(fields)
    lines = [first, *(f"{name}: {value}" for name, value in fields)]
    if draw.random() < 0.08:
        lines.insert(draw.randrange(1, len(lines) + 1), draw.choice(
            [" folded", "No colon", "Space : x", "X-Control: a\x01b", ": nameless", "X-Long: " + "y" * 70_000, "X\u00e9: 1"]))
    interim = draw.choice([b""] * 12 + [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" * 3,
                                        b"HTTP/1.1 102 Processing\r\n\r\n" * 21])
    line_end = "\n" if draw.random() < 0.03 else "\r\n"
    data = interim + (line_end.join(lines) + 2 * line_end).encode("latin-1") + body + behind
    if draw.random() < 0.1 and data:
        data, end = data[:draw.randrange(len(data))], draw.choice(["close", "close", "reset"])
        if end == "reset":
            data = b""  # what was sent before may be lost, or not
    elif draw.random() < 0.1 and data:
        at = draw.randrange(len(data))
        data, end = data[:at] + bytes([draw.randrange(256)]) + data[at + 1:], "close"
    cuts = [draw.randrange(len(data) + 1) for _ in range(draw.choice([0, 0, 1, 3]))]
    return Case(data, end, cuts)


def outcome(client, url, method, body, seconds=LIMIT):
    """Send one request; return all that a caller sees of its response."""
    deadline = Deadline(seconds)

    def next_timeout():
        if deadline.expired:
            raise Stopped
        return min(deadline.remaining(), 1.0)

    exchange = Exchange(next_timeout, deadline.remaining)
    seen = []
    try:
        reply = client.send_authorized(exchange, method, url, {"Content-Type": "application/json", "X-Mine": "1"}, body)
        seen += [reply.status, reply.kind, {name: value for name, value in reply.headers.items() if name not in FRAMING}]
        seen.append(reply.read(100_000))
    except (mcplite.MCPError, Stopped) as error:
        seen += [type(error), str(error), getattr(error, "challenge", None)]
    return seen


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
def test_both_ways_see_the_same(seed):
    draw = random.Random(seed)
    cases = []
    with CaseServer(cases) as server:
        cases += [generate(draw, server.port, CASES) for _ in range(CASES)]
        base = f"http://127.0.0.1:{server.port}"
        pair = ("me", "pw")
        clients = [OriginClient(base + "/mcp", HTTPSettings(auth=auth)) for auth in (pair, HTTPBasicAuth(*pair))]
        assert [type(client._sender) for client in clients] == [DirectSender, AdapterSender]
        kinds = set()
        for number in range(CASES):
            method, body = draw.choice([("POST", b"{}"), ("POST", b""), ("GET", None), ("DELETE", None)])
            seen, connections, sent = [], [], []
            for client in clients:
                before, first = server.connections, len(server.requests)
                seen.append(outcome(client, f"{base}/case/{number}", method, body))
                server.settle()
                connections.append(server.connections - before)
                sent.append(server.requests[first:])
            if cases[number].cut and isinstance(seen[0][-2], str):
                # Which of several faults is met first depends on how much has come.
                seen = [[*one[:-2], "", one[-1]] for one in seen]
            assert seen[0] == seen[1], (number, cases[number].data[:2000], cases[number].end)
            assert connections[0] == connections[1], (number, cases[number].data[:2000], cases[number].end)
            kinds.add(seen[0][0])
            for one in sent:
                for _, fields, _ in one:
                    fields.pop("cookie", None)
            assert sent[0] == sent[1], number
        for client in clients:
            client.close()
    assert {200, 204, 404, mcplite.TransportError, mcplite.errors.ProtocolError} & kinds
