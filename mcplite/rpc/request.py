"""One request of the other side while it is in progress: its token, its outlet, its one response.

The peer creates an :class:`Incoming` for each request; the handlers of both sides answer it. A module of its own, so that
:mod:`.peer` can be read without the races between a response, its notifications and a cancellation.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Hashable, List, Optional, Tuple

from ..errors import INTERNAL_ERROR, SERVER_BUSY, Cancelled, RemoteError, RequestTimeout, TransportError, text_of
from ..protocol import jsonrpc
from .cancel import CancelToken
from .fair_queue import QueuedJob
from .forks import end_process
from .interfaces import MessageSink, Outlet, too_long
from .tracing import get_logger

__all__ = ["BatchResponses", "Incoming", "MUCH", "MessageFacts", "MessageHandler"]

_log = get_logger(__name__)
_NO_PARAMS: Dict[str, Any] = {}
#: Bytes that are much: what such a message takes in memory is estimated. That of a smaller one is when it is queued: it may
#: be some 24 times as much as its text.
MUCH = 16_384


class BatchResponses:
    """Collects the responses to one array of requests (RPC-23).

    :param expected: how many requests have to be accounted for, cancelled ones included.
    """

    def __init__(self, expected: int) -> None:
        #: Guards the two fields below; held for list work only.
        self._lock = threading.Lock()
        self._missing = expected
        self._responses: List[bytes] = []
        #: The bytes of the responses so far, with what separates them.
        self.size = 2

    def add(self, data: Optional[bytes]) -> bool:
        """Add one response, or None for a request that gets none; True if it was the last."""
        with self._lock:
            self._missing -= 1
            if data is not None:
                self._responses.append(data)
                self.size += len(data) + 1
            return not self._missing

    def joined(self) -> bytes:
        """Return the whole array; empty bytes if there are no responses."""
        with self._lock:
            return b"[" + b",".join(self._responses) + b"]" if self._responses else b""


class MessageFacts:
    """What a transport knows of a message beside it."""

    __slots__ = ()

    #: Whose share it counts to; empty on a pipe.
    sender: str


class Incoming(QueuedJob):
    """A request in progress. It is answered exactly once, or not at all if it was cancelled.

    :param peer: sends its messages.
    :param batch: collects its response, if it came in an array.
    :param outlet: where its messages go; None is the channel.
    :param facts: what the transport knows of it beside the message, as given to :meth:`Peer.receive`.
    :param size: the bytes of memory that the message takes, if that is much; else 0.
    """

    __slots__ = ("peer", "key", "id", "method", "params", "batch", "outlet", "facts", "work", "successor", "original",
                 "size", "queued_size", "_lock", "_order", "_token", "_done", "_cancelled", "_reason")

    #: What :meth:`execute` runs; set before this request waits for a slot.
    work: Callable[[], object]

    def __init__(self, peer: MessageSink, request: jsonrpc.Request, batch: Optional[BatchResponses] = None,
                 outlet: Optional[Outlet] = None, facts: Any = None, size: int = 0) -> None:
        self.peer = peer
        #: Names it among the peer's requests in progress.
        self.key: Any = (facts, request.id) if peer.shared else request.id
        self.id = request.id
        self.method = request.method
        self.params: Dict[str, Any] = _NO_PARAMS if request.params is None else request.params
        self.batch = batch
        self.outlet = outlet
        self.facts = facts
        self.size = size
        #: Its estimated bytes of memory while it is queued; over HTTP small requests count as well.
        self.queued_size = size
        #: The latest request that the handler of this one answers, after it has answered this one.
        self.successor: Optional[Incoming] = None
        #: The request that the handler was started for. It alone knows the latest successor: those in between are
        #: not kept, since a handler may be continued very often, with large params.
        self.original: Optional[Incoming] = None
        #: Guards the five fields below; held for assignments only.
        self._lock = threading.Lock()
        #: Keeps each notification of this request before its response (PROG-11): held while a notification is written,
        #: which can block on a slow peer. Cancelling therefore never takes this lock. Made for the first notification.
        self._order: Optional[threading.Lock] = None
        self._token: Optional[CancelToken] = None
        self._done = False
        self._cancelled = False
        self._reason: Optional[str] = None

    # --- among the jobs of a pool --------------------------------------------------------------------

    @property
    def sender(self) -> str:
        facts: Optional[MessageFacts] = self.facts
        return "" if facts is None else facts.sender

    @property
    def connection(self) -> Hashable:
        return self.peer

    @property
    def subject(self) -> Tuple[str, Optional[str]]:
        """What it is about: the method, and the name or URI of what it asks for."""
        named = self.params.get("name") or self.params.get("uri")
        return self.method, named if type(named) is str else None

    def wait_for_slot(self, work: Callable[[], object], queued_size: int) -> None:
        """Keep what :meth:`execute` runs; called before the request is queued.

        :param queued_size: its estimated bytes of memory, if they were not estimated before, even if they are few.
        """
        self.work = work
        if queued_size:
            self.queued_size, self.size = queued_size, queued_size if queued_size >= MUCH else 0

    def execute(self) -> None:
        work = self.work
        del self.work
        self.run(work)

    def refuse(self) -> None:
        self.fail(SERVER_BUSY, "Server busy: too many requests are waiting; try again later")

    # --- while it is in progress ----------------------------------------------------------------------

    @property
    def token(self) -> CancelToken:
        """The cancel token of this request; created on first use, since most handlers do not use it."""
        token = self._token
        if token is not None:
            return token  # without the lock: a handler that reports progress asks each time
        with self._lock:
            if self._token is None:
                self._token = CancelToken()
                if self._cancelled:
                    self._token.cancel(self._reason)
            return self._token

    @property
    def over(self) -> bool:
        """Whether it was answered, or was cancelled and has no handler any more."""
        return self._done

    @property
    def awaited(self) -> bool:
        """Whether its response is still to come, and was not made superfluous by a cancellation."""
        return not (self._done or self._cancelled)

    def take_over(self, previous: "Incoming") -> None:
        """Take over the handler of *previous*: from now on it answers this request, and both share one token."""
        token = previous.token
        with self._lock:
            self._token = token
            cancelled, reason = self._cancelled, self._reason
        self.original = previous.original or previous
        self.original.successor = self
        if self.outlet is not None:
            self.outlet.handler_started()
        if cancelled:
            token.cancel(reason)

    def cancel(self, reason: Optional[str]) -> None:
        """Cancel the request: no response will be sent (CANC-03)."""
        with self._lock:
            if self._done or self._cancelled:
                return
            self._cancelled, self._reason = True, reason
            token = self._token
        _log.info("request %r (id %r) was cancelled: %.200r", self.method, self.id, reason)
        if token is not None:
            token.cancel(reason)

    def emit(self, method: str, params: Dict[str, Any]) -> bool:
        """Send a notification that belongs to this request; False once it is answered or cancelled."""
        data = jsonrpc.dump_notification(method, params)
        if len(data) > self.peer.most_bytes:
            raise too_long(repr(method), len(data), self.peer.most_bytes)
        if self.outlet is not None:
            # The outlet keeps the order itself. It may block on a slow reader, which must not delay a cancel.
            return not (self._done or self._cancelled) and self.peer.send_message(data, self.outlet)
        order = self._order
        if order is None:
            with self._lock:
                if self._done or self._cancelled:
                    return False
                order = self._order = self._order or threading.Lock()
        with order:
            # Checked under this lock, which the response waits for: it may have been sent meanwhile.
            if self._done or self._cancelled:
                return False
            return self.peer.send_message(data)

    def offer(self, method: str, params: Dict[str, Any]) -> bool:
        """Send a notification if that is possible without blocking; False if :meth:`emit` has to be used instead."""
        if self._done or self._cancelled:
            return True
        if self.outlet is None:
            return False  # a channel does not tell whether it would block
        data = jsonrpc.dump_notification(method, params)
        return len(data) <= self.peer.most_bytes and self.peer.send_message(data, self.outlet, False)

    def let_go(self) -> None:
        """Note in a forked process that the request belongs to another one, which answers it."""
        self._lock, self._order = threading.Lock(), None
        self._done, self.outlet = True, None

    def pass_on(self, data: bytes) -> bool:
        """Send an encoded notification of the process that handles this request; False once it is answered or cancelled."""
        return not (self._done or self._cancelled) and self.peer.send_message(data, self.outlet)

    def respond(self, result: Any) -> None:
        """Answer with a result; one that is not JSON becomes an internal error (REL-59)."""
        try:
            data = jsonrpc.dump_result(self.id, result)
        except (TypeError, ValueError) as error:
            _log.error("the result of %r cannot be sent: %s", self.method, error)
            self.fail(INTERNAL_ERROR, "Internal error: the result is not valid JSON")
            return
        self.answer(data, None)

    def fail(self, code: int, message: str, data: Any = None) -> None:
        """Answer with an error; *message* becomes a text, since a class of the user's may have set it to anything."""
        code, message = int(code) if isinstance(code, int) and code is not True else INTERNAL_ERROR, text_of(message)
        try:
            answer = jsonrpc.dump(jsonrpc.Failure(self.id, code, message, data))
        except (TypeError, ValueError) as error:
            _log.error("the error data of %r cannot be sent: %s", self.method, error)
            answer = jsonrpc.dump(jsonrpc.Failure(self.id, code, message, None))
        self.answer(answer, code)

    def answer(self, data: Optional[bytes], code: Optional[int]) -> None:
        """Answer with an encoded response, as one from another process; None gives none.

        :param code: of the error, if it is one.
        """
        if data is not None and len(data) > self.peer.most_bytes:
            data, code = self._too_long(len(data)), INTERNAL_ERROR
        with self._lock:
            if self._done:
                return
            self._done = True
            if self._cancelled:
                data = None
            order = self._order
        outlet = self.outlet
        if order is not None and data is not None and outlet is None:
            with order:
                pass  # a notification that is being written goes out first
        if self.batch is not None:
            if data is not None and self.batch.size + len(data) > self.peer.most_bytes:
                data = self._too_long(self.batch.size + len(data))
            # The last response of an array sends the whole array, and those before it send nothing.
            if self.batch.add(data):
                data, code = self.batch.joined() or None, None
            else:
                data, outlet = None, None
        try:
            self.peer.send_response(self.key, data, code, outlet)
        except (RequestTimeout, TransportError) as error:
            _log.debug("the response to %r was not sent: %s", self.method, error)
            if getattr(error, "status", 0) == 413 and code is None:
                # The other side waits for an answer that it can take.
                refusal = jsonrpc.dump(jsonrpc.Failure(self.id, INTERNAL_ERROR, f"Internal error: {error}"))
                self.peer.send_response(self.key, refusal, INTERNAL_ERROR, outlet)

    def _too_long(self, size: int) -> bytes:
        text = f"Internal error: {too_long(f'the answer to {self.method!r}', size, self.peer.most_bytes)}"
        _log.error("%s", text)
        return jsonrpc.dump(jsonrpc.Failure(self.id, INTERNAL_ERROR, text))

    def run(self, work: Callable[[], object]) -> None:
        """Run a handler; whatever it raises, the request ends answered (REL-58)."""
        if self._done:
            return  # it waited too long for a slot, and was refused meanwhile
        if self._cancelled:
            self.answer(None, None)  # cancelled before it got a slot: the handler need not run
            return
        if self.outlet is not None:
            self.outlet.handler_started()
        try:
            work()
        except RemoteError as error:
            self._latest.fail(error.code, error.message, error.data)
        except Cancelled:
            self._latest._answer_cancelled()
        except BaseException as error:
            if self.peer.foreign:
                end_process(f"the handler of {self.method!r}", error)
            # SystemExit and KeyboardInterrupt too: a handler must not end the thread or the server.
            _log.exception("the handler of %r failed", self.method)
            self._latest.fail(INTERNAL_ERROR, "Internal error")
        if self.peer.foreign:
            end_process(f"the handler of {self.method!r}", None)

    @property
    def _latest(self) -> "Incoming":
        return self.successor or self

    def _answer_cancelled(self) -> None:
        if self._cancelled:
            self.answer(None, None)
        else:
            self.fail(INTERNAL_ERROR, "The request was cancelled")


class MessageHandler:
    """Gives the messages of one connection their meaning.

    On a server these are ``LegacySession`` and ``SessionlessHandler`` (``server.sessions``), on a client
    ``ConnectionToServer`` (``client.sessions.base``). Its methods run on the thread that received the message and must not
    block.
    """

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        """Return what answers the request, or None if it is answered, or another thread answers it.

        On a server it mostly runs on the thread that has received the request, else and on a client on a worker.

        :raises RemoteError: the error to answer with.
        """
        raise NotImplementedError

    def on_notification(self, message: jsonrpc.Notification) -> None:
        """Process a notification."""
        raise NotImplementedError

    def on_input_end(self) -> None:
        """Called when the other side sends nothing more, before its requests in progress are answered; must not block."""

    def on_close(self, error: Exception) -> None:
        """Called once, when the connection is over."""

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        """Return the notification that asks the peer to stop working on one of our requests; None to send none."""
        return None

    def accepts_batches(self) -> bool:
        """Whether arrays of messages are legal now (RPC-21, RPC-26)."""
        return False

    def answers_invalid_input(self) -> bool:
        """Whether input that is not a message is answered with an error."""
        return True

    def names_unreadable_ids(self) -> bool:
        """Whether an error for an unreadable id carries ``id: null`` instead of no id (RPC-11)."""
        return True
