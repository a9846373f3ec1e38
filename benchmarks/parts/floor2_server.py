"""The second floor as a server: descriptors are read and written directly, and JSON's coders are made once.

The first floor builds an encoder for each message, and lets ``json.loads`` find out the encoding; this one does neither.
Its messages and its tools are those of ``floor_server.py``.
"""

import json
import os
import sys
from json.encoder import c_make_encoder, encode_basestring

from floor_server import answer, tools

_SCAN = json.JSONDecoder().scan_once
_PIECES = c_make_encoder(None, None, encode_basestring, None, ":", ",", False, False, True)


def encode(message):
    """Return the JSON of a message as bytes."""
    return "".join(_PIECES(message, 0)).encode()


def decode(data):
    """Return the message of a JSON text without white space around it."""
    return _SCAN(str(data, "utf-8"), 0)[0]


def lines(descriptor):
    """Yield the lines that come."""
    begun = []
    while True:
        data = os.read(descriptor, 65536)
        end = data.find(b"\n")
        if end == len(data) - 1 and data and not begun:
            yield data
            continue
        if not data:
            return
        begun.append(data)
        if end >= 0:
            *whole, rest = b"".join(begun).split(b"\n")
            begun = [rest] if rest else []
            yield from whole


def main(count):
    listed = tools(count)

    def send(message):
        os.write(1, encode(message) + b"\n")  # a pipe takes all of it, unless a signal comes

    for line in lines(0):
        message = decode(line)
        if "id" in message:
            send(answer(message, listed, send))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
