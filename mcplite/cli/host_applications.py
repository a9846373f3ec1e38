"""The host applications that start MCP servers: where their configuration is, and the commands that change and read it.

``install`` writes the entry of a server, ``uninstall`` removes it, ``discover`` lists the servers that the hosts have. The
names of the hosts are targets of all other commands: ``list cursor`` and ``call cursor:weather forecast city=Rome``.

A file is replaced in one step, and a copy of the old one is kept beside it. If another program has changed the file since it
was read, nothing is written, and the user is told to try again.
"""

import argparse
import codecs
import importlib.util
import json
import os
import re
import shlex
import shutil
import stat
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from ..client.config import entry as python_entry, load_config, parse, read_text
from ..errors import TransportError
from ..protocol.error_text import did_you_mean
from . import config_edits
from .parser import STATUS, UsageError, parse_header, parse_variable, program_of
from .printing import clean

_PACKAGE = __name__.partition(".cli.")[0]

__all__ = ["HELP", "HOSTS", "HostApplication", "add_arguments", "host_of", "run", "servers_of"]


@dataclass(frozen=True)
class HostApplication:
    """What is known of one host application.

    In paths ``{home}`` is the user's folder, and ``{config}`` the folder where the system keeps the settings of programs.
    """

    title: str
    #: The user's file.
    path: str
    #: The file of a project, relative to the folder of the project; empty if the host has none.
    project: str = ""
    #: The user's file on Windows, if it has another path there; empty if not.
    windows: str = ""
    #: The environment variable that names another folder for the user's file; empty if the host reads none.
    variable: str = ""
    form: str = "json"
    section: str = "mcpServers"
    #: By the name of a member in an entry of ``mcpServers``: the name that this host has for it, if that is another one.
    members: Mapping[str, str] = field(default_factory=dict)
    #: The host's values of the member ``type``: for a server that it starts, and for one behind a URL. If they are empty, the
    #: entries have no such member.
    types: Tuple[str, str] = ("", "")
    #: Further members of a new entry.
    more: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it connects to URLs itself.
    urls: bool = True


#: By the name on the command line.
HOSTS: Dict[str, HostApplication] = {
    "claude-desktop": HostApplication("Claude Desktop", "{config}/Claude/claude_desktop_config.json", urls=False),
    "claude-code": HostApplication("Claude Code", "{home}/.claude.json", ".mcp.json", variable="CLAUDE_CONFIG_DIR",
                                   types=("stdio", "http")),
    "cursor": HostApplication("Cursor", "{home}/.cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": HostApplication("VS Code", "{config}/Code/User/mcp.json", ".vscode/mcp.json", section="servers",
                              types=("stdio", "http")),
    "gemini": HostApplication("Gemini CLI", "{home}/.gemini/settings.json", ".gemini/settings.json",
                              members={"url": "httpUrl"}),
    "codex": HostApplication("Codex", "{home}/.codex/config.toml", ".codex/config.toml", variable="CODEX_HOME", form="toml",
                             section="mcp_servers", members={"headers": "http_headers"}),
    "zed": HostApplication("Zed", "{home}/.config/zed/settings.json", ".zed/settings.json",
                           windows="{config}/Zed/settings.json", section="context_servers"),
    "windsurf": HostApplication("Windsurf", "{home}/.codeium/windsurf/mcp_config.json", members={"url": "serverUrl"}),
    "goose": HostApplication("goose", "{home}/.config/goose/config.yaml", windows="{config}/Block/goose/config/config.yaml",
                             form="yaml", section="extensions", types=("stdio", "streamable_http"),
                             members={"command": "cmd", "env": "envs", "url": "uri"}, more={"enabled": True, "timeout": 300}),
}
_ANY = HostApplication("the file", "", types=("stdio", "http"))


def host_of(word: str, project: bool = False) -> Tuple[HostApplication, str]:
    """Return a host application, and the path of its file.

    :param word: a name of :data:`HOSTS`, or the path of an ``mcp.json``.
    :param project: whether the file of the project in this folder is meant.
    :raises UsageError: there is no such host, or it has no file for a project.
    """
    host = HOSTS.get(word)
    if host is None:
        if not word.endswith((".json", ".jsonc")):
            raise UsageError(f"there is no host {word!r}{did_you_mean(word, HOSTS) or '.'} Write one of"
                             f" {', '.join(HOSTS)}, or the path of an mcp.json")
        if project:
            raise UsageError(f"--project is for a host by its name; {word} is a file already")
        return _host_of_file(word), os.path.abspath(os.path.expanduser(word))
    if project:
        if not host.project:
            raise UsageError(f"{host.title} has no file for a project; leave out --project")
        return host, os.path.abspath(host.project)
    return host, _path(host)


def _host_of_file(path: str) -> HostApplication:
    """Return the host whose form an ``mcp.json`` has: VS Code has another name for the section of the servers."""
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.exists(path):
        return HOSTS["vscode"] if os.path.basename(os.path.dirname(path)) == ".vscode" else _ANY
    document = parse(read_text(path) or "{}", path)[0]
    return HOSTS["vscode"] if isinstance(document, dict) and "mcpServers" not in document and "servers" in document else _ANY


def _path(host: HostApplication) -> str:
    other = os.environ.get(host.variable) if host.variable else None
    if other:
        return os.path.join(os.path.abspath(os.path.expanduser(other)), os.path.basename(host.path))
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        config = os.environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
    elif sys.platform == "darwin":
        config = os.path.join(home, "Library", "Application Support")
    else:
        config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    path = host.windows if sys.platform == "win32" and host.windows else host.path
    return os.path.normpath(path.format(home=home, config=config))


# --- reading -------------------------------------------------------------------------------------------------------


def servers_of(word: str, project: bool = False) -> Dict[str, Any]:
    """Return the servers of a host as an ``mcpServers`` document has them.

    An entry without a command and a URL is left out, such as one for an extension that the host contains.

    :raises TransportError: the file of the host cannot be read.
    :raises UsageError: as of :func:`host_of`.
    """
    host, path = host_of(word, project)
    document = config_edits.parse_document(read_text(path, "configuration file"), host.form, path)
    section = document.get(host.section) or {}
    if not isinstance(section, dict):
        raise TransportError(f"{path}: {host.section!r} must be an object of servers by name")
    found = {name: _from_host(host, raw) for name, raw in section.items() if isinstance(raw, dict)}
    return {name: one for name, one in found.items() if one.get("command") or one.get("url")}


def _from_host(host: HostApplication, raw: Mapping[str, Any]) -> Dict[str, Any]:
    ours = {theirs: name for name, theirs in host.members.items()}
    found = {ours.get(name, name): value for name, value in raw.items() if name not in host.more or name == "enabled"}
    if isinstance(found.get("command"), dict):  # Zed, until 2025: the command and its arguments in an object
        command = found.pop("command")
        found.update({"command": command.get("path"), "args": command.get("args") or [], "env": command.get("env") or {}})
    variable = found.pop("bearer_token_env_var", None)  # Codex
    if isinstance(variable, str):
        found["headers"] = {**(found.get("headers") or {}), "Authorization": f"Bearer ${{{variable}}}"}
    if found.pop("type", None) == "sse":
        found["type"] = "sse"
    return found


def no_server(place: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a server that a file does not have.

    :param known: the names of the servers that it has.
    """
    names = list(map(str, known))
    return UsageError(f"{place} has no server {name!r}{did_you_mean(name, names) or ';'} it has {', '.join(names) or 'none'}")


# --- writing -------------------------------------------------------------------------------------------------------


def _entry_of(host: HostApplication, target: str, options: argparse.Namespace) -> Tuple[str, Dict[str, Any]]:
    """Return a name for a server, and its entry as ``mcpServers`` has it, with absolute paths.

    :raises UsageError: the target or an option cannot be used.
    """
    words, more = shlex.split(target, posix=os.name == "posix"), list(options.words)
    env, headers = dict(map(parse_variable, options.env)), dict(map(parse_header, options.header))
    if target.startswith(("http://", "https://")):
        if env or options.cwd or more:
            raise UsageError("--env, --cwd and arguments are for a server that the host starts, not for a URL")
        name = _name_of_url(target)
        if host.urls:
            return name, python_entry(target, headers=headers)
        # The host knows only stdio: the bridge of this package connects to the URL for it.
        given = [word for one in headers.items() for word in ("--header", ": ".join(one))]
        return name, {"command": sys.executable, "args": ["-m", _PACKAGE, "bridge", target, *given]}
    if headers:
        raise UsageError("--header is for a URL, not for a server that the host starts")
    if len(words) == 1 and not shutil.which(target) and re.fullmatch(r".+\.py|(?:.+\.py|[A-Za-z_][\w.]*)(?::\w+)?", target):
        file = target.rpartition(":")[0] if ".py:" in target else target
        module = file.partition(":")[0].partition(".")[0]
        if not (os.path.isfile(file) if file.endswith(".py") else _has_module(module)):
            raise UsageError(f"there is no file {os.path.abspath(file)}" if file.endswith(".py") else
                             f"there is no program and no module {module!r}: give a Python file, module:name, a command in"
                             " quotes, or a URL")
        name = _name(os.path.splitext(os.path.basename(file.partition(":")[0]))[0].split(".")[0])
        return name, python_entry(target, more, env=env, cwd=options.cwd)
    command = shutil.which(os.path.expanduser(words[0])) if words else None
    if command is None:
        raise UsageError(f"there is no program {words[0] if words else target!r} on PATH: give a Python file, module:name, a"
                         " command in quotes, or a URL")
    found: Dict[str, Any] = {"command": os.path.abspath(command), "args": [*words[1:], *more]}
    if env:
        found["env"] = env
    if options.cwd:
        found["cwd"] = os.path.abspath(options.cwd)
    named = [word for word in (*words[1:], *more) if not word.startswith("-")] or words[:1]
    return _name(os.path.splitext(os.path.basename(named[0]))[0].partition("@")[0]), found


def _has_module(name: str) -> bool:
    sys.path.insert(0, os.getcwd())  # "python -m" searches this folder first, too
    try:
        return importlib.util.find_spec(name) is not None
    finally:
        sys.path.pop(0)


def _name_of_url(url: str) -> str:
    """Return a name for the server at a URL, by its host.

    If the host is an IP address, the name comes from the path, or from address and port if the path tells nothing.
    """
    parts = urlsplit(url)
    host = parts.hostname or "server"
    if not re.fullmatch(r"[\d.]+|.*:.*", host):
        return _name(host.split(".")[-2:][0])
    telling = [word for word in parts.path.split("/") if not re.fullmatch(r"(?:mcp|sse|api|v?\d*)", word, re.IGNORECASE)]
    return _name(telling[-1] if telling else parts.netloc.rpartition("@")[2])


def _name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-") or "server"


def _to_host(host: HostApplication, name: str, entry: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the entry of a server in the form of the host."""
    kind = host.types[1 if "url" in entry else 0]
    found: Dict[str, Any] = {"name": name, "type": kind} if host.form == "yaml" else {"type": kind} if kind else {}
    found.update({host.members.get(key, key): value for key, value in entry.items() if key != "type"})
    return {**found, **host.more}


HELP = """\
HOST is claude-desktop, claude-code, cursor, vscode, gemini, codex, zed, windsurf or goose, or the path
of an mcp.json. TARGET is a Python file, module:name, a command in quotes, or a URL. Paths are written
as absolute ones. Comments and all other entries of the file stay, and what it was is kept beside it, as
FILE.bak.

A host and a name are a TARGET of all other commands: HOST:NAME is one of its servers, HOST all of them.

examples:
  %(prog)s install claude-desktop weather.py
  %(prog)s install cursor weather.py --env API_KEY --print
  %(prog)s install vscode 'npx -y some-server' --name search --project
  %(prog)s install claude-desktop https://example.com/mcp
  %(prog)s uninstall cursor weather
  %(prog)s discover
  %(prog)s call cursor:weather forecast city=Rome

""" + STATUS


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of a command about host applications to its parser."""
    one.add_argument("--json", action="store_true", help="print what was done, or found, as JSON")
    if command == "discover":
        return
    one.add_argument("--print", action="store_true", help="print the change, as a diff, and write nothing")
    one.add_argument("--project", action="store_true", help="the file of the project in this folder, in place of the user's")
    if command == "install":
        one.add_argument("--name", metavar="NAME", help="the name of the server in the file; by default that of the target")
        one.add_argument("--replace", action="store_true", help="replace another server of this name")
        one.add_argument("--env", action="append", default=[], metavar="KEY[=VALUE]",
                         help="a variable for the server, by default with its value here; repeatable")
        one.add_argument("--cwd", metavar="FOLDER", help="the server's working directory")
        one.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'",
                         help="sent with every request to a URL; repeatable")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Carry out ``install``, ``uninstall`` or ``discover``; return the exit status."""
    if options.command == "discover":
        return _discover(options)
    word = words[0]
    host, path = host_of(word, options.project)
    text = _read(path)
    known = config_edits.parse_document(text, host.form, path).get(host.section) or {}
    if options.command == "install":
        options.words = words[2:]
        name, entry = _entry_of(host, words[1], options)
        name = options.name or name
        wanted = _to_host(host, name, entry)
        if isinstance(known, dict) and known.get(name, wanted) != wanted and not options.replace:
            raise UsageError(f"{path} has another server {name!r} already: add --replace to replace it, or --name OTHER")
        after = text if isinstance(known, dict) and known.get(name) == wanted else config_edits.with_entry(
            text, host.form, host.section, name, wanted, path)
        did, say = "added", f"Restart {host.title}, or let it read its settings again, to use it." if word in HOSTS else ""
    else:
        name, wanted = words[1], {}
        if name not in known:
            raise no_server(path, name, known)
        after = config_edits.without_entry(text, host.form, host.section, name, path)
        did, say = "removed", ""
    if options.print:
        from difflib import unified_diff

        print("".join(unified_diff(text.splitlines(keepends=True), after.splitlines(keepends=True), path, path)),
              end="")
        return 0
    backup = _write(path, text, after) if after != text else None
    if options.json:
        print(json.dumps({"host": word, "path": path, "name": name, "entry": wanted or None, "changed": after != text,
                          "backup": backup}, ensure_ascii=False))
        return 0
    place = f"{word}:{name}" if word in HOSTS and not options.project else f"{path}:{name}"
    print(clean(f"{did} {name!r} {'to' if wanted else 'from'} {path}" if after != text else
                f"{path} has this entry for {name!r} already"))
    if backup:
        print(clean(f"The file as it was: {backup}"))
    if wanted:
        print(clean("\n".join(filter(None, [say, f"Try it from here: {program_of(_PACKAGE)} list {shlex.quote(place)}"]))))
    return 0


def _read(path: str) -> str:
    """Return the text of a file with its line ends; empty if there is none."""
    return read_text(path, "configuration file") if os.path.lexists(path) else ""


def _write(path: str, before: str, after: str) -> Optional[str]:
    """Replace a file in one step; return the path of a copy of the old file, or None if there was none.

    :raises TransportError: the file cannot be written, or has changed since it was read.
    """
    path = os.path.realpath(path)  # a symbolic link stays: the file that it leads to is replaced
    temporary, backup = None, None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = after.encode()
        if os.path.exists(path):
            backup = path + ".bak"
            shutil.copy2(path, backup)
            with open(path, "rb") as file:
                data = codecs.BOM_UTF8 + data if file.read(3) == codecs.BOM_UTF8 else data
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=os.path.basename(path) + ".")
        with open(handle, "wb") as file:
            file.write(data)
        if backup is not None:
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        if _read(path) != before:
            raise TransportError(f"{path} was changed by another program meanwhile; nothing is written, so try again")
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise TransportError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            os.unlink(temporary)
    return backup


def _discover(options: argparse.Namespace) -> int:
    """Print the servers of all hosts."""
    rows: List[Dict[str, Any]] = []
    for word, host in HOSTS.items():
        for project in (False, True) if host.project else (False,):
            path = host_of(word, project)[1]
            if not os.path.isfile(path):
                continue
            row: Dict[str, Any] = {"host": word, "path": path, "project": project, "servers": {}}
            rows.append(row)
            try:
                config = load_config({"mcpServers": servers_of(word, project)})
            except TransportError as error:
                row["error"] = str(error)
                continue
            for name, server in config.servers.items():
                said = server.url or shlex.join([server.command or "", *server.args])
                row["servers"][name] = {"target": said, "disabled": server.disabled}
            row["servers"].update({name: {"error": str(error)} for name, error in config.errors.items()})
    if options.json:
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    for row in rows:
        print(clean(f"{HOSTS[row['host']].title}: {row['path']}"))
        if "error" in row:
            print(clean(f"  cannot be read: {row['error']}"))
        elif not row["servers"]:
            print("  no servers")
        for name, server in row["servers"].items():
            place = f"{row['path']}:{name}" if row["project"] else f"{row['host']}:{name}"
            more = "  (disabled)" if server.get("disabled") else ""
            print(clean(f"  {shlex.quote(place)}  {server.get('target') or server.get('error')}{more}"))
    if not rows:
        print(f"no host application has a configuration here; {program_of(_PACKAGE)} install HOST TARGET makes one; HOST is one"
              f" of {', '.join(HOSTS)}")
    return 0
