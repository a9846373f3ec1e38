"""One request of the other side while it is in work: its token, its outlet, its one answer."""

import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Union

from ..errors import INTERNAL_ERROR, Cancelled, RemoteError, RequestTimeout, TransportError
from ..protocol import jsonrpc
from .cancel import CancelToken
from .interfaces import Outlet

if TYPE_CHECKING:
    from .peer import Peer


__all__ = ["Batch", "Handler", "Incoming"]

_log = logging.getLogger(__name__)


class Batch:
    """Collects the answers of one array of requests (RPC-23).

    :param expected: how many answers there will be, cancelled ones included.
    :param outlet: where the array goes; None is the channel.
    """

    def __init__(self, expected: int, outlet: Optional[Outlet] = None) -> None:
        self.outlet = outlet
        #: Guards the two fields below.
        self._lock = threading.Lock()
        self._missing = expected
        self._answers: List[bytes] = []

    def add(self, data: Optional[bytes]) -> bool:
        """Note one answer, or that there will be none; True when it was the last."""
        with self._lock:
            self._missing -= 1
            if data is not None:
                self._answers.append(data)
            return not self._missing

    def joined(self) -> Optional[bytes]:
        """Return the whole array; None when it is empty."""
        with self._lock:
            return b"[" + b",".join(self._answers) + b"]" if self._answers else None


class Incoming:
    """A request in work. It is answered exactly once, or not at all when it was cancelled."""

    __slots__ = ("peer", "id", "method", "params", "batch", "outlet", "sender", "heir", "first", "_lock", "_order", "_token",
                 "_done", "_cancelled", "_reason")

    def __init__(self, peer: "Peer", id: Union[int, str], method: str, params: Dict[str, Any],
                 batch: Optional[Batch], outlet: Optional[Outlet] = None, sender: Any = None) -> None:
        self.peer = peer
        self.id = id
        self.method = method
        self.params = params
        self.batch = batch
        #: Where what belongs to this request goes; None is the channel.
        self.outlet = outlet
        #: Who sent it, as whoever handed it in says.
        self.sender = sender
        #: A later request whose answer the handler of this one gives, after it has answered this one.
        self.heir: Optional[Incoming] = None
        #: The request that the handler of this one was begun for. It knows the latest heir, and none in between is
        #: kept: a client may come back very often, with much to say.
        self.first: Optional[Incoming] = None
        #: Guards the four fields below; held for assignments.
        self._lock = threading.Lock()
        #: Keeps every notification of this request before its response (PROG-11): held while one of them is written,
        #: which a client that does not read may make last; who cancels never waits for it.
        self._order = threading.Lock()
        self._token: Optional[CancelToken] = None
        self._done = False
        self._cancelled = False
        self._reason: Optional[str] = None

    @property
    def token(self) -> CancelToken:
        """The token of this request; made on first use, since most handlers never look."""
        with self._lock:
            if self._token is None:
                self._token = CancelToken()
                if self._cancelled:
                    self._token.cancel(self._reason)
            return self._token

    @property
    def key(self) -> Any:
        """What names this request among those in work: ids are a sender's own, where one peer speaks for many."""
        return (self.sender, self.id) if self.peer.shared else self.id

    def inherit(self, before: "Incoming") -> None:
        """Become what the handler of *before* answers from now on: its token is this request's as well."""
        token = before.token
        with self._lock:
            self._token = token
            cancelled, reason = self._cancelled, self._reason
        self.first = before.first or before
        self.first.heir = self
        if self.outlet is not None:
            self.outlet.begin()
        if cancelled:
            token.cancel(reason)

    def cancelled(self, reason: Optional[str]) -> None:
        """Cancel: no answer will be sent (CANC-03)."""
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
        data = jsonrpc.dump(jsonrpc.Notification(method, params))
        if self.outlet is not None:
            # The outlet keeps the order itself; it may wait for a slow reader, which must not hold up a cancel.
            return not (self._done or self._cancelled) and self.peer._send(data, outlet=self.outlet)
        with self._order:
            if self._done or self._cancelled:
                return False
            return self.peer._send(data)

    def offer(self, method: str, params: Dict[str, Any]) -> bool:
        """Do the same, but only if nobody has to wait for the other side; False if it must be tried in another way."""
        if self._done or self._cancelled:
            return True
        if self.outlet is None:
            return False  # a pipe does not say
        return self.peer.offer(jsonrpc.dump(jsonrpc.Notification(method, params)), self.outlet)

    def respond(self, result: Any) -> None:
        """Answer with a result; something that is no JSON becomes an internal error (REL-59)."""
        try:
            data = jsonrpc.dump(jsonrpc.Response(self.id, result))
        except (TypeError, ValueError) as error:
            _log.error("the result of %r cannot be sent: %s", self.method, error)
            self.fail(INTERNAL_ERROR, "Internal error: the result is not valid JSON")
            return
        self._answer(data, None)

    def fail(self, code: int, message: str, data: Any = None) -> None:
        """Answer with an error."""
        try:
            answer = jsonrpc.dump(jsonrpc.Failure(self.id, code, message, data))
        except (TypeError, ValueError) as error:
            _log.error("the error data of %r cannot be sent: %s", self.method, error)
            answer = jsonrpc.dump(jsonrpc.Failure(self.id, code, message, None))
        self._answer(answer, code)

    def _answer(self, data: bytes, code: Optional[int]) -> None:
        with self._lock:
            if self._done:
                return
            self._done = True
            send = not self._cancelled
        if send and self.outlet is None:
            with self._order:
                pass  # what is being written goes out first
        try:
            self.peer._finish(self, data if send else None, code)
        except (RequestTimeout, TransportError) as error:
            _log.debug("the answer to %r was not sent: %s", self.method, error)

    def run(self, task: Callable[[], object]) -> None:
        """Run a handler; whatever it raises, the request ends answered (REL-58)."""
        if self._done:
            return  # it waited too long for its place, and was refused meanwhile
        if self._cancelled:
            self._answer(b"", None)  # its client has left before there was a place, so nobody wants it done
            return
        if self.outlet is not None:
            self.outlet.begin()
        try:
            task()
        except RemoteError as error:
            self._last.fail(error.code, error.message, error.data)
        except Cancelled:
            self._last._answer_cancelled()
        except BaseException:
            # SystemExit and its like too: a handler must not take the thread or the server with it.
            _log.exception("the handler of %r failed", self.method)
            self._last.fail(INTERNAL_ERROR, "Internal error")

    @property
    def _last(self) -> "Incoming":
        return self.heir or self

    def _answer_cancelled(self) -> None:
        if self._cancelled:
            self._answer(b"", None)
        else:
            self.fail(INTERNAL_ERROR, "The request was cancelled")


class Handler:
    """What a session gives its peer: the meaning of messages. All of it runs on the reader's thread."""

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        """Answer at once and return None, or return what a worker shall run; must not block."""
        raise NotImplementedError

    def on_notification(self, message: jsonrpc.Notification) -> None:
        """Take note; must not block."""
        raise NotImplementedError

    def on_close(self, error: Exception) -> None:
        """The connection is over; called once."""

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        """Return the notification that tells the peer to stop working on one of our requests."""
        return None

    def accepts_batches(self) -> bool:
        """Whether arrays are legal now (RPC-21, RPC-26)."""
        return False

    def answers_noise(self) -> bool:
        """Whether the other side is told of what is no message."""
        return True

    def names_unreadable_ids(self) -> bool:
        """Whether an error for an unreadable id carries ``id: null`` instead of no id (RPC-11)."""
        return True
