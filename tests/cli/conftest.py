"""A terminal: a person's side of a pseudo-terminal, for code here and for whole processes."""

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mcplite

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
#: Seconds to wait for what has to come.
PATIENCE = 30


class Terminal:
    """What a person sees and types; ``inside`` is the descriptor of the program's side."""

    def __init__(self):
        import pty

        self.outside, self.inside = pty.openpty()
        #: All that was ever on the screen, with what was typed.
        self.screen = ""
        self._seen = 0
        self._child = None
        self._files = []

    def run(self, *arguments, **options):
        """Start ``python -m mcplite`` with all three streams here."""
        environment = {**os.environ, "PYTHONPATH": ROOT, "COLUMNS": "80", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "mcplite", *arguments], stdin=self.inside, stderr=self.inside,
            stdout=options.get("stdout", self.inside), env=environment, start_new_session=True,
            preexec_fn=_controlling if options.get("controlling") else None)
        return self

    def files(self):
        """Return the program's side as text files ``(source, out)``."""
        self._files = [open(os.dup(self.inside), "r", encoding="utf-8"), open(os.dup(self.inside), "w", encoding="utf-8")]
        return self._files

    def expect(self, pattern):
        """Wait until something new on the screen matches, and return the match."""
        until = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self.screen[self._seen:])
            if found:
                self._seen += found.end()
                return found
            ended = self._child is not None and self._child.poll() is not None
            if not select.select([self.outside], [], [], 0 if ended else 0.2)[0]:
                if not ended and time.monotonic() < until:
                    continue
                raise AssertionError(f"{pattern!r} did not come; the screen shows:\n{self.screen}")
            self.screen += os.read(self.outside, 65536).decode("utf-8", "replace").replace("\r\n", "\n")

    def type(self, text):
        os.write(self.outside, text.encode("utf-8"))

    def answer(self, pattern, text):
        """Wait for a question and type a line."""
        self.expect(pattern)
        self.type(text + "\n")

    def status(self):
        """Wait for the end of the program; return its exit status."""
        status = self._child.wait(PATIENCE)
        while select.select([self.outside], [], [], 0)[0]:
            self.screen += os.read(self.outside, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
        return status

    def close(self):
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait(PATIENCE)
        for file in self._files:
            file.close()
        os.close(self.inside)
        os.close(self.outside)


def _controlling():
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal


@pytest.fixture
def terminal():
    if os.name != "posix":
        pytest.skip("pseudo-terminals are there on POSIX only")
    terminal = Terminal()
    yield terminal
    terminal.close()
