"""Reads the configuration files of hosts: the servers in an ``mcpServers`` file; starts none of them.

They are JSON with comments and trailing commas, as settings files have them; ``envFile`` names a file with variables.

Replaces ``${...}`` in configuration files: environment variables, the placeholders of editors, and a user's values.

``inputs`` of an editor's configuration are values that the user is asked for, in place of ``${input:id}``.
"""

import functools
import json
import os
import re
import shlex
import stat
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..errors import TransportError
from ..protocol.jsonrpc import bounded_int
from ..types.codec import kind_name

__all__ = [
    "Config", "ConfigInput", "Placeholders", "ServerConfig", "entry", "input_values", "load_config", "parse", "read_env_file",
    "to_json", "without_comments",
]


@dataclass
class ConfigInput:
    """A value that a configuration asks its user for."""

    id: str
    #: What to ask; empty if the file does not say.
    description: str = ""
    #: Whether the value is secret and must not be shown while it is typed.
    password: bool = False
    default: str = ""
    #: The values to choose from, each with its label; empty for any text.
    options: List[Tuple[str, str]] = field(default_factory=list)


def input_values(document: Any, ask: Callable[[ConfigInput], str]) -> Callable[[str], str]:
    """Return a function that gives the value of an input of the file by its id: each is asked for once, when it is needed.

    The function raises TransportError if the file has no such input, or one that runs a command of the editor.

    :param document: the file's content.
    :param ask: returns the user's value for an input.
    """
    found = document.get("inputs") if isinstance(document, Mapping) else None
    inputs = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []

    @functools.lru_cache(maxsize=None)
    def value(name: str) -> str:
        raw = next((one for one in inputs if one.get("id") == name), None)
        if raw is None:
            raise TransportError(f"${{input:{name}}}: the file's 'inputs' have no entry with the id {name!r}")
        if raw.get("type", "promptString") not in ("promptString", "pickString"):
            raise TransportError(f"${{input:{name}}}: an input of the type {raw['type']!r} works in an editor only; write"
                                 f" ${{VARIABLE}} and set that variable")
        options = raw.get("options")
        return ask(ConfigInput(name, str(raw.get("description") or ""), raw.get("password") is True,
                               str(raw.get("default") or ""),
                               [_option(one) for one in options] if isinstance(options, list) else []))

    return value


def _option(one: Any) -> Tuple[str, str]:
    if isinstance(one, Mapping):
        value = str(one.get("value", ""))
        return value, str(one.get("label") or value)
    return str(one), str(one)


_BRACE = re.compile(r"\$?\{|\}")
#: How many defaults may stand inside of each other.
_MOST_DEFAULTS = 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Placeholders:
    """Replaces ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``, ``${workspaceFolder}``, ``${userHome}`` and the like.

    :param environ: the variables.
    :param folder: the value of ``${workspaceFolder}``; None if the configuration is not in a file.
    :param ask: returns the value of ``${input:id}`` for an id; without it such a placeholder is an error.
    """

    def __init__(self, environ: Mapping[str, str], folder: Optional[str],
                 ask: Optional[Callable[[str], str]] = None) -> None:
        self._environ = environ
        self._folder = folder
        self._ask = ask

    def fill(self, text: str, depth: int = _MOST_DEFAULTS) -> str:
        """Return *text* with all placeholders replaced, once; placeholders in the replacements stay.

        A default may hold placeholders, which are replaced only if the default is used.

        :param depth: how many defaults may stand inside of each other.
        :raises TransportError: a variable is not set, or a kind of placeholder is not supported.
        """
        parts: List[str] = []
        position = 0
        for begin, end in _placeholders(text):
            name, separator, default = text[begin + 2:end].partition(":-")
            if begin >= position and "{" not in name:  # ${{ secrets.KEY }} is of another language
                parts += text[position:begin], self._value(name, default if separator else None, depth)
                position = end + 1
        return "".join([*parts, text[position:]])

    def _value(self, inside: str, default: Optional[str], depth: int) -> str:
        if inside in ("workspaceFolder", "workspaceFolderBasename"):
            if self._folder is None:
                raise TransportError(f"${{{inside}}} has no meaning for a configuration that is not in a file")
            return self._folder if inside == "workspaceFolder" else os.path.basename(self._folder)
        if inside == "userHome":
            return os.path.expanduser("~")
        if inside in ("pathSeparator", "/"):
            return os.sep
        kind, colon, rest = inside.partition(":")
        if kind == "input" and colon:
            if self._ask is not None:
                return self._ask(rest)
            raise TransportError(f"${{{inside}}} would ask the user in an editor, which is not supported here;"
                                 f" write ${{VARIABLE}} and set that variable")
        name = rest if kind == "env" and colon else inside
        if name is inside and not _NAME.match(name):
            raise TransportError(f"${{{inside}}} is not supported; supported are ${{VARIABLE}}, ${{VARIABLE:-default}},"
                                 f" ${{env:VARIABLE}}, ${{workspaceFolder}} and ${{userHome}}")
        value = self._environ.get(name)
        if default is not None:
            if value:
                return value
            if not depth:
                raise TransportError(f"${{{inside}:-...}}: more than {_MOST_DEFAULTS} defaults stand inside of each other")
            return self.fill(default, depth - 1)
        if value is None:
            raise TransportError(f"the environment variable {name} is not set; set it, or write"
                                 f" ${{{name}:-default}}")
        return value


def _placeholders(text: str) -> List[Tuple[int, int]]:
    """Return where each ``${`` begins and where the brace is that ends it, in their order."""
    found: List[Tuple[int, int]] = []
    begun: List[int] = []
    for match in _BRACE.finditer(text):
        if match.group() != "}":
            begun.append(match.start())
        elif begun:
            begin = begun.pop()
            if text[begin] == "$":
                found.append((begin, match.start()))
    return sorted(found)


# Each pattern also matches a string or a comment that has no end. If it did not, the end would be searched for from each quote
# or slash in it, which takes quadratic time.
_STRING = r'"(?:[^"\\]|\\.)*"?'
_COMMENT = re.compile(_STRING + r"|//[^\r\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_TOKEN = re.compile(_STRING + r"|\S", re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")
#: Digits of one integer; longer ones take quadratic time, or are refused by newer versions of Python.
_MOST_DIGITS = 4300


def to_json(text: str) -> str:
    """Return *text* with comments and trailing commas replaced by spaces, so that positions stay the same.

    Strings do not change. Text that is invalid for any other reason stays invalid.
    """
    plain = without_comments(text)
    pieces: List[str] = []
    done = 0
    # The two tokens before the current one: a comma is trailing if it follows a value.
    before, comma = "", ""
    comma_at = -1
    for token in _TOKEN.finditer(plain):
        now = token.group()
        if now in "]}" and comma == "," and before not in ("", "[", "{", ",", ":"):
            pieces += [plain[done:comma_at], " "]
            done = comma_at + 1
        before, comma, comma_at = comma, now, token.start()
    return "".join(pieces) + plain[done:]


def without_comments(text: str) -> str:
    """Return *text* with comments replaced by spaces; trailing commas stay."""
    return _COMMENT.sub(_without_comment, text)


def _without_comment(found: "re.Match[str]") -> str:
    text = found.group()
    if text[0] == '"' or (text[1] == "*" and (len(text) < 4 or not text.endswith("*/"))):
        return text  # a string, or a comment that has no end
    return _VISIBLE.sub(" ", text)


def parse(text: str, where: str) -> Tuple[Any, List[str]]:
    """Return the value of a JSON text, and the names that occur more than once in an object.

    :param text: the whole file.
    :param where: the file, for errors.
    :raises TransportError: it is not JSON, and the error has line and column; or it has an integer of more than 4300 digits.
    """
    twice: List[str] = []

    def build(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice.extend(sorted(name for name, count in counts.items() if count > 1))
        return result

    try:
        return json.loads(to_json(text), object_pairs_hook=build, parse_int=bounded_int(_MOST_DIGITS)), twice
    except json.JSONDecodeError as error:
        raise TransportError(f"{where}: line {error.lineno} column {error.colno} is not JSON: {error.msg}") from error
    except ValueError as error:
        raise TransportError(f"{where} is not usable JSON: {error}") from error
    except RecursionError as error:
        raise TransportError(f"{where} is nested too deeply") from error


_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)\Z", re.DOTALL)
_QUOTED = re.compile(r"""'([^']*)'\s*(?:#.*)?\Z|"((?:[^"\\]|\\.)*)"\s*(?:#.*)?\Z""")
#: The most bytes of a configuration file; those of hosts have some thousands.
_MOST_BYTES = 16 << 20
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_text(path: str, what: str = "file") -> str:
    """Return the text of a configuration file, without a byte order mark.

    :param what: what an error calls it.
    :raises TransportError: it cannot be read: it is missing, larger than 16 MiB, not UTF-8, or no regular file. A pipe or a
        device could give text without an end, and the program would never return from the read.
    """
    try:
        # O_NONBLOCK: opening a pipe without a writer would wait for one.
        with open(path, "rb", opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TransportError(f"write the variables or servers into a regular file: {path} is a pipe, a device or a"
                                     " socket")
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise TransportError(f"there is no {what} {path}") from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise TransportError(f"cannot read the {what} {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > _MOST_BYTES:
        raise TransportError(f"{path} is larger than {_MOST_BYTES >> 20} MiB, which no configuration is")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TransportError(f"{path} is not UTF-8 text (byte {error.start})") from error


def read_env_file(path: str) -> Dict[str, str]:
    """Return the variables of a file with lines such as ``NAME=value``.

    ``export`` before a name, quotes around a value, empty lines and comments are understood. Inside of double quotes
    ``\\n`` is a line end. Other variables are not filled in.

    :raises TransportError: the file cannot be read, or a line is none of these; its text is not in the error.
    """
    lines = read_text(path).splitlines()
    found: Dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.match(text)
        if match is None:
            raise TransportError(f"{path}, line {number}: write NAME=value")
        found[match.group(1)] = _value(match.group(2), f"{path}, line {number}")
    return found


def _value(text: str, where: str) -> str:
    if text[:1] not in ("'", '"'):
        return re.split(r"\s+#", " " + text if text.startswith("#") else text, maxsplit=1)[0].strip()
    match = _QUOTED.match(text)
    if match is None:
        raise TransportError(f"{where}: the quote does not end, or text follows it")
    if match.group(1) is not None:
        return match.group(1)
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(1)), match.group(2))


#: How hosts spell the types of transport, in lower case.
_TYPES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamable_http": "http",
          "streamablehttp": "http", "sse": "sse"}
#: The options by which uv, bun, yarn, pnpm and poetry are told the folder to work in.
_FOLDER_OPTIONS = frozenset({"--directory", "--cwd", "--dir", "-C"})
_SCRIPT = re.compile(r"\.(py|js|mjs|cjs|ts|sh|rb|php|jar)\Z")


@dataclass
class ServerConfig:
    """One server of a configuration, with its variables filled in.

    ``env`` and ``headers`` may hold secrets and are not part of the ``repr``.
    """

    name: str
    #: "stdio", "http" (Streamable HTTP) or "sse" (the transport of 2024).
    type: str
    command: Optional[str] = None
    args: List[str] = field(default_factory=list)
    env: Dict[str, str] = field(default_factory=dict, repr=False)
    cwd: Optional[str] = None
    url: Optional[str] = None
    headers: Dict[str, str] = field(default_factory=dict, repr=False)
    #: Whether the file disables this server.
    disabled: bool = False
    #: Doubtful parts that may fail elsewhere, such as relative paths (NS-58).
    warnings: List[str] = field(default_factory=list)
    #: Members that only some hosts know.
    extra: Dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def argv(self) -> List[str]:
        """The exact command that connecting starts (SAFE-07, NS-57); empty for a server with a URL."""
        return [] if self.command is None else [self.command, *self.args]

    def __str__(self) -> str:
        """Return the name and the exact command or URL, for a user who has to approve it.

        The headers that are sent to a URL are shown by their names alone, since their values may be secrets of the user's
        environment.
        """
        sent = f" (with the headers {', '.join(self.headers)})" if self.headers else ""
        return f"{self.name}: {shlex.join(self.argv) or self.url}{sent}"


@dataclass
class Config:
    """The servers of one configuration."""

    servers: Dict[str, ServerConfig] = field(default_factory=dict)
    #: The errors of bad entries, by name; other entries are usable nevertheless (NS-56).
    errors: Dict[str, Exception] = field(default_factory=dict)
    #: The file, as an absolute path; None for a dict.
    path: Optional[str] = None
    #: Warnings about the file as a whole.
    warnings: List[str] = field(default_factory=list)


def load_config(source: "Union[str, os.PathLike[str], Mapping[str, Any], Config]", *,
                environ: Optional[Mapping[str, str]] = None, ask: Optional[Callable[[ConfigInput], str]] = None,
                names: Optional[Collection[str]] = None) -> Config:
    """Read a host's configuration, without starting a server.

    Understands ``{"mcpServers": {...}}`` and the ``{"servers": {...}}`` of ``.vscode/mcp.json``, both with comments and
    trailing commas. Strings may contain ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``, ``${workspaceFolder}`` and
    ``${userHome}``; with *ask* also ``${input:id}``. ``envFile`` names a file of variables, whose relative path begins at the
    workspace folder; a variable in ``env`` overrides one in this file.

    :param source: a path, or the loaded document; a Config is returned as it is.
    :param environ: the variables; by default the environment of this process.
    :param ask: returns the user's value for an input of the file; called once for each input that an entry has.
    :param names: the entries to read; None for all.
    :returns: usable entries in ``servers``, reasons for the others in ``errors``.
    :raises TransportError: the file cannot be read, is not JSON or has no servers at all.
    """
    if isinstance(source, Config):
        return source
    config = Config()
    where, folder, document = "the configuration", None, source
    if not isinstance(source, Mapping):
        where = config.path = os.path.abspath(os.path.expanduser(os.fspath(source)))
        folder = os.path.dirname(where)
        if os.path.basename(folder) == ".vscode":
            folder = os.path.dirname(folder)
        document, twice = parse(read_text(where, "configuration file"), where)
        config.warnings += [f"{where}: {name!r} is there twice; the last one counts" for name in twice]
    placeholders = Placeholders(os.environ if environ is None else environ, folder,
                                None if ask is None else input_values(document, ask))
    for name, raw in _entries(document, where).items():
        if names is not None and name not in names:
            continue
        try:
            config.servers[name] = _Entry(name, raw, placeholders, folder).read()
        except TransportError as error:
            config.errors[name] = TransportError(f"{where}: server {name!r}: {error}")
    return config


def _entries(document: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise TransportError(f'{where} must be an object such as {{"mcpServers": {{...}}}},'
                             f" not {kind_name(document)}")
    for key in ("mcpServers", "servers"):
        entries = document.get(key)
        if entries is not None:
            if not isinstance(entries, Mapping):
                raise TransportError(f"{where}: {key!r} must be an object of servers by name, not {kind_name(entries)}")
            return entries
    if any(key in document for key in ("mcpServers", "servers")):
        return {}
    found = ", ".join(sorted(map(repr, document))) or "nothing"
    raise TransportError(f"{where} has neither 'mcpServers' nor 'servers'; it has {found}")


class _Entry:
    """One entry of a file on its way to a :class:`ServerConfig`."""

    def __init__(self, name: str, raw: Any, placeholders: Placeholders, folder: Optional[str]) -> None:
        self._name = name
        self._folder = folder
        if not isinstance(raw, Mapping):
            raise TransportError(f"must be an object, not {kind_name(raw)}")
        # Some programs that write such files set a member to null if it has no value.
        self._raw = {member: value for member, value in raw.items() if value is not None}
        #: Fills in variables; None for a disabled entry, whose variables are not filled in.
        self._placeholders: Optional[Placeholders] = placeholders

    def read(self) -> ServerConfig:
        """Return the entry; members that this package does not know go to ``extra``."""
        disabled = self._flag("disabled", False) or not self._flag("enabled", True)
        if disabled:
            self._placeholders = None
        kind = self._type()
        result = ServerConfig(
            self._name, kind, command=self._text("command"), args=self._list("args"), env=self._table("env"),
            cwd=self._text("cwd"), url=self._text("url"), headers=self._table("headers"),
            disabled=disabled, extra=self._raw)
        if kind == "stdio":
            if not result.command:
                raise TransportError("'command' is missing; a server of type stdio needs one")
            result.url, result.headers = None, {}
            path = self._text("envFile")
            if path is not None and not disabled:
                result.env = {**self._variables(path), **result.env}
            result.warnings = _doubts(result)
        else:
            if not result.url:
                raise TransportError(f"'url' is missing; a server of type {kind} needs one")
            if not result.url.startswith(("http://", "https://")):
                raise TransportError("'url' must begin with http:// or https://")
            result.command, result.args, result.env, result.cwd = None, [], {}, None
        return result

    def _type(self) -> str:
        named = self._raw.pop("type", None)
        if named not in (None, ""):
            if not isinstance(named, str) or named.lower() not in _TYPES:
                raise TransportError(f"'type' is {named!r}; it can be stdio, http or sse")
            return _TYPES[named.lower()]
        has_command, has_url = self._raw.get("command") not in (None, ""), self._raw.get("url") not in (None, "")
        if has_command and has_url:
            raise TransportError("has both 'command' and 'url'; choose one with 'type'")
        if not has_command and not has_url:
            raise TransportError("needs a 'command' to start, or a 'url' to connect to")
        return "stdio" if has_command else "http"

    def _fill(self, member: str, value: Any) -> str:
        if not isinstance(value, str):
            hint = f'; write "{value}"' if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
            raise TransportError(f"{member} must be a string, not {kind_name(value)}{hint}")
        if self._placeholders is None:
            return value
        try:
            return self._placeholders.fill(value)
        except TransportError as error:
            raise TransportError(f"{member}: {error}") from None

    def _text(self, member: str) -> Optional[str]:
        value = self._raw.pop(member, None)
        return None if value is None else self._fill(f"'{member}'", value) or None

    def _many(self, member: str, kind: Any, name: str) -> Any:
        value = self._raw.pop(member, kind())
        if not isinstance(value, Mapping if kind is dict else (list, tuple)):
            raise TransportError(f"'{member}' must be an {name} of strings, not {kind_name(value)}")
        return value

    def _list(self, member: str) -> List[str]:
        return [self._fill(f"{member}[{position}]", item) for position, item in enumerate(self._many(member, list, "array"))]

    def _table(self, member: str) -> Dict[str, str]:
        return {name: self._fill(f"{member}.{name}", item) for name, item in self._many(member, dict, "object").items()
                if item is not None}

    def _variables(self, path: str) -> Dict[str, str]:
        try:
            return read_env_file(os.path.join(self._folder or "", os.path.expanduser(path)))
        except TransportError as error:
            raise TransportError(f"'envFile': {error}") from error

    def _flag(self, member: str, default: bool) -> bool:
        value = self._raw.pop(member, default)
        if not isinstance(value, bool):
            raise TransportError(f"'{member}' must be true or false, not {kind_name(value)}")
        return value


def _doubts(server: ServerConfig) -> List[str]:
    """Return warnings about a command that is valid but may not work everywhere."""
    found = []
    command = server.command or ""
    if os.path.dirname(command) and not os.path.isabs(command):
        found.append(f"command {command!r} is a relative path, whose meaning depends on where the host was started;"
                     f" write an absolute one")
    elif " " in command and not server.args and not os.path.dirname(command):
        found.append(f"command {command!r} has spaces and is taken for one program; arguments belong in 'args'")
    if server.cwd is not None and not os.path.isabs(server.cwd):
        found.append(f"cwd {server.cwd!r} is a relative path; write an absolute one")
    # A launcher such as uv may be told the folder to work in, as an absolute path.
    options = [argument.partition("=") for argument in server.args]
    folders = [rest if equals else value for (option, equals, rest), value in zip(options, [*server.args[1:], ""])
               if option in _FOLDER_OPTIONS]
    if server.cwd is None and not any(map(os.path.isabs, folders)):
        found += [f"argument {argument!r} looks like a relative path, whose meaning depends on where the host was"
                  f" started; write an absolute one, or set 'cwd'"
                  for argument in server.args
                  if _SCRIPT.search(argument) and not os.path.isabs(argument) and not argument.startswith("-")]
    return found


def _starts_server(path: str) -> bool:
    from .stdio.scripts import starts_server

    with open(path, "rb") as file:
        return starts_server(file.read())


def entry(target: str, args: Sequence[str] = (), *, env: Optional[Mapping[str, str]] = None,
          cwd: Optional[str] = None, headers: Optional[Mapping[str, str]] = None) -> Dict[str, Any]:
    """Return the entry of a server for a host's configuration: the value under its name (NS-55).

    ``{"mcpServers": {"weather": entry("weather.py")}}`` is a whole configuration.

    If a Python file starts a server when it is run, the command runs the file itself. If it starts none, the command runs
    ``-m mcplite.server`` to serve the file.

    :param target: a Python file; ``module`` or ``module:name`` or ``file.py:name`` for ``-m mcplite.server``; or the URL of
        a running server.
    :param args: further arguments of the program.
    :param env: variables that the server needs.
    :param cwd: its working directory; made absolute.
    :param headers: HTTP headers, for a URL.
    """
    if target.startswith(("http://", "https://")):
        result: Dict[str, Any] = {"type": "http", "url": target}
        if headers:
            result["headers"] = dict(headers)
        return result
    program = ["-m", __name__.rpartition(".client.")[0] + ".server"]
    place, colon, name = ("", "", "") if target.endswith(".py") else target.rpartition(":")
    if target.endswith(".py"):
        target = os.path.abspath(target)
        if not os.path.isfile(target) or _starts_server(target):
            program = []
    elif place.endswith(".py"):
        target = os.path.abspath(place) + colon + name
    program.append(target)
    result = {"command": sys.executable, "args": [*program, *args]}
    if env:
        result["env"] = dict(env)
    if cwd is not None:
        result["cwd"] = os.path.abspath(cwd)
    return result
