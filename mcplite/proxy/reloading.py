"""``python -m mcplite.server --reload``: the process of a server is replaced when a file of it changes.

A parent keeps what clients see, and a child serves. Over HTTP the parent keeps the listening socket, which each child inherits:
connections wait in its queue while the child is replaced. On stdio the parent has the pipes of the host application, and hands
on messages; towards a new child it opens the session that the host has opened, and then tells the host that the lists may have
changed. A revision without sessions needs neither.

The parent's main thread is the only one that starts and ends children::

    running --a file has changed--> running, with another child
    running --the child ends--> broken --a file has changed--> running
    running, broken --SIGINT, SIGTERM, the end of the host's pipe--> ended

While it is broken, as after a syntax error, requests are answered with the reason. A child writes the files that it has loaded
into a report, and the reason when it cannot be loaded; the parent looks at the times of these files. The end of the child's
stdin tells it to end: what runs has ``Limits.grace`` seconds, and the child ten in all.
"""

import contextlib
import json
import os
import socket
import sys
import tempfile
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Dict, Optional, Sequence, Tuple

from ..errors import TransportError
from ..server.transports.signals import stop_signals
from ..server.transports.stdio import own_streams
from .reload_fronts import LINE_BYTES, WRITE_SECONDS, Events, Front, HTTPFront, show
from .reloaded_child import LOOK_SECONDS, Look, file_of, look_at
from .stdio_front import StdioFront

if TYPE_CHECKING:
    from ..client.stdio.stdio_channel import ChildChannel

__all__ = ["serve_and_reload"]

#: Seconds without another change before a change is acted on.
_CALM_SECONDS = 0.1
#: Seconds that a child has to answer the requests that run, and to end.
_END_SECONDS = 10.0


class _Files:
    """The files of a child, and how they looked when it loaded them.

    :param report: the path of the child's report.
    :param target: the file of the target; empty for a module.
    """

    def __init__(self, report: str, target: str) -> None:
        self._report = report
        self._known: Dict[str, Look] = {target: look_at(target)} if target else {}
        self._read: Look = None
        #: Whether the child has loaded the target, and why it could not; False and an empty text until its report says so.
        self.loaded, self.failed = False, ""

    def begin(self) -> None:
        """Take the files as they are now, for a child that is started now."""
        self._known = {path: look_at(path) for path in self._known}
        self._read, self.loaded, self.failed = None, False, ""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._report)

    def read(self) -> None:
        """Read the report, if it is new."""
        found = look_at(self._report)
        if found is None or found == self._read:
            return
        self._read = found
        with open(self._report, encoding="utf-8") as file:
            report = json.load(file)
        for path, look in report["files"].items():
            self._known.setdefault(path, None if look is None else tuple(look))
        self.loaded, self.failed = not report["failed"], str(report["failed"])

    def add_folders(self) -> None:
        """Watch the folders of the files as well: a module that is missing is a file that is still to come."""
        folders = {os.path.dirname(path) for path in self._known if not os.path.isdir(path)} or {os.getcwd()}
        self._known.update({folder: look_at(folder) for folder in folders})

    def changed(self) -> Optional[str]:
        """Return a file that has changed; None for none."""
        return next((path for path, look in self._known.items() if look_at(path) != look), None)

    def settle(self) -> None:
        """Wait until no file changes any more: editors save several one after another."""
        before: Dict[str, Look] = {}
        while before != (now := {path: look_at(path) for path in self._known}):
            before = now
            time.sleep(_CALM_SECONDS)


class _Supervisor:
    """Starts a child, and replaces it when its files change."""

    def __init__(self, target: str, arguments: Sequence[str], front: Front, events: Events) -> None:
        self._target = target
        self._arguments = list(arguments)
        self._front = front
        self._events = events
        self._ended = False

    def run(self) -> int:
        """Serve until a signal, or the end of the host's pipe; return the exit status."""
        # The handler of a signal may interrupt any step of this thread: put() of this queue takes no lock.
        with tempfile.TemporaryDirectory(prefix="mcplite-reload-") as folder, \
                stop_signals(lambda: self._events.put(("stop", None))):
            report = os.path.join(folder, "report.json")
            files = _Files(report, file_of(self._target))
            try:
                while not self._ended:
                    files.begin()
                    problem = self._run_child(files, report)
                    if problem:
                        files.add_folders()  # before the problem is shown, so that a correction is seen
                        self._front.refuse(f"the server cannot be started: {problem}; correct it, and it is started again")
                        show(f"{self._target} waits for a change of its files, since it cannot be started: {problem}")
                        self._wait(files, None)
            finally:
                self._front.close()
        return 0

    def _run_child(self, files: _Files, report: str) -> str:
        """Serve with one child until its files change, or the server ends; return why the child has ended by itself, or ""."""
        from ..client.stdio.child import describe_exit
        from ..client.stdio.stdio_channel import ChildChannel

        package = (__package__ or "").rpartition(".")[0]
        try:
            child = ChildChannel([sys.executable, "-m", f"{package}.server", f"--reload-child={report}", *self._front.words,
                                  *self._arguments], env=os.environ, stderr="inherit", line_limit=LINE_BYTES,
                                 pass_fds=self._front.descriptors)
        except TransportError as error:
            return str(error)
        try:
            self._front.serve(child)
            alone = self._wait(files, child)
            self._front.pause()
            child.close_input(WRITE_SECONDS)
            self._front.drained.wait(_END_SECONDS)
        finally:
            child.close()
            files.read()
            self._front.gone(files.loaded)
        if not alone or self._ended:
            return ""
        status = child.returncode
        return files.failed or ("its process has ended" if status is None else f"it {describe_exit(status)}")

    def _wait(self, files: _Files, child: "Optional[ChildChannel]") -> bool:
        """Wait for a change, the end of the server or that of the child; return whether the child has ended by itself."""
        while True:
            try:
                kind, about = self._events.get(timeout=LOOK_SECONDS)
            except Empty:
                if child is not None:
                    files.read()
                path = files.changed()
                if path is not None:
                    files.settle()
                    show(f"{os.path.relpath(path)} has changed: {self._target} is started again")
                    return False
                continue
            if kind == "stop":
                self._ended = True
                return False
            if about is not child or child is None:
                continue  # of an earlier child
            if kind == "ended":
                return True
            self._front.resume(child)


def serve_and_reload(arguments: Sequence[str], target: str, address: Optional[Tuple[str, int]], tls: bool) -> int:
    """Serve a target, and start it again when its files change; return the exit status.

    :param arguments: those of the command line.
    :param address: host and port for HTTP; None for stdio.
    :param tls: whether HTTP is encrypted; if so, requests wait while there is no child.
    """
    events: Events = SimpleQueue()
    if address is None:
        with own_streams() as streams:
            return _Supervisor(target, arguments, StdioFront(events, streams), events).run()
    if sys.platform == "win32":
        show("--reload works on stdio here, and not with --http: a process of Windows inherits no socket")
        return 2
    host, port = address
    try:
        listener = socket.create_server(address, family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128)
    except OSError as error:
        show(f"cannot listen at {host}:{port}: {error.strerror}")
        return 1
    with listener:
        return _Supervisor(target, arguments, HTTPFront(events, listener, tls), events).run()
