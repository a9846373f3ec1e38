"""Callers: programs that call a server and print what came of it; and pairs of a caller and a server."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time

from .children import alive
from .processes import LIMIT, free_port, wait_until


class Caller:
    """A program that calls and prints what came of it."""

    def __init__(self, command, stderr):
        self.calls = []
        #: Guards ``calls``, and tells of new ones.
        self._told = threading.Condition()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, encoding="utf-8")
        # It ends with the process.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break  # it was killed while it wrote
            with self._told:
                self.calls.append(json.loads(line))
                self._told.notify_all()

    def answered(self):
        """How many calls had an answer."""
        return sum("answer" in call for call in self.calls)

    def goes_on(self, more=6):
        """Wait for so many more answers; return whether they came."""
        wanted = self.answered() + more
        with self._told:
            return self._told.wait_for(lambda: self.answered() >= wanted, LIMIT)

    def end(self):
        """Let it end; return its exit status."""
        self.process.stdin.close()
        return self._wait()

    def kill(self):
        """End it with SIGKILL, and wait until it has ended."""
        self.process.kill()
        self._wait()
        self.process.stdin.close()

    def _wait(self):
        status = self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        self.process.stdout.close()
        return status


class Pair:
    """A caller and a server, which :meth:`start` starts.

    :param folder: for the server's files.
    :param server: the command of the server without its arguments.
    :param caller: the command of the caller without its arguments.
    :param transport: "stdio" or "http".
    :param revision: for the caller; "" for any.
    """

    def __init__(self, folder, server, caller, transport, revision):
        self._folder, self._server, self._caller, self._revision = folder, server, caller, revision
        self._port = free_port() if transport == "http" else None
        self._running = None
        self._stderr = open(folder / "stderr", "wb")
        self._callers = []

    def start(self):
        """Start the server and a caller; :meth:`close` ends them, also when this fails."""
        if self._port is not None:
            self._serve()
        self.call()

    def _serve(self):
        self._running = subprocess.Popen([*self._server, str(self._folder), str(self._port)], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=self._stderr)

    def call(self):
        """Start a caller."""
        target = [*self._server, str(self._folder), "stdio"] if self._port is None else f"http://127.0.0.1:{self._port}/mcp"
        self.caller = Caller([*self._caller, json.dumps(target), *filter(None, [self._revision])], self._stderr)
        self._callers.append(self.caller)
        assert self.caller.goes_on(), self.stderr

    def servers(self):
        """The ids of all servers that run."""
        started = self._folder / "started"
        return [pid for pid in map(int, started.read_text().split()) if alive(pid)] if started.exists() else []

    @property
    def stderr(self):
        return (self._folder / "stderr").read_text("utf-8", "replace")[-4000:]

    def strike(self, side, number, seconds):
        """Send a signal to a side: SIGKILL, or SIGSTOP for so many seconds; then wait until calls are answered again."""
        victims = self.servers() if side == "server" else [self.caller.process.pid]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(seconds)
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        elif side == "server" and self._port is not None:
            self._running.wait(LIMIT)
            self._serve()
        elif side == "caller":
            self.caller.kill()
            if self._port is None:
                assert wait_until(lambda: not self.servers()), f"servers without a client: {self.servers()}"
            self.call()
        assert self.caller.goes_on(), f"no answers after {number} to the {side}: {self.caller.calls[-5:]}\n{self.stderr}"

    def judge(self):
        """End the caller, and check every call of all callers."""
        assert self.caller.end() == 0, self.stderr
        if self._port is None:
            assert wait_until(lambda: not self.servers()), f"servers without a client: {self.servers()}"
        done = (self._folder / "effects").read_text().split()
        assert len(done) == len(set(done)), "done twice: " + ", ".join({key for key in done if done.count(key) > 1})
        calls = [call for caller in self._callers for call in caller.calls]
        answered = [call for call in calls if "answer" in call]
        assert [call for call in answered if call["answer"] != call["key"][::-1]] == []
        assert {call["key"] for call in answered} <= set(done)
        return calls

    def close(self):
        for caller in self._callers:
            if caller.process.poll() is None:
                caller.kill()
        for pid in self.servers():
            os.kill(pid, signal.SIGKILL)
        if self._running is not None:
            self._running.wait(LIMIT)
        self._stderr.close()
