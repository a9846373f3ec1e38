"""Runs cells in a real kernel of Jupyter, and prints as JSON what each has shown; a process of its own, with its own loops.

    python -m tests.support.notebook < CELLS

CELLS is a JSON object: ``cells``, a list of code, ``answers``, what a person types when a cell asks, and ``complete``,
texts whose completions are wanted at the end.
"""

import json
import sys

from jupyter_client import KernelManager

#: Seconds for one cell.
LIMIT = 90


def run(client, code, answers):
    """Return what one cell has shown: the media of its displays and results, the text that it printed, and its error."""
    shown = {"media": [], "printed": "", "value": None, "error": None, "asked": []}

    def output(message):
        kind, content = message["header"]["msg_type"], message["content"]
        if kind in ("execute_result", "display_data"):
            shown["media"] += sorted(content["data"])
            shown["value"] = content["data"].get("text/plain")
        elif kind == "stream":
            shown["printed"] += content["text"]
        elif kind == "error":
            shown["error"] = "\n".join(content["traceback"])

    def typed(message):
        shown["asked"].append(message["content"]["prompt"])
        client.input(answers.pop(0))

    client.execute_interactive(code, allow_stdin=True, stdin_hook=typed, output_hook=output, timeout=LIMIT)
    return shown


def main():
    given = json.load(sys.stdin)
    manager = KernelManager()
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=LIMIT)
        cells = [run(client, code, given["answers"]) for code in given["cells"]]
        completions = {text: client.complete(text, len(text), reply=True, timeout=LIMIT)["content"]["matches"]
                       for text in given["complete"]}
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    print(json.dumps({"cells": cells, "completions": completions}))


if __name__ == "__main__":
    main()
