"""The command line: list, call, read, prompt, complete and ping any server.

May import: cli.arguments, cli.asking, cli.printing, client, client.config, client.placeholders, errors, protocol.codec, types, version
"""

import argparse
import io
import json
import logging
import os
import sys
from typing import Any, Callable, Dict, List, Optional

from .cli.arguments import UsageError, parse_arguments, parse_strings
from .cli.asking import Asker
from .cli.printing import ProgressBar, as_json, clean, first_binary, one_line, print_content, print_result, table
from .errors import MCPError, RequestTimeout, TransportError
from .types import LogMessage
from .version import __version__

__all__ = ["main"]

_EPILOG = """\
TARGET is a Python file, module:name, a command in quotes or a URL; with --config it is left out.

examples:
  %(prog)s list weather.py
  %(prog)s call weather.py forecast city=Rome days:=3
  %(prog)s call 'npx -y some-server' search query=@question.txt --json
  %(prog)s read notes.py note://today
  %(prog)s list https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'
  %(prog)s list --config mcp.json --server git

arguments: key=value is text (or what the tool's schema says), key:=json is any JSON value,
key=@file is a file's text, - is a JSON object on stdin.

exit status: 0 done, 1 the tool reported an error, 2 wrong usage, 3 the server answered with an
error, 4 no connection or it was lost, 5 no answer in time, 130 interrupted.
"""


def _parser() -> argparse.ArgumentParser:
    package = __package__ or ""  # with -m the name of this module is "__main__"
    program = f"python -m {package}"
    parser = argparse.ArgumentParser(
        prog=program, description="Use any MCP server from the command line.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"{package} {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the whole result as JSON")
    common.add_argument("--config", metavar="FILE", help="a file with mcpServers, in place of TARGET")
    common.add_argument("--server", metavar="NAME", help="which of the servers in --config; not needed for one")
    common.add_argument("--revision", metavar="DATE", help="the only protocol revision to accept")
    common.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for each request; default 60")
    common.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="a variable for the server; repeatable")
    common.add_argument("--cwd", metavar="FOLDER", help="the server's working directory")
    common.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'",
                        help="sent with every request to a URL; ${VAR} is a variable of the environment; repeatable")
    common.add_argument("--root", action="append", default=[], metavar="PATH", help="a folder the server may work in; repeatable")
    common.add_argument("--log-level", metavar="LEVEL", help="show the server's log messages from this level on")
    common.add_argument("--debug", action="store_true", help="show every message, the server's stderr and tracebacks on stderr")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (text, arguments) in _COMMANDS.items():
        one = commands.add_parser(
            name, usage=f"{program} {name} [options] {arguments}", help=text, parents=[common],
            description=text[0].upper() + text[1:] + ".", epilog=_EPILOG.replace("%(prog)s", program),
            formatter_class=argparse.RawDescriptionHelpFormatter)
        one.add_argument("words", nargs="*", help=argparse.SUPPRESS)  # named by the usage
        if name in ("call", "read"):
            one.add_argument("--output", metavar="FILE", help="save the first binary content, or the text")
    return parser


_COMMANDS: Dict[str, Any] = {
    "list": ("list a server's tools, resources and prompts", "TARGET"),
    "call": ("call a tool", "TARGET TOOL [key=value ...]"),
    "read": ("read a resource", "TARGET URI"),
    "prompt": ("show a prompt with its arguments filled in", "TARGET PROMPT [key=value ...]"),
    "complete": ("complete an argument of a prompt or of a resource template",
                 "TARGET PROMPT_OR_TEMPLATE ARGUMENT [VALUE [key=value ...]]"),
    "ping": ("connect, and ask whether the server is there", "TARGET"),
}


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command line; return the exit status."""
    options = _parse(arguments)
    if options.debug:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # no answer is lost for a sign that the terminal lacks
    try:
        status = _run(options)
        sys.stdout.flush()  # here and not at exit, where nothing could be said about it
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough. What is still buffered must go somewhere at exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return 0
    except (MCPError, ValueError, TypeError) as error:
        if options.debug:
            logging.getLogger(__name__).exception("failed")
        print(clean(str(error)), file=sys.stderr)
        return _status(error)


def _parse(arguments: Optional[List[str]]) -> argparse.Namespace:
    parser = _parser()
    # Words may stand before, between and after the options; argparse returns all but the first group as unknown.
    options, more = parser.parse_known_args(arguments)
    unknown = [word for word in more if word.startswith("-") and word != "-"]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    options.words += more
    return options


def _status(error: Exception) -> int:
    if isinstance(error, RequestTimeout):
        return 5
    if isinstance(error, TransportError):
        return 4
    return 3 if isinstance(error, MCPError) else 2


def _run(options: argparse.Namespace) -> int:
    from .client import connect

    if options.server and not options.config:
        raise UsageError("--server names a server in a file: give the file with --config")
    words = list(options.words)
    _check_words(words, options)
    target = _configured(options) if options.config else words.pop(0)
    handler = _ACTIONS[options.command]
    options.bar = ProgressBar()
    asker = Asker(alone=options.bar.hidden)
    extra: Dict[str, Any] = {}
    if options.root:
        extra["roots"] = options.root
    if options.log_level:
        extra["log_handler"] = lambda message: _logged(message, options)
    if _is_remote(target):
        if options.env or options.cwd:
            raise UsageError("--env and --cwd are for a server that is started here, not for a URL")
        extra["headers"] = dict(map(_header, options.header))
    else:
        if options.header:
            raise UsageError("--header is for a server behind a URL")
        if options.debug:
            extra["stderr"] = lambda line: _note(line, options)
        extra["env"] = dict(map(_variable, options.env))
        if options.cwd:
            extra["cwd"] = options.cwd
    client = connect(target, revision=options.revision, timeout=options.timeout, elicitation_handler=asker.form,
                     url_elicitation_handler=asker.url, debug=True if options.debug else None, **extra)
    with client:
        if options.log_level:
            client.set_log_level(options.log_level)
        return handler(client, words, options)


def _logged(message: LogMessage, options: argparse.Namespace) -> None:
    text = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
    _note(f"{message.level} {message.logger or 'server'}: {text}", options)


def _note(text: str, options: argparse.Namespace) -> None:
    with options.bar.hidden():
        print(clean(text), file=sys.stderr)


def _configured(options: argparse.Namespace) -> Any:
    from .client.config import load_config

    try:
        config = load_config(options.config)
    except TransportError as error:
        raise UsageError(str(error)) from error
    names = [name for name, server in config.servers.items() if not server.disabled] + list(config.errors)
    name = options.server or (names[0] if len(names) == 1 else None)
    if name in config.errors:
        raise UsageError(str(config.errors[name]))
    if name not in config.servers:
        raise UsageError(f"{options.config}: choose one with --server: {', '.join(names) or 'there are none'}")
    for warning in config.warnings + config.servers[name].warnings:
        print(clean(f"warning: {warning}"), file=sys.stderr)
    return config.servers[name]


def _variable(item: str) -> Any:
    name, equals, value = item.partition("=")
    if not equals or not name:
        raise UsageError(f"--env {item!r}: write KEY=VALUE")
    return name, value


def _is_remote(target: Any) -> bool:
    return bool(target.startswith(("http://", "https://")) if isinstance(target, str) else target.url)


def _header(item: str) -> Any:
    from .client.placeholders import Placeholders

    name, colon, value = item.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--header {item!r}: write 'Name: value'")
    try:
        return name.strip(), Placeholders(os.environ, None).fill(value.strip())
    except TransportError as error:
        raise UsageError(f"--header {name.strip()}: {error}") from error


def _check_words(words: List[str], options: argparse.Namespace) -> None:
    """Refuse too few and too many words before anything is started."""
    form = _COMMANDS[options.command][1]
    names = form.partition(" [")[0].split()[1 if options.config else 0:]
    if len(words) < len(names):
        raise UsageError(f"{options.command}: {names[len(words)]} is missing; it takes {form}")
    if len(words) > len(names) and "..." not in form:
        raise UsageError(f"{options.command}: {words[len(names)]!r} is too much; it takes {form}")


def _wire(value: Any, client: Any) -> Any:
    from .protocol import codec

    return codec.encode(value, client.revision)


def _list(client: Any, words: List[str], options: argparse.Namespace) -> int:
    found: Dict[str, List[Any]] = {}
    offered = client.server_capabilities
    if offered.tools is not None:
        found["tools"] = client.list_tools()
    if offered.resources is not None:
        found["resources"] = client.list_resources()
        found["resource templates"] = client.list_resource_templates()
    if offered.prompts is not None:
        found["prompts"] = client.list_prompts()
    if options.json:
        print(as_json({key.replace(" ", "_"): [_wire(item, client) for item in items] for key, items in found.items()}))
        return 0
    info = client.server_info
    print(one_line(f"{info.display_name} {info.version} (protocol {client.protocol_version})"))
    for kind, items in found.items():
        if items:
            print(f"\n{kind}:")
            print(table((_label(item), item.description or item.title or "") for item in items))
    if not any(found.values()):
        print("it offers no tools, resources or prompts")
    return 0


def _label(item: Any) -> str:
    if hasattr(item, "input_schema"):
        properties = item.input_schema.get("properties")
        required = item.input_schema.get("required")
        properties = properties if isinstance(properties, dict) else {}
        required = required if isinstance(required, list) else []
        return f"{item.name}({', '.join(name if name in required else name + '?' for name in properties)})"
    if hasattr(item, "arguments"):
        return f"{item.name}({', '.join(a.name if a.required else a.name + '?' for a in item.arguments or ())})"
    return str(getattr(item, "uri", None) or item.uri_template)


def _call(client: Any, words: List[str], options: argparse.Namespace) -> int:
    name, *words = words
    schema = next((tool.input_schema for tool in client.list_tools() if tool.name == name), None)
    arguments = parse_arguments(words, schema)
    try:
        result = client.call_tool(name, arguments, on_progress=options.bar)
    finally:
        options.bar.done()
    if not result.is_error:
        _save(result.content, options)
    if options.json:
        print(as_json(_wire(result, client)))
    elif result.is_error or not options.output:
        print_result(result, sys.stderr if result.is_error else sys.stdout)
    return 1 if result.is_error else 0


def _save(items: List[Any], options: argparse.Namespace) -> None:
    if options.output:
        data = first_binary(items)
        if data is None:
            raise UsageError("--output: there is nothing to save in the result")
        try:
            with open(options.output, "wb") as file:
                file.write(data)
        except OSError as error:
            raise UsageError(f"--output: cannot write {options.output}: {error.strerror}") from error


def _read(client: Any, words: List[str], options: argparse.Namespace) -> int:
    result = client.read_resource(words[0])
    _save(result.contents, options)
    if options.json:
        print(as_json(_wire(result, client)))
    elif not options.output:
        print_content(result.contents, sys.stdout)
    return 0


def _prompt(client: Any, words: List[str], options: argparse.Namespace) -> int:
    name, *words = words
    result = client.get_prompt(name, parse_arguments(words))
    if options.json:
        print(as_json(_wire(result, client)))
        return 0
    for message in result.messages:
        print(f"{one_line(message.role)}:")
        print_content([message.content], sys.stdout)
    return 0


def _complete(client: Any, words: List[str], options: argparse.Namespace) -> int:
    target, argument, *words = words
    where = {"resource": target} if "://" in target or "{" in target else {"prompt": target}
    value = words.pop(0) if words else ""
    result = client.complete(argument=argument, value=value, context=parse_strings(words), **where)
    if options.json:
        print(as_json(_wire(result, client)))
    else:
        for value in result.values:
            print(clean(value))
    return 0


def _ping(client: Any, words: List[str], options: argparse.Namespace) -> int:
    client.ping()
    info = client.server_info
    if options.json:
        print(as_json({"server": _wire(info, client), "protocolVersion": client.protocol_version}))
    else:
        print(one_line(f"{info.display_name} {info.version} answers (protocol {client.protocol_version})"))
    return 0


_ACTIONS: Dict[str, Callable[[Any, List[str], argparse.Namespace], int]] = {
    "list": _list, "call": _call, "read": _read, "prompt": _prompt, "complete": _complete, "ping": _ping,
}


if __name__ == "__main__":
    sys.exit(main())
