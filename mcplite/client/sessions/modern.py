"""Talking to a server without a handshake: each request says who sends it, and is answered for itself."""

import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Optional, Sequence

from ...errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    HeaderMismatch,
    HTTPStatusError,
    ProtocolError,
    RemoteError,
    TransportError,
    UnsupportedVersion,
)
from ...protocol import codec, envelope as envelopes, jsonrpc
from ...protocol.http import routing_headers
from ...protocol.methods import REPEATABLE
from ...revisions import Revision, find
from ...rpc.cancel import CancelToken
from ...rpc.incoming import Incoming
from ...rpc.interfaces import Delivery
from ...types import DiscoverResult, Implementation, InitializeResult, ServerCapabilities
from ..features.cache import Cache
from .base import Speaker
from .connection import Line
from .input_rounds import Rounds
from .rate_limit import Pace

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark
    from ..subscriptions.subscription import Listening

__all__ = ["MODERN_ERRORS", "ModernSession", "choose"]

#: Errors that only servers know which serve requests without a handshake (ERA-03); they may come without an id.
MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})

_log = logging.getLogger(__name__)
OnProgress = Callable[[Dict[str, Any]], object]


class ModernSession(Speaker):
    """One server whose requests each stand for themselves.

    :param line: to the server.
    :param revision: that is spoken, until the server says that it speaks another one.
    :param info: who this client is; None keeps that to itself (STAT-02).
    :param cache: what the server said may be kept.
    :param per_minute: how many questions of the server are taken in any minute; None for any number.
    :param extensions: declared with each request, with their settings.
    :param result_types: those that extensions add to the protocol's own (STAT-09).
    :param trace_context: gives the W3C trace context of a request (META-08).
    """

    era = "modern"

    def __init__(self, line: Line, revision: Revision, info: Optional[Implementation], *, cache: Cache,
                 per_minute: Optional[int] = None, extensions: Optional[Dict[str, Any]] = None, result_types: Iterable[str] = (),
                 trace_context: Optional[Callable[[], Mapping[str, str]]] = None) -> None:
        self.line = line
        self.peer = line.peer
        self._info = info
        self._cache = cache
        self._result_types = frozenset({"complete", "input_required", *result_types})
        self._trace_context = trace_context
        self._rounds = Rounds(line.name, line.handlers, line.workers, line.places, Pace(per_minute))
        self._extensions = extensions
        # What servers with a session send by themselves, has to be asked for here (STAT-24).
        self._log_level: Optional[str] = "info" if line.handlers.wants_logs else None
        self.speak(revision)
        #: What the server has said of itself.
        self.result: Optional[InitializeResult] = None
        #: The parameters of listed tools that travel in headers as well; replaced as a whole.
        self._marks: Dict[str, "Sequence[Mark]"] = {}
        #: Who gets what comes for which ``subscriptions/listen`` request; the lock guards it, for dictionary work.
        self._lock = threading.Lock()
        self._listening: Dict[int, "Listening"] = {}
        #: Reads the list of tools anew; the client sets it.
        self.relist: Callable[..., object] = bool
        line.speaker = self

    def speak(self, revision: Revision) -> None:
        """Speak a revision from now on."""
        self._revision = revision
        capabilities = self.line.handlers.capabilities()
        capabilities.extensions = self._extensions
        #: What every request carries.
        self._envelope = envelopes.members(revision, capabilities, self._info, self._log_level)

    @property
    def restartable(self) -> bool:
        return self.line.channel.restartable

    @property
    def agreed(self) -> Optional[Revision]:
        return None if self.result is None else self._revision

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self._revision

    # --- who is there -----------------------------------------------------------------------------------

    def discover(self, timeout: Optional[float], cancel: Optional[CancelToken] = None) -> DiscoverResult:
        """Ask the server what it is.

        :raises ProtocolError: the answer is none to this question (ERA-15).
        :raises RemoteError, RequestTimeout, TransportError: as for every call.
        """
        answer = self._call("server/discover", None, timeout, timeout, cancel, None, {}, notice=False)
        if "supportedVersions" not in answer:
            raise ProtocolError(f"{self.line.name} answered 'server/discover' with something else", answer)
        try:
            return codec.decode(DiscoverResult, answer)
        except ProtocolError as error:
            raise ProtocolError(f"{self.line.name} answered 'server/discover' with what is no valid result: {error}",
                                error.raw) from error

    def settle(self, revision: Revision, capabilities: ServerCapabilities, instructions: Optional[str],
               info: Optional[Implementation]) -> None:
        """Note what is spoken, and with whom."""
        if revision is not self._revision:
            self.speak(revision)
        known = info or Implementation(name="", version="")
        self.line.handlers.server_info = known
        self.result = InitializeResult(revision.name, capabilities, known, instructions)

    def learn_marks(self, marks: Mapping[str, "Sequence[Mark]"]) -> None:
        """Remember which parameters of listed tools travel in headers (MHDR-11)."""
        with self._lock:
            self._marks = {**self._marks, **marks}

    def forget_marks(self) -> None:
        """Forget them: the server's list has changed."""
        with self._lock:
            self._marks = {}

    def set_level(self, level: str) -> None:
        """Ask for log messages of this level and more urgent ones, with each request from now on."""
        self._log_level = level
        self.speak(self._revision)

    def take_over(self, lost: "ModernSession") -> None:
        """Go on with what a session was told whose server has ended."""
        if lost._log_level is not None:
            self.set_level(lost._log_level)

    # --- requests ---------------------------------------------------------------------------------------

    def request(self, method: str, params: Optional[Dict[str, Any]], *, timeout: Optional[float],
                max_timeout: Optional[float], cancel: Optional[CancelToken], on_progress: Optional[OnProgress],
                rounds: bool = True, fresh: bool = False) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`.

        :param rounds: whether questions of the server are answered, and the request sent again, from here.
        :param fresh: whether a result that was kept will not do (CACHE-17).
        :raises InputNeeded: they are not, and there are some.
        :raises TypeError, ValueError: the params are no JSON; nothing was sent.
        """
        kept = self._cache.takes(method)
        if kept:
            known = None if fresh else self._cache.find(method, params)
            if known is not None:
                return known
            epoch = self._cache.epoch
        spent = 0.0

        def send(given: Optional[Dict[str, Any]]) -> Dict[str, Any]:
            nonlocal spent
            begun = self.peer.now()
            left = None if max_timeout is None else max(max_timeout - spent, 0.001)
            try:
                return self._marked(method, given, timeout, left, cancel, on_progress)
            finally:
                # The time of whoever answers questions is not the server's.
                spent += self.peer.now() - begun

        result = send(params)
        if result.get("resultType") == "input_required":
            result = self._rounds.run(method, params, result, send, self._revision, cancel, by_hand=not rounds)
        elif kept:  # CACHE-07: not what answers have brought
            self._cache.keep(method, params, result, epoch)
        return result

    def _marked(self, method: str, params: Optional[Dict[str, Any]], timeout: Optional[float], max_timeout: Optional[float],
                cancel: Optional[CancelToken], on_progress: Optional[OnProgress]) -> Dict[str, Any]:
        """Send a request with the headers of its marked parameters; once more when the server knows others (MHDR-28)."""
        if method != "tools/call" or not self.line.channel.carries_beside:
            return self._call(method, params, timeout, max_timeout, cancel, on_progress, {})
        name, arguments = (params or {}).get("name"), (params or {}).get("arguments") or {}
        begun = self.peer.now()
        try:
            headers = routing_headers.parameters(arguments, self._marks.get(str(name), ()))
            return self._call(method, params, timeout, max_timeout, cancel, on_progress, headers)
        except HeaderMismatch as error:
            if not error.received:
                raise
            _log.info("%s wants other headers for the tool %.100r (%s); its list is read again", self.line.name, name,
                      error.message)
            self._cache.changed("notifications/tools/list_changed")  # a list that was kept is what was wrong
            if max_timeout is not None:
                max_timeout = max(max_timeout - (self.peer.now() - begun), 0.001)
            self.relist(timeout=timeout, max_timeout=max_timeout, cancel=cancel)
            again = routing_headers.parameters(arguments, self._marks.get(str(name), ()))
            if again == headers:
                raise
        return self._call(method, params, timeout, max_timeout, cancel, on_progress, again)

    def _call(self, method: str, params: Optional[Dict[str, Any]], timeout: Optional[float], max_timeout: Optional[float],
              cancel: Optional[CancelToken], on_progress: Optional[OnProgress], headers: Mapping[str, str],
              id: Optional[int] = None, notice: bool = True) -> Dict[str, Any]:
        try:
            return self._call_once(method, params, timeout, max_timeout, cancel, on_progress, headers, id, notice)
        except TransportError as error:
            if not error.stale or method not in REPEATABLE or id is not None:
                raise
        return self._call_once(method, params, timeout, max_timeout, cancel, on_progress, headers, None, notice)  # H26-22

    def _call_once(self, method: str, params: Optional[Dict[str, Any]], timeout: Optional[float],
                   max_timeout: Optional[float], cancel: Optional[CancelToken], on_progress: Optional[OnProgress],
                   headers: Mapping[str, str], id: Optional[int], notice: bool) -> Dict[str, Any]:
        stamped = envelopes.stamp(params, self._envelope)
        if id is None and on_progress is not None:
            id = self.peer.new_id()
        if on_progress is not None:
            stamped["_meta"]["progressToken"] = id
        if self._trace_context is not None:
            stamped["_meta"].update(envelopes.checked_trace(self._trace_context()))
        beside: Optional[Dict[str, str]] = None
        if self.line.channel.carries_beside:
            beside = {**routing_headers.standard(method, stamped, self._revision.name), **headers}
        try:
            result = self.peer.call(method, stamped, id=id, timeout=timeout, max_timeout=max_timeout, cancel=cancel,
                                    on_progress=on_progress, delivery=Delivery(beside=beside, cancel_notice=notice))
        except HTTPStatusError as error:
            # Whoever refuses a request by its headers may not have read its id (ERA-10, MHDR-28).
            cause = error.__cause__
            if isinstance(cause, RemoteError) and cause.code in MODERN_ERRORS:
                raise cause from None
            raise
        if not isinstance(result, dict):
            raise ProtocolError(f"{self.line.name} answered {method!r} with {type(result).__name__}, not an object", result)
        kind_of = result.get("resultType", "complete")  # STAT-07
        if not isinstance(kind_of, str) or kind_of not in self._result_types:
            raise ProtocolError(f"{self.line.name} answered {method!r} with a result of the unknown type {kind_of!r:.100}"
                                " (STAT-08)", result)
        return result

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        beside = (routing_headers.standard(method, params or {}, self._revision.name) if self.line.channel.carries_beside
                  else None)  # H26-15
        self.peer.notify(method, params, timeout=timeout, beside=beside)

    # --- subscriptions ----------------------------------------------------------------------------------

    def listen(self, listening: "Listening", filter: Dict[str, Any], cancel: CancelToken) -> None:
        """Send one ``subscriptions/listen`` and return when the server ends it; what comes goes to *listening*.

        :raises Cancelled: the token was cancelled.
        :raises RemoteError, TransportError: it broke, or was refused.
        """
        id = self.peer.new_id()
        with self._lock:
            self._listening[id] = listening
        try:
            self._call("subscriptions/listen", {"notifications": filter}, None, None, cancel, None, {}, id=id)
        finally:
            with self._lock:
                self._listening.pop(id, None)

    # --- what the server sends, on the reader's thread ----------------------------------------------------

    def take(self, method: str, params: Dict[str, Any]) -> bool:
        """Give a notification to the subscription that it belongs to; False when it belongs to none (SUBS-06)."""
        meta = params.get("_meta")
        if not isinstance(meta, dict) or envelopes.SUBSCRIPTION not in meta:
            return False
        id = meta[envelopes.SUBSCRIPTION]
        listening = self._listening.get(id) if type(id) is int else None
        if listening is None:
            _log.debug("%s sent %s for a subscription that is over: %.100r", self.line.name, method, id)
        else:
            listening.take(method, params)
        return True

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        # STAT-21, STAT-22: there are no such requests, and no answers to them.
        _log.warning("%s sent the request %.100r, which is not part of %s; it is not answered", self.line.name,
                     incoming.method, self._revision)
        incoming.cancel(None)
        incoming.respond({})
        return None

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        # CANC, H26-10: over HTTP the connection of the call is closed, which says the same.
        return None if self.line.channel.carries_beside else super().cancel_notice(id, reason)

    def on_end(self) -> None:
        self._rounds.close()

    def on_cancelled(self, params: Dict[str, Any]) -> None:
        id = params.get("requestId")
        listening = self._listening.get(id) if type(id) is int else None
        if listening is not None:
            listening.ended()


def choose(versions: Sequence[Any], ours: Sequence[Revision], name: str) -> Revision:
    """Return the newest of our revisions that a server speaks.

    :raises UnsupportedVersion: it speaks none of them (STAT-17).
    """
    theirs = [find(version) for version in versions]
    for revision in reversed(ours):
        if revision in theirs:
            return revision
    said = ", ".join(str(version)[:40] for version in versions[:20])
    raise UnsupportedVersion(f"{name} speaks {said or 'no revision'}; this client was to speak"
                             f" {', '.join(revision.name for revision in ours)}",
                             data={"supported": list(versions), "requested": ours[-1].name})
