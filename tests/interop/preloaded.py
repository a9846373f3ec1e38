"""A Python of an environment that has imported its library once, and forks for each program that is started.

    python preloaded.py SOCKET OWNER MODULE...

Importing an SDK takes two seconds of CPU, which is most of what a test with it costs. ``launch.py`` takes the place of the
Python: it hands over its arguments, its environment and its standard streams, passes on signals, and ends as the program does.
What runs is the program with its library, in a process of its own. This process ends when the process OWNER has ended.
"""

import array
import atexit
import builtins
import gc
import importlib
import io
import json
import os
import random
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import types
import warnings


def receive(connection):
    """Return what a launcher wants to be started, and its standard streams."""
    descriptors = array.array("i")
    data, extra, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * descriptors.itemsize))
    for _, _, content in extra:
        descriptors.frombytes(content)
    file = connection.makefile("rb")
    return json.loads(file.read(int.from_bytes(data, "big"))), list(descriptors)


def obey(connection):
    """Do what the launcher is told to: a byte is a signal, and the end of the launcher is that of the program."""
    while True:
        numbers = connection.recv(64)
        for number in numbers:
            os.kill(os.getpid(), number)
        if not numbers:
            os.killpg(os.getpgid(0), signal.SIGKILL)


def become(wanted, descriptors):
    """Make of a fork what a new process is: another folder, environment, and streams."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.open(0, "rb"), line_buffering=False)
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.open(1, "wb"), line_buffering=os.isatty(1))
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(io.open(2, "wb"), errors="backslashreplace", line_buffering=True)
    random.seed()
    sys.path[0:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def run(words):
    """Run the program of a command line: [-W ignore] FILE, -m MODULE or -c CODE, and its arguments."""
    if words[:2] == ["-W", "ignore"] or os.environ.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    else:
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
    if words[:1] == ["-W"]:
        words = words[2:]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__builtins__ = builtins
    if words[0] == "-c":
        sys.argv, source, name = ["-c", *words[2:]], words[1], "<string>"
        sys.path.insert(0, "")
    else:
        sys.argv, name = words, words[0]
        sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
        module.__file__ = name
        with open(name, encoding="utf-8") as file:
            source = file.read()
    exec(compile(source, name, "exec"), module.__dict__)


def end(status):
    """End as Python does: with the threads, what was registered for the end, and what was not yet written."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
    except OSError:
        status = status or 120
    os._exit(status)


def start(wanted, descriptors, connection):
    """Run a program in this process, which is a fork; does not return."""
    status = 0
    try:
        become(wanted, descriptors)
        threading.Thread(target=obey, args=(connection,), name="launcher", daemon=True).start()
        run(wanted["words"])
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if status and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        end(status & 255)


def has_ended(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def serve(path, owner):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)  # from here on programs can be started
    ended, tell = socket.socketpair()
    ended.setblocking(False)
    tell.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tell.fileno())
    running = {}
    gc.freeze()
    while not has_ended(owner):
        ready, _, _ = select.select([listener, ended], [], [], 1.0)
        if ended in ready:
            ended.recv(4096)
            while running:
                process, status = os.waitpid(-1, os.WNOHANG)
                if not process:
                    break
                with running.pop(process) as connection:
                    try:
                        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
                    except OSError:
                        pass  # the launcher was killed
        if listener in ready:
            connection, _ = listener.accept()
            wanted, descriptors = receive(connection)
            process = os.fork()
            if not process:
                for other in (listener, ended, tell, *running.values()):
                    other.close()
                start(wanted, descriptors, connection)
            for descriptor in descriptors:
                os.close(descriptor)
            running[process] = connection


if __name__ == "__main__":
    for name in sys.argv[3:]:
        importlib.import_module(name)
    serve(sys.argv[1], int(sys.argv[2]))
