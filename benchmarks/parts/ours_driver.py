"""mcplite as a client."""

import json
import os
import sys
import threading
import time

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from common import answer_commands, calls_in, expect, text_of

import mcplite


class Commands:
    """The commands of a driver, as in ``floor_driver.py``."""

    def __init__(self):
        self.client = None

    def open(self, target, era="legacy"):
        # A 10 MB message is within the default limits; only the timeout has to be longer.
        self.client = mcplite.connect(target, options=mcplite.ClientOptions(era=era, questions_per_minute=None),
                                      elicitation_handler=lambda request: {"n": 1}).open()
        return len(self.client.list_tools())

    def add(self, count):
        def run(n):
            # Older commits send a bare value in the newest revision.
            if self.client.call_tool("add", {"a": n, "b": 1}).structured_content not in ({"result": n + 1}, n + 1):
                raise AssertionError("wrong sum")

        return calls_in(run, count)

    def ask(self, count):
        def run(n):
            if self.client.call_tool("ask", {"n": n}).text != str(n + 1):
                raise AssertionError("wrong answer")

        return calls_in(run, count)

    def text(self, size):
        begun = time.perf_counter_ns()
        result = self.client.call_tool("text", {"size": size})
        taken = time.perf_counter_ns() - begun
        expect("text", size, len(result.text))
        return taken

    def stream(self, size):
        seen = []
        begun = time.perf_counter_ns()
        result = self.client.call_tool("stream", {"size": size}, on_progress=seen.append)
        taken = time.perf_counter_ns() - begun
        expect("stream", (size, 1), (len(result.text), len(seen)))
        return taken

    def argument(self, size):
        text = text_of(size)
        begun = time.perf_counter_ns()
        result = self.client.call_tool("length", {"text": text})
        taken = time.perf_counter_ns() - begun
        expect("length", str(size), result.text)
        return taken

    def progress(self, count):
        seen = []
        begun = time.perf_counter_ns()
        self.client.call_tool("progress", {"count": count}, on_progress=lambda report: seen.append(report.progress))
        taken = time.perf_counter_ns() - begun
        expect("progress", list(range(1, count + 1)), [int(value) for value in seen])
        return taken

    def quick(self, seconds):
        slow = threading.Thread(target=self.client.call_tool, args=("sleep", {"seconds": seconds}))
        slow.start()
        time.sleep(0.02)
        begun = time.perf_counter_ns()
        self.client.call_tool("add", {"a": 1, "b": 1})
        taken = time.perf_counter_ns() - begun
        slow.join()
        return taken

    def list(self):
        begun = time.perf_counter_ns()
        tools = self.client.list_tools()
        return {"taken": time.perf_counter_ns() - begun, "count": len(tools)}

    def server_usage(self):
        return json.loads(self.client.call_tool("usage", {}).text)

    def close(self):
        self.client.close()


def main(arguments):
    commands = Commands()
    if arguments:
        commands.open(arguments)
        commands.close()
    else:
        answer_commands({name: getattr(commands, name) for name in dir(commands) if not name.startswith("_")})


if __name__ == "__main__":
    main(sys.argv[1:])
