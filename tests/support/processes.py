"""Servers as processes of their own, on a free port."""

import contextlib
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
#: Seconds for a start and an end; a framework takes long to import on a busy machine, and longer under Wine.
LIMIT = 90


@contextlib.contextmanager
def serving(command, folder, **variables):
    """Run a server until the end of the block; gives its URL, with a slash at the end.

    :param command: its words; PORT in one stands for the port.
    :param folder: where it runs, and imports from.
    :param variables: of its environment.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), **variables}
    running = subprocess.Popen([word.replace("PORT", str(port)) for word in command], cwd=str(folder), env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = []
    reader = threading.Thread(target=lambda: said.extend(running.stdout), daemon=True)
    reader.start()
    try:
        until = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert running.poll() is None and time.monotonic() < until, b"".join(said).decode("utf-8", "replace")
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/"
        running.terminate()
        running.wait(LIMIT)
    finally:
        running.kill()
        running.wait()
        reader.join(LIMIT)
        running.stdout.close()
