"""One client, many threads: a hundred calls at once over one connection.

    python examples/pool.py README.rst
"""
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mcplite

HELLO = Path(__file__).with_name("hello.py")


def main(path: str) -> None:
    """Call a tool from sixteen threads, then cancel a call."""
    with mcplite.connect([sys.executable, str(HELLO)]) as client:

        def top(count: int) -> dict:
            return client.call_tool("top_words", {"path": path, "count": count}, timeout=30).structured_content

        with ThreadPoolExecutor(16) as pool:
            rows = list(pool.map(top, range(1, 101)))
        print(f"{len(rows)} answers, the longest with {max(map(len, rows))} words")

        token = mcplite.CancelToken()
        worker = threading.Thread(target=token.cancel, args=("changed my mind",))
        worker.start()
        worker.join()
        try:
            client.call_tool("top_words", {"path": path}, cancel=token)
        except mcplite.Cancelled as error:
            print("cancelled:", error.reason)


if __name__ == "__main__":
    main(sys.argv[1])
