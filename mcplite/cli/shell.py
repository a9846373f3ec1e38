"""The command ``shell``: the other commands at a prompt, on one connection, with history and completion where readline is.

A line is a command without its target, or a tool with its arguments. JSON needs no quotes around it. If a line ends within JSON
or within quotes, the next line continues it. Ctrl-C ends a call, and not the shell; Ctrl-D ends the shell. When stdin is no
terminal, its lines are run without a prompt, up to the first that fails.
"""

import argparse
import contextlib
import json
import os
import re
import sys
from typing import Any, Callable, Iterator, List, Optional

from ..auth.login.file_store import data_folder, make_folder, open_file
from ..errors import AuthError, MCPError
from ..protocol.error_text import did_you_mean
from ..rpc.stdio.descriptors import is_terminal
from ..version import __version__
from . import parser
from .command_table import COMMANDS
from .commands import act
from .line_completions import COMMANDS_OF_LINE, Completions, listed_by
from .parser import STATUS, UsageError
from .printing import clean, clean_line, status_of, text_of
from .target import connected

__all__ = ["HELP", "Incomplete", "run", "words_of"]

#: Lines of the history that are kept.
_HISTORY = 1000
#: Options that each line has for itself. All other options of the command ``shell`` are about the connection, so a line must
#: not set them.
_OF_LINE = frozenset({"command", "json", "words"})
#: The beginning of a word that goes on as JSON: ``{``, or ``name:={`` or ``name:=[``.
_JSON = re.compile(r"(?:[^\s\"'{}\[\]=]+:=)?(?=[{\[])")
_PART = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\])""", re.DOTALL)
_HELP = """\
{commands}
  TOOL [name=value ...]  the same as call TOOL
  help [COMMAND]         this, or the help of a command
  exit                   end the shell, as Ctrl-D does
Arguments: name=value is text (or the type in the tool's schema), name:=json and {{...}} are JSON, over several
lines, too; name=@file is the text of a file. Ctrl-C ends a call, and not the shell."""


class Incomplete(ValueError):
    """A line ends within quotes or JSON, so that the next one belongs to it."""


def words_of(text: str) -> List[str]:
    """Return the words of a line, split as by a shell; a JSON object or list stays one word, with its quotes and spaces.

    :raises Incomplete: the text ends within quotes or JSON.
    :raises UsageError: a word begins as JSON, but is not JSON.
    """
    words: List[str] = []
    place = 0
    while True:
        place += len(text[place:]) - len(text[place:].lstrip())
        if place >= len(text):
            return words
        begin = _JSON.match(text, place)
        if begin is not None:
            end = _end_of_json(text, begin.end())
            words.append(text[place:end])
            place = end
            continue
        word = ""
        while place < len(text) and not text[place].isspace():
            part = _PART.match(text, place)
            if part is None:
                raise Incomplete(text[place:])
            quoted = part.group(2)
            # Within double quotes a backslash is one, unless a character follows that it can escape there.
            word += re.sub(r'\\(["\\$`])', r"\1", quoted) if quoted is not None else "".join(filter(None, part.groups()))
            place = part.end()
        words.append(word)


def _end_of_json(text: str, place: int) -> int:
    try:
        _, end = json.JSONDecoder().raw_decode(text, place)
    except ValueError as error:
        depth = 0
        for token in re.finditer(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', text[place:], re.DOTALL):
            found = token.group()
            if found[0] == '"' and (len(found) < 2 or not re.fullmatch(r'"(?:[^"\\]|\\.)*"', found, re.DOTALL)):
                raise Incomplete(text[place:]) from error
            depth += (found in "[{") - (found in "]}")
            if depth == 0:
                raise UsageError(f"{text[place:place + 60]!r} is not JSON ({error})") from error
        raise Incomplete(text[place:]) from error
    return end


HELP = """\
Each line is a command without its TARGET, or a tool with its arguments; help lists them. The tabulator key
completes commands, tools, arguments and URIs, where Python has readline. JSON needs no quotes around it and
may have several lines. Ctrl-C ends a call, Ctrl-D the shell. When stdin is no terminal, its lines are run up
to the first that fails.

examples:
  %(prog)s shell weather.py
  > forecast city=Rome days:=3
  > call search filter:={"city": "Rome",
  .                      "days": 3}
  > read note://today
  printf 'forecast city=Rome\\nread note://today\\n' | %(prog)s shell weather.py

""" + STATUS


def run(words: List[str], options: argparse.Namespace) -> int:
    """Run lines until the end of stdin; return the exit status: 0 at a terminal, and otherwise that of the last line.

    :param words: TARGET, unless it is in a file of servers.
    :raises MCPError: the server cannot be reached, or refuses.
    """
    options.lasting = True
    with connected(words, options) as client:
        shell = _Shell(client, options)
        if not is_terminal(sys.stdin):
            return shell.run_all(lambda: sys.stdin.readline() if sys.stdin is not None else "")
        info = client.server_info
        print(clean_line(f"{info.display_name} {info.version} (protocol {client.protocol_version}); help lists the commands,"
                         " Ctrl-D ends"), file=sys.stderr)
        with _editor(Completions(client)):
            shell.talk()
    return 0


class _Shell:
    """Reads lines and runs them.

    :param client: connected.
    :param options: of the command that began the shell.
    """

    def __init__(self, client: Any, options: argparse.Namespace) -> None:
        self._client, self._options = client, options

    def talk(self) -> None:
        """Run lines that are typed at a terminal."""
        while self._client.state != "closed":
            try:
                text = input("> ")
                while True:
                    try:
                        words = words_of(text)
                        break
                    except Incomplete:
                        text += "\n" + input(". ")
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                continue
            except UsageError as error:
                print(clean(str(error)), file=sys.stderr)
                continue
            if words == ["exit"]:
                return
            try:
                self._run(words)
            except KeyboardInterrupt:
                self._options.bar.done()
                print("interrupted", file=sys.stderr)
        print("the connection to the server is over", file=sys.stderr)

    def run_all(self, read: Callable[[], str]) -> int:
        """Run the lines of a script, up to the first that fails; return its exit status."""
        status, text = 0, ""
        while status == 0:
            line = read()
            try:
                words = words_of(text + line)
            except Incomplete as error:
                if line:
                    text += line
                    continue
                print(clean(f"the end of stdin is within {str(error)[:60]!r}"), file=sys.stderr)
                return 2
            except UsageError as error:
                print(clean(str(error)), file=sys.stderr)
                return 2
            text = ""
            if not line or words == ["exit"]:
                break
            status = self._run(words)
        return status

    def _run(self, words: List[str]) -> int:
        """Run one line; return its exit status. Errors are printed."""
        if not words or words[0].startswith("#"):
            return 0
        try:
            return self._run_command(words)
        except SystemExit as end:  # raised by argparse, which has printed the reason
            return end.code if isinstance(end.code, int) else 2
        except (MCPError, ValueError, TypeError) as error:
            print(clean(text_of(error, self._options.debug)), file=sys.stderr)
            return status_of(error)

    def _run_command(self, words: List[str]) -> int:
        if words[0] == "help":
            if len(words) == 1:
                shown = "\n".join(f"  {name:<21}  {COMMANDS[name].purpose}" for name in COMMANDS_OF_LINE[:-2])
                print(_HELP.format(commands=shown))
                return 0
            words = [*words[1:2], "--help"]
        if words[0] not in COMMANDS_OF_LINE:
            tools = [tool.name for tool in listed_by(self._client, "tools", self._client.list_tools)]
            if words[0] not in tools:
                raise UsageError(f"there is no command and no tool {words[0]!r}"
                                 f"{did_you_mean(words[0], [*COMMANDS_OF_LINE, *tools])}; help lists the commands")
            words = ["call", *words]
        package = __name__.partition(".cli.")[0]
        options, defaults = (parser.parse(line, package, __version__) for line in (words, words[:1]))
        for name, value in vars(self._options).items():
            if name not in _OF_LINE:
                if getattr(options, name, None) != getattr(defaults, name, None):
                    raise UsageError(f"--{name.replace('_', '-')} is for the command that begins the shell")
                setattr(options, name, value)
        options.json = options.json or self._options.json
        rest = list(options.words)
        parser.check_words(rest, *parser.take_verb(rest, options), True)
        return act(self._client, rest, options)


@contextlib.contextmanager
def _editor(completions: Completions) -> Iterator[None]:
    """Use readline for the block, with the history of earlier shells; without readline lines are read as they are."""
    if sys.platform == "win32":  # the console edits lines itself
        yield
        return
    try:
        import readline
    except ImportError:  # a Python that was built without it
        yield
        return
    found: List[str] = []

    def complete(text: str, state: int) -> Optional[str]:
        # readline calls this with 0, 1, ... until it returns None, and drops exceptions.
        if state == 0:
            before = readline.get_line_buffer()[:readline.get_begidx()]
            try:
                found[:] = completions.of(words_of(before), text)
            except ValueError:
                found[:] = []  # within quotes or JSON
        return found[state] if state < len(found) else None

    previous, delimiters = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n")
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    readline.parse_and_bind("set show-all-if-ambiguous on")
    path = _history()
    if path is not None:
        with contextlib.suppress(OSError):  # the file is new and empty, or another library for editing has written it
            readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_completer(previous)
        readline.set_completer_delims(delimiters)
        if path is not None:
            readline.set_history_length(_HISTORY)
            with contextlib.suppress(OSError):  # for instance the disk is full: only the history of this shell is lost
                readline.write_history_file(path)


def _history() -> Optional[str]:
    """Make the file of the history, which only the user can read, and return its path; None if it cannot be made."""
    try:
        folder = data_folder()
        make_folder(folder)
        path = os.path.join(folder, "shell_history")
        os.close(open_file(path, os.O_WRONLY | os.O_CREAT))
    except (AuthError, OSError):
        return None
    return path
