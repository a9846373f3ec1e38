"""MainUpstream: keeps the connection to a mounted server open, and reads its lists.

Its thread starts with the first client of the parent server and ends with the last. It opens the connection again when it was
lost, with growing pauses, and reads a list again when that has changed.
"""

import threading
from typing import Callable, Optional, Set

from ..errors import MCPError, TransportError
from ..rpc.deadline import undo
from ..rpc.threads import Loop
from ..rpc.tracing import INFO, WARNING, get_logger
from .client_connections import UpstreamPool
from .forwarded_calls import Upstream

__all__ = ["MainUpstream"]

_log = get_logger(__name__)
#: Seconds before the second attempt to open a lost connection, and the longest pause.
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class _Run:
    """One run of the thread, from start to stop, and what it remembers from one fault to the next."""

    #: Whether the connection is open.
    opened = False
    #: Whether the thread has begun to look after the connection.
    begun = False
    #: The latest connection, as soon as it is being opened.
    upstream: Optional[Upstream] = None


class MainUpstream:
    """Keeps the main connection of one mount.

    :param pool: the connections of the mount.
    :param name: of the mounted server, for the log.
    :param on_open: called with the connection when it is open, on the thread or that of :meth:`start`.
    :param on_change: called with the area of lists that has changed, "tools", "resources" or "prompts".
    :param on_updated: called with the URI of a resource that was updated.
    :param on_lost: called with the error when the connection is lost, and when it could not be opened.
    """

    def __init__(self, pool: UpstreamPool, name: str, on_open: Callable[[Upstream], object],
                 on_change: Callable[[str], object], on_updated: Callable[[str], object],
                 on_lost: Callable[[Exception], object]) -> None:
        #: Whether the first attempt is reported by the caller of :meth:`start`, and not in the log.
        self.quiet_start = False
        self._pool = pool
        self._name = name
        self._on_open = on_open
        self._on_change = on_change
        self._on_updated = on_updated
        self._on_lost = on_lost
        #: Guards the fields below; waited on by the thread. Never held while the server is asked.
        self._changed = threading.Condition()
        #: The present run; the thread of an earlier one ends. None before start() and after stop().
        self._run: Optional[_Run] = None
        self._stale: Set[str] = set()
        self._lost: Optional[Exception] = None
        self._doubted = False

    def let_go(self) -> None:
        """Forget thread and connections in a forked process; they belong to the first process."""
        self._changed, self._run = threading.Condition(), None
        self._pool.let_go()

    def start(self) -> None:
        """Open the connection, and keep it; return when it is open, or could not be opened at the first attempt.

        It does nothing if it was started already.

        :raises TransportError: the system cannot start the thread that keeps the connection open.
        """
        with self._changed:
            if self._run is not None:
                return
            run = self._run = _Run()
        with undo(self.stop):
            run.opened = self._open(run, self.quiet_start)
            Loop(f"mount of {self._name}", lambda: self._keep(run)).start()

    def stop(self) -> None:
        """Close all connections; the thread ends soon."""
        with self._changed:
            run, self._run = self._run, None
            self._changed.notify_all()
        self._pool.close()
        if run is not None and run.upstream is not None:
            run.upstream.client.close()  # the thread may be opening it

    def doubt(self) -> None:
        """Note that a call has failed, so that the connection is tried."""
        with self._changed:
            self._doubted = True
            self._changed.notify_all()

    def _note_lost(self, upstream: Optional[Upstream], error: Exception) -> None:
        with self._changed:
            if self._pool.main is upstream:
                self._lost = error
                self._changed.notify_all()

    # --- the thread -------------------------------------------------------------------------------------

    def _keep(self, run: _Run) -> None:
        # Blocks on the condition, and on requests to the mounted server.
        pause = _FIRST_PAUSE
        if run.begun:
            # After a fault of this thread the connection is opened again, so that the lists are read.
            self._note_lost(self._pool.main, TransportError("keeping the connection failed"))
        run.begun = True
        while True:
            with self._changed:
                self._changed.wait_for(lambda: run is not self._run or (
                    run.opened and bool(self._stale or self._lost or self._doubted)), None if run.opened else pause)
                if run is not self._run:
                    return
                stale, self._stale = self._stale, set()
                lost, self._lost = self._lost, None
                doubted, self._doubted = self._doubted, False
            if run.opened:
                pause = _FIRST_PAUSE
                self._look_after(run, stale, lost, doubted)
            else:
                run.opened = self._open(run, quiet=True)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _look_after(self, run: _Run, stale: Set[str], lost: Optional[Exception], doubted: bool) -> None:
        if doubted and lost is None:
            lost = self._fault()
        if lost is not None:
            run.opened = False
            self._close(run, lost)
            return
        for area in sorted(stale):
            try:
                self._on_change(area)
            except MCPError as error:
                _log.warning("a list of %s could not be read: %s", self._name, error)
                if isinstance(error, TransportError):
                    self.doubt()
            except Exception:
                _log.exception("a change of %s failed", self._name)

    def _fault(self) -> Optional[Exception]:
        """Try the connection; return the error if it is over."""
        main = self._pool.main
        try:
            if main is not None:
                main.client.ping()
            return None
        except TransportError as error:
            return error
        except MCPError:
            return None if main is not None and main.usable else TransportError("the connection is over")

    def _close(self, run: _Run, error: Exception) -> None:
        if not self._use(run, None):
            return
        if run.upstream is not None:
            run.upstream.client.close()
        if run is self._run:
            _log.warning("%s is down, and what it offers is left out until it is back: %s", self._name, error)
            self._on_lost(error)

    def _use(self, run: _Run, main: Optional[Upstream]) -> bool:
        """Set the main connection, unless the run is over: then it may be that of a later run, and False is returned."""
        with self._changed:
            present = run is self._run
            if present:
                self._pool.main = main
        return present

    def _open(self, run: _Run, quiet: bool) -> bool:
        upstream: Optional[Upstream] = None

        def on_change(method: str, uri: Optional[str]) -> None:
            if uri is not None:
                self._on_updated(uri)
                return
            with self._changed:
                self._stale.add(method.split("/")[1])
                self._changed.notify_all()

        try:
            upstream = self._pool.create_main(on_change=on_change, on_lost=lambda error: self._note_lost(upstream, error))
            with self._changed:
                if run is not self._run:
                    return False
                self._stale, self._lost, run.upstream = set(), None, upstream
            upstream.open()
            if not self._use(run, upstream):
                upstream.client.close()
                return False
            self._on_open(upstream)
            if not upstream.usable:
                raise upstream.client.last_error or TransportError("the connection ended at once")
        except Exception as error:
            present = self._use(run, None)
            if upstream is not None:
                upstream.client.close()
            if not present:
                return False
            _log.log(INFO if quiet else WARNING, "%s cannot be reached, and is tried again: %s", self._name,
                     error, exc_info=not isinstance(error, MCPError))
            self._on_lost(error)
            return False
        if quiet and not self.quiet_start:
            _log.warning("%s is back", self._name)
        self.quiet_start = False
        return True
