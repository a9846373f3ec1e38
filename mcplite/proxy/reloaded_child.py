"""ReloadedChild: a server's process that ``--reload`` may replace; it reports its files, and ends with its parent."""

import contextlib
import json
import os
import signal
import socket
import sys
import sysconfig
import time
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, Optional, Sequence, Tuple, Type

from ..protocol.error_text import one_line
from ..rpc.threads import start_thread

if TYPE_CHECKING:
    from ..server.transports.httpd import HTTPServer

__all__ = ["LOOK_SECONDS", "Look", "ReloadedChild", "file_of", "look_at"]

#: The endings of a TARGET that names a file, and no module.
_FILES = (".py", ".json")
#: Seconds between two looks at the files.
LOOK_SECONDS = 0.25
#: When a file was changed, in nanoseconds, and its size in bytes; None for a file that is not there.
Look = Optional[Tuple[int, int]]


def look_at(path: str) -> Look:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def file_of(target: str) -> str:
    """Return the absolute path of the file that TARGET names; empty for a module."""
    location = target if target.endswith(_FILES) else target.rpartition(":")[0]
    return os.path.abspath(location) if location.endswith(_FILES) else ""


class ReloadedChild:
    """What a child does besides serving: it reports its files, and ends with its parent.

    :param report: the path of the report.
    :param target: TARGET of the command line.
    """

    def __init__(self, report: str, target: str) -> None:
        self._report = report
        self._file = file_of(target)
        self._folders = [folder + os.sep for folder in {os.getcwd(), os.path.dirname(self._file) or os.getcwd()}]
        self._library = sysconfig.get_path("stdlib") + os.sep

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Report what the block loads, or why it fails."""
        # Python compares a cached module with its source by size and second, and two saves may have both in common: nothing is
        # cached.
        sys.dont_write_bytecode = True
        try:
            yield
        except (Exception, SystemExit) as error:
            broken = error.filename if isinstance(error, SyntaxError) else None
            self._write([broken] if broken else [], one_line(f"{type(error).__name__}: {error}", 500))
            raise
        self._write([], "")
        # A daemon, which ends with the process; it blocks on its pause alone.
        start_thread(self._follow, "mcplite loaded modules")

    def end_with_parent(self) -> None:
        """Start a thread that blocks on stdin until its end, and then stops the process as SIGTERM does."""
        def wait() -> None:
            while os.read(0, 4096):
                continue
            os.kill(os.getpid(), signal.SIGTERM)

        start_thread(wait, "mcplite stdin of a child")

    def http_server(self, descriptor: int) -> "Type[HTTPServer]":
        """Return a class of HTTP servers that listen at a socket which the parent has opened."""
        from ..server.transports.httpd import HTTPServer

        class Listener(socket.socket):
            """The parent's socket: shutdown() of one process would end it for all."""

            def shutdown(self, how: int) -> None:
                """Do nothing."""

        class InheritedHTTPServer(HTTPServer):
            """Listens where its parent does."""

            def server_bind(self) -> None:
                self.socket.close()
                self.socket = Listener(fileno=descriptor)
                self.server_address = self.socket.getsockname()
                self.server_name, self.server_port = self.host, int(self.server_address[1])

            def server_activate(self) -> None:
                """Do nothing: the parent has called listen()."""

        return InheritedHTTPServer

    def _follow(self) -> None:
        known = len(sys.modules)
        while True:
            time.sleep(LOOK_SECONDS)
            if len(sys.modules) != known:
                known = len(sys.modules)
                self._write([], "")

    def _write(self, more: Sequence[str], failed: str) -> None:
        files = {os.path.abspath(path) for path in [*map(_path_of, list(sys.modules.values())), *more] if path}
        own = {path for path in files if path.startswith(tuple(self._folders)) and not path.startswith(self._library)
               and not {"site-packages", "dist-packages"}.intersection(path.split(os.sep))}
        own |= {self._file} if self._file else set()
        temporary = self._report + ".new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"failed": failed, "files": {path: look_at(path) for path in own}}, file)
        os.replace(temporary, self._report)


def _path_of(module: ModuleType) -> Optional[str]:
    path = getattr(module, "__file__", None)
    return path if isinstance(path, str) else None
