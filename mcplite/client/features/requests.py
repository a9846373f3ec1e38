"""Requests: what every call of a client goes through, whatever its method: options, middleware, capabilities, pages.

The calls of single features are in ``methods`` and ``tasks``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, TypeVar

from ...errors import InvalidParams, NotSupported, ProtocolError, RequestTimeout
from ...protocol import codec
from ...protocol.envelope import check_meta
from ...rpc.cancel import CancelToken
from ...rpc.deadline import Deadline
from ...types import Model
from .call import DEFAULT, Call, OnProgress, RequestOptions, progress_reader, time_limits
from .paging import read_page, walk
from .session import FeatureSession

__all__ = ["Middleware", "Requests", "unreadable"]

M = TypeVar("M", bound=Model)
Middleware = Callable[[str, Optional[Dict[str, Any]], Callable[[], Dict[str, Any]]], Dict[str, Any]]


class Requests(ABC):
    """The requests of a client, without the features that they are for.

    :param timeout: seconds for each call, unless the call says otherwise.
    :param max_timeout: seconds for each call in all.
    :param middleware: called around every request, the first one outermost.
    """

    def __init__(self, timeout: Optional[float], max_timeout: Optional[float], middleware: Sequence[Middleware]) -> None:
        self._timeout, self._max_timeout = timeout, max_timeout
        #: The two times of a call without times of its own.
        self._default_limits = time_limits(DEFAULT, DEFAULT, (timeout, max_timeout))
        self._middleware = tuple(middleware)

    @abstractmethod
    def _open_session(self) -> FeatureSession:
        """Return the open session.

        :raises ConnectionClosed: the connection is not open.
        """

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = DEFAULT,
                max_timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None,
                on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None, rounds: bool = True,
                fresh: bool = False, input_responses: Optional[Mapping[str, Any]] = None,
                request_state: Optional[str] = None) -> Dict[str, Any]:
        """Send any request and return its result as it came.

        :param method: the protocol's method.
        :param params: JSON; None for none.
        :param timeout: seconds; by default the client's. None waits without a limit.
        :param max_timeout: seconds in all, whatever the progress.
        :param cancel: a token; cancelling it raises ``Cancelled`` here and notifies the server.
        :param on_progress: called with each :class:`Progress` on this thread, and with all of them before this
            method returns. Without it the server is not asked for progress.
        :param meta: added to ``params._meta``.
        :param rounds: True: the client's handlers answer the server's questions (from July 2026 on). False: raises
            :class:`InputNeeded`; the caller repeats the call later, in this process or another.
        :param fresh: True ignores the cache.
        :param input_responses: the answers by key, as on the wire, when a call is repeated after ``InputNeeded``.
        :param request_state: ``InputNeeded.state``, when a call is repeated.
        :returns: the result, decoded from JSON.
        :raises InputNeeded: with ``rounds=False``, the server asks questions.
        :raises RemoteError: the server answered with an error.
        :raises TypeError, ValueError: the params are not JSON, a time is not positive, or *meta* has an invalid key
            (META-01); nothing was sent.
        """
        return self._request(self._open_session(), method, params, RequestOptions(
            timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state))

    def _request(self, session: FeatureSession, method: str, params: Optional[Dict[str, Any]],
                 options: RequestOptions) -> Dict[str, Any]:
        timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state = options
        if meta:
            check_meta(meta, session.revision, reserved=True)
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **meta}}
        if input_responses is not None:
            params = {**(params or {}), "inputResponses": dict(input_responses)}
        if request_state is not None:
            params = {**(params or {}), "requestState": request_state}
        seconds, most = self._default_limits
        if timeout is not DEFAULT or max_timeout is not DEFAULT:
            seconds, most = time_limits(timeout, max_timeout, (self._timeout, self._max_timeout))
        progress = None if on_progress is None else progress_reader(on_progress)
        call = Call(method, params, seconds, most, cancel, progress, rounds, fresh)
        return session.request(call) if not self._middleware else self._proceed(session, call, 0)

    def send(self, call: Call) -> Dict[str, Any]:
        """Send a request that was made elsewhere, such as one that a server passes on; see :meth:`request`."""
        session = self._open_session()
        return session.request(call) if not self._middleware else self._proceed(session, call, 0)

    def _proceed(self, session: FeatureSession, call: Call, index: int) -> Dict[str, Any]:
        """Run the middleware from one position on, and send the request after the last."""
        if index == len(self._middleware):
            return session.request(call)
        return self._middleware[index](call.method, call.params, lambda: self._proceed(session, call, index + 1))

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Send any notification."""
        self._open_session().notify(method, params, self._timeout)

    def ping(self, *, timeout: Optional[float] = DEFAULT) -> None:
        """Send a ping, or ``server/discover`` in revisions without one, and return when the server has answered."""
        known = self._open_session().revision.client_requests
        self.request("ping" if "ping" in known else "server/discover", timeout=timeout)

    def _require(self, capability: str, method: str, flag: Optional[str] = None) -> FeatureSession:
        """Return the open session if the server declared a capability.

        :raises NotSupported: it did not; nothing was sent.
        """
        session = self._open_session()
        declared = getattr(session.capabilities, capability)
        if declared is None or (flag is not None and not declared.get(flag)):
            name = capability if flag is None else f"{capability}.{flag}"
            raise NotSupported(f"{session.name} did not declare the capability {name!r}, so {method!r} was not sent")
        return session

    def _read(self, cls: Type[M], answer: Dict[str, Any], session: FeatureSession, method: str) -> M:
        try:
            return codec.decode(cls, answer)
        except ProtocolError as error:
            raise unreadable(error, session, method) from error

    # --- pages --------------------------------------------------------------------------------------------

    def _page(self, session: FeatureSession, method: str, cls: Type[M], cursor: Optional[str], options: RequestOptions) -> M:
        params = None if cursor is None else {"cursor": cursor}
        return read_page(cls, self._request(session, method, params, options), session.name)

    def _walk(self, page: Callable[[Optional[str], RequestOptions], Any], member: str, options: RequestOptions) -> List[Any]:
        # One deadline for all pages (TIME-01), since the server decides on their number.
        session = self._open_session()
        _, most = time_limits(options.timeout, options.max_timeout, (self._timeout, self._max_timeout))
        deadline = Deadline(most)

        def next_page(cursor: Optional[str]) -> Any:
            left = deadline.remaining()
            if left is None:
                return page(cursor, options)
            try:
                if left > 0:
                    return page(cursor, options._replace(max_timeout=left))
            except RequestTimeout:
                if not deadline.expired:
                    raise
            raise RequestTimeout(f"{session.name}: not all pages of its {member} came within {most:g} s (max_timeout)")

        try:
            return walk(next_page, member, session.name)
        except InvalidParams:
            # CACHE-16: cached pages may have cursors that are no longer valid.
            if options.fresh or not session.revision.modern:
                raise
        options = options._replace(fresh=True)
        return walk(next_page, member, session.name)


def unreadable(error: ProtocolError, session: FeatureSession, method: str) -> ProtocolError:
    """Return the error for a result that is not one of its method."""
    return ProtocolError(f"{session.name} answered {method!r} with an invalid result: {error}", error.raw)
