"""The parser of the command line, whose commands are those of :mod:`.command_table`.

Arguments of tools and prompts on the command line: key=value, key:=json, key=@file, and - for stdin.
"""

import argparse
import json
import os
import sys
from typing import Any, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..errors import TransportError
from ..protocol.error_text import did_you_mean
from .command_table import COMMANDS, HOST_NAMES, load

__all__ = ["ARGUMENTS", "NAMES", "STATUS", "TARGET", "UsageError", "check_words", "option_names", "parse", "parse_arguments",
           "parse_header", "parse_strings", "parse_variable", "program_of", "take_verb"]


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
    named: Set[str] = set()
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
        name = key[:-1] if key.endswith(":") else key
        if name in named:
            raise UsageError(f"the argument {name} is given twice; write a list as {name}:='[...]'")
        named.add(name)
        if key.endswith(":"):
            arguments[name] = _json(text, name)
        else:
            if text.startswith("@"):
                text = _file(text[1:])
            arguments[key] = _typed(key, text, properties.get(key))
    return arguments


def parse_strings(items: List[str]) -> Dict[str, str]:
    """Return the arguments of a prompt, whose values are all text."""
    return {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in parse_arguments(items).items()}


def parse_variable(item: str) -> Tuple[str, str]:
    """Return the name and the value of a variable of ``--env``."""
    name, equals, value = item.partition("=")
    if not name:
        raise UsageError(f"--env {item!r}: write KEY=VALUE, or KEY alone to pass a variable on")
    if not equals:
        if name not in os.environ:
            raise UsageError(f"--env {name}: there is no variable {name} to pass on; write {name}=VALUE to set it")
        value = os.environ[name]
    return name, value


def parse_header(item: str) -> Tuple[str, str]:
    """Return the name and the value of a header of ``--header``."""
    from ..client.config import Placeholders

    name, colon, value = item.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--header {item!r}: write 'Name: value'")
    try:
        return name.strip(), Placeholders(os.environ, None).fill(value.strip())
    except TransportError as error:
        raise UsageError(f"--header {name.strip()}: {error}") from error


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
    """Return the end of an error: how to write a list or an object; empty for values of other types."""
    if "array" in kinds:
        from shlex import quote

        items = [_number(item.strip()) for item in text.split(",")][:20]
        return f"; write {key}:={quote(json.dumps(items, ensure_ascii=False))}"
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


STATUS = """\
exit status: 0 done, 1 the tool reported an error, 2 wrong usage, 3 the server answered with an
error, 4 no connection, it was lost, or no authorization, 5 no answer in time, 6 the output cannot
be written, 130 interrupted.
"""
TARGET = """\
TARGET is a Python file, module:name, a command in quotes, a URL, an OpenAPI document of JSON or YAML, or a
configuration file: mcp.json:name is one of its servers, and list, describe and ping take mcp.json for all
of them. What follows -- is no option, whatever it begins with.
"""
ARGUMENTS = """
arguments: key=value is text (or the type in the tool's schema), key:=json is any JSON value,
key=@file is the text of a file, '{...}' and - are a JSON object, in one word or on stdin.
"""
#: By keyword argument of the Python API: the option of the command line that an error text names in its place.
NAMES = {
    "ask": "",  # left out: a command that needs a login says at the end how to log in
    "auth": "--header 'Authorization: Bearer ...'", "client_id": "--client-id", "client_metadata_url": "--client-metadata-url",
    "client_name": "--client-name", "client_secret": "--client-secret-env", "cwd": "--cwd", "env": "--env",
    "issuer": "--issuer", "max_timeout": "--max-timeout", "open_timeout": "--timeout", "redirect_uri": "--redirect-uri",
    "revision": "--revision", "scopes": "--scope", "timeout": "--timeout",
}


def parse(arguments: Optional[List[str]], package: str, version: str) -> argparse.Namespace:
    """Return ``command``, ``words`` and the options; exits with the usage if the command line is wrong.

    :param package: the name after ``python -m``.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    # All arguments behind "--" are words, whatever they begin with. The rules of argparse for "--" differ by version of Python.
    end = given.index("--") if "--" in given else len(given)
    command = next((word for word in given[:end] if not word.startswith("-")), None)
    if command is not None and command not in COMMANDS and _is_target(command):
        command, given, end = "describe", ["describe", *given], end + 1
    known = command if command in COMMANDS else None
    parser, own = _parser(package, version, known, known is None or given[0].startswith("-"))
    if not given:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    if command != known:
        parser.error(f"there is no command {command!r}{did_you_mean(str(command), COMMANDS)}; --help lists them, and a server"
                     " is a file, a URL, a command in quotes or module:name")
    # Words may stand before, between and after the options; argparse returns all but the first group as unknown.
    options, more = parser.parse_known_args(given[:end])
    strange = [word for word in more if word.startswith("-") and word != "-"]
    if strange:
        name = strange[0].partition("=")[0]
        hint = did_you_mean(name, _options_of(own))
        if known is not None and "key=value" in COMMANDS[known].form:
            hint += f"; an argument has no dashes: {name.lstrip('-')}=VALUE"
        parser.error(f"unrecognized arguments: {' '.join(strange)}{hint}")
    options.words += [*more, *given[end + 1:]]
    return options


def take_verb(words: List[str], options: argparse.Namespace) -> Tuple[str, str]:
    """Return the name of a command for errors, and the form of its words; set ``options.verb`` if the command has verbs.

    :param words: of the command. The verb is removed from them.
    :raises UsageError: the verb is missing, or unknown.
    """
    command, row = options.command, COMMANDS[options.command]
    forms = row.forms()
    if not forms:
        return command, row.form
    options.verb = words.pop(0) if words else ""
    if options.verb not in forms:
        said = f"{options.verb!r} is unknown" if options.verb else "what to do is missing"
        raise UsageError(f"{command}: {said}; write: {command} {row.form}")
    return f"{command} {options.verb}", forms[options.verb]


def check_words(words: List[str], called: str, form: str, configured: bool) -> None:
    """Check the number of words before a server is started.

    :param called, form: what :func:`take_verb` has returned.
    :param configured: whether the server comes from a file, so that there is no word for it.
    :raises UsageError: a word is missing, or there is one too many.
    """
    names = form.partition(" [")[0].split()[1 if configured else 0:]
    if len(words) < len(names):
        raise UsageError(f"{called}: {names[len(words)]} is missing; write: {called} {form}")
    most = len(names) + ("[NAME]" in form)
    if len(words) > most and "..." not in form:
        raise UsageError(f"{called}: {words[most]!r} is one argument too many; write: {called} {form}")


def program_of(package: str) -> str:
    """Return the words that start the command line: *package*, if the script of this name has started it, or the module."""
    started = os.path.basename(sys.argv[0])
    return package if started.partition(".")[0] == package else f"python -m {package}"


def option_names(package: str, version: str, command: str) -> List[str]:
    """Return the options of a command, those that take a value with a ``=`` at the end.

    :param package: the name after ``python -m``.
    """
    return _options_of(_parser(package, version, command, False)[1], "=")


def _options_of(parser: Optional[argparse.ArgumentParser], valued: str = "") -> List[str]:
    return [f"{option}{'' if action.nargs == 0 else valued}" for action in (parser._actions if parser is not None else ())
            for option in action.option_strings if option.startswith("--")]


def _is_target(word: str) -> bool:
    """Return whether a word in place of a command can name a server."""
    return word in HOST_NAMES or os.path.isfile(word) or any(mark in word for mark in "./:@ ") or os.sep in word


def _parser(package: str, version: str, command: Optional[str], whole: bool
            ) -> Tuple[argparse.ArgumentParser, Optional[argparse.ArgumentParser]]:
    """Return the parser, and the parser of one command, for which alone the options are added.

    :param command: the command, whose module is loaded; None for none.
    :param whole: whether the parser knows the other commands, too: the help of the whole command line lists them.
    """
    program = program_of(package)
    shown = ["weather.py", *(row.examples[0] for row in COMMANDS.values() if row.examples)]
    parser = argparse.ArgumentParser(
        prog=program, description="Use any MCP server from the command line. Without a command, TARGET alone describes it.",
        epilog=_epilog(shown, ARGUMENTS), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"{package} {version}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, row in COMMANDS.items() if whole or command is None else [(command, COMMANDS[command])]:
        one = commands.add_parser(
            name, usage=f"{program} {name} [options] {row.form}".rstrip(), help=row.purpose,
            description=row.purpose[0].upper() + row.purpose[1:] + ".", formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == command:
            _fill(one, name, program, package)
    return parser, None if command is None else commands.choices[command]


def _fill(one: argparse.ArgumentParser, command: str, program: str, package: str) -> None:
    row, (module, _) = COMMANDS[command], load(command)
    if row.needs:
        _add_server_options(one)
    one.add_argument("words", nargs="*", help=argparse.SUPPRESS)  # the usage names them
    arguments = ARGUMENTS if "key=value" in row.form or "name:=json" in row.form else ""
    one.epilog = getattr(module, "HELP", None) or _epilog(row.examples, arguments)
    if hasattr(module, "add_arguments"):
        module.add_arguments(one, command)
    if not row.needs:
        one.add_argument("--debug", action="store_true", help="show each step, and tracebacks, on stderr")
    one.epilog = one.epilog.replace("%(prog)s", program).replace("PACKAGE", package)


def _add_server_options(one: argparse.ArgumentParser) -> None:
    """Add the options of all commands that use a server."""
    one.add_argument("--json", action="store_true",
                     help="print the whole result as JSON, and an error as one line of JSON on stderr")
    one.add_argument("--config", metavar="FILE", help="a file with mcpServers, whatever its name, in place of TARGET")
    one.add_argument("--server", metavar="NAME", help="the server to use in --config; not needed if it has only one")
    one.add_argument("--revision", metavar="DATE", help="the only protocol revision to accept")
    one.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS",
                     help="time limit of connecting, and of each request, which progress begins again; default 60")
    one.add_argument("--max-timeout", type=float, default=300.0, metavar="SECONDS",
                     help="time limit of each request, whatever its progress; default 300")
    one.add_argument("--env", action="append", default=[], metavar="KEY[=VALUE]",
                     help="a variable for the server, by default with its value here; repeatable")
    one.add_argument("--cwd", metavar="FOLDER", help="the server's working directory")
    one.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'",
                     help="sent with every request to a URL; ${VAR} is a variable of the environment; repeatable")
    one.add_argument("--root", action="append", default=[], metavar="PATH",
                     help="a folder that the server may work in; repeatable")
    one.add_argument("--record", metavar="FILE",
                     help="write all messages to a file that `replay` serves; values that look like secrets are masked")
    one.add_argument("--keep", metavar="NAME",
                     help="keep the server connected when the command has ended; later commands use it as @NAME")
    one.add_argument("--idle", type=float, default=30.0, metavar="MINUTES",
                     help="with --keep: how long it stays without a command; default 30")
    one.add_argument("--log-level", metavar="LEVEL", help="show the server's log messages from this level on")
    one.add_argument("--debug", action="store_true", help="show every message, the server's stderr and tracebacks on stderr")


def _epilog(examples: Iterable[str], arguments: str) -> str:
    lines = "".join(f"  %(prog)s {line}\n" for line in examples)
    return f"{TARGET}\nexamples:\n{lines}{arguments}\n{STATUS}"
