"""A child's stderr: a thread always reads it, keeps its tail, and passes its lines on.

So the child does not block on a full pipe, unless the code that takes the lines is slow.
"""

import codecs
import io
import os
import re
import threading
from typing import IO, TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union, cast

from ...errors import TransportError
from ...protocol.error_text import printable
from ...rpc.deadline import Deadline
from ...rpc.forks import release, renew
from ...rpc.stdio.descriptors import open_input
from ...rpc.threads import Loop, start_thread, wait_for_end
from ...rpc.tracing import get_logger
from ...types.lazy_dataclass import Record, record

if TYPE_CHECKING:
    import logging

__all__ = ["Labelled", "StderrPump", "StderrTarget", "open_sink", "stderr_of"]

_log = get_logger(__name__)
#: The parts of a server's name that are replaced in the name of a file.
_NO_FILE_NAME = r"[^\w.-]|^\.+"


@record(frozen=True)
class Labelled(Record):
    """A target for the lines of one of several servers; each line begins with the server's name, the label."""

    target: Union[str, "os.PathLike[str]", Callable[[str], object], IO[Any], "logging.Logger"]
    label: str


#: Where a child's stderr goes, besides the tail that is always kept.
StderrTarget = Union[None, str, "os.PathLike[str]", Callable[[str], object], IO[Any], "logging.Logger", Labelled]


def stderr_of(server: str, target: StderrTarget) -> StderrTarget:
    """Return the target for the stderr of one of several servers: a file of its own, or the common target with a label.

    :param target: as for ``connect_all``.
    """
    if target is None or target == "inherit" or isinstance(target, Labelled):
        return target
    if isinstance(target, (str, os.PathLike)) and "{name}" in os.fspath(target):
        return os.fspath(target).replace("{name}", re.sub(_NO_FILE_NAME, "_", server))
    return Labelled(target, server)

#: Bytes of the tail.
_TAIL_BYTES = 64 << 10
#: A line that does not end is passed on in pieces of this many characters.
_LONGEST_LINE = 64 << 10
#: How many chunks are still read when the pump is stopped; a pipe holds one, or sixteen when it was enlarged.
_MOST_CHUNKS_AFTER_STOP = 17
#: Seconds that closing waits for the sink that takes a line.
_SINK_SECONDS = 2.0


class Sink(NamedTuple):
    """Takes the lines of one child."""

    #: Called with each line, without its end; None to discard them.
    write: Optional[Callable[[str], object]]
    #: Called after the last line; a sink that owns nothing has nothing to close.
    close: Callable[[], object] = lambda: None


def open_sink(target: StderrTarget) -> Sink:
    """Return the sink for ``stderr=target``.

    :param target: a callable gets each line as text; a logger gets each line at level INFO; a file object gets text or
        bytes, as it was opened; a file at a path is appended to, as UTF-8; a :class:`Labelled` gets each line behind its
        label; None discards the lines.
    :raises TransportError: the file cannot be opened.
    :raises TypeError: it is something else.
    """
    if target is None:
        return Sink(None)
    if isinstance(target, Labelled):
        sink, label = open_sink(target.target), printable(target.label)
        write = sink.write
        return Sink(None if write is None else lambda line: write(f"{label}: {line}"), sink.close)
    if isinstance(target, (str, os.PathLike)):
        path = os.path.abspath(os.fspath(target))
        try:
            file = open(path, "a", encoding="utf-8", errors="replace")
        except OSError as error:
            raise TransportError(f"stderr: cannot write to {path}: {error.strerror}") from error
        return Sink(_writer(file), file.close)
    if hasattr(target, "write"):
        return Sink(_writer(cast(IO[Any], target)))
    if callable(target):
        return Sink(target)
    import logging  # which the caller has loaded if it is a logger

    if isinstance(target, logging.Logger):
        logger = target
        return Sink(lambda line: logger.info("%s", printable(line)))
    raise TypeError(f"stderr must be a callable, a logger, a file, a path, 'inherit' or None,"
                    f" not {type(target).__name__}")


def _writer(file: IO[Any]) -> Callable[[str], object]:
    """Return a function that writes one line to a file object, in text or in bytes."""
    binary = isinstance(file, (io.RawIOBase, io.BufferedIOBase)) or "b" in str(getattr(file, "mode", ""))

    def write(line: str) -> None:
        text = line + "\n"
        file.write(text.encode("utf-8", "replace") if binary else text)
        file.flush()

    return write


class StderrPump:
    """Reads a child's stderr until it ends, so that the child does not block on a full pipe (STD-06, REL-05).

    :param fd: our end of the pipe; the pump closes it.
    :param sink: takes the lines; while it is slow, the child blocks once its pipe is full.
    :param name: the child's, for logs.
    :raises TransportError: the system has no descriptors for it.
    """

    def __init__(self, fd: int, sink: Sink, name: str) -> None:
        # A grandchild may keep stderr open without end, and so the wait for it can be ended.
        self._source = open_input(fd, f"stderr of {name}")
        self._sink = sink
        self._name = name
        #: Guards ``_tail``; held while a chunk is added or the tail is copied.
        self._lock = threading.Lock()
        self._tail = bytearray()
        self._finished = threading.Event()
        self._failed = False
        #: Set when no more lines are passed on, since the channel is closed.
        self._dropping = False
        self._stopping = False
        self._chunks_left = _MOST_CHUNKS_AFTER_STOP
        self._line = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Start the thread.

        :raises TransportError: the system has no thread for it.
        """
        # Ended by the end of stderr or by stop(); blocks on stderr and in the sink.
        self._thread = start_thread(self._run, f"mcplite stderr of {self._name}")

    @property
    def tail(self) -> str:
        """The last 64 KiB, as text."""
        with self._lock:
            kept = bytes(self._tail[-_TAIL_BYTES:])
        return kept.decode("utf-8", "replace")

    def wait(self, timeout: float) -> bool:
        """Wait for the end of stderr; return whether it came."""
        return self._finished.wait(timeout)

    def stop(self, timeout: float) -> None:
        """Make the thread read what has arrived, and end; wait for it up to *timeout* seconds, and two more for a slow sink."""
        self._stopping, thread = True, self._thread
        self._source.end()
        if thread is not None and threading.get_ident() == thread.ident:
            return
        if not self.wait(timeout):
            # The sink still takes a line. No further line is passed to it.
            self._dropping = True
            self.wait(_SINK_SECONDS)
        if thread is not None and self._finished.is_set():
            wait_for_end(thread, Deadline(timeout))

    def discard(self) -> None:
        """Free the descriptors, when the thread was not started."""
        self._source.close()

    def let_go(self) -> None:
        """Release all descriptors in a forked process, where the thread does not run."""
        renew(self, self._source)
        for fd in self._source.owned:
            release(fd)

    def _run(self) -> None:
        try:
            # The Loop goes on after a fault: if the thread ended, the child would block once its pipe is full. A fault loses at
            # most the chunk that was read.
            Loop(f"stderr of {self._name}", self._pump, failed=lambda error: None).run()
            self._guard(self._pass_rest)
        finally:
            try:
                self._guard(self._sink.close)
            finally:
                self._finished.set()
                self._source.close()

    def _pump(self) -> None:
        """Read chunks and pass their lines on, until the end."""
        while self._ready():
            chunk = next(map(*self._source.next_chunk))
            if not chunk:
                return
            self._keep(chunk)
            self._pass_lines(self._decoder.decode(chunk))

    def _pass_rest(self) -> None:
        self._pass_lines(self._decoder.decode(b"", final=True))
        if self._line:
            self._send(self._line)

    def _ready(self) -> bool:
        """Wait until stderr can be read; return False when the pump was stopped and has read the rest."""
        ready = [fd for fd, _ in self._source.poll()]
        # Bounded: a grandchild may never stop writing.
        self._chunks_left -= self._stopping
        return self._source.fd in ready and self._chunks_left > 0

    def _keep(self, chunk: bytes) -> None:
        with self._lock:
            self._tail += chunk
            if len(self._tail) > 2 * _TAIL_BYTES:
                del self._tail[:-_TAIL_BYTES]

    def _pass_lines(self, text: str) -> None:
        if self._sink.write is None or not text:
            return
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._send(line[:-1] if line.endswith("\r") else line)
        while len(self._line) > _LONGEST_LINE:
            piece, self._line = self._line[:_LONGEST_LINE], self._line[_LONGEST_LINE:]
            self._send(piece)

    def _send(self, line: str) -> None:
        write = self._sink.write
        if write is not None and not self._dropping:
            self._guard(lambda: write(line))

    def _guard(self, step: Callable[[], object]) -> None:
        """Run *step* of the sink; its first error is logged, since the child's stderr has to be read all the same."""
        try:
            step()
        except Exception:
            if not self._failed:
                self._failed = True
                _log.exception("the stderr sink of %s failed; further failures are not logged", self._name)
