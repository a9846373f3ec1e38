"""The floor as a server over HTTP: sockets, a thread for each connection, one write for each answer.

It does the minimum: it checks no header, and sessions are numbers that are not looked up.
"""

import itertools
import json
import re
import socket
import sys
import threading

from floor_server import answer, tools

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ANSWER = (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
           b"Mcp-Session-Id: floor\r\n\r\n%b")
_EVENTS = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
           b"Transfer-Encoding: chunked\r\n\r\n")
_ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


#: The sockets of all event streams.
STREAMS = []


def encode(message):
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


decode = json.loads


def event(message):
    return b"event: message\ndata: %b\n\n" % encode(message)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def read_request(sock, data):
    """Return the head of the next request, its body, and what was read behind it; Nones at the end."""
    end = data.find(b"\r\n\r\n")
    while end < 0:
        more = sock.recv(65536)
        if not more:
            return None, None, b""
        data += more
        end = data.find(b"\r\n\r\n")
    found = _LENGTH.search(data, 0, end)
    start = end + 4
    if found is None:
        return data[:end], b"", data[start:]
    stop = start + int(found.group(1))
    if len(data) >= stop:
        return data[:end], data[start:stop], data[stop:]
    body = bytearray(stop - start)
    had = len(data) - start
    body[:had] = data[start:]
    rest = memoryview(body)[had:]
    while rest:
        count = sock.recv_into(rest)
        if not count:
            return None, None, b""
        rest = rest[count:]
    return data[:end], body, b""


def talk(sock, listed):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = b""
    streaming = False

    def send(message):
        nonlocal streaming
        sock.sendall((b"" if streaming else _EVENTS) + chunk(event(message)))
        streaming = True

    while True:
        head, body, data = read_request(sock, data)
        if head is None:
            return
        if head.startswith(b"GET "):
            sock.sendall(_EVENTS)
            STREAMS.append(sock)
            while sock.recv(65536):  # the client says nothing on it
                continue
            STREAMS.remove(sock)
            return
        if head.startswith(b"DELETE "):
            sock.sendall(_ACCEPTED)
            continue
        message = decode(body)
        if "id" not in message:
            sock.sendall(_ACCEPTED)
            continue
        reply = answer(message, listed, send)
        if streaming:
            sock.sendall(chunk(event(reply)) + b"0\r\n\r\n")
            streaming = False
        else:
            content = encode(reply)
            sock.sendall(_ANSWER % (len(content), content))


def serve(sock, listed):
    try:
        talk(sock, listed)
    except OSError:
        pass  # the client has left
    finally:
        sock.close()


def main(mode, count=0):
    listed = tools(count)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print("http://127.0.0.1:%d/mcp" % listener.getsockname()[1], flush=True)
    for number in itertools.count():
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock, listed), name="connection %d" % number, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
