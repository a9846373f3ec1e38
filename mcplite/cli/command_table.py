"""The commands of the command line: what each is for, which words it takes, and the function that runs it.

The parser, the help, the dispatch, the shell and the completion all read :data:`COMMANDS`. The module of a command is loaded
when the command is used. If the module has ``add_arguments(parser, command)``, this adds the options of the command; if it has
``HELP``, this text stands behind them in the help.
"""

from importlib import import_module
from typing import Any, Dict, NamedTuple, Tuple

from ..rpc.deadline import end_at_interrupt

__all__ = ["COMMANDS", "HOST_NAMES", "CommandRow", "load"]

#: The host applications, which are targets as well; :mod:`.host_applications` has their files.
HOST_NAMES = ("claude-desktop", "claude-code", "cursor", "vscode", "gemini", "codex", "zed", "windsurf", "goose")


class CommandRow(NamedTuple):
    """One command."""

    #: What it is for, as the help has it.
    purpose: str
    #: The words behind its name, as the usage has them. If the command has verbs, " | " separates the forms of each.
    form: str
    #: The module in this folder, and its function, which returns the exit status.
    place: str
    #: What the function takes. "client": a connected client, the words behind TARGET, and the options. "target": words and
    #: options; if TARGET is a file of servers, it has been moved from the words to the options. "targets": all words as they
    #: are, and options. "": words and options as well, but the command has no options of servers.
    needs: str = ""
    #: Examples for the help of the command. The help of the whole command line has the first one, too.
    examples: Tuple[str, ...] = ()

    def forms(self) -> Dict[str, str]:
        """Return the form of the words behind each verb of the command, by verb; empty if it has no verbs."""
        parts = [part.partition(" ") for part in self.form.split(" | ") if part[:1].islower()]
        return {verb: words for verbs, _, words in parts for verb in verbs.split("|")}


#: By name, in the order of the help.
COMMANDS: Dict[str, CommandRow] = {
    "list": CommandRow("list a server's tools, resources and prompts", "TARGET", "listing.show_lists", "client",
        ("list weather.py", "list https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'")),
    "describe": CommandRow("describe a server, or one tool, prompt, resource or template, with examples to paste",
        "TARGET [NAME]", "listing.describe", "client",
        ("describe weather.py forecast", "describe weather.py --markdown > TOOLS.md", "describe 'npx -y some-server' --json")),
    "call": CommandRow("call a tool", "TARGET TOOL [key=value ...]", "commands.call", "client",
        ("call weather.py forecast city=Rome days:=3", "call 'npx -y some-server' search query=@question.txt --json")),
    "read": CommandRow("read a resource", "TARGET URI", "commands.read", "client",
        ("read notes.py note://today", "read https://example.com/mcp file:///logo.png --output logo.png")),
    "prompt": CommandRow("show a prompt with its arguments filled in", "TARGET PROMPT [key=value ...]", "commands.prompt",
        "client", ("prompt notes.py summary topic=rain", "prompt mcp.json:notes summary topic=@topic.txt --json")),
    "complete": CommandRow("complete an argument of a prompt or of a resource template",
        "TARGET PROMPT_OR_TEMPLATE ARGUMENT=VALUE [key=value ...]", "commands.complete", "client",
        ("complete notes.py summary topic=ra", "complete notes.py note://{day} day=to")),
    "ping": CommandRow("connect, and check that the server answers", "TARGET", "commands.ping", "client",
        ("ping weather.py", "ping https://example.com/mcp --timeout 5")),
    "request": CommandRow("send any request, and print its result as JSON", "TARGET METHOD [name:=json ...]",
        "commands.request", "client", ("request notes.py resources/read uri=note://today", "request weather.py tools/list")),
    "task": CommandRow("list, show, wait for or cancel tasks: tool calls that go on at a server",
        "list TARGET | show|wait|cancel TARGET ID", "commands.task", "client",
        ("task list https://example.com/mcp", "task wait https://example.com/mcp ID")),
    "watch": CommandRow("print changes of the lists, and of the resources named, until Ctrl-C", "TARGET [URI ...]",
        "watch_command.run", "client", ("watch notes.py", "watch notes.py note://today --json")),
    "shell": CommandRow("use a server from a prompt, with completion and history", "TARGET", "shell.run", "target"),
    "chat": CommandRow("talk with a language model that may use the tools of servers", "TARGET [TARGET ...]", "chat.run",
        "targets"),
    "inspect": CommandRow("use a server in a page in the browser, and see every message", "TARGET", "inspect_command.run",
        "target"),
    "bridge": CommandRow("offer a server on stdio or over HTTP, whatever its own transport and revisions are", "TARGET",
        "bridge_command.run", "target"),
    "replay": CommandRow("serve what was recorded with --record FILE, without the server", "FILE", "bridge_command.run",
        "target"),
    "sessions": CommandRow("list the sessions that --keep NAME keeps open in the background", "",
        "kept_sessions.list_sessions"),
    "stop": CommandRow("end sessions that are kept open", "NAME [NAME ...]", "kept_sessions.stop_sessions"),
    "login": CommandRow("log in to a server, and store the login", "URL", "login.run", "", ("login https://example.com/mcp",)),
    "logout": CommandRow("delete a stored login, and revoke its tokens", "URL", "login.run"),
    "token": CommandRow("print a valid access token, for curl and scripts", "URL", "login.run"),
    "check": CommandRow("check what a server offers, for its author and for CI: names, descriptions, schemas, hints", "TARGET",
        "check_command.run", "target",
        ("check weather.py", "check weather.py --fail-on warning --ignore argument-description")),
    "stub": CommandRow("write a typed client in Python for one server, with a method for each tool", "TARGET",
        "stub_command.run", "target",
        ("stub weather.py -o weather_client.py", "stub https://example.com/mcp --output client.py")),
    "completion": CommandRow("print what a shell evaluates so that Tab completes commands, options and the names of a server",
        "bash|zsh|fish", "completion.run"),
    "guide": CommandRow("print how an agent uses this command line, as a skill", "", "guide.run"),
    "doctor": CommandRow("walk a server and its login step by step, and say what is wrong", "URL", "doctor.run", "",
        ("doctor https://example.com/mcp",)),
    "install": CommandRow("write a server into the configuration of a host application", "HOST TARGET [ARGUMENT ...]",
        "host_applications.run"),
    "uninstall": CommandRow("remove a server from the configuration of a host application", "HOST NAME",
        "host_applications.run"),
    "discover": CommandRow("list the servers that the host applications here have", "", "host_applications.run"),
    "pack": CommandRow("write a server as a bundle (.mcpb), which applications install with a click", "FILE",
        "pack_command.run"),
    "users": CommandRow("add, change, remove or list the users of a server that issues its own tokens",
        "add|change|remove FILE NAME | list FILE", "users_command.run", "", ("users add users.txt ann",)),
}


def load(command: str) -> Tuple[Any, Any]:
    """Return the module of a command, and the function in it that runs the command."""
    name, _, function = COMMANDS[command].place.partition(".")
    with end_at_interrupt():
        module = import_module(f".{name}", __package__)
    return module, getattr(module, function)
