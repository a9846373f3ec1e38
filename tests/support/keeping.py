"""Helpers for tests of stores: processes that use them, waits that give up, refusals without secrets."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite.auth.login.file_store import give_up_after, make_folder, open_file
from mcplite.errors import AuthError

LIMIT = 30
ROOT = Path(mcplite.__file__).resolve().parent.parent
OLD, NEW = {"refresh_token": "old-s3cret"}, {"refresh_token": "new-s3cret"}


@contextlib.contextmanager
def child(program, place):
    """Run a program in a process of its own, which gets *place*; it is killed at the end of the block."""
    command = [sys.executable, "-c", program, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        try:
            yield process
        finally:
            process.kill()


class GaveUp(Exception):
    """Raised to stop waiting."""


def give_up():
    raise GaveUp


def patient():
    return give_up_after(LIMIT, "the lock was not let go")


def never():
    raise AssertionError("the lock is free")


def make_own_file(path):
    """Make an empty file as a store does, by hand."""
    make_folder(str(path.parent))
    os.close(open_file(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def entries(folder):
    return sorted(os.listdir(folder))


def refused(call):
    """Return the text of the error in which *call* ends; no text has a secret."""
    with pytest.raises(AuthError) as caught:
        call()
    text, error = "", caught.value
    while error is not None:
        text, error = f"{text}{error!r}{vars(error)}", error.__cause__ or error.__context__
    assert "s3cret" not in text
    return str(caught.value)


def every_use(store):
    return [lambda: store.load("a"), lambda: store.save("a", NEW), lambda: store.delete("a"), store.keys]
