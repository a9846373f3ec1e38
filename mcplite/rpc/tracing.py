"""Logs: loggers whose lines come at a bounded rate, a trace of every message, and the counters of a connection.

Every line of the package passes one filter, so that neither a peer nor a fault that stays can fill a disk. The trace shows
time, direction, size and text of each message. It masks the values of keys that name secrets, at any depth, also in JSON
within texts.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, Hashable, List, Optional, Tuple, Union, cast

from .deadline import undo

if TYPE_CHECKING:
    import logging

__all__ = [
    "Counters", "INFO", "RateFilter", "Trace", "WARNING", "bounded", "get_logger", "mask", "masked",
    "trace_for",
]

#: Levels of the standard library.
INFO, WARNING = 20, 30
_SHOWN_CHARACTERS = 2000
#: The names of the standard streams.
_DESCRIPTORS = {"/dev/stdout": 1, "/dev/stderr": 2, "/dev/fd/1": 1, "/dev/fd/2": 2, "/proc/self/fd/1": 1, "/proc/self/fd/2": 2}
_VARIABLE = "MCPLITE_DEBUG"
#: Lines about one cause in so many seconds, tracebacks of one place in so many, and causes that are told apart.
_LINES, _LINES_SECONDS = 10, 10.0
_TRACEBACKS, _TRACEBACKS_SECONDS = 5, 60.0
_CAUSES = 1000
#: Held for one line in a file on Windows, which goes to the end of a file and writes there in two steps: of two threads at one
#: moment one would overwrite the other's line. A signal handler may write a line, too, so a thread may take it twice.
_APPENDING: "ContextManager[object]" = nullcontext()
if os.name == "nt":
    import threading

    _APPENDING = threading.RLock()


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
            import logging

            self._loaded = logging.getLogger(self.name)
            self._loaded.addFilter(bounded)
        return getattr(self._loaded, name)


def _write_nothing(*line: object, **options: object) -> None:
    """Drop a line whose level is below WARNING."""


def get_logger(name: str) -> "logging.Logger":
    """Return the logger of this name, as ``logging.getLogger`` does, but without loading the library before it has a line.

    Most processes never log, and the library is a twentieth of what a server imports. The lines pass :data:`bounded`.
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


class RateFilter:
    """A filter of loggers that bounds how many lines come of one cause.

    A cause is a logger and a text before its arguments are filled in, and for an exception its type and the place where it
    was raised. All of them stand in the code, so their number is bounded, and one flood hides no other line.

    - Ten lines of one cause pass in ten seconds. The next line that passes says how many were held back.
    - Five tracebacks of one cause pass in a minute; beyond that the line has the text of the exception in place of it.

    There is no lock, since a signal handler may log where a line is being written: two threads at one moment may miscount.
    """

    def __init__(self) -> None:
        #: By cause: the number of the period, the lines in it, and those that were held back since the last one that passed.
        self._causes: Dict[Hashable, List[int]] = {}

    def filter(self, record: "logging.LogRecord") -> bool:
        """Return whether a line passes; called by its logger. Lines below INFO always do."""
        if record.levelno < INFO:
            return True
        cause: Hashable = (record.name, record.msg)
        if record.exc_info and record.exc_info[1] is not None:
            error, trace = record.exc_info[1:]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            cause = (record.name, record.msg, type(error), place)
            if self._take((cause, "traceback"), _TRACEBACKS, _TRACEBACKS_SECONDS) is None:
                _replace(record, f"{record.getMessage()}: {_text(error)}")
                record.exc_info = None
            else:
                return True
        held_back = self._take(cause, _LINES, _LINES_SECONDS)
        if held_back:
            _replace(record, f"{record.getMessage()} ({held_back} more lines like this one were held back)")
        return held_back is not None

    def clear(self) -> None:
        """Forget all causes: the next line of each passes."""
        self._causes.clear()

    def _take(self, cause: Hashable, most: int, seconds: float) -> Optional[int]:
        """Count one line; return how many were held back before it, or None if it is held back itself."""
        period = int(time.monotonic() / seconds)
        counts = self._causes.get(cause)
        if counts is None:
            if len(self._causes) >= _CAUSES:
                self._causes.clear()  # exceptions of code that is made at run time
            counts = self._causes[cause] = [period, 0, 0]
        held_back = 0
        if period != counts[0]:
            held_back = counts[2]
            counts[:] = period, 0, 0
        counts[1] += 1
        if counts[1] > most:
            counts[2] += 1
            return None
        return held_back


def _replace(record: "logging.LogRecord", text: str) -> None:
    record.msg, record.args = text, ()


def _text(error: Optional[BaseException]) -> str:
    try:
        return f"{type(error).__name__}: {str(error)[:200]}"
    except Exception:
        return type(error).__name__  # its own __str__ fails


#: The filter of all loggers of the package.
bounded = RateFilter()


class Trace:
    """Writes one line for each message.

    :param name: of the peer.
    :param write: takes a line.
    """

    def __init__(self, name: str, write: Callable[[str], object]) -> None:
        self._name = name
        self._write = write

    def __call__(self, direction: str, data: bytes) -> None:
        """Write one message: *direction* is "->" for sent and "<-" for received. A line that cannot be written is left out."""
        try:
            # Masked before it is cut, so that a cut cannot leave half of a secret.
            text = mask(data).decode("utf-8", "backslashreplace")
            shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " ..."
            now = time.time()
            stamp = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
            self._write(f"{stamp} {self._name} {direction} {len(data)} bytes {shown}")
        except Exception:  # the message is sent, or processed, all the same
            _log.exception("a message of %s could not be traced", self._name)


class _File:
    """Appends lines to a file that only its owner can read: a trace has what clients send and get."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._failed = False

    def write(self, line: str) -> None:
        try:
            # One write, which the system appends as a whole.
            with _APPENDING, open(self._path, "ab", 0, opener=_open_own) as file:
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
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
    with undo(lambda: os.close(opened)):
        state = os.fstat(opened)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "a trace goes into a regular file (debug=True or /dev/stderr shows it on stderr)")
        if sys.platform != "win32" and state.st_mode & 0o077:
            os.fchmod(opened, 0o600)  # of another user's file this fails
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


# Text, which ``re`` compiles with the first use: without a trace none is used, and every start would wait for them.
#: Parts of the names of secrets, in lower case and without what separates words.
_SECRETS = ("authorization|token(?!iz)|password|passwd|passphrase|passcode|secret(?!ar)|credential|cookie|apikey"
            "|privatekey|accesskey|accountkey|sharedkey|signingkey|encryptionkey|sessionid|requeststate|codeverifier"
            "|clientassertion|connectionstring|connectionur[il]|databaseur[il]|pincode|pwd$|dsn$")
#: Names of secrets that are parts of ordinary words, too: they count as whole words only.
_SECRET_WORDS = frozenset({"auth", "bearer", "jwt", "otp", "pass", "pin", "pwd", "totp"})
_NAME_WORDS = "[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
#: The ends of names under which a number is a secret, too. Under any other name it is a count or a size.
_SECRET_NUMBERS = "(?:password|passwd|passphrase|passcode|pincode|secret|token|key)$"
_SECRET_NUMBER_WORDS = frozenset({"otp", "pin", "pwd", "totp"})
_NUMBER = rb"-?[0-9]+(?:[.][0-9]+)?(?:[eE][-+]?[0-9]+)?"
#: Names that only look like secrets, and the ends of such names.
_HARMLESS = frozenset({"progresstoken", "maxtokens", "inputtokens", "outputtokens"})
_HARMLESS_ENDS = ("endpoint", "type", "types", "supported", "authorizationservers")
#: The keywords of JSON Schema that may stand in a schema of a parameter, and those that hold values of it.
_SCHEMA = frozenset(
    "type title description format pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"
    " items prefixItems minItems maxItems uniqueItems properties required additionalProperties minProperties maxProperties"
    " anyOf oneOf allOf not enum enumNames const default examples $ref $defs $id $anchor $comment deprecated readOnly"
    " writeOnly nullable x-mcp-header contentEncoding contentMediaType".split())
_SCHEMA_VALUES = frozenset({"const", "default", "enum", "examples"})
#: A key of JSON in a text that is not parsed, which may be JSON within strings, at any depth, and its value. A value that is
#: no plain string, number or word is masked together with the rest of the text, since its end is unknown.
_IN_TEXT = rb'(?s)("([^"]*)"(?:\s|\\+[nrt])*:(?:\s|\\+[nrt])*)("(?:[^"\\]|\\.)*"|[^\s,}\]\[{"\\]+|.*)'
#: Secrets in texts that are no JSON: in queries and connection strings, before the host of a URL, and behind "Bearer".
_ASSIGNED = (
    rb"(?i)((?:password|passwd|passphrase|secret|token|api_?key|access_?key|accountkey|\bpwd|\bsig)\s*=\s*)[^\s;&,\"'\\]+"
    rb"|(://[^/\s:@\"\\]*:)[^/\s@\"\\]+(?=@)|(\bbearer\s+)(?=[^\s\"\\]*[0-9._-])[a-z0-9._~+/=-]{8,}")
_ESCAPE = r"\\+u([0-9a-fA-F]{4})"
#: Bytes up to which a message is parsed. Longer ones are masked as text, and only as far as they are shown.
_PARSED_BYTES = 256 << 10
#: Bytes of a text that is not parsed; a trace shows fewer.
_MOST_BYTES = 40_000


def mask(data: bytes) -> bytes:
    """Return a JSON text with the values of keys that name secrets replaced, also in JSON within strings."""
    if len(data) <= _PARSED_BYTES:
        try:
            value = json.loads(data, object_pairs_hook=_once)
            shown = masked(value)
            if shown == value:
                return data
            return json.dumps(shown, ensure_ascii=False).encode("utf-8", "backslashreplace")
        except (ValueError, RecursionError):
            return _masked_text(data)
    return _masked_text(data)


def _once(members: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a key comes twice, and the first value would be shown")
    return found


def masked(value: Any, within: str = "") -> Any:
    """Return a value of JSON with the values of keys that name secrets replaced, at any depth, also in JSON within strings.

    :param within: the key whose value it is.
    """
    if isinstance(value, dict):
        return {key: _masked_member(key, item, within) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    if isinstance(value, str) and ('"' in value and ":" in value or re.search(_ASSIGNED, value.encode("utf-8", "replace"))):
        text = value.lstrip("\ufeff \t\r\n")
        if text[:1] in ("{", "["):
            try:
                inner = json.loads(text, object_pairs_hook=_once)
                shown = masked(inner)
                return value if shown == inner else json.dumps(shown, ensure_ascii=False)
            except (ValueError, RecursionError):
                pass
        encoded = value.encode("utf-8", "backslashreplace")
        return _masked_text(encoded, len(encoded)).decode("utf-8", "backslashreplace")
    return value


def _masked_member(key: str, value: Any, within: str) -> Any:
    if not _is_secret(key, value):
        return masked(value, key)
    if within == "properties" and isinstance(value, dict) and value and value.keys() <= _SCHEMA:
        # A parameter of a schema, which is named like a secret and is none; the values that it names may be.
        return {name: "***" if name in _SCHEMA_VALUES else masked(item, name) for name, item in value.items()}
    return "***"


def _is_secret(key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return False
    joined = re.sub("[^a-z0-9]", "", key.lower())
    if joined in _HARMLESS or joined.endswith(_HARMLESS_ENDS):
        return False
    words = [word.lower() for word in re.findall(_NAME_WORDS, key)]
    if isinstance(value, (int, float)) and not (
            re.search(_SECRET_NUMBERS, joined) or words and words[-1] in _SECRET_NUMBER_WORDS):
        return False
    return (re.search(_SECRETS, joined) is not None
            or any(word in _SECRET_WORDS for word in words))


def _masked_text(data: bytes, most: int = _MOST_BYTES) -> bytes:
    """Return a text with the values of secret keys masked, in which JSON may stand anywhere.

    :param most: bytes that are looked at and returned, so that a megabyte of text costs no megabyte of matching.
    """
    def names_secret(match: "re.Match[bytes]") -> bool:
        escaped = match.group(2).decode("utf-8", "replace").rstrip("\\")
        key = re.sub(_ESCAPE, lambda found: chr(int(found.group(1), 16)), escaped)
        value = match.group(3)
        plain = None if value in (b"null", b"true", b"false") else 0 if re.fullmatch(_NUMBER, value) else ""
        return _is_secret(key, plain)

    keys_masked = _masked_keys(data[:most], names_secret)
    return re.sub(_ASSIGNED, lambda found: found.group(found.lastindex or 0) + b"***", keys_masked)


def _masked_keys(data: bytes, names_secret: "Callable[[re.Match[bytes]], bool]") -> bytes:
    """Return a text with the values behind secret keys masked; behind any other key the search goes on in its value."""
    parts: List[bytes] = []
    position, search = 0, re.compile(_IN_TEXT).search
    while True:
        match = search(data, position)
        if match is None:
            return b"".join([*parts, data[position:]])
        secret = names_secret(match)
        parts += data[position:match.end(1)], b'"***"' if secret else b""
        position = match.end() if secret else match.end(1)
