"""A person at a command line: their side of a pseudo-terminal, their browser, and the servers that they log in to."""

import contextlib
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mcplite
from mcplite.auth.login.file_store import FileStore
from tests.support import secure
from tests.support.authserver import AuthServer, Protected
from tests.support.interrupts import OPTIONS

#: Certificates.
folder = secure.folder
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

    def expect(self, pattern, patience=PATIENCE):
        """Wait until something new on the screen matches, and return the match."""
        until = time.monotonic() + patience
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

    def interrupt(self, pattern):
        """Press Ctrl-C at a prompt of readline until something new on the screen matches.

        ``input()`` does not notice a signal between its reading of a character and its next wait; the next Ctrl-C is noticed.
        """
        for _ in range(PATIENCE):
            self.type("\x03")
            with contextlib.suppress(AssertionError):
                return self.expect(pattern, patience=1)
        return self.expect(pattern, patience=1)

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


#: A browser that is logged in everywhere.
BROWSER = """
import sys, urllib.error, urllib.request
try:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1]).read()
except urllib.error.HTTPError:
    pass  # a page all the same
"""


class CommandLine:
    """Runs ``python -m mcplite`` as processes of one user; ``environment`` is theirs."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "kept" / "credentials.json"
        #: What the user has read by now.
        self.shown = ""
        self.environment = {
            **os.environ, "PYTHONPATH": ROOT, "PYTHONIOENCODING": "utf-8", "MCPLITE_CREDENTIALS": str(self.path),
            "no_proxy": "*"}
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY"):
            self.environment.pop(name, None)
        self.browses(BROWSER)

    def browses(self, program):
        """Have the user's browser be a program in Python; None for no browser."""
        self.environment["BROWSER"] = ""
        if program is not None:
            (self.folder / "browser.py").write_text(program)
            # webbrowser reads it as a shell of POSIX would, also on Windows: a backslash would be an escape.
            self.environment["BROWSER"] = f"{Path(sys.executable).as_posix()} {(self.folder / 'browser.py').as_posix()} %s"

    def start(self, *words, **options):
        command = [sys.executable, "-m", "mcplite", *map(str, words)]
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **OPTIONS, **options}
        return subprocess.Popen(command, env=self.environment, **options)

    def __call__(self, *words):
        """Run to the end; return status, stdout and stderr."""
        return self.end(self.start(*words, stdin=subprocess.DEVNULL))

    def end(self, child):
        try:
            out, err = child.communicate(timeout=2 * PATIENCE)
        finally:
            child.kill()
            child.wait(PATIENCE)
        out, err = (text.decode().replace("\r\n", "\n") for text in (out, err))
        self.shown += out + err
        return child.returncode, out, err

    def page(self, child):
        """Wait until a process has shown the page to log in at, and return its URL."""
        while True:
            line = child.stderr.readline().decode()
            assert line, "the process has ended without showing a page"
            found = re.search(r"http://\S+/authorize\?\S+", line)
            if found:
                return found.group()

    def records(self):
        """Return what is stored, by the first word of the key."""
        store = FileStore(self.path)
        return {key.partition(" ")[0]: store.load(key) for key in store.keys()}

    def change(self, kind, **members):
        """Change members of what is stored."""
        store = FileStore(self.path)
        for key in store.keys():
            if key.startswith(kind + " "):
                store.save(key, {**store.load(key), **members})


@pytest.fixture
def cli(tmp_path):
    return CommandLine(tmp_path)


@pytest.fixture
def auth():
    with AuthServer() as auth:
        yield auth


@pytest.fixture
def protected(auth):
    """A server with one tool, which takes the tokens of *auth* only."""
    with Protected(auth) as protected:
        tools = [{"name": "greet", "inputSchema": {"type": "object"}}]
        protected.capabilities = {"tools": {}}
        protected.on_tools_list = lambda request, answer: answer.json(protected.result(request, {"tools": tools}))
        protected.on_tools_call = lambda request, answer: answer.json(protected.text(request, "hello"))
        yield protected
