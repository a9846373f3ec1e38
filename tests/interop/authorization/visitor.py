"""Our client as a process of its own: calls one tool from many threads at once.

    python visitor.py URL STORE TOOL THREADS

Prints "ready", waits for a line on stdin, prints what the calls gave as one JSON list, and ends. The tokens are those
of the file STORE; there is no user to log in. Its log is on stderr, at DEBUG.
"""

import json
import logging
import sys
import threading

import mcplite


def refuse(url):
    raise AssertionError("a user is asked to log in")


def main(url, store, tool, threads):
    logging.basicConfig(level=logging.DEBUG)
    auth = mcplite.OAuth(ask=mcplite.auth.Browser(open=refuse), store=mcplite.auth.FileStore(store))
    said = []
    start = threading.Barrier(int(threads))

    def call():
        start.wait()
        try:
            with mcplite.connect(url, auth=auth) as client:
                said.append(client.call_tool(tool).text)
        except (mcplite.MCPError, AssertionError) as error:
            said.append(f"{type(error).__name__}: {error}")

    print("ready", flush=True)
    sys.stdin.readline()
    callers = [threading.Thread(target=call) for _ in range(int(threads))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
