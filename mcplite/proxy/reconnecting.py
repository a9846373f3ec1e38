"""Keeper: keeps the connection to a mounted server open, and reads its lists.

Its thread starts with the first client of the hub and ends with the last. It opens the connection again when it was lost,
with growing pauses, and reads a list again when that has changed.
"""

import threading
from typing import Callable, Optional, Set

from ..errors import MCPError, TransportError
from ..rpc.deadline import undo
from ..rpc.threads import Loop
from ..rpc.tracing import INFO, WARNING, get_logger
from .client_connections import Link, Links

__all__ = ["Keeper"]

_log = get_logger(__name__)
#: Seconds before the second attempt to open a lost connection, and the longest pause.
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class _Run:
    """One run of the thread, from start to stop, and what it remembers from one fault to the next."""

    def __init__(self) -> None:
        #: Whether the connection is open.
        self.opened = False
        #: Whether the thread has begun to look after it.
        self.begun = False
        #: Whether there is a thread, or is about to be one.
        self.threaded = True


class Keeper:
    """Keeps the main connection of one mount.

    :param links: the connections of the mount.
    :param name: of the mounted server, for the log.
    :param on_open: called with the connection when it is open, on the thread of the keeper or of :meth:`start`.
    :param on_change: called with the area of lists that has changed, "tools", "resources" or "prompts".
    :param on_updated: called with the URI of a resource that was updated.
    :param on_lost: called with the error when the connection is lost, and when it could not be opened.
    """

    def __init__(self, links: Links, name: str, on_open: Callable[[Link], object], on_change: Callable[[str], object],
                 on_updated: Callable[[str], object], on_lost: Callable[[Exception], object]) -> None:
        #: Whether the first attempt is reported by the caller of :meth:`start`, and not in the log.
        self.quiet_start = False
        self._links = links
        self._name = name
        self._on_open = on_open
        self._on_change = on_change
        self._on_updated = on_updated
        self._on_lost = on_lost
        #: Guards the fields below; waited on by the thread. Never held while the server is asked.
        self._changed = threading.Condition()
        self._running = False
        #: The present run, or the last one; the thread of an earlier one ends.
        self._run = _Run()
        self._stale: Set[str] = set()
        self._lost: Optional[Exception] = None
        self._doubted = False

    def let_go(self) -> None:
        """Forget thread and connections in a forked process; they belong to the other one."""
        self._changed, self._running = threading.Condition(), False
        self._links.let_go()

    def start(self) -> None:
        """Open the connection, and keep it; return when it is open, or could not be opened at the first attempt.

        It does nothing if it was started already.
        """
        with self._changed:
            if self._running:
                return
            self._running = True
            self._run = run = _Run()
        with undo(self._forget_start):
            run.opened = self._open(self.quiet_start)
            self._start_thread(run)

    def _forget_start(self) -> None:
        self._running = False

    def _start_thread(self, run: _Run) -> None:
        try:
            Loop(f"mount of {self._name}", lambda: self._keep(run)).start()
        except TransportError:
            run.threaded = False  # the next call that fails tries again
            _log.exception("%s is not reached again if it is lost", self._name)

    def stop(self) -> None:
        """Close all connections; the thread ends soon."""
        with self._changed:
            self._running = False
            self._changed.notify_all()
        self._links.close()

    def doubt(self) -> None:
        """Note that a call has failed, so that the connection is tried."""
        with self._changed:
            self._doubted = True
            self._changed.notify_all()
            run, begins = self._run, self._running and not self._run.threaded
            run.threaded = True
        if begins:
            self._start_thread(run)

    # --- callbacks of the connection, on its threads ------------------------------------------------------

    def _note_change(self, area: str) -> None:
        with self._changed:
            self._stale.add(area)
            self._changed.notify_all()

    def _note_lost(self, link: Optional[Link], error: Exception) -> None:
        with self._changed:
            if self._links.main is link:
                self._lost = error
                self._changed.notify_all()

    # --- the thread -------------------------------------------------------------------------------------

    def _keep(self, run: _Run) -> None:
        # Blocks on the condition, and on requests to the mounted server.
        pause = _FIRST_PAUSE
        if run.begun:
            # A fault costs the connection: the lists are read when another one is open.
            self._note_lost(self._links.main, TransportError("keeping the connection failed"))
        run.begun = True
        while True:
            with self._changed:
                self._changed.wait_for(lambda: run is not self._run or not self._running or (
                    run.opened and bool(self._stale or self._lost or self._doubted)), None if run.opened else pause)
                if not self._running or run is not self._run:
                    return
                stale, self._stale = self._stale, set()
                lost, self._lost = self._lost, None
                doubted, self._doubted = self._doubted, False
            if not run.opened:
                run.opened = self._open(quiet=True)
                pause = _FIRST_PAUSE if run.opened else min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            self._look_after(run, stale, lost, doubted)

    def _look_after(self, run: _Run, stale: Set[str], lost: Optional[Exception], doubted: bool) -> None:
        if doubted and lost is None:
            lost = self._fault()
        if lost is not None:
            run.opened = False
            self._close(lost)
            return
        for area in sorted(stale):
            self._call(lambda area=area: self._on_change(area))  # type: ignore[misc]

    def _fault(self) -> Optional[Exception]:
        """Try the connection; return the error if it is over."""
        main = self._links.main
        try:
            if main is not None:
                main.client.ping()
            return None
        except TransportError as error:
            return error
        except MCPError:
            return None if main is not None and main.usable else TransportError("the connection is over")

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except MCPError as error:
            _log.warning("a list of %s could not be read: %s", self._name, error)
            if isinstance(error, TransportError):
                self.doubt()
        except Exception:
            _log.exception("a change of %s failed", self._name)

    def _close(self, error: Exception) -> None:
        main, self._links.main = self._links.main, None
        if main is not None:
            main.client.close()
        if self._running:
            _log.warning("%s is down, and what it offers is left out until it is back: %s", self._name, error)
            self._on_lost(error)

    def _open(self, quiet: bool = False) -> bool:
        link: Optional[Link] = None

        def on_change(method: str, uri: Optional[str]) -> None:
            if uri is not None:
                self._on_updated(uri)
            else:
                self._note_change(method.split("/")[1])

        try:
            link = self._links.create_main(on_change=on_change, on_lost=lambda error: self._note_lost(link, error))
            with self._changed:
                self._stale, self._lost = set(), None
            link.open()
            self._links.main = link
            if not self._running:
                self._links.close()
                return False
            self._on_open(link)
            if not link.usable:
                raise link.client.last_error or TransportError("the connection ended at once")
        except Exception as error:
            self._links.main = None
            if link is not None:
                link.client.close()
            _log.log(INFO if quiet else WARNING, "%s cannot be reached, and is tried again: %s", self._name,
                     error, exc_info=not isinstance(error, MCPError))
            self._on_lost(error)
            return False
        if quiet and not self.quiet_start:
            _log.warning("%s is back", self._name)
        self.quiet_start = False
        return True
