"""The command ``completion``: what a shell evaluates so that Tab completes commands, options, and the names of a server.

The shell calls a hidden command with the line up to the cursor. For names, the command connects to the target, and waits a few
seconds for each answer. If anything fails, it prints nothing: Tab must neither show an error nor hang.
"""

import argparse
import contextlib
import os
import re
import shlex
import sys
from typing import Dict, List

from ..errors import MCPError
from ..version import __version__
from . import parser
from .command_table import COMMANDS, HOST_NAMES

__all__ = ["HELP", "HIDDEN", "complete_line", "run"]

#: The hidden command.
HIDDEN = "__complete"
#: Seconds for each request to a server.
_SECONDS = 3.0
#: By the quote that is open: the characters that a shell does not take literally there, and what is written for one of them.
_SPECIAL = {"": (r"[^\w@%+=:,./~-]", r"\\\g<0>"), "'": ("'", r"'\\''"), '"': (r'["$`\\]', r"\\\g<0>")}
_SCRIPTS: Dict[str, str] = {
    "bash": """\
_PROGRAM_complete() {
    local IFS=$'\\n'
    COMPREPLY=($(PROGRAM HIDDEN bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o default -F _PROGRAM_complete PROGRAM
""",
    "zsh": """\
#compdef PROGRAM
_PROGRAM_complete() {
    local -a found
    found=("${(@f)$(PROGRAM HIDDEN zsh "$LBUFFER" 2>/dev/null)}")
    found=(${found:#})
    if (( $#found )); then compadd -Q -- $found; else _files; fi
}
compdef _PROGRAM_complete PROGRAM
""",
    "fish": """\
complete -c PROGRAM -a '(PROGRAM HIDDEN fish (commandline -cp | string collect) 2>/dev/null)'
""",
}


HELP = """\
examples:
  eval "$(%(prog)s completion bash)"              in ~/.bashrc
  eval "$(%(prog)s completion zsh)"               in ~/.zshrc, behind compinit
  %(prog)s completion fish | source               in ~/.config/fish/config.fish

Tab completes the program PACKAGE, and not python -m PACKAGE. For the names of tools, prompts and resources it
connects to the server of the line, and waits three seconds at most for each answer.
"""


def run(words: List[str], options: argparse.Namespace) -> int:
    """Print what the shell evaluates; return the exit status."""
    print(_SCRIPTS[options.verb].replace("PROGRAM", __name__.partition(".")[0]).replace("HIDDEN", HIDDEN), end="")
    return 0


def complete_line(shell: str, line: str) -> int:
    """Print what can stand at the end of a command line, one a line; return 0, whatever fails."""
    with contextlib.suppress(MCPError, OSError, ValueError, TypeError, SystemExit), open(os.devnull, "w") as null:
        words, last, quote = _split(line)
        with contextlib.redirect_stderr(null):
            found = [one for one in dict.fromkeys(_candidates(words[1:], last)) if one.startswith(last) and one.isprintable()]
        # bash replaces only the part of the word behind an open quote, or behind its last ":" or "=".
        start = len(last) - len(line.rpartition(quote)[2]) if quote else max(last.rfind(":"), last.rfind("=")) + 1
        for one in found:
            # The characters that are typed already stay, so no quote can be written in front of them. fish quotes words itself.
            shown = one[start:] if shell == "bash" else one
            print(shown if shell == "fish" else re.sub(*_SPECIAL[quote], shown))
    return 0


def _split(line: str) -> "tuple[List[str], str, str]":
    """Return the complete words of a line, the word at the cursor (empty behind a space), and the quote that is open there."""
    for end in ("", "'", '"'):
        try:
            words = shlex.split(line + end)
        except ValueError:
            continue  # a quote is open
        if not end and (not line or line[-1].isspace()):
            return words, "", ""
        return words[:-1], words[-1], end
    return [], "", ""


def _candidates(words: List[str], last: str) -> List[str]:
    package = __name__.partition(".")[0]
    command = next((word for word in words if not word.startswith("-")), None)
    if command is None:
        return [*COMMANDS, *HOST_NAMES] if not last.startswith("-") else ["--help", "--version"]
    if last.startswith("-"):
        return parser.option_names(package, __version__, command if command in COMMANDS else "describe")
    options = parser.parse(words, package, __version__)
    row = COMMANDS[options.command]
    if not options.words and not getattr(options, "config", None):
        return list(HOST_NAMES) if row.form.startswith("HOST ") else list(row.forms())
    return _from_server(options, last) if row.form.startswith("TARGET ") and row.needs == "client" else []


def _from_server(options: argparse.Namespace, last: str) -> List[str]:
    """Return what can follow the words of a command.

    :param last: the part of the next word that is typed already.
    """
    from .line_completions import Completions
    from .target import connected, take_file

    # The options in the line apply here too, such as --cwd and --header. But Tab neither records nor keeps a session.
    options.timeout, options.max_timeout = None, _SECONDS  # limits each request; the start of a server may take longer
    options.debug, options.log_level, options.record, options.keep = False, None, None, None
    take_file(options.words, options)
    stdin = sys.stdin
    with open(os.devnull, encoding="utf-8") as null:
        sys.stdin = null  # without a terminal, no question is asked
        try:
            with connected(options.words, options) as client:  # connected() removes TARGET from the words
                return [one.rstrip() for one in Completions(client).of([options.command, *options.words], last)]
        finally:
            sys.stdin = stdin
