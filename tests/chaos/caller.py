"""A client that calls ``act`` until its stdin ends, from three threads, and prints one JSON object for each call.

    python caller.py TARGET [REVISION]

TARGET is JSON: a URL, or a command as a list. When the connection is over it is opened again. An error that is not one
of the package's ends the program with a traceback.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import mcplite  # noqa: E402

THREADS = 3
#: Seconds for one call.
TIMEOUT = 4.0
ended = threading.Event()
printing = threading.Lock()


def say(**what):
    with printing:
        print(json.dumps(what), flush=True)


def call(name, target, options):
    """Call on a connection of this thread's own, and open it again whenever it is over."""
    client, count = None, 0
    while not ended.is_set():
        begun, key = time.monotonic(), f"{os.getpid()}-{name}-{count}"
        count += 1
        try:
            if client is None or client.state == "closed":
                client = mcplite.connect(target, timeout=TIMEOUT, open_timeout=5 * TIMEOUT, **options)
                client.open()
            answer = client.call_tool("act", {"key": key}).text
        except mcplite.MCPError as error:
            say(key=key, error=type(error).__name__, text=str(error), took=time.monotonic() - begun)
            ended.wait(0.02)
        else:
            say(key=key, answer=answer, took=time.monotonic() - begun)
            ended.wait(0.001)
    if client is not None:
        client.close()


def main(target, revision=None):
    target = json.loads(target)
    options = {"revision": revision} if revision else {}
    threads = [threading.Thread(target=call, args=(name, target, options)) for name in range(THREADS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
