"""Scripted child processes: small servers that misbehave as a test wants, and checks for leftovers."""

import json
import sys

import psutil

from tests.support.processes import wait_until  # noqa: F401 - tests import it from here

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
