"""LegacySession: a session that begins with a handshake, and is renewed when the server has lost it."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Union

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
from ...protocol.jsonrpc import memory_size
from ...protocol.meta import REPEATABLE, checked_trace
from ...revisions import LEGACY, REVISIONS, WIDESPREAD_LEGACY, Revision, find_revision
from ...rooms import has, load
from ...rpc.cancel import CancelToken
from ...rpc.interfaces import Delivery
from ...rpc.peer import Peer
from ...rpc.request import Incoming
from ...rpc.tracing import get_logger
from ...types import InitializeResult, codec
from ..call import Call, Waiting
from ..client_observer import observed_question
from .base import ClientSession, SessionOptions
from .pacing import OpeningLock, RateLimit, send_again
from .server_connection import ServerConnection

__all__ = ["LegacySession", "ServerState"]

_log = get_logger(__name__)
#: How often in a minute a lost session is replaced, before the error is passed on (REL-47).
_RENEWALS = 3
#: The requests that change the state of a session.
_STATEFUL = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
#: Characters of a refused handshake that are searched for a revision.
_MOST_SAID = 2000
#: How long a question that overtook the answer to ``initialize`` waits for it.
_HANDSHAKE_SECONDS = 30.0
#: Bytes that the questions which wait for a handler may take in memory, unless one alone takes more.
_QUESTION_BYTES = 16 << 20
#: The key in the metadata of a message that names the task to which it belongs (TSK-24).
_RELATED_TASK = "io.modelcontextprotocol/related-task"


class ServerState:
    """The state of a session on the server's side, for its renewal: the log level and the subscriptions."""

    def __init__(self) -> None:
        #: Guards the two fields below; held for assignments only.
        self._lock = threading.Lock()
        self._level: Optional[Dict[str, Any]] = None
        self._subscriptions: Dict[str, Dict[str, Any]] = {}

    def remember(self, method: str, params: Optional[Dict[str, Any]]) -> None:
        """Remember a request that has succeeded, if it changed the state."""
        if not params:
            return
        uri = params.get("uri")
        with self._lock:
            if method == "logging/setLevel":
                self._level = params
            elif method == "resources/subscribe" and isinstance(uri, str):
                self._subscriptions[uri] = params
            elif method == "resources/unsubscribe" and isinstance(uri, str):
                self._subscriptions.pop(uri, None)

    def requests(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """Return the requests that restore the state in a new session."""
        with self._lock:
            requests = [("resources/subscribe", params) for params in self._subscriptions.values()]
            if self._level is not None:
                requests.insert(0, ("logging/setLevel", self._level))
        return iter(requests)


class _Pause:
    """Stops the clock of all calls while a handler runs, but not while that handler calls the server itself.

    A person may be typing, so the handler's own time does not count; a call that the handler makes has a timeout like
    any other.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._held = peer.paused()

    def __enter__(self) -> None:
        self._held.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._held.__exit__(None, None, None)

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Let the clock run during the block."""
        self._held.__exit__(None, None, None)
        try:
            yield
        finally:
            self._held = self._peer.paused()
            self._held.__enter__()


class LegacySession(ClientSession):
    """One session with a server of the handshake era.

    :param connection: to the server.
    :param options: those of the client that its sessions need.
    """

    era = "legacy"

    def __init__(self, connection: ServerConnection, options: SessionOptions) -> None:
        super().__init__(connection, options)
        self._rate = RateLimit(options.questions_per_minute)
        self._revision: Optional[Revision] = None
        #: Set when the handshake has succeeded or the connection has closed.
        self._handshake_done = threading.Event()
        #: The pause of the handler that runs on a thread, by the thread's ident; empty but while handlers run.
        self._paused: Dict[int, _Pause] = {}
        self._server_state = ServerState()
        #: Held by the one thread that replaces a lost session; others wait for it.
        self._renewing = OpeningLock(_RENEWALS)
        #: Whether the server can lose the session and not the connection, so that a call has to know when it began.
        self._over_http = connection.channel.carries_beside
        #: Guards ``_questions``, the questions without an answer with the bytes that each takes; held for dictionary work.
        self._lock = threading.Lock()
        self._questions: Dict[Incoming, int] = {}
        self._handshake: Callable[[Waiting], InitializeResult]
        connection.session = self

    @property
    def agreed(self) -> Optional[Revision]:
        return self._revision

    @property
    def revision(self) -> Revision:
        assert self._revision is not None, "the handshake is not complete"
        return self._revision

    def open(self, wanted: Revision, pinned: bool, timeout: float, cancel: Optional[CancelToken] = None,
             left: Optional[float] = None) -> InitializeResult:
        """Do the handshake; once more, with another revision, if the server refuses the one that is offered (LIFE-19).

        :param wanted: the revision to offer.
        :param pinned: whether any other answer is an error.
        :param timeout: seconds for opening; a renewal has them as well.
        :param cancel: for this handshake, not for that of a renewal.
        :param left: how many of these seconds are left for this handshake; by default all.
        :raises Cancelled: the token was cancelled.
        :raises UnsupportedVersion: the server supports none of our revisions, or not the pinned one.
        :raises RequestTimeout: no answer in time; nothing is cancelled, the channel is to be closed (TIME-07).
        :raises ProtocolError: the answer breaks the rules.
        :raises ConnectionClosed, RemoteError: as for every call.
        """
        self._handshake = lambda waiting: self._shake(wanted, pinned, timeout, waiting.cancel, waiting.least(timeout))
        end = self.peer.now() + (timeout if left is None else left)
        try:
            return self._shake(wanted, pinned, timeout, cancel, left)
        except (RemoteError, HTTPStatusError) as error:
            other = None if pinned else _other_revision(error, wanted)
            if other is None:
                raise
            _log.info("%s refuses %s; it is offered %s (%s)", self.peer.name, wanted, other, error)
            refused, wanted = wanted, other  # for renewals, too
            try:
                return self._shake(other, pinned, timeout, cancel, max(0.001, end - self.peer.now()))
            except (RemoteError, HTTPStatusError) as again:
                _log.info("%s refuses %s as well (%s)", self.peer.name, other, again)
                wanted = refused
                raise error

    def _shake(self, wanted: Revision, pinned: bool, timeout: float, cancel: Optional[CancelToken] = None,
               left: Optional[float] = None) -> InitializeResult:
        seconds = timeout if left is None else left
        end = self.peer.now() + seconds
        capabilities = self._handlers.capabilities()
        encoded, extensions = codec.encode(capabilities, wanted), self._options.extensions
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
            of = "" if seconds == timeout else f" ({timeout:g} s for opening in all)"
            raise RequestTimeout(f"{self.peer.name} did not answer 'initialize' within {seconds:g} s{of}; a first start"
                                 f" may take longer (open_timeout=), and a program that is not an MCP server never"
                                 f" answers{self.connection.stderr_tail()}") from error
        except RemoteError as error:
            raise self._refused(error, wanted) from error
        try:
            result = codec.decode(InitializeResult, answer)
        except ProtocolError as error:
            raise ProtocolError(f"{self.peer.name} answered 'initialize' with an invalid result: {error}",
                                error.raw) from error
        revision = find_revision(result.protocol_version)
        if revision is None or revision.modern or (pinned and revision is not wanted):
            ours = wanted.name if pinned else ", ".join(item.name for item in LEGACY)
            raise UnsupportedVersion(f"{self.peer.name} answered with the revision {result.protocol_version[:50]!r};"
                                     f" this client accepts {ours}",
                                     data={"supported": [result.protocol_version], "requested": wanted.name})
        self._revision = revision
        self._opened(result)
        self._handshake_done.set()
        self._channel.set_version(revision.name if revision.version_header == "checked" else None)
        self.peer.notify("notifications/initialized", timeout=max(0.001, end - self.peer.now()))
        self._channel.listen(lambda lost: self.renew(lost, Waiting()), end - self.peer.now())
        return result

    def renew(self, lost: str, waiting: Waiting) -> None:
        """Replace a session that the server has lost (SESS-09).

        :param lost: the id of the lost session; nothing is done if another thread has replaced it.
        :param waiting: of the call that needs it; a session that is not complete when the call ends is ended with it.
        :raises SessionLost: the server has lost sessions too often.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        :raises RemoteError, ProtocolError, RequestTimeout, TransportError: as for :meth:`open`.
        """
        now = self.peer.now
        with self._renewing.hold(waiting, self.peer.name, now) as failure:
            if self._channel.session_id != lost or self.peer.closed:
                return
            if failure is not None:
                raise failure
            if not self._renewing.admit():
                raise SessionLost(f"{self.peer.name} has lost our session {_RENEWALS} times within a minute",
                                  session=lost, unserved=False)
            _log.info("%s has lost our session; a new one is opened", self.peer.name)
            decided = False
            try:
                with waiting.counting(now):
                    self._handshake(waiting)
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
        if isinstance(lost, LegacySession):
            self._server_state = lost._server_state
            self._restore(waiting)

    def _restore(self, waiting: Waiting) -> None:
        for method, params in self._server_state.requests():
            with waiting.counting(self.peer.now):
                self.peer.call(method, params, timeout=waiting.least(_HANDSHAKE_SECONDS), cancel=waiting.cancel)

    def _refused(self, error: RemoteError, wanted: Revision) -> RemoteError:
        # LIFE-19: some servers refuse a revision with an error instead of answering with another.
        if error.code == INVALID_PARAMS and isinstance(error.data, dict) and "supported" in error.data:
            return UnsupportedVersion(f"{self.peer.name} does not support {wanted}: {error.message[:200]}", data=error.data)
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
            self._server_state.remember(call.method, call.params)
        return result

    def _call_renewing(self, call: Call) -> Dict[str, Any]:
        begun = self.peer.now() if self._over_http else 0.0
        try:
            return self._call(call)
        except SessionLost as error:
            if not error.unserved and call.method not in REPEATABLE:
                raise
            waiting = Waiting(call.timeout, call.max_timeout, call.cancel, f"did not answer {call.method!r}",
                              call.spent + self.peer.now() - begun)
            self.renew(error.session, waiting)
            return self._call(call._replace(id=None, spent=waiting.spent))
        except (RemoteError, HTTPStatusError) as error:
            return send_again(self._call, call, error, self.peer.now() - begun)

    def _call(self, call: Call) -> Dict[str, Any]:
        id, params = call.id, call.params
        if self._options.trace_context is not None:
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), **checked_trace(self._options.trace_context())}
        if call.on_progress is not None:
            # The request's id is unique, so it serves as its progress token as well (PROG-02).
            id = self.peer.new_id() if id is None else id
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), "progressToken": id}
        pause = self._paused.get(threading.get_ident()) if self._paused else None
        try:
            if pause is None and not call.spent:
                return self.peer.call(call.method, params, id=id, timeout=call.timeout,  # type: ignore[no-any-return]
                                      max_timeout=call.max_timeout, cancel=call.cancel, on_progress=call.on_progress)
            with contextlib.ExitStack() as stack:
                if pause is not None:
                    # A handler calls the server: it frees its place among the workers, since the answer may need one (REL-56).
                    stack.enter_context(self.connection.workers.suspended())
                    stack.enter_context(pause.lifted())
                return self.peer.call(  # type: ignore[no-any-return]
                    call.method, params, id=id, timeout=call.timeout, max_timeout=call.max_timeout, cancel=call.cancel,
                    on_progress=call.on_progress, delivery=Delivery(spent=call.spent))
        except UrlElicitationRequired as error:
            self._handlers.expect(error.urls)
            raise

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        try:
            self.peer.notify(method, params, timeout=timeout)
        except SessionLost as error:
            waiting = Waiting(timeout, what=f"did not take {method!r}")
            self.renew(error.session, waiting)
            self.peer.notify(method, params, timeout=None if timeout is None else waiting.least(timeout))

    def on_end(self) -> None:
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
        if self._revision is not None and incoming.method in self._revision.task_requests and has("tasks"):
            if load("a question as a task")(self, incoming):
                return None
        if not self._rate.admit():
            incoming.fail(SERVER_BUSY, "the client accepts no more questions for now; try again in a minute")
            return None
        if not self._keeps(incoming):
            incoming.fail(SERVER_BUSY, f"the questions that wait take more than {_QUESTION_BYTES} bytes at the client")
            return None
        if "task" in incoming.params and has("tasks") and load("a question as a task")(self, incoming):
            return None
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
        if self._revision is None:
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
        pause = _Pause(self.peer)
        answer = functools.partial(self._answer_with_handler, incoming, self.revision, token)
        ident = threading.get_ident()
        with pause:
            self._paused[ident] = pause
            try:
                if self._observers:
                    return observed_question(self._observers, self, incoming.method,  # type: ignore[no-any-return]
                                             incoming.params, incoming.id, answer)
                return answer()
            finally:
                del self._paused[ident]

    def _answer_with_handler(self, incoming: Incoming, revision: Revision, token: CancelToken) -> Optional[Dict[str, Any]]:
        custom = self.connection.custom.get(incoming.method)
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
