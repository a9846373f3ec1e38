"""SessionOpener: the state of a client's connection; it opens the session, and again after the server's process has ended.

::

    new ── open() ──> connecting ──> open ──────────────┐
                          │         ^   │ fork          │ the process has ended, or
                          │         │   v               │ close() or fail() was called
                          │         └ inherited         v
                          └───────────────────────────> closed

If the process of a server without a handshake has ended, or if the session is inherited from the process that this one was
forked from, the next call opens another session like the lost one. The state stays "open" or "inherited" meanwhile, and other
calls wait for the new session.

Opening takes one or more steps, which share the seconds of ``open_timeout``. :class:`Negotiation` does the steps over one
channel::

    probe ── found ──> modern session
      └ refused, silent ──> handshake ──> legacy session
                               └ failed because of the probe ──> another process, handshake
                               └ failed ──> the channel's alternative (HTTP with SSE), handshake
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional

from ...errors import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    AuthError,
    Cancelled,
    ConnectionClosed,
    HTTPStatusError,
    MCPError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    TransportError,
    UnsupportedVersion,
    copied,
)
from ...protocol.meta import SERVER_INFO
from ...revisions import LEGACY, NEWEST_LEGACY, REVISIONS, Revision, find_revision
from ...rpc.cancel import CancelToken
from ...rpc.deadline import WakeSignal, undo, wait_interruptibly
from ...rpc.forks import renew
from ...rpc.interfaces import Channel
from ...rpc.pending import Clock
from ...rpc.threads import start_thread
from ...rpc.tracing import get_logger
from ...types import Implementation, ServerCapabilities, codec
from ...types.lifecycle import server_info
from ..call import OpeningLock, Waiting
from .base import MODERN_ERRORS, ClientSession, ConnectionToServer, SessionOptions

# The sessions of each era are loaded with the first one: they take a third of what a client loads.
if TYPE_CHECKING:
    from ...types import DiscoverResult
    from .legacy import LegacyClientSession
    from .modern import ModernClientSession

__all__ = ["SessionOpener", "prior_of"]

_log = get_logger(__name__)
#: How often in a minute a server's process that has ended is started again.
_RESTARTS = 3
#: Seconds from the first restart to the second; the third waits twice as long.
_BACK_OFF = 0.5
#: HTTP statuses with which servers of the handshake era refuse an unknown request (ERA-11, ERA-13).
_LEGACY_STATUSES = frozenset({400, 404, 405, 406, 415, 422})
#: HTTP statuses of servers of the handshake era that fail at an unknown request. They count only if the body is a JSON-RPC
#: error: no gateway writes one.
_FAILURE_STATUSES = frozenset({500, 501})
_MODERN = [revision for revision in REVISIONS if revision.modern]
_PROBE = "server/discover"
#: The least and the most seconds for which the answer to a handshake is awaited after a late answer to the probe. Between these
#: it is a quarter of the time that the probe took.
_SHORTEST_GRACE, _LONGEST_GRACE = 1.0, 5.0
_TRACEBACK = "Traceback (most recent call last)"


class SessionOpener:
    """Opens the session of one client.

    :param transport: makes a channel to the server; called for each process that is started.
    :param options: those that the client gives to its sessions.
    :param use: called with each session before a call uses it, and with the one that it replaces, or None.
    :param opened: called with the first session of a process when it is open, and with the time limits of the call that waits
        for it.
    """

    def __init__(self, transport: Callable[[], Channel], options: SessionOptions,
                 use: Callable[[ClientSession, Optional[ClientSession]], object],
                 opened: Callable[[ClientSession, Waiting], object]) -> None:
        self._transport = transport
        self._options = options
        self._use = use
        self._opened = opened
        #: Of all time limits of the client; it stands still while a person is asked.
        self.clock = Clock()
        #: Guards the five fields below; held for assignments only.
        self._lock = threading.Lock()
        self.state = "new"
        #: The error that closed it; None if :meth:`close` was called without an error.
        self.error: Optional[Exception] = None
        #: The latest session, and that session while the state is "open".
        self.session: Optional[ClientSession] = None
        self.ready: Optional[ClientSession] = None
        #: The thread of :meth:`open`, and the end of the state "connecting".
        self._thread: Optional[int] = None
        self._decided = threading.Event()
        #: The latest channel and the latest connection. While a channel is opened, there is no connection yet.
        self.channel: Optional[Channel] = None
        self.connection: Optional[ConnectionToServer] = None
        #: Held by the one thread that opens a session in place of a lost one.
        self._opening = OpeningLock(_RESTARTS)
        #: When a server's process was last started again.
        self._restarted_at = 0.0

    def change(self, state: str, error: Optional[Exception] = None, session: Optional[ClientSession] = None) -> bool:
        """Change the state; False, and no change, if it is "closed"."""
        with self._lock:
            self.error = error or self.error
            alive = self.state != "closed"
            if alive:
                self.state, self.session = state, session or self.session
                self.ready = self.session if state == "open" else None
        self._decided.set()
        return alive

    @property
    def name(self) -> str:
        """The server's name in errors."""
        return "the server" if self.channel is None else self.channel.name

    def closed_error(self) -> Exception:
        """Return the error for a call that finds no session."""
        if self.state == "new":
            return ConnectionClosed("this client is not open yet: use it in a with block, or call open()")
        return copied(self.error) if isinstance(self.error, ConnectionClosed) else ConnectionClosed("this client is closed")

    def _check_closed(self) -> None:
        if self.state == "closed":
            raise self.closed_error()

    def open(self) -> ClientSession:
        """Open the first session; if that fails, the channel is closed.

        :raises RuntimeError: it was called before.
        :raises MCPError: as for :meth:`Client.open`.
        """
        with self._lock:
            if self.state != "new":
                raise RuntimeError(f"this client is {self.state}; a client is opened once, so make a new one")
            self.state, self._thread = "connecting", threading.get_ident()
        session, failure, settings = None, None, self._options.settings
        try:
            session = self._open(Waiting(), settings.era, settings.prior)
        except Exception as error:
            failure = error
            raise
        finally:
            if session is None:
                self.change("closed", failure)
        self._use(session, None)
        self._thread = None
        if not self.change("open", session=session):
            self.close()
            raise self.closed_error()
        self._opened(session, Waiting())
        return session

    def wait(self, waiting: Waiting) -> ClientSession:
        """Return the session, once it is open; it is opened again if it is lost.

        :raises ConnectionClosed: the connection is not open.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """
        if self.state == "connecting" and self._thread != threading.get_ident():
            waiting.wait(self._decided.wait, self.name)  # LIFE-05: calls of other threads wait for the handshake
        session, state = self.session, self.state
        if session is None or state not in ("open", "inherited"):
            raise self.closed_error()
        if state == "inherited" or session.restartable and session.peer.closed:
            return self._replace(session, waiting)
        return session

    def close(self, error: Optional[Exception] = None) -> None:
        """Close the connection, also one that is being opened; idempotent, from any thread.

        :param error: the reason, which waiting calls raise; by default a ConnectionClosed.
        """
        self.change("closed", error)
        if self.connection is not None:
            self.connection.close(error)
        elif self.channel is not None:
            self.channel.close()  # it is being opened by another thread

    def let_go(self, error: Exception, owner: int) -> bool:
        """Note in a forked process that the connection belongs to another one; False if there is none.

        :param owner: the id of that process.
        :param error: raised by every later call, if the connection cannot be opened again in a forked process.
        """
        if self.state not in ("open", "connecting"):
            return False
        reopens = self.state == "open" and self.channel is not None and self.channel.reopens_after_fork
        for connection in {self.connection, None if self.session is None else self.session.connection}:
            if connection is not None:
                connection.peer.let_go(owner)
        if self.channel is not None:
            self.channel.let_go(owner)  # it may have no connection yet
        renew(self, self.session)
        self.connection, self.clock, self._opening = None, Clock(), OpeningLock(_RESTARTS)
        self.error = self.channel = None
        self.change("inherited" if reopens else "closed", None if reopens else error)
        return True

    def _replace(self, lost: ClientSession, waiting: Waiting) -> ClientSession:
        """Open a session in place of one that is lost, and return it, or the one of another thread; no call is repeated.

        A server's process that has ended is started again (STD-13). If the call ends before the new session is open, what was
        opened so far is closed.

        :raises ConnectionClosed: the server has ended too often, or the client is closed.
        :raises MCPError: as for :meth:`Client.open`; it may be called again.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """
        with self._opening.hold(waiting, lost.name) as failure:
            if self.session is not None and self.session is not lost:
                return self.session
            self._check_closed()
            if failure is not None:
                raise failure
            inherited = self.state == "inherited"
            if not inherited:
                self._end(lost, waiting)
            session = self._open_like(lost, waiting)
            self._use(session, lost)
            self.change("open", session=session)
        if self.state == "closed":
            self.close()
            self._check_closed()
        if inherited:
            self._opened(session, waiting)
        return session

    def _end(self, lost: ClientSession, waiting: Waiting) -> None:
        """Wait until the process of a lost session is gone, and until another one may be started."""
        if not self._opening.admit():
            raise ConnectionClosed(f"{lost.name} has ended again, after it was started {_RESTARTS} times within a minute"
                                   f"{lost.connection.stderr_tail()}")
        _log.warning("%s has ended (%s); it is started again", lost.name, lost.peer.last_error)
        lost.connection.close()
        again = self._restarted_at + _BACK_OFF * (self._opening.recent - 1)
        waiting.wait(lambda seconds: _slept_until(again, seconds), lost.name)
        self._restarted_at = time.monotonic()

    def _open_like(self, lost: ClientSession, waiting: Waiting) -> ClientSession:
        """Open a session like *lost* over a new channel; it is closed if the call is cancelled before that is done."""
        uncancel = waiting.cancel.add_callback(self._abandon) if waiting.cancel is not None else None
        try:
            session = self._open(waiting, lost.era, prior_of(lost))
        finally:
            if uncancel is not None:
                uncancel()
        with undo(session.connection.close):
            if waiting.cancel is not None:
                waiting.cancel.check()
            session.take_over(lost, waiting)
        return session

    def _abandon(self) -> None:
        """Close what is being opened, without waiting for it: this is the thread that cancels a call."""
        opened = self.connection or self.channel
        if opened is not None:
            start_thread(opened.close, "mcplite closer")

    def _open(self, waiting: Waiting, era: Optional[str], prior: Optional[Mapping[str, Any]]) -> ClientSession:
        """Open a session over a new channel. If that fails, open it over a fallback to the same server (LSSE-12, ERA-07).

        All attempts share the seconds of ``open_timeout``, or what the call has left of its own limits.

        :param era: "legacy" or "modern", the only one to accept; None for both.
        :param prior: the findings of an earlier session, see :func:`prior_of`.
        """
        channel, restarted, left = self._transport(), False, waiting.least(self._options.settings.open_timeout)
        while True:
            self.channel, self.connection = channel, None
            connection = negotiation = None
            try:
                channel.open_timeout = left
                channel.open()
                connection = self.connection = ConnectionToServer(channel, self._options, self.clock)
                self._check_closed()
                if waiting.cancel is not None:
                    waiting.cancel.check()
                negotiation = Negotiation(connection, era, prior, left - channel.open_seconds)
                return negotiation.run()
            except BaseException as error:
                # The rest of the time is read before the connection is closed: closing may take as long as the grace of a
                # process, and must not count.
                left = left if negotiation is None else negotiation.remaining()
                if self.state == "closed" or waiting.cancel is not None and waiting.cancel.cancelled:
                    left = 0.0
                (connection or channel).close()
                other = None
                if left > 0 and channel.restartable and negotiation is not None and negotiation.spoiled_by_probe(error):
                    _log.info("%s is started again, for a handshake without a request that it does not know", channel.name)
                    other, restarted = self._transport(), True
                elif left > 0 and (negotiation is None or negotiation.era != "modern"):
                    other = self._alternative(channel, error, left)
                if other is None:
                    better = _explained(error, connection, restarted)
                    if better is error:
                        raise
                    raise better from error
            channel, era = other, "legacy"

    def _alternative(self, channel: Channel, error: BaseException, left: float) -> Optional[Channel]:
        """Return another open channel to the same server; None if there is none, or it cannot be opened in *left* seconds."""
        try:
            other = channel.alternative(error) if isinstance(error, Exception) else None
            if other is not None:
                self.channel, self.connection = other, None
                other.open_timeout = left
                other.open()
            return other
        except AuthError:
            raise
        except TransportError as failure:
            _log.debug("the fallback for %s failed: %s", channel.name, failure)
            return None


def _slept_until(end: float, seconds: float) -> bool:
    time.sleep(max(0.0, min(seconds, end - time.monotonic())))
    return time.monotonic() >= end


def _explained(error: BaseException, connection: Optional[ConnectionToServer], restarted: bool) -> BaseException:
    """Return the error for a process that has ended while a session was opened, with what may help; others as they are."""
    if type(error) is not ConnectionClosed:
        return error
    peer = None if connection is None else connection.peer
    if error.returncode == 0 and peer is not None and peer.counters.messages_received <= peer.counters.refused:
        printed = f"; it printed to stdout: {peer.printed}" if peer.printed else ""
        hint = (" without serving; does it call mcp.run()? A file that only defines a server is a target of its own:"
                f" connect('server.py'){printed}")
    elif restarted:
        hint = ('; it was started twice, since the first process had ended when it was asked for its revisions (era="legacy"'
                ' starts it once)')
    else:
        return error
    return ConnectionClosed(f"{error.args[0]}{hint}", stderr_tail=error.stderr_tail, returncode=error.returncode)


class Negotiation:
    """Opens a session over one connection: a probe finds out of which era the server is, unless that is known.

    :param connection: to the server; not started yet.
    :param era: "legacy" or "modern", the only one to accept; None for both.
    :param prior: the findings of an earlier session, see :func:`prior_of`.
    :param seconds: those of ``open_timeout`` that are left for it.
    """

    def __init__(self, connection: ConnectionToServer, era: Optional[str], prior: Optional[Mapping[str, Any]],
                 seconds: float) -> None:
        self._connection = connection
        settings = connection.options.settings
        self._pinned = settings.pinned
        if self._pinned is not None:
            era = "modern" if self._pinned.modern else "legacy"
        #: The only era to accept; None for both.
        self.era = era
        if prior is not None and not (isinstance(prior, Mapping) and prior.get("era") in ("legacy", "modern")):
            _log.warning("prior= is not a value of client.prior, so %s is probed", connection.name)
            prior = None
        self._prior = None if prior is None or era not in (None, prior["era"]) else prior
        self._open_timeout = settings.open_timeout
        # The other half is for the handshake.
        self._probe_timeout = min(settings.probe_timeout, max(seconds, 0.0) / 2)
        #: When the time for opening is over, by the clock of the connection, which stands still while a user logs in.
        self._end = connection.peer.now() + seconds
        #: Whether the probe was sent, and a handshake may follow.
        self._probing = False
        #: Whether the server refused the handshake that followed.
        self._refused = False
        #: Ends the probe on a pipe; its outcome, and what wakes the thread that waits for it.
        self._over = CancelToken()
        self._outcome: Any = None
        self._woken = WakeSignal()
        #: Cancelled if the answer to the probe has arrived, and the answer to the handshake that followed the probe has not.
        #: This ends the handshake.
        self._answered = CancelToken()

    def run(self) -> ClientSession:
        """Return the open session.

        :raises UnsupportedVersion: client and server have no revision in common.
        :raises MCPError: the server cannot be reached, does not answer, or refuses.
        """
        self._connection.peer.start()
        if self.era == "legacy" or self._prior is not None and self._prior["era"] == "legacy":
            return self._shake_hands()
        return (None if self._prior is None else self._remembered(self._prior)) or self._probe()

    def remaining(self) -> float:
        """Return the seconds that are left for opening; 0 if none are."""
        return max(0.0, self._end - self._connection.peer.now())

    def _timeout(self) -> float:
        """Return the timeout of the next request: what is left, in numbers that can be read in an error."""
        return max(0.001, round(self.remaining(), 2))

    def spoiled_by_probe(self, error: BaseException) -> bool:
        """Whether another process of the server, which gets no probe, may accept the handshake (ERA-07).

        :param error: with which :meth:`run` failed.
        """
        if not self._probing:
            return False
        if isinstance(error, ConnectionClosed):
            return not self._ended_at_start(error)
        return self._refused  # a bridge may have begun a session of its own for the probe

    def _ended_at_start(self, error: ConnectionClosed) -> bool:
        """Whether the server's process ended of itself, and not because of the probe."""
        counters = self._connection.peer.counters
        unread = self._connection.channel.unread
        if unread is not None:
            return unread >= counters.bytes_sent
        # Servers that die of the probe may have a traceback too, but it shows what they did not understand.
        silent = not counters.messages_received and not counters.refused
        return bool(error.returncode) and silent and _TRACEBACK in error.stderr_tail and _PROBE not in error.stderr_tail

    def _modern(self, revision: Revision) -> ModernClientSession:
        from .modern import ModernClientSession

        return ModernClientSession(self._connection, revision)

    def _shake_hands(self, cancel: Optional[CancelToken] = None) -> LegacyClientSession:
        from .legacy import LegacyClientSession

        session = LegacyClientSession(self._connection)
        session.open(self._pinned or NEWEST_LEGACY, self._pinned is not None, self._open_timeout, cancel, self._timeout())
        return session

    def _remembered(self, prior: Mapping[str, Any]) -> Optional[ModernClientSession]:
        revision = find_revision(prior.get("revision"))
        try:
            if revision is None or not revision.modern or not isinstance(prior.get("instructions"), (str, type(None))):
                raise ProtocolError(f"the revision {prior.get('revision')!r:.50} needs a handshake or is unknown")
            if self._pinned is not None and revision is not self._pinned:
                return None
            capabilities = codec.decode(ServerCapabilities, prior.get("capabilities") or {})
            info = codec.decode(Implementation, prior["server_info"]) if prior.get("server_info") else None
        except ProtocolError as error:
            _log.warning("prior= is not a value of client.prior, so the server is probed: %s", error)
            return None
        session = self._modern(revision)
        session.complete(revision, capabilities, prior.get("instructions"), info)
        return session

    # --- the probe --------------------------------------------------------------------------------------

    def _probe(self) -> ClientSession:
        carries_headers = self._connection.channel.carries_headers
        both = self.era is None
        session = self._modern(self._pinned or _MODERN[-1])
        self._probing = both
        try:
            if both and not carries_headers:
                # From a thread of its own, since a server of the handshake era may not answer. The thread ends with this
                # method, or soon after the answer.
                self._connection.workers.spawn(lambda: self._ask(session))
                found = self._answer(self._probe_timeout)
                self._abandon()  # the thread of the probe waits for the answer to a handshake, and no handshake was sent
            else:
                found = self._discover(session, None)
            return self._opened(session, found)
        except MCPError as error:
            if not both or not _may_be_legacy(error, carries_headers):
                better = self._undecided(error) if both else self._unsupported(error)
                if better is error:
                    raise
                raise better from error
            _log.info("%s begins with a handshake (%s)", self._connection.name, error)
            failure = error
        silent = isinstance(failure, RequestTimeout)
        try:
            return self._shake_hands(self._answered if silent else None)
        except (Cancelled, RemoteError, HTTPStatusError) as refusal:
            self._refused = isinstance(refusal, RemoteError) and refusal.code not in MODERN_ERRORS
            if silent and not isinstance(refusal, HTTPStatusError):
                # A late answer to the probe counts, unless the handshake succeeds (ERA-06).
                _log.info("%s was slow, and needs no handshake (%s)", self._connection.name, refusal)
                self._connection.session = session
                seconds = self._timeout()
                if self._refused and self._connection.channel.restartable:
                    seconds /= 2  # the other half is for a process that gets no probe
                return self._opened(session, self._answer(seconds))
            if carries_headers and _lacks_discovery(failure) and _refuses_handshake(refusal):
                # ERA-12: a modern server that does not describe itself. A bridge to an old server, which says the same of
                # an unknown method, would have accepted the handshake.
                self._connection.session = session
                anything = ServerCapabilities(tools={}, resources={}, prompts={}, completions={})
                session.complete(session.revision, anything, None, None)
                return session
            if _status_of(failure) in _FAILURE_STATUSES and isinstance(refusal, RemoteError) and refusal.code in MODERN_ERRORS:
                raise failure  # a modern server after all, which failed
            raise
        finally:
            self._abandon()

    def _abandon(self) -> None:
        self._over.cancel("the server's era is known")

    def _ask(self, session: ModernClientSession) -> None:
        """Send the probe; on a worker thread."""
        begun = time.monotonic()
        try:
            self._outcome = self._discover(session, self._over)
        except (Exception, SystemExit) as error:  # also an exception of a user's hook: the caller waits for an outcome
            self._outcome = error
            return
        finally:
            self._woken.set()
        # A slow server of both eras reads the handshake after the probe. If it accepts the handshake, the connection is one of
        # the handshake era for the server. So if the answer to the handshake comes soon, that answer decides.
        slow = min(max(_SHORTEST_GRACE, (time.monotonic() - begun) / 4), _LONGEST_GRACE)
        if not self._over.wait(min(slow, self.remaining() / 2)):
            self._answered.cancel("the server has answered without a handshake")

    def _answer(self, timeout: float) -> DiscoverResult:
        """Wait for the answer to the probe, and return it.

        :raises RequestTimeout: no answer within *timeout* seconds.
        :raises MCPError: the server answered with an error.
        """
        if not wait_interruptibly(self._woken.wait, timeout):
            raise RequestTimeout(f"no answer to 'server/discover' within {timeout:g} s")
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome  # type: ignore[no-any-return]

    def _discover(self, session: ModernClientSession, cancel: Optional[CancelToken]) -> DiscoverResult:
        try:
            return session.discover(self._timeout(), cancel)
        except UnsupportedVersion as error:
            # ERA-03: the server is modern, but does not support the revision of the probe (STAT-17: once).
            ours = [self._pinned] if self._pinned is not None else _MODERN
            if not any(find_revision(version) in ours for version in _listed(error)):
                raise
            from .modern import choose

            revision = choose(_listed(error), ours, self._connection.name)
        session.use_revision(revision)
        return session.discover(self._timeout(), cancel)

    def _opened(self, session: ModernClientSession, found: DiscoverResult) -> ModernClientSession:
        ours = [self._pinned] if self._pinned is not None else _MODERN
        from .modern import choose

        revision = choose(found.supported_versions, ours, self._connection.name)
        given = (found.meta or {}).get(SERVER_INFO)
        info = None if given is None else codec.decode(Implementation, server_info(given))
        session.complete(revision, found.capabilities, found.instructions, info)
        return session

    def _undecided(self, error: MCPError) -> MCPError:
        """Return the error for a probe that failed and shows nothing about the era."""
        status = _status_of(error)
        if status is None or status < 500:
            return error
        body = error.body if isinstance(error, HTTPStatusError) else ""
        said = str(error) if isinstance(error, HTTPStatusError) else f"{self._connection.name} answered {status}: {error}"
        return HTTPStatusError(f"{said}; if it is an old server that fails at requests that it does not know, connect with"
                               ' options=ClientOptions(era="legacy")', status=status, body=body)

    def _unsupported(self, error: MCPError) -> MCPError:
        if isinstance(error, RemoteError) and error.code not in MODERN_ERRORS and (
                error.http_status in (None, *_LEGACY_STATUSES)):
            return UnsupportedVersion(f"{self._connection.name} does not accept requests without a handshake ({error});"
                                      " connect without era= or revision= to allow one",
                                      data={"supported": [], "requested": (self._pinned or _MODERN[-1]).name})
        return error


def _listed(error: UnsupportedVersion) -> Any:
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return supported if isinstance(supported, list) else []


def _may_be_legacy(error: MCPError, carries_headers: bool) -> bool:
    """Whether the failure of the probe shows that the server may be of the handshake era."""
    if isinstance(error, UnsupportedVersion) and error.code == UNSUPPORTED_VERSION:
        return any(find_revision(version) in LEGACY for version in _listed(error))
    if isinstance(error, RemoteError):
        # ERA-14: an error of a proxy or of an overloaded server shows nothing about the era, not even as JSON-RPC.
        return error.code not in MODERN_ERRORS and error.http_status in (None, *_LEGACY_STATUSES, *_FAILURE_STATUSES)
    if isinstance(error, HTTPStatusError):
        return error.status in _LEGACY_STATUSES or (
            error.status in _FAILURE_STATUSES and isinstance(error.__cause__, RemoteError))
    if isinstance(error, RequestTimeout):
        return not carries_headers  # ERA-14: silence of a web server shows nothing
    return isinstance(error, ProtocolError)  # ERA-15: an old server may answer any request with some result


def _status_of(error: Exception) -> Optional[int]:
    """Return the HTTP status that an error came with; None if it came with an ordinary status, or without one."""
    if isinstance(error, HTTPStatusError):
        return error.status
    return error.http_status if isinstance(error, RemoteError) else None


def _lacks_discovery(error: MCPError) -> bool:
    """Whether a web server answered the probe as a modern server does to a method that it does not have."""
    return isinstance(error, RemoteError) and error.http_status == 404 and error.code == METHOD_NOT_FOUND


def _refuses_handshake(error: MCPError) -> bool:
    """Whether a web server refused ``initialize`` itself, and did not merely fail at it."""
    if isinstance(error, RemoteError):
        return error.received and error.http_status in (None, *_LEGACY_STATUSES)
    return isinstance(error, HTTPStatusError) and error.status in _LEGACY_STATUSES


def prior_of(session: ClientSession) -> Dict[str, Any]:
    """Return the findings about a server as JSON, for ``ClientOptions(prior=)`` (ERA-16)."""
    result = session.result
    assert result is not None, "the session is not open"
    known: Dict[str, Any] = {"era": session.era, "revision": session.revision.name}
    if session.era == "modern":
        known["capabilities"] = codec.encode(result.capabilities, session.revision)
        known["server_info"] = codec.encode(result.server_info, session.revision)
        if result.instructions is not None:
            known["instructions"] = result.instructions
    return known
