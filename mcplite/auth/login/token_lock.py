"""The token lock: one thread of all processes obtains a token for a server; the others wait, and share its failure.

Each :class:`~.access.ServerTokens` has one. A module of its own, since waiting between threads and processes is a matter
apart from what the token is obtained for.
"""

import contextlib
import threading
import time
from typing import Callable, Iterator, Optional, Tuple

from ...errors import AuthError
from ...net.exchange import Exchange, Stopped
from ...rpc.forks import on_fork
from .stores import Store

__all__ = ["TokenLock"]

#: Seconds that a waiting thread blocks before it checks whether its caller still waits.
_SLICE_SECONDS = 0.25
#: Seconds that another process may take for a login or a refresh: twice what a user has by default.
_MOST_SECONDS = 600.0


class TokenLock:
    """The right to obtain a token for one server.

    :param store: whose lock keeps other processes out.
    :param key: of the token in the store.
    :param name: of the server, for errors.
    """

    def __init__(self, store: Store, key: str, name: str) -> None:
        self._store, self._key, self._name = store, key, name
        #: Held by the thread that obtains a token, also while it asks a user; the others wait for it in slices.
        self._threads = threading.Lock()
        #: How many attempts have failed, and the last one since there was a token: its aim, and its error. They change under
        #: the lock, and are read without it.
        self.failures = 0
        self._failure: Optional[Tuple[object, Exception]] = None
        on_fork(self, TokenLock._let_go)

    def _let_go(self, owner: int) -> None:
        # In a process that is forked during a login, no thread would release the lock; the thread that forked may try to.
        self._threads = threading.Lock()

    def on_success(self) -> None:
        """Note that there is a token, so that earlier failures are over."""
        self._failure = None

    @contextlib.contextmanager
    def hold(self, exchange: Exchange, aim: object = None, since: Optional[int] = None) -> Iterator[None]:
        """Wait for the lock and hold it for the block.

        :param aim: what the token is for. Threads that wait for the same one fail together; None is any token.
        :param since: the value of :attr:`failures` that the caller knows of; by default the present one.
        :raises AuthError: an attempt with the same aim has failed meanwhile; each thread would ask the user again (AUTH-46).
        :raises Stopped: the caller no longer waits.
        """
        failures = self.failures if since is None else since
        if not exchange.may_log_in:
            aim = exchange  # its failure is its own: others may ask a user
        with contextlib.ExitStack() as waiting:
            waiting.enter_context(exchange.paused())  # another thread may be asking a person
            threads = self._threads
            while not threads.acquire(timeout=_SLICE_SECONDS):
                exchange.next_timeout()
            try:
                failure = self._failure
                if self.failures != failures and failure is not None and failure[0] == aim:
                    raise AuthError(str(failure[1]), error=getattr(failure[1], "error", ""),
                                    status=getattr(failure[1], "status", 0)) from failure[1]
                try:
                    with self._store.lock(self._key, self._check(exchange)):
                        waiting.close()  # From here on the call's clock runs again.
                        yield
                except Stopped:
                    raise  # the next thread takes over
                except Exception as error:  # a store's or a user agent's own as well
                    self.failures, self._failure = self.failures + 1, (aim, error)
                    raise
            finally:
                threads.release()

    def _check(self, exchange: Exchange) -> Callable[[], None]:
        """Return what is called while another process holds the lock; that process may have been stopped meanwhile."""
        end = time.monotonic() + _MOST_SECONDS

        def check() -> None:
            exchange.next_timeout()
            if time.monotonic() > end:
                raise AuthError(f"another process has been getting a token for {self._name} for {_MOST_SECONDS:g} s; look for"
                                " one that is stopped, or in the middle of a login")

        return check
