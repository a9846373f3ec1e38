"""What can be typed: the commands, their options, and the help that teaches them."""

import argparse
from typing import Dict, List, Optional, Tuple

from .arguments import UsageError

__all__ = ["check_words", "parse"]

_STATUS = """\
exit status: 0 done, 1 the tool reported an error, 2 wrong usage, 3 the server answered with an
error, 4 no connection, it was lost, or no authorization, 5 no answer in time, 130 interrupted.
"""

_EPILOG = """\
TARGET is a Python file, module:name, a command in quotes or a URL; with --config it is left out.

examples:
  %(prog)s list weather.py
  %(prog)s call weather.py forecast city=Rome days:=3
  %(prog)s call 'npx -y some-server' search query=@question.txt --json
  %(prog)s read notes.py note://today
  %(prog)s list https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'
  %(prog)s login https://example.com/mcp
  %(prog)s list --config mcp.json --server git

arguments: key=value is text (or what the tool's schema says), key:=json is any JSON value,
key=@file is a file's text, - is a JSON object on stdin.

""" + _STATUS

_LOGIN_EPILOG = """\
URL is that of an MCP server. What a login gives is kept in a file that only you can read: the one
that MCPLITE_CREDENTIALS names, or one where your system keeps the data of programs. All other
commands use it for the same URL, and renew it by themselves.

examples:
  %(prog)s login https://example.com/mcp
  %(prog)s login https://example.com/mcp --scope mcp:read --scope mcp:write
  %(prog)s login https://example.com/mcp --no-browser
  %(prog)s login https://example.com/mcp --issuer https://login.example.com \\
      --client-id mine --client-secret-env SECRET --redirect-uri http://127.0.0.1:8765/callback
  %(prog)s call https://example.com/mcp search query=rain
  %(prog)s token https://example.com/mcp --header | curl -H @- https://example.com/files
  %(prog)s logout https://example.com/mcp

""" + _STATUS

#: By name: what a command is for, and the words that it takes.
_COMMANDS: Dict[str, Tuple[str, str]] = {
    "list": ("list a server's tools, resources and prompts", "TARGET"),
    "call": ("call a tool", "TARGET TOOL [key=value ...]"),
    "read": ("read a resource", "TARGET URI"),
    "prompt": ("show a prompt with its arguments filled in", "TARGET PROMPT [key=value ...]"),
    "complete": ("complete an argument of a prompt or of a resource template",
                 "TARGET PROMPT_OR_TEMPLATE ARGUMENT [VALUE [key=value ...]]"),
    "ping": ("connect, and ask whether the server is there", "TARGET"),
    "login": ("log in to a server now, and keep what that gives", "URL"),
    "logout": ("forget what a login gave, and have it revoked", "URL"),
    "token": ("print a valid access token, for curl and scripts", "URL"),
}


def parse(arguments: Optional[List[str]], package: str, version: str) -> argparse.Namespace:
    """Return what was typed: ``command``, ``words``, and the options; ends the process when that is none of ours.

    :param package: by whose name the command line is started.
    """
    parser = _parser(package, version)
    # Words may stand before, between and after the options; argparse returns all but the first group as unknown.
    options, more = parser.parse_known_args(arguments)
    unknown = [word for word in more if word.startswith("-") and word != "-"]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    options.words += more
    return options


def check_words(words: List[str], command: str, configured: bool) -> None:
    """Refuse too few and too many words, before anything is started.

    :param configured: whether the server is that of a file, so that no word stands for it.
    :raises UsageError: the text says which.
    """
    form = _COMMANDS[command][1]
    names = form.partition(" [")[0].split()[1 if configured else 0:]
    if len(words) < len(names):
        raise UsageError(f"{command}: {names[len(words)]} is missing; it takes {form}")
    if len(words) > len(names) and "..." not in form:
        raise UsageError(f"{command}: {words[len(names)]!r} is too much; it takes {form}")


def _parser(package: str, version: str) -> argparse.ArgumentParser:
    program = f"python -m {package}"
    parser = argparse.ArgumentParser(
        prog=program, description="Use any MCP server from the command line.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"{package} {version}")
    using = _using()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (text, words) in _COMMANDS.items():
        epilog, parents = (_LOGIN_EPILOG, []) if words == "URL" else (_EPILOG, [using])
        one = commands.add_parser(
            name, usage=f"{program} {name} [options] {words}", help=text, parents=parents,
            description=text[0].upper() + text[1:] + ".", epilog=epilog.replace("%(prog)s", program),
            formatter_class=argparse.RawDescriptionHelpFormatter)
        one.add_argument("words", nargs="*", help=argparse.SUPPRESS)  # named by the usage
        if name in ("call", "read"):
            one.add_argument("--output", metavar="FILE", help="save the first binary content, or the text")
        elif name == "login":
            _add_login(one)
        elif name == "token":
            one.add_argument("--header", action="store_true", help="print the whole header, 'Authorization: Bearer ...'")
        if words == "URL":
            one.add_argument("--debug", action="store_true", help="show what is done, and tracebacks, on stderr")
    return parser


def _using() -> argparse.ArgumentParser:
    """Return the options of all commands that use a server."""
    using = argparse.ArgumentParser(add_help=False)
    using.add_argument("--json", action="store_true", help="print the whole result as JSON")
    using.add_argument("--config", metavar="FILE", help="a file with mcpServers, in place of TARGET")
    using.add_argument("--server", metavar="NAME", help="which of the servers in --config; not needed for one")
    using.add_argument("--revision", metavar="DATE", help="the only protocol revision to accept")
    using.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for each request; default 60")
    using.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="a variable for the server; repeatable")
    using.add_argument("--cwd", metavar="FOLDER", help="the server's working directory")
    using.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'",
                       help="sent with every request to a URL; ${VAR} is a variable of the environment; repeatable")
    using.add_argument("--root", action="append", default=[], metavar="PATH", help="a folder the server may work in; repeatable")
    using.add_argument("--log-level", metavar="LEVEL", help="show the server's log messages from this level on")
    using.add_argument("--debug", action="store_true", help="show every message, the server's stderr and tracebacks on stderr")
    return using


def _add_login(one: argparse.ArgumentParser) -> None:
    one.add_argument("--scope", action="append", default=[], metavar="SCOPE",
                     help="to ask for, besides those that the server says it needs; repeatable")
    one.add_argument("--no-browser", action="store_true",
                     help="print the address to visit, and read the one at which the browser ended up")
    one.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="that you have for it; default 300")
    one.add_argument("--issuer", metavar="URL", help="the only authorization server to trust, as it writes itself")
    one.add_argument("--client-id", metavar="ID", help="of a client that is registered there by hand; needs --issuer")
    one.add_argument("--client-secret-env", metavar="NAME", help="the variable of the environment that has that client's secret")
    one.add_argument("--client-metadata-url", metavar="URL", help="where a document describes this client, in place of an id")
    one.add_argument("--client-name", metavar="NAME", help="how the login page calls this program")
    one.add_argument("--redirect-uri", metavar="URI",
                     help="where the browser comes back to on this machine, as it is registered; by default any free port")
    one.add_argument("--dpop", action="store_true", help="bind the tokens to a key that stays here (needs PyJWT)")
    one.add_argument("--json", action="store_true", help="print what came of it as JSON; no tokens")
