"""The stdio transport: serves one client on stdin and stdout.

While it serves, descriptor 0 is the null device and descriptor 1 is stderr, so that neither ``print`` nor a C library
nor a child process can write between the messages or consume one (STD-03, REL-19, REL-20). The main thread only waits
for the end, so that signals are not delayed by a handler.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from typing import Any, BinaryIO, Iterator, List, Optional, Tuple, cast

from ...errors import TransportError
from ...rpc.deadline import Deadline
from ...rpc.forks import release
from ...rpc.stdio.pipes import PipeChannel
from ...rpc.threads import start_thread
from ...rpc.tracing import get_logger
from ..runtime.runtime import Runtime
from ..sessions.legacy import serve_channel
from .signals import StopRequest, stop_signals

__all__ = ["own_streams", "serve_stdio"]

_log = get_logger(__name__)
#: Held by the server that uses descriptors 0 and 1, which exist once in a process.
_CLAIM = threading.Lock()
#: Duplicates of the descriptors that were 0 and 1, while others are in their places.
_SAVED: List[int] = []
#: If handlers are cancelled after the end of stdin, they have the rest of ``Limits.grace`` to return, or at least this part.
_LAST_PART = 0.25


class _Output(io.RawIOBase):
    """Takes what is printed while descriptor 1 is stderr.

    ``print`` in a handler must not fail, not even after a handler has closed ``sys.stdout``, or when nothing reads stderr.
    """

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def isatty(self) -> bool:
        return os.isatty(1)

    def write(self, data: Any) -> int:
        whole = memoryview(data).cast("B")
        rest = whole
        while rest:
            try:
                rest = rest[os.write(1, rest):]
            except OSError:
                break  # stderr is full, or its reader is gone: there is no other place to say so
        return len(whole)

    def close(self) -> None:
        """Leave it open, since others print as well."""


class _StdioChannel(PipeChannel):
    """The channel to the client. A process that a handler forks closes its copies: the client then sees the end of ours."""

    def let_go(self, owner: int) -> None:
        super().let_go(owner)
        for fd in _SAVED:
            release(fd)


def _fill_descriptors() -> None:
    """Open the null device in place of those of the descriptors 0 to 2 that are closed.

    Otherwise the next file that is opened gets such a number, for instance the one that leads to the client.

    :raises SystemExit: there is no stdin or no stdout, and so no client.
    """
    closed = []
    for number, stream, name in ((0, sys.__stdin__, "stdin"), (1, sys.__stdout__, "stdout"), (2, sys.__stderr__, "stderr")):
        try:
            os.fstat(number)
            if stream is not None:
                continue  # without the stream, it is a file that the program opened while the number was free
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null == number:
                os.set_inheritable(null, True)
            else:
                os.dup2(null, number)
                os.close(null)
        if number < 2:
            closed.append(f"{name} (descriptor {number})")
    if closed:
        raise SystemExit(f"start the server with a pipe, a file or a terminal as its stdin and stdout: {' and '.join(closed)}"
                         f" {'is' if len(closed) == 1 else 'are'} closed, so that no client can reach it")


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except (AttributeError, OSError, ValueError):
        return  # there is none, its reader is gone, or it is closed: what was printed has no reader


def _leads_to_descriptor(stream: Any) -> bool:
    """Whether what is printed to this stream comes out at descriptor 1, or would do so if it were not closed."""
    try:
        return bool(stream.closed or stream.fileno() == 1)
    except (AttributeError, OSError, ValueError):
        return False


@contextlib.contextmanager
def own_streams() -> Iterator[Tuple[int, int]]:
    """Move stdin and stdout to new descriptors, which only we use, within the block.

    :raises RuntimeError: another server in this process uses them.
    :raises SystemExit: one of them is closed.
    """
    if not _CLAIM.acquire(blocking=False):
        raise RuntimeError("another server in this process already uses stdin and stdout")
    try:
        _fill_descriptors()
        printed = sys.stdout
        _flush(printed)
        # Children do not inherit the duplicates; they inherit the replacements.
        read_fd, write_fd = os.dup(0), os.dup(1)
        _SAVED[:] = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null if sys.__stderr__ is None else 2, 1)
        os.close(null)
        # Like stderr, it takes every character in every locale.
        encoding = getattr(printed, "encoding", None) or "utf-8"
        output = io.TextIOWrapper(cast("BinaryIO", _Output()), encoding, "backslashreplace", line_buffering=True)
        if _leads_to_descriptor(printed):
            sys.stdout = output
        try:
            yield read_fd, write_fd
        finally:
            for stream in (output, printed, sys.stdout):
                _flush(stream)
            if sys.stdout is output:
                sys.stdout = printed
            while _SAVED:
                kept = _SAVED.pop()
                os.dup2(kept, len(_SAVED))
                os.close(kept)
    finally:
        _CLAIM.release()


def serve_stdio(runtime: Runtime, *, streams: Optional[Tuple[int, int]] = None, received: bytes = b"") -> None:
    """Serve one client on stdin and stdout until it disconnects, or until SIGINT or SIGTERM.

    After the end of stdin, running requests have ``Limits.grace`` seconds to be answered, as long as the client reads stdout.
    After that, or at once on a signal or if the client stops reading, the tokens of running handlers are cancelled, and the
    handlers have ``Limits.grace`` seconds to return. After the end of stdin they have what is left of the first
    ``Limits.grace`` seconds, or at least a quarter of it. A handler that does not return is logged and abandoned; its
    thread is a daemon.

    :param runtime: of the server.
    :param streams: the descriptors, if the caller has already taken them with :func:`own_streams`.
    :param received: what the caller has read from these descriptors.
    :raises RuntimeError: another server in this process uses stdin and stdout.
    :raises SystemExit: one of them is closed.
    """
    end = StopRequest()
    with contextlib.ExitStack() as stack:
        read_fd, write_fd = streams or stack.enter_context(own_streams())
        stack.enter_context(stop_signals(end.set))
        channel = _StdioChannel(read_fd, write_fd, name="the client", line_limit=runtime.limits.line_bytes,
                                end_unread=True)
        if received:
            channel.put_back(received)
        workers = runtime.workers
        # Its session is a LegacySession, which hands requests without a handshake to its SessionlessHandler.
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
            grace = runtime.limits.grace
            if peer.ending is not None:
                grace = max(peer.ending.remaining() or 0.0, _LAST_PART * grace)
            if not workers.drain(Deadline(grace)):
                workers.log_stuck(_log)
            runtime.close()
