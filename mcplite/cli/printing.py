"""The output of the command line: tables that fit the terminal, results, progress, and errors with their exit status.

Text of a server is cleaned here, so that it cannot steer the terminal.
"""

import contextlib
import json
import os
import shutil
import sys
import threading
import unicodedata
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, TextIO, Tuple

from ..errors import MCPError, ProtocolError, RemoteError, RequestTimeout, TransportError
from ..protocol.error_text import worded
from ..rpc.stdio.descriptors import PIPE_CLOSED, is_terminal
from ..types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    Progress,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from .parser import NAMES

__all__ = [
    "ProgressBar", "as_json", "clean", "clean_line", "first_binary", "is_unread", "print_content", "print_result",
    "record_of", "status_of", "styled", "table", "text_of", "wrapped",
]

#: Control characters, lone surrogates, line separators, and invisible characters such as those for the direction.
_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
#: Joiners are invisible too, but several scripts and many emoji need them.
_JOINERS = "\u200c\u200d"


def clean(text: str) -> str:
    """Return a server's text with its control characters made visible, so that they cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or not _steers(c) else _escape(c) for c in text.replace("\r\n", "\n"))


def clean_line(text: str) -> str:
    """Return a server's text as :func:`clean` does, on one line: names and titles must not fake further lines."""
    return clean(" ".join(text.split()))


def _steers(character: str) -> bool:
    return (not character.isprintable() and character not in _JOINERS
            and unicodedata.category(character) in _STEERING)


def _escape(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii") if character > "\x7f" else f"\\x{ord(character):02x}"


def as_json(value: Any) -> str:
    """Return readable JSON; control characters are written as JSON escapes, so that the value stays the same."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(json.dumps(c)[1:-1] if c != "\n" and _steers(c) else c for c in text)


#: By style, the codes of a terminal.
_STYLES = {"name": "36", "heading": "1", "fault": "31", "warning": "33", "note": "34"}


def styled(text: str, style: str, out: Optional[TextIO] = None) -> str:
    """Return a text in the colour of a style if the output shows colours, and unchanged if not.

    A terminal shows colours, unless ``TERM`` is ``dumb``. If ``NO_COLOR`` is set, there are none in any case; otherwise
    ``FORCE_COLOR`` turns them on.

    :param text: clean, and without colours.
    :param style: ``name``, ``heading``, ``fault``, ``warning`` or ``note``.
    :param out: where it is printed; stdout by default.
    """
    environ = os.environ
    seen = not environ.get("NO_COLOR") and (
        bool(environ.get("FORCE_COLOR")) or environ.get("TERM") != "dumb" and is_terminal(sys.stdout if out is None else out))
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if seen and text else text


def wrapped(text: str, width: int, longest: Optional[int] = None) -> List[str]:
    """Return the words of a text as lines of at most *width* characters.

    A server may send words of megabytes, so each word is cut in one pass.

    :param longest: a word of at most this many characters is left whole although it is longer than *width*; None for none.
    """
    lines: List[str] = []
    line: List[str] = []
    room = 0  # characters that the line can still take
    for word in text.split():
        if line and len(word) < room:
            line.append(word)
            room -= len(word) + 1
            continue
        if line:
            lines.append(" ".join(line))
        whole = len(word) <= max(width, longest or 0)
        parts = [word] if whole else [word[at:at + width] for at in range(0, len(word), width)]
        lines += parts[:-1]
        line, room = parts[-1:], width - len(parts[-1])
    return [*lines, " ".join(line)]


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ") -> str:
    """Return rows of a name and a text; the text is wrapped beside the names."""
    pairs: List[Tuple[str, str]] = [(clean_line(row[0]), clean_line(row[1])) for row in rows]
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    names = min(max((len(name) for name, _ in pairs), default=0), width // 3)
    lines: List[str] = []
    for name, text in pairs:
        texts = wrapped(text, width - names - len(indent) - 2)
        # A name that is too long has a line of its own.
        space = " " * (names - len(name)) if len(name) <= names else "\n" + indent + " " * names
        lines.append(f"{indent}{styled(name, 'name')}{space}  {texts[0]}".rstrip())
        lines.extend(f"{indent}{'':<{names}}  {line}" for line in texts[1:])
    return "\n".join(lines)


def print_result(result: CallToolResult, out: TextIO) -> None:
    """Print a tool's result: its content or, if that is empty, its structured content.

    On a terminal an object or a list is indented, if the content is one text with its JSON.
    """
    shown = result.content[0] if len(result.content) == 1 else None
    if (is_terminal(out) and isinstance(shown, TextContent) and shown.text.startswith(("{", "[")) and not result.is_error
            and isinstance(result.data, (dict, list))):
        print(as_json(result.data), file=out)
        return
    print_content(result.content, out)
    if not result.content and result.structured_content is not None:
        print(as_json(result.structured_content), file=out)


def print_content(items: Sequence[Any], out: TextIO) -> None:
    """Print content blocks or resource contents; binary content is described, not printed."""
    for item in items:
        print(clean(_shown(item)), file=out)


def _shown(item: Any) -> str:
    if isinstance(item, (TextContent, TextResourceContents)):
        return item.text
    if isinstance(item, EmbeddedResource):
        return _shown(item.resource)
    if isinstance(item, (ImageContent, AudioContent)):
        return f"[{item.wire_type}, {item.mime_type}, {_measured(item)}]"
    if isinstance(item, BlobResourceContents):
        return f"[{item.uri}, {item.mime_type or 'binary'}, {_measured(item)}]"
    if isinstance(item, ResourceLink):
        return f"[{item.name}: {item.uri}]"
    return f"[content of the kind {getattr(item, 'wire_type', type(item).__name__)!r}]"


def _measured(item: Any) -> str:
    try:
        return f"{len(item.bytes)} bytes; --output FILE saves it"
    except ValueError:
        return "data that is not base64, a fault of the server"


def first_binary(items: Sequence[Any]) -> Optional[bytes]:
    """Return the bytes of the first binary item, or of the first text when there is none.

    :raises ProtocolError: the server's data is not base64.
    """
    text: Optional[str] = None
    for item in items:
        item = item.resource if isinstance(item, EmbeddedResource) else item
        if isinstance(item, (ImageContent, AudioContent, BlobResourceContents)):
            try:
                return item.bytes
            except ValueError as error:
                raise ProtocolError(f"--output: nothing is saved, since the server sent data that is not base64 ({error})"
                                    ) from error
        if text is None and isinstance(item, (TextContent, TextResourceContents)):
            text = item.text
    return None if text is None else text.encode("utf-8", "backslashreplace")


#: Seconds after which a person at a terminal is told what a command waits for.
_SLOW_SECONDS = 5.0


class ProgressBar:
    """Shows progress on the last line of a terminal; does nothing if the output is not a terminal.

    Progress, questions and log messages arrive on several threads; other output goes inside ``with bar.hidden()``.

    :param out: the terminal; stderr by default.
    """

    def __init__(self, out: Optional[TextIO] = None) -> None:
        self._out = sys.stderr if out is None else out
        self._on = is_terminal(self._out)
        #: Guards the fields below and the line on the screen; held while the line is written.
        self._lock = threading.RLock()
        self._width = 0
        self._last: Optional[Progress] = None
        self._hidden = 0

    def __call__(self, progress: Progress) -> None:
        """Show one report, now or when the line is free again."""
        with self._lock:
            self._last = progress
            if self._on and not self._hidden:
                self._draw(progress)

    def _draw(self, progress: Progress) -> None:
        columns = shutil.get_terminal_size((80, 24)).columns - 1
        try:
            if progress.total:
                share = min(1.0, max(0.0, progress.progress / progress.total))
                filled = int(share * 20)
                text = f"[{'#' * filled}{'.' * (20 - filled)}] {share:4.0%}"
            else:  # a number without a total, such as a count of the status messages of a task, says less than the message
                text = "" if progress.message else f"{progress.progress:g}"
        except (OverflowError, ValueError):  # JSON has integers that no float holds, and the quotient may be NaN
            text = "..."
        if progress.message:
            text = f"{text} {clean_line(progress.message)}".lstrip()
        text = text[:columns]
        print("\r" + text.ljust(self._width), end="", file=self._out, flush=True)
        self._width = len(text)

    @contextlib.contextmanager
    def saying_when_slow(self, text: str) -> Iterator[None]:
        """Write a line on the terminal if the block takes long, unless a question or other output has the terminal then."""
        # The timer's thread ends with the block. join() waits only if the thread is just writing the line.
        timer = threading.Timer(_SLOW_SECONDS, self._say, [text])
        if self._on:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if self._on:
                timer.join()

    def _say(self, text: str) -> None:
        with self._lock:
            if not self._hidden:
                self._wipe()
                print(text, file=self._out, flush=True)

    def done(self) -> None:
        """Remove the bar; only a further report shows it again."""
        with self._lock:
            self._last = None
            self._wipe()

    def _wipe(self) -> None:
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=self._out, flush=True)
            self._width = 0

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the bar while the block writes or asks, and show it again afterwards."""
        with self._lock:
            self._hidden += 1
            self._wipe()
        try:
            yield
        finally:
            with self._lock:
                self._hidden -= 1
                if self._last is not None:
                    self(self._last)


def is_unread(error: OSError) -> bool:
    """Return whether output failed because its reader has closed it."""
    return error.errno == PIPE_CLOSED


def text_of(error: Exception, debug: bool = False) -> str:
    """Return the text of an error for the terminal; if it is an error of the server, the text begins with that.

    :param debug: whether the code of the server's error is shown.
    """
    if isinstance(error, RemoteError) and error.code is not None:
        return f"the server answered: {error.message}{f' (code {error.code})' if debug else ''}"
    return worded(error, NAMES)


def status_of(error: Exception) -> int:
    """Return the exit status for an error."""
    if isinstance(error, RequestTimeout):
        return 5
    if isinstance(error, TransportError):
        return 4
    return 3 if isinstance(error, MCPError) else 2


def record_of(error: Exception) -> Dict[str, Any]:
    """Return an error for JSON, with the code and the data of one that came from the server."""
    record: Dict[str, Any] = {"type": type(error).__name__, "message": worded(error, NAMES), "status": status_of(error)}
    if isinstance(error, RemoteError):
        record["code"] = error.code
        if error.data is not None:
            record["data"] = error.data
    return record
