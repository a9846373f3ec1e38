"""SessionOpener: opens the session of a client, over fallback channels too, and again after the server's process has ended.

A module of its own, so that the client is about its callers, and a session about one connection.
"""

from __future__ import annotations

import copy
import time
from typing import Callable, Optional, Tuple

from ...errors import AuthError, ConnectionClosed, TransportError
from ...rpc.deadline import undo
from ...rpc.forks import renew
from ...rpc.interfaces import Channel
from ...rpc.threads import start_thread
from ...rpc.tracing import get_logger
from ...types.lazy_dataclass import changed
from ..call import Waiting
from .base import ClientSession, SessionOptions
from .negotiation import Negotiation, NegotiationOptions, prior_of
from .pacing import OpeningLock
from .server_connection import ServerConnection

__all__ = ["SessionOpener"]

_log = get_logger(__name__)
#: How often in a minute a server's process that has ended is started again.
_RESTARTS = 3
#: Seconds from the first restart to the second; the third waits twice as long.
_BACK_OFF = 0.5


class SessionOpener:
    """Opens the session of one client.

    :param transport: makes a channel to the server; called for each process that is started.
    :param connect: makes a connection over an open channel, without starting it.
    :param negotiation: which sessions are accepted.
    :param sessions: options of each session.
    :param on_restart: called after a restart, before any call uses the new session.
    """

    def __init__(self, transport: Callable[[], Channel], connect: Callable[[Channel], ServerConnection],
                 negotiation: NegotiationOptions, sessions: SessionOptions, on_restart: Callable[[], object]) -> None:
        self._transport = transport
        self._connect = connect
        self._negotiation = negotiation
        self._sessions = sessions
        self._on_restart = on_restart
        #: The latest of each; there is a channel before there is a connection, and a connection before a session.
        self.channel: Optional[Channel] = None
        self.connection: Optional[ServerConnection] = None
        self.session: Optional[ClientSession] = None
        #: The error for every attempt to open after :meth:`close`; None before.
        self._closed: Optional[Exception] = None
        #: Held by the one thread that opens a session in place of a lost one.
        self._opening = OpeningLock(_RESTARTS)
        #: The clock of the latest connection, and by how many seconds it is before that of the first.
        self._clock: Tuple[Callable[[], float], float] = time.monotonic, 0.0
        #: The session of the process that this one was forked from, until there is one of this process.
        self._inherited: Optional[ClientSession] = None
        #: When a server's process was last started again.
        self._restarted_at = 0.0

    def now(self) -> float:
        """Return the seconds that count for opening: they stand still while a user logs in."""
        clock, ahead = self._clock
        return clock() - ahead

    def open(self) -> ClientSession:
        """Open the first session; if that fails, the channel is closed.

        :raises MCPError: as for :meth:`Client.open`.
        """
        self.session = self._open(self._negotiation, Waiting())
        return self.session

    def close(self, error: Optional[Exception] = None) -> None:
        """Close the connection, also one that is being opened; idempotent, from any thread.

        :param error: raised by waiting calls; by default a ConnectionClosed.
        """
        if self._closed is None:
            self._closed = error if isinstance(error, ConnectionClosed) else ConnectionClosed("this client is closed")
        connection = self.connection
        if connection is not None:
            connection.close(error)
        elif self.channel is not None:
            self.channel.close()  # it is being opened by another thread

    def restart(self, lost: ClientSession, waiting: Waiting) -> ClientSession:
        """Start the server's process again (STD-13) and return the new session; no call is repeated.

        :param lost: the session that has ended; nothing is started if another thread has replaced it.
        :param waiting: of the call that needs it; a process that is not ready when the call ends is ended with it.
        :raises ConnectionClosed: the server has ended too often, or the client is closed.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """
        with self._opening.hold(waiting, lost.name, self.now) as failure:
            if self.session is not None and self.session is not lost:
                return self.session
            self._check_closed()
            if failure is not None:
                raise failure
            if not self._opening.admit():
                raise ConnectionClosed(f"{lost.name} has ended again, after it was started {_RESTARTS} times within a minute"
                                       f"{lost.connection.stderr_tail()}")
            _log.warning("%s has ended (%s); it is started again", lost.name, lost.peer.last_error)
            with waiting.counting(self.now):
                lost.connection.close()  # waits until the old process is gone
            again = self._restarted_at + _BACK_OFF * (self._opening.recent - 1)
            waiting.wait(lambda seconds: _slept_until(again, seconds), lost.name)
            self._restarted_at = time.monotonic()
            session = self.session = self._replace(lost, waiting)
            self._on_restart()
        if self._closed is not None:
            self.close()
            self._check_closed()
        return session

    def let_go(self, error: Optional[Exception], owner: int) -> None:
        """Note in a forked process that the connection belongs to another one.

        :param owner: the id of that process.
        :param error: for every attempt to open one; None if :meth:`reopen` may.
        """
        renew(self._opening, self.session)
        for connection in {self.connection, None if self.session is None else self.session.connection}:
            if connection is not None:
                connection.peer.let_go(owner)
        if self.channel is not None:
            self.channel.let_go(owner)  # it may have no connection yet
        self._inherited = self.session
        self._closed = self._closed or error
        self.connection = self.channel = None
        self._clock = time.monotonic, 0.0

    def reopen(self, waiting: Waiting) -> ClientSession:
        """Open a session of this process in place of that of the process which it was forked from, and return it.

        :param waiting: of the call that needs it.
        :raises MCPError: as for :meth:`Client.open`; it may be called again.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """
        assert self.session is not None, "only an open session can be inherited"
        with self._opening.hold(waiting, self.session.name, self.now) as failure:
            if self._inherited is not None:
                self._check_closed()
                if failure is not None:
                    raise failure
                self.session = self._replace(self._inherited, waiting)
                self._inherited = None
        if self._closed is not None:
            self.close()
            self._check_closed()
        return self.session

    def _replace(self, lost: ClientSession, waiting: Waiting) -> ClientSession:
        """Open a session like *lost* over a new channel; it is closed if the call is cancelled before that is done."""
        known = changed(self._negotiation, era=lost.era, prior=prior_of(lost))
        uncancel = waiting.cancel.add_callback(self._abandon) if waiting.cancel is not None else None
        try:
            with waiting.counting(self.now):
                session = self._open(known, waiting)
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
        channel, connection = self.channel, self.connection
        if channel is not None:
            opened = connection is not None and connection.channel is channel
            start_thread(connection.close if opened and connection is not None else channel.close, "mcplite closer")

    def _check_closed(self) -> None:
        if self._closed is not None:
            raise copy.copy(self._closed)

    def _open(self, options: NegotiationOptions, waiting: Waiting) -> ClientSession:
        """Open a session over a new channel, else over a fallback to the same server (LSSE-12, ERA-07).

        All attempts share the seconds of ``open_timeout``, or what the call has left of its own limits.
        """
        channel, restarted, left = self._transport(), False, waiting.least(options.open_timeout)
        while True:
            self.channel = channel
            connection = negotiation = other = None
            try:
                channel.open_timeout = left
                channel.open()
                now, connection = self.now(), self._connect(channel)
                self.connection, self._clock = connection, (connection.peer.now, connection.peer.now() - now)
                self._check_closed()
                if waiting.cancel is not None:
                    waiting.cancel.check()
                negotiation = Negotiation(connection, options, self._sessions, left - channel.open_seconds)
                return negotiation.run()
            except BaseException as error:
                # Not the time that the end of the connection takes: a process may need its grace for that.
                left = left if negotiation is None else negotiation.remaining()
                if waiting.cancel is not None and waiting.cancel.cancelled:
                    left = 0.0
                if connection is not None:
                    connection.close()
                else:
                    channel.close()
                spoiled = (channel.restartable and self._closed is None and left > 0 and negotiation is not None
                           and negotiation.spoiled_by_probe(error))
                if not spoiled:
                    only_modern = negotiation is not None and negotiation.era == "modern"
                    other = None if only_modern or left <= 0 else self._alternative(channel, error, left)
                    if other is None:
                        if (type(error) is ConnectionClosed and error.returncode == 0 and connection is not None
                                and not connection.peer.counters.messages_received):
                            raise _ended_unserved(error) from error
                        if restarted and type(error) is ConnectionClosed:
                            raise _ended_twice(error) from error
                        raise
            if other is None:
                _log.info("%s is started again, for a handshake without a request that it does not know", channel.name)
                other, restarted = self._transport(), True
            channel, options = other, changed(options, era="legacy")

    def _alternative(self, channel: Channel, error: BaseException, left: float) -> Optional[Channel]:
        """Return another open channel to the same server; None if there is none, or it cannot be opened in *left* seconds."""
        if self._closed is not None or not isinstance(error, Exception):
            return None
        try:
            other = channel.alternative(error)
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


def _ended_unserved(error: ConnectionClosed) -> ConnectionClosed:
    """Return the error for a program that ended as one does that has nothing more to do."""
    text = (f"{error.args[0]} without serving; does it call mcp.run()? A file that only defines a server is a target of its"
            " own: connect('server.py')")
    return ConnectionClosed(text, stderr_tail=error.stderr_tail, returncode=error.returncode)


def _ended_twice(error: ConnectionClosed) -> ConnectionClosed:
    """Return the error for a server that was started twice and ended both times."""
    text = (f"{error.args[0]}; it was started twice, since the first process had ended when it was asked for its revisions"
            ' (era="legacy" starts it once)')
    return ConnectionClosed(text, stderr_tail=error.stderr_tail, returncode=error.returncode)
