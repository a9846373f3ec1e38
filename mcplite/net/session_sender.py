"""Sends by a session of ``requests`` as a program that uses ``requests`` does: each request is one call of its ``request``.

So its adapters, ``Retry``, parameters, cookies, hooks and authentication do what they always do, and so does what overrides
or replaces its methods. :mod:`.origin_client` chooses it for a session of the user's, and where a library has replaced parts of
``requests``. ``requests`` and ``urllib3`` are imported at the top, so this module is imported with the first such sender.
"""

from http.client import RemoteDisconnected
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ProxyError, RetryError, SSLError
from requests.utils import default_user_agent, get_auth_from_url
from urllib3.exceptions import NewConnectionError, ProtocolError
from urllib3.util import Timeout

from ..errors import MCPError, TransportError
from ..protocol.error_text import shown
from ..protocol.http.wellknown import is_loopback
from ..rpc.forks import on_fork
from ..rpc.threads import Workers
from .adapter import renew_connections
from .adapter_sender import keep_no_cookies, merged_settings, proxy_for
from .exchange import Exchange, Stopped
from .interruptible_call import ThreadedCall
from .response import Reply
from .session_body import SessionBody, break_connection
from .settings import HTTPSettings, Verify

__all__ = ["SessionSender"]


def _unchanged(request: Any) -> Any:
    """Authenticate a request by what it has already; ``requests`` would take a password from ``.netrc`` (SEC-66)."""
    return request


class _AttemptLimit(Timeout):
    """The limit of each attempt that an adapter makes, which asks for a copy first; none begins once the caller has left.

    :param connect: seconds; reads have no limit, since the caller stops waiting by itself.
    """

    def __init__(self, connect: float, call: ThreadedCall) -> None:
        super().__init__(connect=connect, read=None)
        self._seconds, self._call = connect, call

    def clone(self) -> Timeout:
        self._call.check()
        return _StartedLimit(self._seconds, self._call)

    def __iter__(self) -> Iterator[Optional[float]]:
        """Let an adapter of the user's take it apart, as the pair that ``requests`` documents."""
        return iter((self._seconds, None))


class _StartedLimit(Timeout):
    """The limit of one attempt, whose response is not waited for if the caller has left while it connected.

    Until there is a connection, nothing is found that could be ended: :func:`~.session_body.break_connection`.
    """

    def __init__(self, connect: float, call: ThreadedCall) -> None:
        super().__init__(connect=connect, read=None)
        self._seconds, self._call = connect, call

    def clone(self) -> Timeout:
        return _StartedLimit(self._seconds, self._call)

    @property
    def read_timeout(self) -> Any:
        self._call.check()
        return super().read_timeout


class SessionSender:
    """Sends requests to one origin by a session; any thread may use it.

    :param session: the user's, or one of our own, which then keeps no cookies (SEC-66) and is closed with the sender.
    :param headers: of all requests, besides the session's.
    :param auth: what ``requests`` takes, in place of the session's; None for that.
    :param stays_here: whether requests to this machine must not leave it for a proxy of the environment.
    """

    def __init__(self, url: str, settings: HTTPSettings, headers: Mapping[str, str], host: str, auth: Any,
                 stays_here: bool) -> None:
        self._owns_session = settings.session is None
        self._session: Any = requests.Session() if settings.session is None else settings.session
        if self._owns_session:
            keep_no_cookies(self._session)
        self._headers, self._auth = dict(headers), auth
        self._has_credentials = settings.auth is not None
        self._names_itself = "user-agent" in {name.lower() for name in settings.headers or {}}
        merged = merged_settings(url, settings, host, stays_here, self._session)
        self.proxied = proxy_for(url, merged) is not None
        self.verify: Verify = merged["verify"]
        self._options: Dict[str, Any] = {"allow_redirects": False, "stream": True}
        self._options.update((name, value) for name, value in (("verify", settings.verify), ("cert", settings.cert))
                             if value is not None)
        self._proxies = dict(settings.proxies or {})
        if stays_here and is_loopback(host):
            self._proxies["no_proxy"] = host.strip("[]")  # of the environment's: AUTH-35, AUTH-39
        base = requests.PreparedRequest()
        base.prepare("POST", url, headers={name: value for name, value in {**self._session.headers, **headers}.items()
                                           if value is not None})
        self.headers: Any = base.headers
        #: As ``requests`` writes it, without the fragment and without the session's parameters.
        self.url = str(base.url)
        self._url_auth = get_auth_from_url(self.url)
        #: Whether the server has answered a request.
        self._answered = False
        self._workers = self._new_workers()
        on_fork(self, SessionSender._let_go)

    @staticmethod
    def _new_workers() -> Workers:
        # spawn() takes no place. A thread ends after half a minute without a request, or with close().
        return Workers(1, 0, "mcplite session")

    def _let_go(self, owner: int) -> None:
        # In a forked process: the threads are not there, and the idle connections belong to the other one.
        self._workers = self._new_workers()
        for adapter in self._session.adapters.values():
            if isinstance(adapter, HTTPAdapter):
                renew_connections(adapter, owner)

    def send(self, exchange: Exchange, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes],
             connect_seconds: float) -> Reply:
        """Send a request and return its response, as soon as its head has come.

        :param connect_seconds: for each address.
        :raises TransportError: the session raised an error that is none of the network.
        :raises OSError, ValueError: the server cannot be reached, or the request cannot be sent.
        :raises Stopped: the caller no longer waits.
        """
        bodies: List[SessionBody] = []
        locations: List[str] = []
        received: List[Any] = []

        def note(response: Any, **options: Any) -> None:
            received.append(response)

        def keep_redirect(response: Any, **options: Any) -> None:
            # Redirects are the caller's; for one that it sees, requests reads the body, however long it is.
            if response.is_redirect:
                locations.append(response.headers.pop("location"))

        def request() -> Tuple[Any, SessionBody]:
            options = {**self._options, "timeout": self._limit(url, call, connect_seconds, exchange)}
            auth = self._auth_of_request()
            if auth is not None:
                options["auth"] = auth
            if self._proxies:
                options["proxies"] = self._proxies.copy()  # requests adds those of the environment
            try:
                response = self._session.request(method, url, data=body, headers=self._headers_with(headers),
                                                 hooks=self._hooks_between(note, keep_redirect), **options)
            except requests.HTTPError as error:  # of a hook that calls raise_for_status()
                if error.response is None:
                    raise
                response = error.response
            except BaseException:
                for response in received:
                    response.close()
                raise
            finally:
                received.clear()
            if not isinstance(response, requests.Response):
                raise TypeError(f"request() of the session returned {type(response).__name__}, not a response")
            bodies.append(SessionBody(response, self._workers, exchange))
            if not call.given_up:
                bodies[0].read_ahead()
            return response, bodies[0]

        def interrupt(thread: int) -> None:
            if bodies:
                bodies[0].interrupt()
            else:
                break_connection(thread)

        call = ThreadedCall(request, interrupt, lambda late: late is not None and late[0].close())
        try:
            response, found = call.run(self._workers, exchange)
        except RetryError as error:
            raise TransportError(f"the session gave up on {shown(url)}: {_reason(error)}") from error
        except (OSError, ValueError) as error:
            exchange.may_have_been_sent = _may_have_been_sent(error)
            # Most likely a connection that the server had closed meanwhile.
            exchange.reused = self._answered and _was_closed(error)
            raise
        except (MCPError, Stopped):
            raise
        except Exception as error:
            raise TransportError(f"the session could not send a request to {shown(url)}: {type(error).__name__}:"
                                 f" {str(error)[:300]}") from error
        self._answered = True
        found.attach()
        by_name = {name.lower(): value for name, value in response.headers.items()}
        if locations:
            by_name["location"] = locations[-1]
        if found.decoded:
            by_name.pop("content-encoding", None)
        return Reply(response.status_code, by_name, found, exchange, url)

    def _limit(self, url: str, call: ThreadedCall, connect_seconds: float, exchange: Exchange) -> Any:
        if isinstance(self._session.get_adapter(url), HTTPAdapter):
            return _AttemptLimit(connect_seconds, call)
        return connect_seconds, exchange.remaining()  # what any adapter takes

    def _headers_with(self, headers: Mapping[str, str]) -> Dict[str, str]:
        merged = {**self._headers, **headers}
        if not self._names_itself and self._session.headers.get("User-Agent") not in (None, default_user_agent()):
            del merged["User-Agent"]  # the session's is the user's own
        return merged

    def _hooks_between(self, first: Any, last: Any) -> Dict[str, List[Any]]:
        """Return the session's hooks between two of ours; those of a request stand in place of the session's."""
        given = (self._session.hooks or {}).get("response") or []
        return {"response": [first, *([given] if callable(given) else given), last]}

    def _auth_of_request(self) -> Any:
        """Return what authenticates a request in place of the session's ``auth``; None for that."""
        if self._auth is not None:
            return self._auth
        if self._has_credentials:
            return _unchanged  # they are in a header
        if self._session.auth is not None:
            return None
        return self._url_auth if any(self._url_auth) else _unchanged

    def close(self) -> None:
        """End the idle threads, and the idle connections unless they are of the user's session."""
        self._workers.stop()
        if self._owns_session:
            self._session.close()


def _may_have_been_sent(error: Exception) -> bool:
    """Return whether a request may have reached the server before it failed with an error of ``requests``."""
    if isinstance(error, (ValueError, requests.ConnectTimeout, ProxyError, SSLError)):
        return False
    cause = error.args[0] if error.args else None
    return isinstance(cause, Exception) and not isinstance(getattr(cause, "reason", cause), NewConnectionError)


def _was_closed(error: Exception) -> bool:
    """Return whether the server has closed the connection of a request without a response."""
    cause = error.args[0] if error.args else None
    return (isinstance(cause, ProtocolError)
            and isinstance(cause.args[-1], (RemoteDisconnected, ConnectionResetError, BrokenPipeError)))


def _reason(error: Exception) -> str:
    """Return why the last attempt of an adapter failed."""
    cause = error.args[0] if error.args else error
    return str(getattr(cause, "reason", cause))[:300]
