"""Negotiation: finds out which era a server is of, by a probe, and opens a session of that era.

``SessionOpener`` uses it for each new channel. The ladder of attempts is the part of opening that differs by server.
"""

from __future__ import annotations

import contextlib
import queue
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Union

from ...errors import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Cancelled,
    ConnectionClosed,
    HTTPStatusError,
    MCPError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    UnsupportedVersion,
)
from ...protocol.meta import SERVER_INFO
from ...revisions import LEGACY, NEWEST_LEGACY, REVISIONS, Revision, find_revision
from ...rpc.cancel import CancelToken
from ...rpc.deadline import wait_interruptibly
from ...rpc.threads import Workers
from ...rpc.tracing import get_logger
from ...types import Implementation, ServerCapabilities, codec
from ...types.lazy_dataclass import Record, record
from ...types.lifecycle import server_info
from .base import MODERN_ERRORS, ClientSession, SessionOptions
from .legacy import LegacySession
from .server_connection import ServerConnection

# Sessions without a handshake are loaded with the first one: they take a third of what a client loads.
if TYPE_CHECKING:
    from ...types import DiscoverResult
    from .modern import ModernSession

__all__ = ["Negotiation", "NegotiationOptions", "prior_of"]

_log = get_logger(__name__)
#: HTTP statuses with which servers of the handshake era refuse an unknown request (ERA-11, ERA-13).
_LEGACY_STATUSES = frozenset({400, 404, 405, 406, 415, 422})
#: The same, for servers that fail at an unknown request; only with an error in JSON-RPC, which no gateway writes.
_FAILURE_STATUSES = frozenset({500, 501})
_MODERN = [revision for revision in REVISIONS if revision.modern]
_PROBE = "server/discover"
#: Seconds that the answer to a handshake may come behind a late one to the probe: the longer the probe took, the more.
_SHORTEST_GRACE, _LONGEST_GRACE = 1.0, 5.0
_TRACEBACK = "Traceback (most recent call last)"


@record(frozen=True)
class NegotiationOptions(Record):
    """The sessions that a client accepts, and how long it waits for one."""

    #: The only revision to accept; None for any.
    pinned: Optional[Revision]
    #: "legacy" or "modern", the only era to accept; None for both.
    era: Optional[str]
    #: The findings of an earlier client, see :func:`prior_of`.
    prior: Optional[Mapping[str, Any]]
    #: Seconds for opening in all: the probe, the handshake, and what follows if they fail.
    open_timeout: float
    #: Seconds without an answer on a pipe after which the client tries a handshake; half of what is left at most.
    probe_timeout: float


class Negotiation:
    """Opens a session over a connection.

    :param connection: to the server; not started yet.
    :param options: which sessions are accepted.
    :param session_options: for the session that is made.
    :param seconds: those of ``open_timeout`` that are left for it.
    """

    def __init__(self, connection: ServerConnection, options: NegotiationOptions, session_options: SessionOptions,
                 seconds: float) -> None:
        self._connection = connection
        self._session_options = session_options
        self._pinned = options.pinned
        era = options.era
        if self._pinned is not None:
            era = "modern" if self._pinned.modern else "legacy"
        #: The only era to accept; None for both.
        self.era = era
        self._prior = _usable(options.prior, connection.name)
        if era is not None and self._prior is not None and self._prior["era"] != era:
            self._prior = None
        self._open_timeout = options.open_timeout
        # The other half is for the handshake.
        self._probe_timeout = min(options.probe_timeout, max(seconds, 0.0) / 2)
        #: When the time for opening is over, by the clock of the connection, which stands still while a user logs in.
        self._end = connection.peer.now() + seconds
        #: Whether the probe was sent, and a handshake may follow.
        self._probing = False
        #: Whether the server refused the handshake that followed.
        self._refused = False

    def run(self) -> ClientSession:
        """Return the open session.

        :raises UnsupportedVersion: client and server have no revision in common.
        :raises MCPError: the server cannot be reached, does not answer, or refuses.
        """
        self._connection.peer.start()
        prior = self._prior
        if self.era == "legacy" or (prior is not None and prior.get("era") == "legacy"):
            return self._shake_hands()
        if prior is not None:
            known = self._remembered(prior)
            if known is not None:
                return known
        return self._probe()

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

    def _modern(self, revision: Revision) -> ModernSession:
        from .modern import ModernSession

        return ModernSession(self._connection, revision, self._session_options)

    def _shake_hands(self, cancel: Optional[CancelToken] = None) -> LegacySession:
        session = LegacySession(self._connection, self._session_options)
        session.open(self._pinned or NEWEST_LEGACY, self._pinned is not None, self._open_timeout, cancel, self._timeout())
        return session

    def _remembered(self, prior: Mapping[str, Any]) -> Optional[ModernSession]:
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
        http = self._connection.channel.carries_beside
        both = self.era is None
        session = self._modern(self._pinned or _MODERN[-1])
        self._probing = both
        probe = _Probe(lambda cancel: self._discover(session, cancel), self.remaining)
        try:
            if both and not http:
                probe.start(self._connection.workers)
                found = probe.wait(self._probe_timeout)
                probe.abandon()  # which waits for the answer to a handshake, and there is none
                return self._opened(session, found)
            return self._opened(session, self._discover(session, None))
        except MCPError as error:
            if not both or not _may_be_legacy(error, http):
                better = self._undecided(error) if both else self._explained(error)
                if better is error:
                    raise
                raise better from error
            _log.info("%s begins with a handshake (%s)", self._connection.name, error)
            failure = error
        silent = isinstance(failure, RequestTimeout)
        try:
            return self._shake_hands(probe.answered if silent else None)
        except (Cancelled, RemoteError, HTTPStatusError) as refusal:
            self._refused = isinstance(refusal, RemoteError) and refusal.code not in MODERN_ERRORS
            if silent and not isinstance(refusal, HTTPStatusError):
                # A late answer to the probe counts, unless the handshake succeeds (ERA-06).
                _log.info("%s was slow, and needs no handshake (%s)", self._connection.name, refusal)
                self._connection.session = session
                seconds = self._timeout()
                if self._refused and self._connection.channel.restartable:
                    seconds /= 2  # the other half is for a process that gets no probe
                return self._opened(session, probe.wait(seconds))
            if http and _lacks_discovery(failure) and _refuses_handshake(refusal):
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
            probe.abandon()

    def _discover(self, session: ModernSession, cancel: Optional[CancelToken]) -> DiscoverResult:
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

    def _opened(self, session: ModernSession, found: DiscoverResult) -> ModernSession:
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

    def _explained(self, error: MCPError) -> MCPError:
        if isinstance(error, RemoteError) and error.code not in MODERN_ERRORS and (
                error.http_status in (None, *_LEGACY_STATUSES)):
            return UnsupportedVersion(f"{self._connection.name} does not accept requests without a handshake ({error});"
                                      " connect without era= or revision= to allow one",
                                      data={"supported": [], "requested": (self._pinned or _MODERN[-1]).name})
        return error


class _Probe:
    """Sends the probe to a server on a pipe, from a thread of its own, since a server of the handshake era may not answer.

    :param ask: sends it and waits for the answer, until its token is cancelled.
    :param remaining: returns the seconds that are left for opening.
    """

    def __init__(self, ask: Callable[[CancelToken], DiscoverResult], remaining: Callable[[], float]) -> None:
        self._ask = ask
        self._remaining = remaining
        self._over = CancelToken()
        #: Not an Event, whose lock an interrupt of the main thread could leave held.
        self._outcome: "queue.SimpleQueue[Union[DiscoverResult, BaseException]]" = queue.SimpleQueue()
        #: Cancelled when the answer has arrived, and no answer to the handshake behind it.
        self.answered = CancelToken()

    def start(self, workers: Workers) -> None:
        """Start the thread, which ends with :meth:`abandon`, or soon after the answer."""
        workers.spawn(self._run)

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            self._outcome.put(self._ask(self._over))
        except (Exception, SystemExit) as error:  # of a user's hook as well: the caller waits for it
            self._outcome.put(error)
            return
        # A server of both eras that was slow finds the handshake behind the probe, and once it accepts that, the connection is
        # one of the handshake era for it. So the answer to the handshake decides, if it comes soon.
        slow = min(max(_SHORTEST_GRACE, (time.monotonic() - begun) / 4), _LONGEST_GRACE)
        if not self._over.wait(min(slow, self._remaining() / 2)):
            self.answered.cancel("the server has answered without a handshake")

    def wait(self, timeout: float) -> DiscoverResult:
        """Return the answer; once.

        :raises RequestTimeout: no answer within *timeout* seconds.
        :raises MCPError: the server answered with an error.
        """
        outcomes: List[Union[DiscoverResult, BaseException]] = []

        def get(seconds: float) -> bool:
            with contextlib.suppress(queue.Empty):
                outcomes.append(self._outcome.get(timeout=seconds))
            return bool(outcomes)

        if not wait_interruptibly(get, timeout):
            raise RequestTimeout(f"no answer to 'server/discover' within {timeout:g} s")
        outcome = outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def abandon(self) -> None:
        """Cancel the probe."""
        self._over.cancel("the server's era is known")


def _listed(error: UnsupportedVersion) -> Any:
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return supported if isinstance(supported, list) else []


def _usable(prior: Any, name: str) -> Optional[Mapping[str, Any]]:
    if prior is None or (isinstance(prior, Mapping) and prior.get("era") in ("legacy", "modern")):
        return prior
    _log.warning("prior= is not a value of client.prior, so %s is probed", name)
    return None


def _may_be_legacy(error: MCPError, http: bool) -> bool:
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
        return not http  # ERA-14: silence of a web server shows nothing
    return isinstance(error, ProtocolError)  # ERA-15: an old server may answer any request with some result


def _status_of(error: Exception) -> Optional[int]:
    """Return the HTTP status that an error came with; None for an ordinary one."""
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
