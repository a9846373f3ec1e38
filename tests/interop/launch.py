"""Takes the place of a Python: has a program started by ``preloaded.py``, and ends as it does.

:class:`~tests.interop.conftest.Installed` makes a program of this file.
"""

import json
import os
import signal
import socket
import sys


def main(path, python):
    """Run what the arguments of this process say.

    :param path: of the socket of ``preloaded.py``.
    :param python: for command lines that ``preloaded.py`` does not know.
    """
    words = sys.argv[1:]
    plain = words[2:] if words[:2] == ["-W", "ignore"] else words
    if not plain or plain[0].startswith("-") and plain[0] not in ("-c", "-m"):
        os.execv(python, [python, *words])
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda number, frame: connection.send(bytes([number])))
    wanted = json.dumps({"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    socket.send_fds(connection, [len(wanted).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(wanted)
    # The program alone has the streams, so that they end with it.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    status = int(connection.recv(16) or 1)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
