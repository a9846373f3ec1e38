"""Watches the files of a directory, and tells clients of their changes.

``Server.add_directory(watch=)`` loads it. By polling, which every system and every file system has.
"""

import threading
from typing import Callable, Optional, Set

from ...errors import TransportError
from ...rpc.forks import new_lock, on_fork
from ...rpc.threads import start_thread
from ...rpc.tracing import FaultLog, get_logger
from .directory import Directory, differences
from .provider import Service

__all__ = ["Watcher"]

_log = get_logger(__name__)


class Watcher(Service):
    """Looks at a directory again and again while the server has clients.

    Its thread starts with the first client and ends with the last. It blocks on its own clock and on the file system.

    :param directory: that is watched.
    :param seconds: between two looks.
    :param on_file: called with the URI of a file that was changed, added or removed, and of the folders of such a file.
    :param on_list: called when a file was added or removed.
    """

    def __init__(self, directory: Directory, seconds: float, on_file: Callable[[str], object],
                 on_list: Callable[[], object]) -> None:
        self._directory = directory
        self._seconds = seconds
        self._on_file = on_file
        self._on_list = on_list
        #: Compared with at each look, also with that of a server whose clients have left meanwhile; only the thread sets it.
        self._known = directory.files()
        #: Guards ``_end``; held for assignments and the start of the thread.
        self._lock = new_lock()
        #: Ends the thread that is running; None if there is none.
        self._end: Optional[threading.Event] = None
        on_fork(self, Watcher._let_go)

    def _let_go(self, owner: int) -> None:
        self._end = None  # in a forked process, where the thread does not exist

    def start(self) -> None:
        """Start to watch, and return; it does nothing if it watches already."""
        with self._lock:
            if self._end is not None:
                return
            end = self._end = threading.Event()
            try:
                faults = FaultLog(_log, end.wait)
                start_thread(lambda: faults.keep_running(lambda: self._run(end), "the directory of %s could not be looked at",
                                                         self._directory.uri), "mcplite directory")
            except BaseException as error:
                self._end = None
                if not isinstance(error, TransportError):
                    raise
                _log.warning("changes below %s are not told: %s", self._directory.uri, error)

    def stop(self) -> None:
        """Stop to watch; the thread ends soon."""
        with self._lock:
            end, self._end = self._end, None
        if end is not None:
            end.set()

    def _run(self, end: threading.Event) -> None:
        while not end.wait(self._seconds):
            self._look()

    def _look(self) -> None:
        files = self._directory.files()
        changed, listed = differences(self._known, files)
        folders: Set[str] = set()
        for path in changed:
            self._on_file(self._directory.uri_of(path))
            parts = path.split("/")[:-1]
            folders.update("/".join(parts[:depth]) + "/" if depth else "" for depth in range(len(parts) + 1))
        if listed:
            for folder in sorted(folders):
                self._on_file(self._directory.uri_of(folder))
            self._on_list()
        self._known = files  # not before: what a fault has kept from being told is told after the next look
