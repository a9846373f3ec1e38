"""Requests: what every call of a client goes through, whatever its method: options, middleware, capabilities, pages.

The calls of single features are in ``calls``. Lists are walked page by page within bounds, and malformed
items are skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Type, TypeVar

from .. import types
from ..errors import InvalidParams, NotSupported, ProtocolError, RequestTimeout
from ..protocol.jsonrpc import memory_size
from ..protocol.meta import check_meta
from ..rpc.cancel import CancelToken
from ..rpc.tracing import get_logger
from ..types import Model, codec
from .call import DEFAULT, Call, FeatureSession, OnProgress, RequestOptions, Waiting, progress_reader, time_limits

if TYPE_CHECKING:
    from ..rpc.extension import Extension
    from .client_extensions import ClientExtensions

__all__ = ["Middleware", "Requests", "read_page", "unreadable", "walk"]

_log = get_logger(__name__)
P = TypeVar("P", bound="types.Model")
M = TypeVar("M", bound=Model)
_MAX_PAGES = 1000
_MAX_ITEMS = 10_000
#: Bytes that all pages of one list may take in memory; a list of one page is bounded by the limits on one message.
_MAX_BYTES = 40 << 20
#: Characters of a cursor, which goes back to the server.
_MAX_CURSOR = 1 << 20
#: By the name of a page's class: the member on the wire, the attribute, the name of its items' class.
_ITEMS: Dict[str, Tuple[str, str, str]] = {
    "ListToolsResult": ("tools", "tools", "Tool"),
    "ListResourcesResult": ("resources", "resources", "Resource"),
    "ListResourceTemplatesResult": ("resourceTemplates", "resource_templates", "ResourceTemplate"),
    "ListPromptsResult": ("prompts", "prompts", "Prompt"),
}


def read_page(cls: Type[P], wire: Dict[str, Any], name: str) -> P:
    """Return one page; items that break the rules are left out, with a warning (SEC-67).

    :param cls: the class of the page.
    :param wire: the server's answer.
    :param name: the server's name, for the warning.
    :raises ProtocolError: the page itself breaks the rules.
    """
    try:
        return codec.decode(cls, wire)
    except ProtocolError as first:
        if cls.__name__ not in _ITEMS:
            raise
        member, attribute, kind = _ITEMS[cls.__name__]
        items = wire.get(member)
        if not isinstance(items, list):
            raise
        page = codec.decode(cls, {**wire, member: []})
        good = getattr(page, attribute)
        for item in items:
            try:
                good.append(codec.decode(getattr(types, kind), item))
            except ProtocolError:
                continue
        _log.warning("%s: %d of the %s it lists are invalid and left out: %.200s",
                     name, len(items) - len(good), attribute.replace("_", " "), first)
        return page


def walk(page: Callable[[Optional[str]], Any], member: str, name: str) -> List[Any]:
    """Return the items of all pages.

    Only an absent cursor ends the list; an empty one is a cursor (PAGE-05, PAGE-06). Some servers mean the end by it, and
    then list the same again with an empty cursor: that page is left out.

    :param page: returns the page for a cursor.
    :param member: the attribute of a page that has the items.
    :param name: the server's name, for errors.
    :raises ProtocolError: a cursor came twice, or the list exceeds 1,000 pages, 10,000 items or 40 MiB (PAGE-12),
        or a cursor a megabyte.
    """
    items: List[Any] = []
    seen: Set[str] = set()
    cursor: Optional[str] = None
    size = 0
    for _ in range(_MAX_PAGES):
        result = page(cursor)
        found = getattr(result, member)
        if cursor == result.next_cursor == "" and (not found or found == items[-len(found):]):
            return items
        items.extend(found)
        cursor = result.next_cursor
        if cursor is None:
            return items
        if len(items) > _MAX_ITEMS:
            break
        if len(cursor) > _MAX_CURSOR:
            raise ProtocolError(f"{name} gave a cursor of more than {_MAX_CURSOR} characters in its list of {member}")
        if cursor in seen:
            raise ProtocolError(f"{name} gave the cursor {cursor[:100]!r} twice: its list of {member} has no end")
        seen.add(cursor)
        size += memory_size(result, _MAX_BYTES)
        if size > _MAX_BYTES:
            raise ProtocolError(f"{name} lists {member} of more than {_MAX_BYTES} bytes; take single pages with"
                                f" list_{member}_page()")
    raise ProtocolError(f"{name} lists more than {_MAX_PAGES} pages or {_MAX_ITEMS} {member}; take single pages"
                        f" with list_{member}_page()")


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
        #: The extensions of the protocol; None without any.
        self._extensions: "Optional[ClientExtensions]" = None
        #: Whether they add to the params of requests.
        self._adds_params = False

    @property
    def time_limits(self) -> Tuple[Optional[float], Optional[float]]:
        """The timeouts of calls without timeouts of their own: without progress, and in all."""
        return self._timeout, self._max_timeout

    @abstractmethod
    def use_extension(self, identifier: str, make: Callable[[], Extension]) -> Extension:
        """Return the extension of this identifier; it is made and added if there is none yet, or one with settings alone."""

    @abstractmethod
    def _available_session(self) -> Optional[FeatureSession]:
        """Return the session; None if it has to be waited for or opened, or cannot be used."""

    @abstractmethod
    def _wait_for_session(self, waiting: Waiting) -> FeatureSession:
        """Return the session, once it is open.

        :raises ConnectionClosed: the connection is not open.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """

    def _session_for(self, options: RequestOptions) -> Tuple[FeatureSession, RequestOptions]:
        """Return the open session, and the keywords of the call with the time that opening it took.

        :raises ConnectionClosed: the connection is not open.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """
        session = self._available_session()
        if session is None:
            seconds, most = time_limits(options.timeout, options.max_timeout, (self._timeout, self._max_timeout))
            waiting = Waiting(seconds, most, options.cancel, spent=options.spent)
            session = self._wait_for_session(waiting)
            options = options._replace(spent=waiting.spent)
        return session, options

    def _left_of(self, options: RequestOptions) -> Optional[float]:
        """Return what opening the session has left of a timeout; None without a limit."""
        seconds = self._timeout if options.timeout is DEFAULT else options.timeout
        return None if seconds is None else max(0.001, seconds - options.spent)

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
        session, options = self._session_for(RequestOptions(
            timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state))
        return self._request(session, method, params, options)

    def _request(self, session: FeatureSession, method: str, params: Optional[Dict[str, Any]],
                 options: RequestOptions) -> Dict[str, Any]:
        timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state, spent = options
        if self._adds_params and self._extensions is not None:
            params = self._extensions.params(method, params, session.revision)
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
        if spent:
            call = call._replace(spent=spent)
        return session.request(call) if not self._middleware else self._proceed(session, call, 0)

    def send(self, call: Call) -> Dict[str, Any]:
        """Send a request that was made elsewhere, such as one that a server passes on; see :meth:`request`."""
        session = self._available_session()
        if session is None:
            waiting = Waiting(call.timeout, call.max_timeout, call.cancel, spent=call.spent)
            session = self._wait_for_session(waiting)
            call = call._replace(spent=waiting.spent)
        return session.request(call) if not self._middleware else self._proceed(session, call, 0)

    def _proceed(self, session: FeatureSession, call: Call, index: int) -> Dict[str, Any]:
        """Run the middleware from one position on, and send the request after the last."""
        if index == len(self._middleware):
            return session.request(call)
        return self._middleware[index](call.method, call.params, lambda: self._proceed(session, call, index + 1))

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Send any notification."""
        session, options = self._session_for(RequestOptions())
        session.notify(method, params, self._left_of(options))

    def ping(self, *, timeout: Optional[float] = DEFAULT) -> None:
        """Send a ping, or ``server/discover`` in revisions without one, and return when the server has answered."""
        session, options = self._session_for(RequestOptions(timeout))
        self._request(session, "ping" if "ping" in session.revision.client_requests else "server/discover", None, options)

    def _require(self, options: RequestOptions, capability: str, method: str, flag: Optional[str] = None
                 ) -> Tuple[FeatureSession, RequestOptions]:
        """Return the open session, and the keywords of the call, if the server declared a capability.

        :raises NotSupported: it did not; nothing was sent.
        """
        session, options = self._session_for(options)
        declared = getattr(session.capabilities, capability)
        if declared is None or (flag is not None and not declared.get(flag)):
            name = capability if flag is None else f"{capability}.{flag}"
            raise NotSupported(f"{session.name} did not declare the capability {name!r}, so {method!r} was not sent")
        return session, options

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
        session, options = self._session_for(options)
        _, most = time_limits(options.timeout, options.max_timeout, (self._timeout, self._max_timeout))
        begun = session.now() - options.spent

        def next_page(cursor: Optional[str]) -> Any:
            given = options if cursor is None else options._replace(spent=0.0)
            if most is None:
                return page(cursor, given)
            left = begun + most - session.now()
            try:
                if left > 0:
                    return page(cursor, given if cursor is None else given._replace(max_timeout=left))
            except RequestTimeout:
                if session.now() < begun + most:
                    raise
            raise RequestTimeout(f"{session.name}: not all pages of its {member} came within {most:g} s (max_timeout)")

        try:
            return walk(next_page, member, session.name)
        except InvalidParams:
            # CACHE-16: cached pages may have cursors that are no longer valid.
            if options.fresh or not session.revision.modern:
                raise
        options = options._replace(fresh=True, spent=session.now() - begun)
        return walk(next_page, member, session.name)


def unreadable(error: ProtocolError, session: FeatureSession, method: str) -> ProtocolError:
    """Return the error for a result that is not one of its method."""
    return ProtocolError(f"{session.name} answered {method!r} with an invalid result: {error}", error.raw)
