"""The floor's server over HTTP with a tool that tells all clients of a change: it writes to one socket after the other."""

import json
import sys
import time

import floor_web
from common import allow_files
from floor_server import text_result

_CHANGED = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "floor://changing"}}
_plain_answer = floor_web.answer


def answer(message, listed, send):
    if message["method"] != "tools/call" or message["params"]["name"] != "change":
        return _plain_answer(message, listed, send)
    begun = time.perf_counter()
    for stream in floor_web.STREAMS:
        stream.sendall(floor_web.chunk(floor_web.event(_CHANGED)))
    return {"jsonrpc": "2.0", "id": message["id"], "result": text_result(json.dumps((time.perf_counter() - begun) * 1000))}


if __name__ == "__main__":
    allow_files()
    floor_web.answer = answer
    floor_web.main(*sys.argv[1:])
