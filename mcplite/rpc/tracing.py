"""The records of a connection: loggers, a trace of every message, counters, warnings and faults at a bounded rate.

The trace shows time, direction, size and text, with secrets masked (:mod:`.masks`, NS-31).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Hashable, Optional, Tuple, Union, cast

from .forks import new_rlock

if TYPE_CHECKING:
    import logging

__all__ = [
    "Counters", "ERROR", "FaultLog", "INFO", "PeerLog", "RateLog", "Trace", "WARNING", "get_logger", "trace_for",
]

#: The levels of the standard library.
INFO, WARNING, ERROR = 20, 30, 40
_SHOWN_CHARACTERS = 2000
#: The names of the standard streams.
_DESCRIPTORS = {"/dev/stdout": 1, "/dev/stderr": 2, "/dev/fd/1": 1, "/dev/fd/2": 2, "/proc/self/fd/1": 1, "/proc/self/fd/2": 2}
_VARIABLE = "MCPLITE_DEBUG"
#: Lines about one cause in so many seconds, tracebacks of one place in so many, and causes that are told apart.
_LINES, _LINES_SECONDS = 10, 10.0
_TRACEBACKS, _TRACEBACKS_SECONDS = 5, 60.0
_CAUSES = 1000
#: Seconds of the pause after the first fault; doubled while faults follow one another, up to the longest.
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
#: Seconds without a fault after which the next one counts as the first.
_CALM_SECONDS = 5.0
#: Seconds between two lines of the log while faults follow one another.
_LINE_SECONDS = 10.0


class _Logger:
    """Stands for a logger of the standard library, which is loaded with the first line that is written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._loaded: "Optional[logging.Logger]" = None

    def isEnabledFor(self, level: int) -> bool:
        # A program that has not loaded the library has set no level: lines below WARNING are not written.
        return self.__getattr__("isEnabledFor")(level) if "logging" in sys.modules else level >= WARNING

    def __getattr__(self, name: str) -> Any:
        if self._loaded is None:
            if name in ("debug", "info") and "logging" not in sys.modules:
                return _write_nothing
            try:
                import logging
            except (ImportError, OSError):
                return _write_to_stderr  # no descriptor is left to read the library with
            self._loaded = logging.getLogger(self.name)
        return getattr(self._loaded, name)


def _write_nothing(*line: object, **options: object) -> None:
    """Drop a line whose level is below WARNING."""


def _write_to_stderr(*line: object, **options: object) -> None:
    print(*line, file=sys.stderr)


def get_logger(name: str) -> "logging.Logger":
    """Return the logger of this name, as ``logging.getLogger`` does, but without loading the library before it has a line.

    Most processes never log, and the library is a twentieth of what a server imports.
    """
    return cast("logging.Logger", _Logger(name))


_log = get_logger(__name__)


class Counters:
    """What has passed over one connection since it was opened."""

    def __init__(self) -> None:
        self.messages_sent = 0
        self.messages_received = 0
        self.bytes_sent = 0
        self.bytes_received = 0
        #: Input that was not a message, responses to no call, duplicate ids.
        self.refused = 0

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, Counters) else NotImplemented

    def __repr__(self) -> str:
        return f"Counters({', '.join(f'{name}={count}' for name, count in vars(self).items())})"


class RateLog:
    """Passes warnings on to a logger until there are too many of them in one second.

    For what a peer can cause. What has different causes has different objects, so that one flood hides no other warning.

    :param logger: where the lines go.
    :param most: how many lines a period may carry; default 10.
    :param seconds: the period; default 1.
    """

    def __init__(self, logger: "logging.Logger", most: int = 10, seconds: float = 1.0) -> None:
        self._logger = logger
        self._most = most
        self._seconds = seconds
        #: Guards the three counters below; held for assignments only.
        self._lock = new_rlock()
        self._period = -1
        self._lines = 0
        self._held_back = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Log one line as a warning, or count it as held back."""
        self._write(WARNING, message, arguments)

    def error(self, message: str, *arguments: object) -> None:
        """Log one line as an error, or count it as held back."""
        self._write(ERROR, message, arguments)

    def _write(self, level: int, message: str, arguments: Tuple[object, ...]) -> None:
        held_back = self.take()
        if held_back is None:
            return
        if held_back:
            self._logger.log(level, "%d more warnings like these were held back", held_back)
        self._logger.log(level, message, *arguments)

    def take(self) -> Optional[int]:
        """Count one line; return how many were held back before it, or None if it is held back itself."""
        period = int(time.monotonic() / self._seconds)
        with self._lock:
            held_back = 0
            if period != self._period:
                self._period, self._lines = period, 0
                held_back, self._held_back = self._held_back, 0
            self._lines += 1
            if self._lines > self._most:
                self._held_back += 1
                return None
        return held_back


class PeerLog:
    """The log of what peers can cause, of all connections of a server together: each cause has a bounded rate of its own.

    A cause is a logger and a text before its arguments are filled in; both stand in the code, so their number is bounded.
    """

    def __init__(self) -> None:
        #: Guards ``_rates``; held for dictionary work only.
        self._lock = new_rlock()
        self._rates: Dict[Hashable, RateLog] = {}

    def log(self, logger: "logging.Logger", level: int, message: str, *arguments: object) -> None:
        """Write one line, or count it as held back: ten lines of one cause are written in ten seconds."""
        if not logger.isEnabledFor(level):
            return
        held_back = self._rate((logger.name, message), logger, _LINES, _LINES_SECONDS).take()
        if held_back is not None:
            if held_back:
                logger.log(level, "%d more lines like the next were held back", held_back)
            logger.log(level, message, *arguments)

    def failure(self, logger: "logging.Logger", message: str, *arguments: object) -> None:
        """Write a line about the exception that is being handled.

        With a traceback it is written five times a minute for each place where such an exception is raised; beyond that,
        with its text, as :meth:`log` does.
        """
        error, trace = sys.exc_info()[1:]
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        if self._rate((message, type(error), place), logger, _TRACEBACKS, _TRACEBACKS_SECONDS).take() is not None:
            logger.error(message, *arguments, exc_info=True)
            return
        try:
            text = f"{type(error).__name__}: {str(error)[:200]}"
        except Exception:
            text = type(error).__name__  # its own __str__ fails
        self.log(logger, ERROR, message + ": %s", *arguments, text)

    def _rate(self, cause: Hashable, logger: "logging.Logger", most: int, seconds: float) -> RateLog:
        with self._lock:
            rate = self._rates.get(cause)
            if rate is None:
                if len(self._rates) >= _CAUSES:
                    self._rates.clear()  # exceptions of code that is made at run time
                rate = self._rates[cause] = RateLog(logger, most, seconds)
            return rate


class FaultLog:
    """What one loop does after a fault that must not end it: a line in the log, and a pause.

    A thread that reads, accepts or watches serves as long as its connection or its server is open. One failed system call,
    or one moment without memory, must not end its loop, and a fault that stays must cost neither the processor nor the
    disk. All loops of the package survive in this way.

    :param logger: where the lines go, at ERROR with the traceback.
    :param pause: waits for so many seconds; an event's ``wait`` ends the pause when the loop is to end.
    """

    def __init__(self, logger: "logging.Logger", pause: Callable[[float], object] = time.sleep) -> None:
        self._logger = logger
        self._pause = pause
        #: Guards the fields below; held for assignments only.
        self._lock = new_rlock()
        self._last = self._logged = float("-inf")
        self._in_a_row = self._held_back = 0

    def note(self, what: str, *arguments: object) -> int:
        """Log the exception that is being handled, unless a line was written a moment ago; return how many came in a row.

        :param what: what failed, with the arguments of a log record. One line is written at most every ten seconds.
        """
        now = time.monotonic()
        with self._lock:
            if now - self._last > _CALM_SECONDS + _LONGEST_PAUSE_SECONDS:
                self._in_a_row = 0
            self._last = now
            self._in_a_row += 1
            count, held_back = self._in_a_row, self._held_back
            if count > 1 and now - self._logged < _LINE_SECONDS:
                self._held_back += 1
                return count
            self._logged, self._held_back = now, 0
        # A logger that fails, for want of memory perhaps, must not end the loop either.
        with contextlib.suppress(Exception):
            if held_back:
                self._logger.error("%d more faults like these were held back", held_back)
            self._logger.error(what, *arguments, exc_info=True)
        return count

    def survive(self, what: str, *arguments: object) -> int:
        """Note the exception that is being handled, and pause; return how many came in a row.

        :param what, arguments: as for :meth:`note`.
        """
        count = self.note(what, *arguments)
        seconds = min(_PAUSE_SECONDS * 2 ** min(count - 1, 10), _LONGEST_PAUSE_SECONDS)
        try:
            self._pause(seconds)
        except Exception:
            time.sleep(seconds)  # the wait for an event takes memory, too
        return count

    def keep_running(self, loop: Callable[[], object], what: str, *arguments: object) -> None:
        """Call *loop* until it returns: after each exception again, as :meth:`survive` does it.

        This is the body of a thread. Every exception counts, SystemExit of a user's hook as well: it means the thread, and
        the threads of the package are not a hook's to end. *loop* looks at first whether it shall end, and what it has to
        remember from one fault to the next is not in its own variables.
        """
        while True:
            try:
                loop()
                return
            except BaseException:
                self.survive(what, *arguments)


class Trace:
    """Writes one line for each message.

    :param name: of the peer.
    :param write: takes a line.
    """

    def __init__(self, name: str, write: Callable[[str], object]) -> None:
        self._name = name
        self._write = write
        self._faults = FaultLog(_log)

    def __call__(self, direction: str, data: bytes) -> None:
        """Write one message: *direction* is "->" for sent and "<-" for received. A line that cannot be written is left out."""
        try:
            self._write_line(direction, data)
        except Exception:  # the message is sent, or processed, all the same
            self._faults.note("a message of %s could not be traced", self._name)

    def _write_line(self, direction: str, data: bytes) -> None:
        from .masks import mask  # for those who trace

        # Masked before it is cut, so that a cut cannot leave half of a secret.
        text = mask(data).decode("utf-8", "backslashreplace")
        shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " ..."
        now = time.time()
        stamp = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
        self._write(f"{stamp} {self._name} {direction} {len(data)} bytes {shown}")


class _File:
    """Appends lines to a file that only its owner can read: a trace has what clients send and get."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        #: Keeps one line whole; held while it is written.
        self._lock = new_rlock()
        self._failed = False

    def write(self, line: str) -> None:
        try:
            with self._lock, open(self._path, "a", encoding="utf-8", opener=_open_own) as file:
                file.write(line + "\n")
        except OSError as error:
            # A full disk must not end the connection; it is logged once.
            if not self._failed:
                self._failed = True
                _log.warning("messages cannot be written to %s: %s", self._path, error)


def _open_own(path: str, flags: int) -> int:
    """Open a file of this user's for a trace, and close it to others; raises OSError for a link and what is no regular file.

    A name of a descriptor of this process, as /dev/stderr, which may be a link to anything, is that descriptor.
    """
    if path in _DESCRIPTORS:
        return os.dup(_DESCRIPTORS[path])
    opened = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)
    try:
        state = os.fstat(opened)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "a trace goes into a regular file (debug=True or /dev/stderr shows it on stderr)")
        if sys.platform != "win32" and state.st_mode & 0o077:
            os.fchmod(opened, 0o600)  # of another user's file this fails
    except BaseException:
        os.close(opened)
        raise
    return opened


def trace_for(debug: Union[None, bool, str], name: str) -> Optional[Trace]:
    """Return the trace of one connection; None if tracing is off.

    :param debug: True logs to the logger ``<package>.wire`` and, if that has no handler, to stderr; a
        string is a file to append to; None asks the environment variable MCPLITE_DEBUG ("1" or a file);
        False is off whatever the environment says.
    :param name: of the peer.
    """
    if debug is None:
        value = os.environ.get(_VARIABLE, "")
        debug = {"": False, "0": False, "no": False, "false": False,
                 "1": True, "yes": True, "true": True}.get(value.lower(), value)
    if not debug:
        return None
    if isinstance(debug, str):
        return Trace(name, _File(debug).write)
    import logging  # which shows the trace

    logger = logging.getLogger(__name__.rpartition(".rpc.")[0] + ".wire")
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
        logger.propagate = False
    if not logger.isEnabledFor(INFO):
        logger.setLevel(INFO)
    return Trace(name, logger.info)
