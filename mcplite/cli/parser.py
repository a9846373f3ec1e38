"""The parser of the command line: its commands, their options and the help texts.

Arguments of tools and prompts on the command line: key=value, key:=json, key=@file, and - for stdin.
"""

import argparse
import difflib
import json
import os
import re
import shlex
import sys
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

__all__ = ["NAMES", "UsageError", "check_words", "parse", "parse_arguments", "parse_strings", "take_verb"]


class UsageError(ValueError):
    """The command line is wrong; the text says what to type instead."""


def parse_arguments(items: List[str], schema: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    """Return the arguments that *items* spell.

    ``key=value`` is text, or JSON if the tool's schema has another type for the key; ``key:=json`` is any JSON
    value; ``key=@file`` is the text of a file; ``{...}`` is a JSON object with arguments, and ``-`` is one on stdin.

    :raises UsageError: an item has another form, or its JSON or file cannot be read.
    """
    arguments: Dict[str, Any] = {}
    properties = (schema or {}).get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    for item in items:
        if item == "-" or item.startswith("{"):
            value = _json(item, "the arguments") if item != "-" else _json(sys.stdin.read() if sys.stdin else "", "stdin")
            if not isinstance(value, dict):
                raise UsageError(f"{'stdin must hold' if item == '-' else f'{item[:60]!r} must be'} a JSON object with the"
                                 " arguments")
            arguments.update(value)
            continue
        key, equals, text = item.partition("=")
        if not equals or not key.rstrip(":"):
            raise UsageError(f"{item!r} is not an argument: write key=value for text, key:=json for any other value")
        if key.endswith(":"):
            arguments[key[:-1]] = _json(text, key[:-1])
        else:
            if text.startswith("@"):
                text = _file(text[1:])
            arguments[key] = _typed(key, text, properties.get(key))
    return arguments


def parse_strings(items: List[str]) -> Dict[str, str]:
    """Return the arguments of a prompt, whose values are all text."""
    return {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in parse_arguments(items).items()}


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: {text[:60]!r} is not JSON ({error}); a string needs quotes in JSON") from error


def _file(path: str) -> str:
    try:
        with open(path, "r", encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _typed(key: str, text: str, schema: Any) -> Any:
    kinds = _kinds(schema)
    if "string" in kinds or not kinds & {"integer", "number", "boolean", "array", "object"}:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, str):
        raise UsageError(f"{key} must be of the type {' or '.join(sorted(kinds - {'null'}))}, not {text[:60]!r}"
                         f"{_spelling(key, text, kinds)}")
    return value


def _spelling(key: str, text: str, kinds: "set[str]") -> str:
    """Return how to spell a value that has parts; empty for one that has none."""
    if "array" in kinds:
        items = [_number(item.strip()) for item in text.split(",")][:20]
        return f"; write {key}:={shlex.quote(json.dumps(items, ensure_ascii=False))}"
    return f"; write {key}:='{{\"name\": \"value\"}}'" if "object" in kinds else ""


def _number(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (int, float)) else text


def _kinds(schema: Any) -> "set[str]":
    if not isinstance(schema, Mapping):
        return set()
    kind = schema.get("type")
    kinds = {item for item in (kind if isinstance(kind, list) else [kind]) if isinstance(item, str)}
    branches = schema.get("anyOf")
    for branch in branches if isinstance(branches, list) else ():
        kinds |= _kinds(branch)
    return kinds


_STATUS = """\
exit status: 0 done, 1 the tool reported an error, 2 wrong usage, 3 the server answered with an
error, 4 no connection, it was lost, or no authorization, 5 no answer in time, 6 the output cannot
be written, 130 interrupted.
"""
_TARGET = """\
TARGET is a Python file, module:name, a command in quotes, a URL, or a configuration file: mcp.json:name
is one of its servers, and list, describe and ping take mcp.json for all of them. What follows -- is no
option, whatever it begins with.
"""
_ARGUMENTS = """
arguments: key=value is text (or the type in the tool's schema), key:=json is any JSON value,
key=@file is the text of a file, '{...}' and - are a JSON object, in one word or on stdin.
"""

#: By command, what its help shows; the help of the whole shows the first of each.
_EXAMPLES: Dict[str, Tuple[str, ...]] = {
    "list": ("list weather.py", "list https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'"),
    "describe": ("describe weather.py forecast", "describe 'npx -y some-server' --json"),
    "call": ("call weather.py forecast city=Rome days:=3", "call 'npx -y some-server' search query=@question.txt --json"),
    "read": ("read notes.py note://today", "read https://example.com/mcp file:///logo.png --output logo.png"),
    "prompt": ("prompt notes.py summary topic=rain", "prompt mcp.json:notes summary topic=@topic.txt --json"),
    "complete": ("complete notes.py summary topic ra", "complete notes.py note://{day} day to"),
    "ping": ("ping weather.py", "ping https://example.com/mcp --timeout 5"),
    "request": ("request notes.py resources/read uri=note://today", "request weather.py tools/list"),
    "task": ("task list https://example.com/mcp", "task wait https://example.com/mcp ID"),
    "watch": ("watch notes.py", "watch notes.py note://today --json"),
    "login": ("login https://example.com/mcp",),
}


def _epilog(command: str = "") -> str:
    """Return what follows the options in the help of a command; that of the whole command line without a name."""
    shown = _EXAMPLES[command] if command else [lines[0] for lines in _EXAMPLES.values()]
    examples = "\nexamples:\n" + "".join(f"  %(prog)s {line}\n" for line in shown)
    arguments = _ARGUMENTS if command in ("", "call", "prompt", "request") else ""
    return f"{_TARGET}{examples}{arguments}\n{_STATUS}"


_LOGIN_EPILOG = """\
URL is that of an MCP server. The login is stored in a file that only you can read: the one that
the variable MCPLITE_CREDENTIALS names, or one in your system's folder for data of programs. All
other commands use it for the same URL, and renew it automatically.

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
_BRIDGE_EPILOG = """\
TARGET is a Python file, module:name, a command in quotes, a URL, or mcp.json:name. Without --http the
bridge speaks stdio, as a program that a host application starts.

examples:
  %(prog)s bridge 'npx -y some-server' --http 127.0.0.1:8000     a stdio server over HTTP
  %(prog)s bridge https://example.com/mcp                        a server over HTTP on stdio
  %(prog)s bridge weather.py --http 8000 --shared                one process for all clients

A host application that knows only stdio reaches a server over HTTP with
  {"mcpServers": {"example": {"command": "python", "args": ["-m", "PACKAGE", "bridge", "https://example.com/mcp"]}}}
Log in before with `%(prog)s login https://example.com/mcp`; the bridge uses and renews the stored login.

Clients of all revisions are served, whichever the server speaks. Over HTTP each client with a session has
a connection of its own to the server, for a stdio server a process of its own; --shared uses one for all,
where a question of the server fails if it may belong to several clients. Ctrl-C, SIGTERM and the end of
stdin stop the bridge, and the processes that it has started.

""" + _STATUS

#: How errors name the options of this command line, by the keywords in Python.
NAMES = {
    "auth": "--header 'Authorization: Bearer ...'", "client_id": "--client-id", "client_metadata_url": "--client-metadata-url",
    "client_name": "--client-name", "client_secret": "--client-secret-env", "cwd": "--cwd", "env": "--env",
    "issuer": "--issuer", "max_timeout": "--max-timeout", "redirect_uri": "--redirect-uri", "revision": "--revision",
    "scopes": "--scope", "timeout": "--timeout",
}
#: By name: what a command is for, and the words that it takes.
_COMMANDS: Dict[str, Tuple[str, str]] = {
    "list": ("list a server's tools, resources and prompts", "TARGET"),
    "describe": ("describe a server, or one tool, prompt, resource or template, with examples to paste", "TARGET [NAME]"),
    "call": ("call a tool", "TARGET TOOL [key=value ...]"),
    "read": ("read a resource", "TARGET URI"),
    "prompt": ("show a prompt with its arguments filled in", "TARGET PROMPT [key=value ...]"),
    "complete": ("complete an argument of a prompt or of a resource template",
                 "TARGET PROMPT_OR_TEMPLATE ARGUMENT [VALUE [key=value ...]]"),
    "ping": ("connect, and check that the server answers", "TARGET"),
    "request": ("send any request, and print its result as JSON", "TARGET METHOD [name:=json ...]"),
    "task": ("list, show, wait for or cancel tasks: tool calls that go on at a server",
             "list TARGET | show|wait|cancel TARGET ID"),
    "watch": ("print changes of the lists, and of the resources named, until Ctrl-C", "TARGET [URI ...]"),
    "bridge": ("offer a server on stdio or over HTTP, whatever its own transport and revisions are", "TARGET"),
    "login": ("log in to a server, and store the login", "URL"),
    "logout": ("delete a stored login, and revoke its tokens", "URL"),
    "token": ("print a valid access token, for curl and scripts", "URL"),
}
#: What is done about tasks, with the words that follow.
_VERBS = {"list": "TARGET", "show": "TARGET ID", "wait": "TARGET ID", "cancel": "TARGET ID"}


def take_verb(words: List[str], options: argparse.Namespace) -> str:
    """Move what is to be done about tasks from the words to ``options.verb``; return the command with it.

    :raises UsageError: it is missing, or unknown.
    """
    verb = words.pop(0) if words else ""
    if verb not in _VERBS:
        said = f"task: {verb!r} is unknown" if verb else "task: what to do is missing"
        raise UsageError(f"{said}; write: task {_COMMANDS['task'][1]}")
    options.verb = verb
    return f"task {verb}"


def parse(arguments: Optional[List[str]], package: str, version: str) -> argparse.Namespace:
    """Return ``command``, ``words`` and the options; exits with the usage if the command line is wrong.

    :param package: the name after ``python -m``.
    """
    parser, commands = _parser(package, version)
    given = sys.argv[1:] if arguments is None else list(arguments)
    # What follows "--" is words, whatever it begins with. argparse has other rules for it in each version of Python.
    end = given.index("--") if "--" in given else len(given)
    # Words may stand before, between and after the options; argparse returns all but the first group as unknown.
    if not given:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    command = next((word for word in given[:end] if not word.startswith("-")), None)
    if command is not None and command not in commands:
        parser.error(f"there is no command {command!r}{_similar(command, commands)}; --help lists them")
    options, more = parser.parse_known_args(given[:end])
    unknown = [word for word in more if word.startswith("-") and word != "-"]
    if unknown:
        known = re.findall(r"(?<![\w-])--[a-z][a-z-]*", commands[options.command].format_help().partition("examples:")[0])
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_similar(unknown[0].partition('=')[0], known)}")
    options.words += [*more, *given[end + 1:]]
    return options


def _similar(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def check_words(words: List[str], command: str, configured: bool) -> None:
    """Check the number of words before a server is started.

    :param configured: whether the server comes from a file, so that there is no word for it.
    :raises UsageError: a word is missing, or there is one too many.
    """
    name, _, verb = command.partition(" ")
    form = _VERBS[verb] if verb else _COMMANDS[name][1]
    names = form.partition(" [")[0].split()[1 if configured else 0:]
    if len(words) < len(names):
        raise UsageError(f"{command}: {names[len(words)]} is missing; write: {command} {form}")
    most = len(names) + ("[NAME]" in form)
    if len(words) > most and "..." not in form:
        raise UsageError(f"{command}: {words[most]!r} is one argument too many; write: {command} {form}")


def _parser(package: str, version: str) -> Tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser, and that of each command."""
    # "mcplite" where it was started by the script of that name, as users then go on to type it.
    started = os.path.basename(sys.argv[0])
    program = package if started.partition(".")[0] == package else f"python -m {package}"
    parser = argparse.ArgumentParser(
        prog=program, description="Use any MCP server from the command line.", epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"{package} {version}")
    using = _using()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (text, words) in _COMMANDS.items():
        epilog, parents = (_LOGIN_EPILOG, []) if words == "URL" else (
            _BRIDGE_EPILOG if name == "bridge" else _epilog(name), [using])
        one = commands.add_parser(
            name, usage=f"{program} {name} [options] {words}", help=text, parents=parents,
            description=text[0].upper() + text[1:] + ".",
            epilog=epilog.replace("%(prog)s", program).replace("PACKAGE", package),
            formatter_class=argparse.RawDescriptionHelpFormatter)
        one.add_argument("words", nargs="*", help=argparse.SUPPRESS)  # the usage names them
        if name == "call":
            one.add_argument("--table", action="store_true", help="print a list of flat objects as a table")
            one.add_argument("--task", action="store_true",
                             help="start the tool as a task, print its id, and do not wait for the result")
        elif name == "task":
            one.add_argument("--table", action="store_true", help="with wait: print a list of flat objects as a table")
        if name in ("call", "read", "task"):
            one.add_argument("--output", metavar="FILE", help="save the first binary content, or the text")
        elif name == "login":
            _add_login(one)
        elif name == "bridge":
            _add_bridge(one)
        elif name == "token":
            one.add_argument("--header", action="store_true", help="print the whole header, 'Authorization: Bearer ...'")
        if words == "URL":
            one.add_argument("--debug", action="store_true", help="show each step, and tracebacks, on stderr")
    return parser, commands.choices


def _using() -> argparse.ArgumentParser:
    """Return the options of all commands that use a server."""
    using = argparse.ArgumentParser(add_help=False)
    using.add_argument("--json", action="store_true",
                       help="print the whole result as JSON, and an error as one line of JSON on stderr")
    using.add_argument("--config", metavar="FILE", help="a file with mcpServers, whatever its name, in place of TARGET")
    using.add_argument("--server", metavar="NAME", help="the server to use in --config; not needed if it has only one")
    using.add_argument("--revision", metavar="DATE", help="the only protocol revision to accept")
    using.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS",
                       help="time limit of each request, which progress of the server begins again; default 60")
    using.add_argument("--max-timeout", type=float, default=300.0, metavar="SECONDS",
                       help="time limit of each request, whatever its progress; default 300")
    using.add_argument("--env", action="append", default=[], metavar="KEY[=VALUE]",
                       help="a variable for the server, by default with its value here; repeatable")
    using.add_argument("--cwd", metavar="FOLDER", help="the server's working directory")
    using.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'",
                       help="sent with every request to a URL; ${VAR} is a variable of the environment; repeatable")
    using.add_argument("--root", action="append", default=[], metavar="PATH",
                       help="a folder that the server may work in; repeatable")
    using.add_argument("--log-level", metavar="LEVEL", help="show the server's log messages from this level on")
    using.add_argument("--debug", action="store_true", help="show every message, the server's stderr and tracebacks on stderr")
    return using


def _add_bridge(one: argparse.ArgumentParser) -> None:
    one.add_argument("--stdio", action="store_true", help="serve one client on stdin and stdout, which is the default")
    one.add_argument("--http", metavar="[HOST:]PORT",
                     help="serve Streamable HTTP at this address; default HOST 127.0.0.1; PORT 0 picks a free port")
    one.add_argument("--shared", action="store_true", help="one connection to the server, or one process, for all clients")
    one.add_argument("--path", help="path of the endpoint; default /mcp")
    one.add_argument("--allow-host", metavar="NAME", action="append",
                     help="a host name that requests may be addressed to, besides loopback names; '*' allows any; repeatable")
    one.add_argument("--allow-origin", metavar="ORIGIN", action="append",
                     help="an origin, such as https://app.example, whose web pages may use the bridge; repeatable")
    one.add_argument("--trust-proxy", metavar="NETWORK", action="append",
                     help="the address or network of a reverse proxy, such as 127.0.0.1 or 10.0.0.0/8, which tells the client's"
                          " address in X-Forwarded-For; repeatable")
    one.add_argument("--stateless", action="store_true", default=None, help="serve every request on its own, without sessions")
    one.add_argument("--legacy-sse", action="store_true", default=None,
                     help="also serve the HTTP+SSE transport for clients of 2024, at /sse and /messages")
    one.add_argument("--backend", metavar="URL",
                     help="what several bridges behind one address share, such as redis://host:6379/0; with the variable"
                          " MCPLITE_STATE_KEYS")


def _add_login(one: argparse.ArgumentParser) -> None:
    one.add_argument("--scope", action="append", default=[], metavar="SCOPE",
                     help="a scope to request besides those that the server needs; repeatable")
    one.add_argument("--no-browser", action="store_true",
                     help="print the URL to visit, and read the URL that the browser ended at")
    one.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="time limit of the login; default 300")
    one.add_argument("--issuer", metavar="URL", help="the only authorization server to trust, exactly as it writes its own URL")
    one.add_argument("--client-id", metavar="ID", help="id of a client that you registered by hand; needs --issuer")
    one.add_argument("--client-secret-env", metavar="NAME", help="the environment variable with that client's secret")
    one.add_argument("--client-metadata-url", metavar="URL",
                     help="URL of a document that describes this client, in place of --client-id")
    one.add_argument("--client-name", metavar="NAME", help="the name that the login page shows for this program")
    one.add_argument("--redirect-uri", metavar="URI",
                     help="the registered URI that the browser returns to on this machine; by default any free port")
    one.add_argument("--dpop", action="store_true", help="bind the tokens to a key that stays here (needs PyJWT)")
    one.add_argument("--json", action="store_true", help="print the result as JSON, without tokens")
