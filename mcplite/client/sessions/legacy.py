"""LegacyClientSession: a session that begins with a handshake, and is renewed when the server has lost it."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Optional, Set, Tuple, Union

from ...errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    SERVER_BUSY,
    UNSUPPORTED_VERSION,
    HTTPStatusError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    SessionLost,
    UnsupportedVersion,
    UrlElicitationRequired,
)
from ...protocol.error_text import Option, OptionText
from ...protocol.jsonrpc import memory_size
from ...protocol.meta import REPEATABLE, checked_trace
from ...revisions import LEGACY, REVISIONS, WIDESPREAD_LEGACY, Revision, find_revision
from ...rooms import has, load
from ...rpc.cancel import CancelToken
from ...rpc.interfaces import DIRECT, Delivery
from ...rpc.request import Incoming
from ...rpc.tracing import get_logger
from ...types import InitializeResult, codec
from ..call import Call, OpeningLock, Waiting, send_again
from .base import ClientSession, ConnectionToServer

__all__ = ["LegacyClientSession"]

_log = get_logger(__name__)
#: How often in a minute a lost session is replaced, before the error is passed on (REL-47).
_RENEWALS = 3
#: The requests that change the state of a session.
_STATEFUL = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
#: Characters of a refused handshake that are searched for a revision.
_MOST_SAID = 2000
#: Seconds for which a question that overtook the answer to ``initialize`` waits for that answer. Also the most seconds of each
#: request that restores the state of a session.
_HANDSHAKE_SECONDS = 30.0
#: Bytes that the questions which wait for a handler may take in memory, unless one alone takes more.
_QUESTION_BYTES = 16 << 20
#: The key in the metadata of a message that names the task to which it belongs (TSK-24).
_RELATED_TASK = "io.modelcontextprotocol/related-task"


class LegacyClientSession(ClientSession):
    """One session with a server of the handshake era.

    :param connection: to the server.
    """

    era = "legacy"

    def __init__(self, connection: ConnectionToServer) -> None:
        super().__init__(connection)
        self._trace_context = self._options.settings.trace_context
        #: Set when the handshake has succeeded or the connection has closed.
        self._handshake_done = threading.Event()
        #: The threads whose handlers answer a question now, by their idents. Each of them has paused the clock.
        self._answering: Set[int] = set()
        #: Held by the one thread that replaces a lost session; others wait for it.
        self._renewing = OpeningLock(_RENEWALS)
        #: Whether the server can lose the session without the connection. Then a call notes when it began, since a renewal
        #: uses up its limits. Every other request than a call of a tool notes it as well, since a busy server may be asked
        #: again.
        self._carries_headers = connection.channel.carries_headers
        #: Guards the two fields below; held for dictionary work.
        self._lock = threading.Lock()
        #: The questions without an answer, with the bytes that each takes.
        self._questions: Dict[Incoming, int] = {}
        #: The requests that have changed the state of the session, for its renewal, by the URI of the resource; the key None
        #: has the request for the level of logs.
        self._server_state: Dict[Optional[str], Tuple[str, Dict[str, Any]]] = {}
        #: If the server's process ends, its state is lost. So only a client with ``retry=`` starts such a process again.
        self.restartable = self._channel.restartable and self._options.settings.retry is not None
        connection.session = self

    def open(self, wanted: Revision, pinned: bool, timeout: float, cancel: Optional[CancelToken], left: float) -> None:
        """Do the handshake; once more, with another revision, if the server refuses the one that is offered (LIFE-19).

        :param wanted: the revision to offer.
        :param pinned: whether any other answer is an error.
        :param timeout: seconds for opening; a renewal has them as well.
        :param cancel: for this handshake, not for that of a renewal.
        :param left: how many of these seconds are left for this handshake.
        :raises Cancelled: the token was cancelled.
        :raises UnsupportedVersion: the server supports none of our revisions, or not the pinned one.
        :raises RequestTimeout: no answer in time; nothing is cancelled, the channel is to be closed (TIME-07).
        :raises ProtocolError: the answer breaks the rules.
        :raises ConnectionClosed, RemoteError: as for every call.
        """
        self._wanted, self._pinned, self._timeout = wanted, pinned, timeout
        end = self.peer.now() + left
        try:
            self._shake(cancel, left)
        except (RemoteError, HTTPStatusError) as error:
            other = None if pinned else _other_revision(error, wanted)
            if other is None:
                raise
            _log.info("%s refuses %s; it is offered %s (%s)", self.name, wanted, other, error)
            self._wanted = other  # for renewals, too
            try:
                self._shake(cancel, max(0.001, end - self.peer.now()))
            except (RemoteError, HTTPStatusError) as again:
                _log.info("%s refuses %s as well (%s)", self.name, other, again)
                self._wanted = wanted
                raise error

    def _shake(self, cancel: Optional[CancelToken], seconds: float) -> None:
        wanted = self._wanted
        end = self.peer.now() + seconds
        encoded, extensions = codec.encode(self._handlers.capabilities(), wanted), self._options.extensions
        if extensions is not None:
            extensions.declare(encoded, wanted)
        params = {"protocolVersion": wanted.name, "capabilities": encoded,
                  "clientInfo": codec.encode(self._options.info, wanted)}

        def send(call: Call) -> Any:
            return self.peer.call(call.method, call.params, id=call.id, timeout=max(0.001, end - self.peer.now()),
                                  cancel=call.cancel, delivery=Delivery(cancel_notice=False))

        def send_until_taken(call: Call) -> Any:
            begun = self.peer.now()
            try:
                return send(call)
            except (RemoteError, HTTPStatusError) as error:
                return send_again(send, call, error, self.peer.now() - begun)

        try:
            answer = self._observed(Call("initialize", params, seconds, cancel=cancel), send_until_taken)
        except RequestTimeout as error:
            of = "" if seconds == self._timeout else f" ({self._timeout:g} s for opening in all)"
            raise RequestTimeout(OptionText(
                f"{self.name} did not answer 'initialize' within {seconds:g} s{of}; a first start may take longer (",
                Option("open_timeout"), "), and a program that is not an MCP server never answers"
                f"{self.connection.stderr_tail()}")) from error
        except RemoteError as error:
            raise self._refused(error, wanted) from error
        try:
            result = codec.decode(InitializeResult, answer)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} answered 'initialize' with an invalid result: {error}", error.raw) from error
        revision = find_revision(result.protocol_version)
        if revision is None or revision.modern or (self._pinned and revision is not wanted):
            ours = wanted.name if self._pinned else ", ".join(item.name for item in LEGACY)
            raise UnsupportedVersion(f"{self.name} answered with the revision {result.protocol_version[:50]!r};"
                                     f" this client accepts {ours}",
                                     data={"supported": [result.protocol_version], "requested": wanted.name})
        self._opened(result, revision)
        self._handshake_done.set()
        self._channel.set_version(revision.name if revision.version_header == "checked" else None)
        self.peer.notify("notifications/initialized", timeout=max(0.001, end - self.peer.now()))
        self._channel.listen(lambda lost: self.renew(lost, Waiting()), end - self.peer.now())

    def renew(self, lost: str, waiting: Waiting) -> None:
        """Replace a session that the server has lost (SESS-09).

        :param lost: the id of the lost session; nothing is done if another thread has replaced it.
        :param waiting: of the call that needs it; a session that is not complete when the call ends is ended with it.
        :raises SessionLost: the server has lost sessions too often.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        :raises RemoteError, ProtocolError, RequestTimeout, TransportError: as for :meth:`open`.
        """
        with self._renewing.hold(waiting, self.name) as failure:
            if self._channel.session_id != lost or self.peer.closed:
                return
            if failure is not None:
                raise failure
            if not self._renewing.admit():
                raise SessionLost(f"{self.name} has lost our session {_RENEWALS} times within a minute",
                                  session=lost, unserved=False)
            _log.info("%s has lost our session; a new one is opened", self.name)
            decided = False
            try:
                self._shake(waiting.cancel, waiting.least(self._timeout))
                self._restore(waiting)
                decided = True
            except RemoteError:
                decided = True
                raise
            finally:
                if not decided:
                    self._channel.restore_session_id(lost)
        self.connection.note_change("notifications/tools/list_changed", {})  # the server may be another version now

    def take_over(self, lost: ClientSession, waiting: Waiting) -> None:
        if isinstance(lost, LegacyClientSession):
            self._server_state = lost._server_state
            with contextlib.suppress(RemoteError):  # it is logged, and the session can be used
                self._restore(waiting)

    def _restore(self, waiting: Waiting) -> None:
        """Send the requests that had changed the state of the lost session; those that are refused are forgotten.

        :raises RemoteError: the first refusal, once all were sent.
        """
        with self._lock:
            requests = list(self._server_state.items())
        refusal: Optional[RemoteError] = None
        for key, (method, params) in sorted(requests, key=lambda item: item[0] is not None):  # the level first
            try:
                self.peer.call(method, params, timeout=waiting.least(_HANDSHAKE_SECONDS), cancel=waiting.cancel)
            except RemoteError as error:
                _log.warning("%s refuses %r in a new session, so it is left out: %s", self.name, method, error)
                with self._lock:
                    self._server_state.pop(key, None)  # it would be refused in the next session as well
                refusal = refusal or error
        if refusal is not None:
            raise refusal

    def _remember(self, method: str, params: Optional[Dict[str, Any]]) -> None:
        """Remember a request that has changed the state of the session."""
        uri = None if method == "logging/setLevel" else (params or {}).get("uri", False)
        if params and isinstance(uri, (str, type(None))):
            with self._lock:
                self._server_state.pop(uri, None)
                if method != "resources/unsubscribe":
                    self._server_state[uri] = method, params

    def _refused(self, error: RemoteError, wanted: Revision) -> RemoteError:
        # LIFE-19: some servers refuse a revision with an error instead of answering with another.
        if error.code == INVALID_PARAMS and isinstance(error.data, dict) and "supported" in error.data:
            return UnsupportedVersion(f"{self.name} does not support {wanted}: {error.message[:200]}", data=error.data)
        return error

    def request(self, call: Call) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`.

        Questions of the server come as requests of their own here, so that a call has one round; and no result is cached.

        When the server has lost our session, a new one is opened, and the request is sent again if the server certainly
        did not process it or may process it twice.

        :raises TypeError, ValueError: the params are not JSON; nothing was sent.
        """
        result = self._observed(call, self._call_renewing) if self._observers else self._call_renewing(call)
        if call.method in _STATEFUL:
            self._remember(call.method, call.params)
        return result

    def _call_renewing(self, call: Call) -> Dict[str, Any]:
        begun = self.peer.now() if self._carries_headers or call.method != "tools/call" else 0.0
        try:
            return self._call(call)
        except SessionLost as error:
            if not error.unserved and call.method not in REPEATABLE:
                raise
            waiting = Waiting(call.timeout, call.max_timeout, call.cancel, f"did not answer {call.method!r}",
                              call.spent + self.peer.now() - begun, self.peer.now)
            self.renew(error.session, waiting)
            return self._call(call._replace(id=None, spent=waiting.spent))
        except (RemoteError, HTTPStatusError) as error:
            return send_again(self._call, call, error, self.peer.now() - begun)

    def _call(self, call: Call) -> Dict[str, Any]:
        if self._answering:
            ident = threading.get_ident()
            if ident in self._answering:
                return self._call_from_handler(call, ident)
        id, params, trace_context = call.id, call.params, self._trace_context
        if trace_context is not None:
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), **checked_trace(trace_context())}
        if call.on_progress is not None:
            # The request's id is unique, so it serves as its progress token as well (PROG-02).
            id = self.peer.new_id() if id is None else id
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), "progressToken": id}
        try:
            return self.peer.call(call.method, params, id=id, timeout=call.timeout,  # type: ignore[no-any-return]
                                  max_timeout=call.max_timeout, cancel=call.cancel, on_progress=call.on_progress,
                                  delivery=Delivery(spent=call.spent) if call.spent else DIRECT)
        except UrlElicitationRequired as error:
            self._handlers.expect(error.urls)
            raise

    def _call_from_handler(self, call: Call, ident: int) -> Dict[str, Any]:
        """Make a call from a handler, which frees its slot among the workers meanwhile: the answer may need one (REL-56).

        The clock runs meanwhile: such a call has a timeout as any other has.
        """
        self._answering.discard(ident)
        self.peer.clock.resume()
        try:
            with self.connection.workers.suspended():
                return self._call(call)
        finally:
            self.peer.clock.pause()
            self._answering.add(ident)

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        try:
            self.peer.notify(method, params, timeout=timeout)
        except SessionLost as error:
            waiting = Waiting(timeout, what=f"did not take {method!r}", now=self.peer.now)
            self.renew(error.session, waiting)
            self.peer.notify(method, params, timeout=None if timeout is None else waiting.least(timeout))

    def on_end(self) -> None:
        super().on_end()
        self._handshake_done.set()
        for part in list(self.parts.values()):
            part.close()

    def take_progress(self, token: Any, params: Dict[str, Any], size: int) -> bool:
        return any(part.take_progress(token, params, size) for part in list(self.parts.values()))

    def take_notification(self, method: str, params: Dict[str, Any]) -> bool:
        for part in list(self.parts.values()):
            part.take_notification(method, params)
        return False

    # --- what the server sends, on the reader's thread --------------------------------------------------------------

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        if incoming.method == "ping":
            incoming.respond({})
            return None
        if self.agreed is not None and incoming.method in self.agreed.task_requests and has("tasks"):
            if load("a question as a task")(self, incoming):  # tasks.received_tasks.take_question
                return None
        if not self.question_rate.admit():
            incoming.fail(SERVER_BUSY, "the client accepts no more questions for now; try again in a minute")
            return None
        if not self._keeps(incoming):
            incoming.fail(SERVER_BUSY, f"the questions that wait take more than {_QUESTION_BYTES} bytes at the client")
            return None
        if "task" in incoming.params and has("tasks") and load("a question as a task")(self, incoming):
            return None  # take_question has answered by a task
        return lambda: self._answer(incoming)

    def _keeps(self, incoming: Incoming) -> bool:
        """Note a question that will wait for its handler; False if the questions that wait are too large already."""
        size = memory_size(incoming.params, _QUESTION_BYTES)
        with self._lock:
            waiting = {one: taken for one, taken in self._questions.items() if not one.over}
            fits = not waiting or sum(waiting.values()) + size <= _QUESTION_BYTES
            if fits:
                waiting[incoming] = size
            self._questions = waiting
        return fits

    def _answer(self, incoming: Incoming) -> None:
        # On a worker thread.
        self._handshake_done.wait(_HANDSHAKE_SECONDS)
        if self.agreed is None:
            incoming.fail(INVALID_REQUEST, f"{incoming.method[:200]!r} came before the answer to 'initialize'")
            return
        result = self.answer_question(incoming, incoming.token) or {}
        meta = incoming.params.get("_meta")
        if isinstance(meta, dict) and _RELATED_TASK in meta:
            result = {**result, "_meta": {**(result.get("_meta") or {}), _RELATED_TASK: meta[_RELATED_TASK]}}
        incoming.respond(result)

    def answer_question(self, incoming: Incoming, token: CancelToken) -> Optional[Dict[str, Any]]:
        """Return the answer of the client's handler to a question, while the clock of all calls stands still.

        :param token: cancelled when the server withdraws the question.
        """
        # A person may be typing, so that the time of the handler does not count.
        ident = threading.get_ident()
        self.peer.clock.pause()
        self._answering.add(ident)
        try:
            answer = functools.partial(self._answer_with_handler, incoming, self.revision, token)
            return self.observed_question(  # type: ignore[no-any-return]
                incoming.method, incoming.params, incoming.id, answer)
        finally:
            self._answering.discard(ident)
            self.peer.clock.resume()

    def _answer_with_handler(self, incoming: Incoming, revision: Revision, token: CancelToken) -> Optional[Dict[str, Any]]:
        custom = self._options.custom.get(incoming.method)
        if custom is None:
            return self._handlers.answer(incoming.method, incoming.params, revision, token,
                                         self._progress_of(incoming.params, revision))
        return custom(incoming.params)  # type: ignore[no-any-return]

    def _progress_of(self, params: Dict[str, Any], revision: Revision) -> Optional[Callable[[Dict[str, Any]], object]]:
        """Return what sends the progress of a question; None if the server did not ask for it (PROG-15)."""
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if type(token) is not int and type(token) is not str:
            return None

        def send(progress: Dict[str, Any]) -> None:
            if not revision.progress_message:
                progress.pop("message", None)
            self.peer.notify("notifications/progress", {"progressToken": token, **progress})

        return send

    def on_cancelled(self, params: Dict[str, Any]) -> None:
        self.peer.cancel_incoming(params.get("requestId"), params.get("reason"))


def _other_revision(error: Union[RemoteError, HTTPStatusError], wanted: Revision) -> Optional[Revision]:
    """Return the revision to offer after *wanted* was refused; None if the error shows no other that both sides may know."""
    said: BaseException = error
    if isinstance(error, HTTPStatusError):
        if isinstance(error.__cause__, RemoteError):
            said = error.__cause__
        elif error.status != 400:
            return None
    data = getattr(said, "data", None)
    listed = data.get("supported") if isinstance(data, dict) else None
    text = f"{said} {data}"[:_MOST_SAID]
    named = listed if isinstance(listed, list) and listed else [one.name for one in REVISIONS if one.name in text]
    theirs = [one for one in map(find_revision, named) if one not in (None, wanted)]
    if theirs or listed:
        return next((one for one in reversed(LEGACY) if one in theirs), None)
    about_version = "version" in text.lower() or wanted.name in text or getattr(said, "code", None) == UNSUPPORTED_VERSION
    return WIDESPREAD_LEGACY if about_version and wanted is not WIDESPREAD_LEGACY else None
