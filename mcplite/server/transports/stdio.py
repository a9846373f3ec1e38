"""The stdio transport: serves one client on stdin and stdout.

While it serves, descriptor 0 is the null device and descriptor 1 is stderr, so that neither ``print`` nor a C library
nor a child process can write between the messages or consume one (STD-03, REL-19, REL-20). The main thread only waits
for the end, so that signals are not delayed by a handler.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Iterator, List, Optional, Tuple

from ...errors import TransportError
from ...rpc.deadline import Deadline
from ...rpc.forks import on_fork, release
from ...rpc.stdio.pipes import PipeChannel
from ...rpc.threads import start_thread
from ...rpc.tracing import get_logger
from ..runtime.runtime import Runtime
from ..sessions.opening import serve_channel
from .signals import StopRequest, stop_signals

__all__ = ["own_streams", "serve_stdio"]

_log = get_logger(__name__)
#: Held by the server that uses descriptors 0 and 1, which exist once in a process.
_CLAIM = threading.Lock()


class _Saved:
    """The descriptors that lead to the client while others stand in for 0 and 1.

    A process that a handler forks lets go of them, so that the client sees the end of this one.
    """

    def __init__(self, fds: List[int]) -> None:
        self.fds = fds
        on_fork(self, _Saved._let_go)

    def _let_go(self, owner: int) -> None:
        for fd in self.fds:
            release(fd)


@contextlib.contextmanager
def own_streams() -> Iterator[Tuple[int, int]]:
    """Move stdin and stdout to new descriptors, which only we use, within the block.

    :raises RuntimeError: another server in this process uses them.
    """
    if not _CLAIM.acquire(blocking=False):
        raise RuntimeError("another server in this process already uses stdin and stdout")
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        # Children do not inherit the duplicates; they inherit the replacements.
        read_fd, write_fd = os.dup(0), os.dup(1)
        saved = _Saved([os.dup(0), os.dup(1)])
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        try:
            yield read_fd, write_fd
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
            while saved.fds:
                kept = saved.fds.pop()
                os.dup2(kept, len(saved.fds))
                os.close(kept)
    finally:
        _CLAIM.release()


def serve_stdio(runtime: Runtime, *, streams: Optional[Tuple[int, int]] = None, received: bytes = b"") -> None:
    """Serve one client on stdin and stdout until it disconnects, or until SIGINT or SIGTERM.

    At the end the tokens of running handlers are cancelled, and the handlers have ``Limits.grace`` seconds to return.
    A handler that does not is logged and abandoned; its thread is a daemon.

    :param runtime: of the server.
    :param streams: the descriptors, if the caller has already taken them with :func:`own_streams`.
    :param received: what the caller has read from these descriptors.
    :raises RuntimeError: another server in this process uses stdin and stdout.
    """
    end = StopRequest()
    with contextlib.ExitStack() as stack:
        read_fd, write_fd = streams or stack.enter_context(own_streams())
        stack.enter_context(stop_signals(end.set))
        channel = PipeChannel(read_fd, write_fd, name="the client", line_limit=runtime.limits.message_bytes)
        if received:
            channel.put_back(received)
        workers = runtime.workers
        peer = serve_channel(runtime, channel, on_close=end.set)
        try:
            end.wait()
        finally:
            if len(runtime.subscriptions):
                # A client that does not read must not block the end; the thread ends with the pipe.
                try:
                    ending = start_thread(lambda: runtime.subscriptions.end(peer), "mcplite subscriptions")
                    ending.join(runtime.limits.grace)
                except TransportError as error:
                    _log.warning("the subscriptions end without a last message: %s", error)
            peer.cancel_all("the server is stopping")
            if not workers.drain(Deadline(runtime.limits.grace)):
                workers.log_stuck(_log)
            runtime.close()
