"""Scripted child processes: small servers that misbehave as a test wants, and checks for leftovers."""

import gc
import json
import sys
import threading

import psutil

from tests.support.processes import wait_until
from tests.support.systems import open_descriptors

#: For waits that end by an event; long enough for a busy machine.
LIMIT = 30

_PRELUDE = """
import json, os, signal, subprocess, sys, time

def read():
    line = sys.stdin.readline()
    return json.loads(line) if line else None

def say(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()

def complain(text):
    sys.stderr.write(text)
    sys.stderr.flush()

def echo():
    while True:
        message = read()
        if message is None:
            break
        say(message)

def sleep():
    while True:
        time.sleep(60)

def spawn(body, **options):
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", "import os, signal, sys, time\\n" + body], **options)
"""


def script(body, *arguments):
    """Return the command of a child that runs *body* with the helpers above."""
    return [sys.executable, "-I", "-S", "-c", _PRELUDE + body, *arguments]


def send(channel, message, timeout=LIMIT):
    channel.write(json.dumps(message).encode(), timeout)


def receive(channel):
    """Return the next message of *channel*, decoded."""
    data = channel.read(LIMIT)
    assert data is not None, "nothing came"
    channel.consume()
    return json.loads(data)


def alive(pid):
    """Tell whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def taken(lock):
    """Whether another thread has taken a lock for nested blocks."""
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return not free


class Holdings:
    """The resources of this process: descriptors, threads and children, zombies included."""

    def __init__(self):
        gc.collect()
        self.now = self._look()

    @staticmethod
    def _look():
        # Where there are no alarms, as on Windows, pytest-timeout has a thread for each phase of a test.
        threads = sorted(thread.name for thread in threading.enumerate() if not thread.name.startswith("pytest_timeout "))
        children = sorted(child.pid for child in psutil.Process().children())
        return len(open_descriptors()), threads, children

    def same_again(self):
        """Wait until this process holds as much as before, and return what it held and holds."""
        wait_until(lambda: self._look() == self.now, limit=10)
        return self.now, self._look()
