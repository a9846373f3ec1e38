"""A client whose short calls are interrupted at random moments: its signal handler raises, or makes a call itself.

    python interrupted.py TRANSPORT REVISION COUNT SEED HANDLER

TRANSPORT is memory, stdio or http, HANDLER ``raise``, ``alarm`` (an exception of the program), ``call`` or ``threads`` (other
threads call meanwhile). The last line says what happened, as JSON.
"""

import collections
import json
import logging
import random
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import mcplite  # noqa: E402

mcp = mcplite.Server("numbers")


@mcp.tool(structured_output=False)
def double(number: int) -> str:
    """Return a number twice as large."""
    return str(2 * number)


class Alarm(Exception):
    """What the handler of a program raises."""


class Interrupted:
    """A client and the calls that are interrupted.

    :param transport: memory, stdio or http.
    :param handler: what the signal handler does.
    """

    def __init__(self, transport: str, revision: str, handler: str) -> None:
        self.happened: "collections.Counter[str]" = collections.Counter()
        self.armed, self.inside, self.over, self.handler = False, False, False, handler
        self.server = mcplite.serve(mcp) if transport == "http" else None
        target = {"memory": mcp, "stdio": [sys.executable, __file__, "server"]}.get(
            transport, self.server and self.server.url)
        self.client = mcplite.connect(target, revision=revision or None, timeout=20).open()
        signal.signal(signal.SIGALRM, self.strike)

    def call(self, number: int) -> None:
        begun = time.monotonic()
        if self.client.call_tool("double", {"number": number}).text != str(2 * number):
            self.happened["wrong"] += 1
        if time.monotonic() - begun > 15:
            self.happened["late"] += 1

    def strike(self, *_: object) -> None:
        if not self.armed or self.inside:
            return
        self.happened["struck"] += 1
        if self.handler == "call":
            self.inside, begun = True, time.monotonic()
            try:
                self.call(1)
                self.happened["served"] += 1
            except mcplite.TransportError as error:
                self.happened["refused" if "signal handler" in str(error) else str(error)] += 1
            finally:
                self.inside = False
            if time.monotonic() - begun > 15:
                self.happened["late"] += 1
            return
        self.armed = False
        raise Alarm if self.handler == "alarm" else KeyboardInterrupt

    def call_on(self, number: int) -> None:
        """Call until the end, on another thread."""
        while not self.over:
            try:
                self.call(number)
            except BaseException as error:
                self.happened[f"other thread: {error!r}"] += 1

    def run(self, count: int, dice: random.Random) -> None:
        """Interrupt so many calls."""
        others = [threading.Thread(target=self.call_on, args=(number,)) for number in range(2)]
        for thread in others if self.handler == "threads" else []:
            thread.start()
        begun = time.perf_counter()
        for number in range(30):
            self.call(number)
        typical = (time.perf_counter() - begun) / 30
        while self.happened["struck"] < count:
            try:
                try:
                    self.armed = True
                    signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-5, 1.2 * typical))
                    self.call(3)
                finally:
                    self.armed = False
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except (KeyboardInterrupt, Alarm):
                self.happened["interrupted"] += 1
            except Exception as error:
                # Where another library may raise any Exception, ours takes its place, and has it as its cause.
                self.happened["interrupted" if isinstance(error.__cause__, Alarm) else f"interrupted call: {error!r}"] += 1
            try:
                self.call(5)
            except Exception as error:
                self.happened[f"next call: {error!r}"] += 1
        self.over = True
        for thread in others if self.handler == "threads" else []:
            thread.join()
        self.client.close()
        if self.server is not None:
            self.server.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if sys.argv[1] == "server":
        mcp.run()
    else:
        program = Interrupted(sys.argv[1], sys.argv[2], sys.argv[5])
        program.run(int(sys.argv[3]), random.Random(int(sys.argv[4])))
        print(json.dumps(program.happened))
