"""Which era a server is of: the probe, what its answer means, and the way back to a handshake (2.8)."""

import logging
import queue
from typing import Any, Callable, Dict, Mapping, Optional, Union

from ...errors import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Cancelled,
    HTTPStatusError,
    MCPError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    UnsupportedVersion,
)
from ...protocol import codec
from ...protocol.envelope import SERVER_INFO
from ...revisions import LEGACY, NEWEST_LEGACY, REVISIONS, Revision, find
from ...rpc.cancel import CancelToken
from ...rpc.threads import Workers
from ...types import DiscoverResult, Implementation, ServerCapabilities
from .connection import Line
from .legacy import LegacySession
from .modern import MODERN_ERRORS, ModernSession, choose

__all__ = ["Negotiation", "Session", "prior_of"]

_log = logging.getLogger(__name__)
Session = Union[LegacySession, ModernSession]
#: Statuses by which a server of the handshake era refuses what it does not know (ERA-11, ERA-13).
_LEGACY_STATUSES = frozenset({400, 404, 405, 406, 415, 422})
_MODERN = [revision for revision in REVISIONS if revision.modern]


class Negotiation:
    """Opens a session over a line.

    :param legacy: makes a session with a handshake, and
    :param modern: one without, that speaks a revision.
    :param pinned: the only revision to accept; None for any.
    :param era: "legacy" or "modern", the only one to accept; None for both.
    :param prior: what an earlier client has found out, see :func:`prior_of`.
    :param open_timeout: seconds for the server's first answer.
    :param probe_timeout: seconds of silence on a pipe after which a server is taken for one of the handshake era.
    """

    def __init__(self, line: Line, legacy: Callable[[Line], LegacySession], modern: Callable[[Line, Revision], ModernSession], *,
                 pinned: Optional[Revision], era: Optional[str], prior: Optional[Mapping[str, Any]],
                 open_timeout: float, probe_timeout: float) -> None:
        self._line = line
        self._legacy = legacy
        self._modern = modern
        self._pinned = pinned
        if pinned is not None:
            era = "modern" if pinned.modern else "legacy"
        #: The only era to accept; None for both.
        self.era = era
        self._prior = _usable(prior, line.name)
        if era is not None and self._prior is not None and self._prior["era"] != era:
            self._prior = None
        self._open_timeout = open_timeout
        self._probe_timeout = min(probe_timeout, open_timeout)
        #: Whether the server may have been upset by the probe.
        self.probing = False

    def run(self) -> Session:
        """Return the open session.

        :raises UnsupportedVersion: there is no common revision.
        :raises MCPError: the server cannot be reached, does not answer, or refuses.
        """
        self._line.peer.start()
        prior = self._prior
        if self.era == "legacy" or (prior is not None and prior.get("era") == "legacy"):
            return self._shake_hands()
        if prior is not None:
            known = self._remembered(prior)
            if known is not None:
                return known
        return self._probe()

    def _shake_hands(self, cancel: Optional[CancelToken] = None) -> LegacySession:
        session = self._legacy(self._line)
        session.open(self._pinned or NEWEST_LEGACY, self._pinned is not None, self._open_timeout, cancel)
        return session

    def _remembered(self, prior: Mapping[str, Any]) -> Optional[ModernSession]:
        revision = find(prior.get("revision"))
        try:
            if revision is None or not revision.modern or not isinstance(prior.get("instructions"), (str, type(None))):
                raise ProtocolError(f"the revision {prior.get('revision')!r:.50} cannot be spoken like this")
            if self._pinned is not None and revision is not self._pinned:
                return None
            capabilities = codec.decode(ServerCapabilities, prior.get("capabilities") or {})
            info = codec.decode(Implementation, prior["server_info"]) if prior.get("server_info") else None
        except ProtocolError as error:
            _log.warning("prior= is not what client.prior gives, so the server is asked: %s", error)
            return None
        session = self._modern(self._line, revision)
        session.settle(revision, capabilities, prior.get("instructions"), info)
        return session

    # --- the probe --------------------------------------------------------------------------------------

    def _probe(self) -> Session:
        http = self._line.channel.carries_beside
        both = self.era is None
        session = self._modern(self._line, self._pinned or _MODERN[-1])
        self.probing = both
        asked = _Asked(lambda cancel: self._discover(session, cancel))
        try:
            if both and not http:
                asked.ask_aside(self._line.workers)
                return self._settled(session, asked.wait(self._probe_timeout))
            return self._settled(session, self._discover(session, None))
        except MCPError as error:
            if not both:
                raise self._explained(error) from error
            if not _speaks_legacy(error, http):
                raise
            if http and isinstance(error, RemoteError) and error.http_status == 404 and error.code == METHOD_NOT_FOUND:
                # ERA-12: a modern server says so; this one only does not say what it is.
                session.settle(session.revision, ServerCapabilities(tools={}, resources={}, prompts={}, completions={}), None, None)
                return session
            _log.info("%s begins with a handshake (%s)", self._line.name, error)
            silent = isinstance(error, RequestTimeout)
        try:
            return self._shake_hands(asked.answered if silent else None)
        except (Cancelled, RemoteError) as error:
            # It was only slow: a late answer counts, unless the handshake was done meanwhile (ERA-06).
            if not silent:
                raise
            _log.info("%s was slow, and needs no handshake (%s)", self._line.name, error)
            self._line.speaker = session
            return self._settled(session, asked.wait(self._open_timeout))
        finally:
            asked.leave()

    def _discover(self, session: ModernSession, cancel: Optional[CancelToken]) -> DiscoverResult:
        try:
            return session.discover(self._open_timeout, cancel)
        except UnsupportedVersion as error:
            # ERA-03: it is modern, but speaks another revision than the one that it was asked in (STAT-17: once).
            ours = [self._pinned] if self._pinned is not None else _MODERN
            if not any(find(version) in ours for version in _listed(error)):
                raise
            revision = choose(_listed(error), ours, self._line.name)
        session.speak(revision)
        return session.discover(self._open_timeout, cancel)

    def _settled(self, session: ModernSession, found: DiscoverResult) -> ModernSession:
        ours = [self._pinned] if self._pinned is not None else _MODERN
        revision = choose(found.supported_versions, ours, self._line.name)
        given = (found.meta or {}).get(SERVER_INFO)
        info: Optional[Implementation] = None
        if isinstance(given, dict):
            try:
                info = codec.decode(Implementation, given)
            except ProtocolError as error:
                _log.debug("%s: %s", self._line.name, error)
        session.settle(revision, found.capabilities, found.instructions, info)
        return session

    def _explained(self, error: MCPError) -> MCPError:
        if isinstance(error, RemoteError) and error.code not in MODERN_ERRORS:
            return UnsupportedVersion(f"{self._line.name} does not know requests without a handshake ({error});"
                                      " connect without era= or revision= to let it choose",
                                      data={"supported": [], "requested": (self._pinned or _MODERN[-1]).name})
        return error


class _Asked:
    """The question what a server on a pipe is, asked on a thread of its own, since there may be no answer.

    :param ask: asks, until its token is cancelled.
    """

    def __init__(self, ask: Callable[[CancelToken], DiscoverResult]) -> None:
        self._ask = ask
        self._over = CancelToken()
        #: No Event, whose lock an interrupt of the main thread could leave held.
        self._outcome: "queue.SimpleQueue[Union[DiscoverResult, Exception]]" = queue.SimpleQueue()
        #: Cancelled when the answer has come.
        self.answered = CancelToken()

    def ask_aside(self, workers: Workers) -> None:
        """Ask on a thread, which ends with the answer or with :meth:`leave`."""
        workers.spawn(self._run)

    def _run(self) -> None:
        try:
            self._outcome.put(self._ask(self._over))
        except Exception as error:
            self._outcome.put(error)
        else:
            self.answered.cancel("the server has answered without a handshake")

    def wait(self, timeout: float) -> DiscoverResult:
        """Return the answer; once.

        :raises RequestTimeout: there is none after *timeout* seconds.
        :raises MCPError: it is an error.
        """
        try:
            outcome = self._outcome.get(timeout=timeout)
        except queue.Empty:
            raise RequestTimeout(f"no answer to 'server/discover' within {timeout:g} s") from None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def leave(self) -> None:
        """Wait no more."""
        self._over.cancel("the server's era is known")


def _listed(error: UnsupportedVersion) -> Any:
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return supported if isinstance(supported, list) else []


def _usable(prior: Any, name: str) -> Optional[Mapping[str, Any]]:
    if prior is None or (isinstance(prior, Mapping) and prior.get("era") in ("legacy", "modern")):
        return prior
    _log.warning("prior= is not what client.prior gives, so %s is asked", name)
    return None


def _speaks_legacy(error: MCPError, http: bool) -> bool:
    """Whether the failure of the probe means that the server may be of the handshake era; else it is just a failure."""
    if isinstance(error, UnsupportedVersion) and error.code == UNSUPPORTED_VERSION:
        return any(find(version) in LEGACY for version in _listed(error))
    if isinstance(error, RemoteError):
        # ERA-14: what is in the way of the server for a moment says nothing of it, not even in JSON-RPC.
        return error.code not in MODERN_ERRORS and error.http_status in (None, *_LEGACY_STATUSES)
    if isinstance(error, HTTPStatusError):
        return error.status in _LEGACY_STATUSES
    if isinstance(error, RequestTimeout):
        return not http  # ERA-14: a web server that does not answer is no verdict
    return isinstance(error, ProtocolError)  # ERA-15: it answers anything


def prior_of(session: Session) -> Dict[str, Any]:
    """Return what was found out about a server, as JSON, for ``connect(..., prior=)`` (ERA-16)."""
    result = session.result
    assert result is not None, "the session is not open"
    known: Dict[str, Any] = {"era": session.era, "revision": session.revision.name}
    if session.era == "modern":
        known["capabilities"] = codec.encode(result.capabilities, session.revision)
        known["server_info"] = codec.encode(result.server_info, session.revision)
        if result.instructions is not None:
            known["instructions"] = result.instructions
    return known
