"""The stdio host: one client on stdin and stdout, which it keeps from everybody else.

From the start on, descriptor 0 is the null device and descriptor 1 is stderr, so that neither
``print`` nor a C library nor a child process can write between the messages or eat one (STD-03,
REL-19, REL-20). The main thread only waits for the end, so signals never wait behind a handler.
"""

import contextlib
import logging
import os
import queue
import sys
import threading
from typing import Iterator, Optional, Tuple

from ...rpc.deadline import Deadline
from ...rpc.pipes import PipeChannel
from ..runtime.runtime import Runtime
from ..sessions.opening import serve_channel
from .signals import sleep_until_told, stop_signals

__all__ = ["own_streams", "serve"]

_log = logging.getLogger(__name__)
#: Descriptors 0 and 1 belong to the process, so there is one claim on them for the whole process.
_CLAIM = threading.Lock()


@contextlib.contextmanager
def own_streams() -> Iterator[Tuple[int, int]]:
    """Move stdin and stdout to descriptors of our own for the time of the block."""
    if not _CLAIM.acquire(blocking=False):
        raise RuntimeError("stdin and stdout already serve another server in this process; only one can have them")
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        # Copies are not inherited by children; what children inherit are the stand-ins.
        read_fd, write_fd = os.dup(0), os.dup(1)
        saved = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        try:
            yield read_fd, write_fd
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
            for fd, kept in enumerate(saved):
                os.dup2(kept, fd)
                os.close(kept)
    finally:
        _CLAIM.release()


def serve(runtime: Runtime, *, streams: Optional[Tuple[int, int]] = None) -> None:
    """Serve one client on stdin and stdout until it leaves or the process is told to stop.

    At the end every running handler finds its token cancelled and has ``Limits.grace`` seconds to
    return; one that does not is named in the log and left behind, since its thread is a daemon.

    :param runtime: of the server.
    :param streams: the descriptors, when the caller has taken them with :func:`own_streams` already.
    :raises RuntimeError: stdin and stdout are taken already.
    """
    # No Event: a signal that interrupts the main thread on its way into wait(), where it holds the
    # event's lock, could never set it. The put() of this queue may interrupt its get().
    ended: "queue.SimpleQueue[None]" = queue.SimpleQueue()

    def stop() -> None:
        ended.put(None)

    with contextlib.ExitStack() as stack:
        read_fd, write_fd = streams or stack.enter_context(own_streams())
        stack.enter_context(stop_signals(stop))
        channel = PipeChannel(read_fd, write_fd, name="the client", line_limit=runtime.limits.message_bytes)
        workers = runtime.workers
        peer = serve_channel(runtime, channel, on_close=stop)
        try:
            sleep_until_told(ended)
        finally:
            if len(runtime.subscriptions):
                # A client that does not read must not hold this up; the thread ends with the pipe.
                ending = threading.Thread(target=runtime.subscriptions.end, args=(peer,), name="mcplite goodbye", daemon=True)
                ending.start()
                ending.join(runtime.limits.grace)
            peer.cancel_all("the server is stopping")
            if not workers.drain(Deadline(runtime.limits.grace)):
                for where in workers.stuck():
                    _log.warning("a handler still runs at the end, in %s", where)
            runtime.close()
