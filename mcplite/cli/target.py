"""From the command line to a connected client: the target, its options, and the stored login for its URL.

All commands that use a server start here; ``commands`` gets the connected client. A target is a URL, a command, a file with a
server, a server of a configuration file (the file as TARGET, FILE:NAME, or ``--config`` with ``--server``), a cassette, or
@NAME, a kept session.
"""

import argparse
import contextlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional

from ..client.client_options import ClientOptions
from ..client.config import Config, ConfigInput, load_config
from ..errors import AuthError, TransportError
from ..protocol.api_documents import is_api_document
from ..protocol.error_text import shown
from ..types import LogMessage
from .host_applications import HOSTS, no_server, servers_of
from .parser import UsageError, parse_header, parse_variable
from .printing import ProgressBar, clean, clean_line
from .terminal_questions import TerminalAsker

if TYPE_CHECKING:
    from ..testing.cassette import Cassette
    from .login import Stored

__all__ = [
    "cassette_of", "client_of", "configured_server", "connected", "load_servers", "server_names", "take_file", "url_of",
]

@contextlib.contextmanager
def connected(words: List[str], options: argparse.Namespace) -> Iterator[Any]:
    """Connect a client for the length of the block.

    :param words: the words after the command; TARGET is removed from them.
    :param options: gets ``bar``, the progress bar, and ``target``, the words that name the server in an example.
    :raises UsageError: the options do not fit together.
    :raises MCPError, TypeError, ValueError: see :func:`connect`.
    """
    with contextlib.ExitStack() as open_clients:
        client = open_clients.enter_context(client_of(words, options))
        with options.bar.saying_when_slow(f"still waiting for {_who(options)} to answer"):
            open_clients.enter_context(client)
        if options.log_level:
            client.set_log_level(options.log_level)
        yield client


def _who(options: argparse.Namespace) -> str:
    """Return the target as a message to the user shows it: a URL without the secrets that it may have."""
    word: str = options.target[-1]
    return clean_line(shown(word) if word.startswith(("http://", "https://")) else word)


@contextlib.contextmanager
def client_of(words: List[str], options: argparse.Namespace, **more: Any) -> Iterator[Any]:
    """Give the client, which is not open yet, for the length of the block.

    If the server asks for a login within the block, the error has the command to log in.

    :param more: further keywords of :func:`connect`.
    :raises UsageError: the options do not fit together.
    :raises TypeError, ValueError: see :func:`connect`.
    """
    from ..client import connect

    options.bar = ProgressBar()
    asker = TerminalAsker(alone=options.bar.hidden)
    target: Any
    if options.keep:
        from .kept_sessions import keep, kept_channel

        options.target = [keep(words, options)]
        target = kept_channel(options.keep)
    elif words and words[0].startswith("@") and not options.config:
        from .kept_sessions import kept_channel

        options.target = [words.pop(0)]
        if options.command == "bridge":
            raise UsageError(f"bridge: give the server itself in place of {options.target[0]}, which is a bridge already")
        if options.env or options.cwd or options.header:
            raise UsageError(f"{options.target[0]} is connected already: --env, --cwd and --header are for the command that"
                             " begins it with --keep")
        target = kept_channel(options.target[0][1:])
    elif options.config:
        target = configured_server(options, asker.setting if asker.has_terminal else None)
        options.target = ["--config", options.config, "--server", target.name]
        for warning in target.warnings:
            _warn(warning)
    else:
        target = words.pop(0)
        options.target = [target]
        if options.command == "replay" or target.endswith(".jsonl") and os.path.isfile(target):
            target = cassette_of(target, complete=options.command in ("bridge", "replay"))
    extra: Dict[str, Any] = dict(more)
    if options.timeout is not None:
        extra["open_timeout"] = options.timeout
    if options.root:
        extra["roots"] = options.root
    if options.log_level:
        extra["log_handler"] = lambda message: _logged(message, options)
    url = url_of(target)
    login = None if url is None else _Login(url, target, options, asker)
    revision = options.revision
    if hasattr(target, "serve_channel"):
        revision = revision or target.revision
    elif not options.target[0].startswith("@"):
        extra.update(_child_options(options) if login is None else {"headers": login.headers, "auth": login.grant})
    try:
        with _options_of(options) as own:
            yield connect(target, revision=revision, timeout=options.timeout, elicitation_handler=asker.form,
                          url_elicitation_handler=asker.url, options=own, debug=True if options.debug else None, **extra)
    except AuthError as error:
        if login is None:
            raise
        raise AuthError(login.explained(error), challenge=error.challenge, error=error.error) from error


@contextlib.contextmanager
def _options_of(options: argparse.Namespace) -> Iterator[ClientOptions]:
    """Give the options of the client; the recording that ``--record`` asks for ends with the block.

    :raises UsageError: the file of the recording cannot be written, or is no recording.
    """
    if not options.record:
        yield ClientOptions(max_timeout=options.max_timeout)
        return
    from ..testing.recording import CassetteWriter

    try:
        writer = CassetteWriter(options.record, " ".join(options.target))
    except (OSError, ValueError) as error:
        raise UsageError(f"--record: {error}") from error
    with writer:
        yield ClientOptions(max_timeout=options.max_timeout, on_message=writer)
    if writer.masked:
        _warn(f"{writer.masked} messages in {options.record} have values that look like secrets; they are written as ***")


def cassette_of(path: str, complete: bool = False) -> "Cassette":
    """Return the cassette of a file.

    :param complete: as for :class:`Cassette`.
    :raises UsageError: the file cannot be read, or is no cassette.
    """
    from ..testing.cassette import Cassette

    try:
        return Cassette(path, complete=complete)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error


def _logged(message: LogMessage, options: argparse.Namespace) -> None:
    text = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
    _note(f"{message.level} {message.logger or 'server'}: {text}", options)


def _note(text: str, options: argparse.Namespace) -> None:
    with options.bar.hidden():
        print(clean(text), file=sys.stderr)


def _warn(text: str) -> None:
    print(clean(f"warning: {text}"), file=sys.stderr)


def url_of(target: Any) -> Optional[str]:
    """Return the URL of the target; None if it has none, such as a server that is started here."""
    if isinstance(target, str):
        return target if target.startswith(("http://", "https://")) else None
    url: Optional[str] = getattr(target, "url", None)  # a cassette and a kept session have none
    return url or None


def _child_options(options: argparse.Namespace) -> Dict[str, Any]:
    """Return the options for a server that is started as a child process."""
    if options.header:
        raise UsageError("--header is for a URL, not for a server that is started here")
    extra: Dict[str, Any] = {"env": dict(map(parse_variable, options.env))}
    if options.debug:
        extra["stderr"] = lambda line: _note(line, options)
    if options.cwd:
        extra["cwd"] = options.cwd
    return extra


class _Login:
    """Headers and the stored login for a server behind a URL; it never starts a first login."""

    def __init__(self, url: str, target: Any, options: argparse.Namespace, asker: TerminalAsker) -> None:
        if options.env or options.cwd:
            raise UsageError("--env and --cwd are for a server that is started here, not for a URL")
        self._url = url
        self.headers: Dict[str, str] = dict(map(parse_header, options.header))
        names = {name.lower() for name in (*self.headers, *getattr(target, "headers", ()))}
        self._by_header = "authorization" in names
        #: Why the stored login is not used.
        self._reason: Optional[str] = None
        #: Uses and renews the stored login; None if there is none.
        self.grant: Any = None
        if not self._by_header:
            stored = self._stored()
            self.grant = None if stored is None else self._grant(stored, asker)

    def _stored(self) -> "Optional[Stored]":
        from .login import Stored

        try:
            return Stored(self._url)
        except (AuthError, ValueError) as error:
            # There is no place to store a login, or no safe way to send one.
            self._reason = f"a login to this URL is not possible: {error}"
            return None

    def _grant(self, stored: "Stored", asker: TerminalAsker) -> Any:
        try:
            return stored.grant(asker.alone)
        except AuthError as error:
            # The server may need no login. If it needs one, this is the reason why there is none.
            self._reason = "its stored login cannot be used, see the warning"
            _warn(str(error))
            return None

    def explained(self, error: AuthError) -> str:
        """Return the text of an error, with what the user can do about it, such as the command to log in."""
        from ..protocol.error_text import worded
        from .login import how_to_log_in
        from .parser import NAMES

        command, text = how_to_log_in(self._url, __name__.rpartition(".cli.")[0]), worded(error, NAMES)
        if self.grant is not None:
            return f"{text}\nTo log in again: {command}"
        if error.error:  # a 403, whose text is complete
            return text
        refused = f"{shown(self._url)} requires authorization (401)"
        if self._by_header:
            return f"{refused}, and refused the Authorization header that was sent"
        if self._reason is not None:
            return f"{refused}, and {self._reason}"
        return f"{refused}: log in with `{command}`, or give --header 'Authorization: Bearer ${{TOKEN}}'"


_FILE = re.compile(r"(?P<file>.+?\.jsonc?)(?::(?P<name>.+))?\Z")
_HOST = re.compile(rf"(?P<file>{'|'.join(HOSTS)})(?::(?P<name>.+))?\Z")


def take_file(words: List[str], options: argparse.Namespace) -> None:
    """Move a TARGET that is a configuration file or a host application, or a server of one, from the words to the options.

    :raises UsageError: the file does not exist, or ``--server`` names another server than the target.
    """
    found = None if options.config or not words else _FILE.match(words[0]) or _HOST.match(words[0])
    if found is None or "://" in words[0]:
        return
    if is_api_document(words[0]):
        return
    file, name = found.group("file"), found.group("name")
    if found.re is _HOST:
        if os.path.exists(words[0]):
            return
    elif not os.path.isfile(file):
        if " " in words[0]:
            return  # a command whose last argument is a file
        raise UsageError(f"there is no configuration file {os.path.abspath(file)}")
    if name and options.server and name != options.server:
        raise UsageError(f"{words[0]} and --server {options.server} name two servers; write one of them")
    del words[0]
    options.config, options.server = file, name or options.server


def server_names(options: argparse.Namespace) -> Dict[str, bool]:
    """Return for each server of the file whether it is enabled; a server whose entry has an error counts as enabled.

    :raises UsageError: the file cannot be read.
    """
    config = _load(options, None, None)
    return {**{name: not server.disabled for name, server in config.servers.items()}, **dict.fromkeys(config.errors, True)}


def configured_server(options: argparse.Namespace, ask: Optional[Callable[[ConfigInput], str]]) -> Any:
    """Return the server of ``--config`` and ``--server``, or the only one; the warnings of the file are added to its own.

    :param ask: returns the user's value for ``${input:...}``; None if there is no terminal.
    :raises UsageError: the file or the entry cannot be used, or has to be chosen.
    """
    config = _load(options, None, None)
    names = [name for name, server in config.servers.items() if not server.disabled] + list(config.errors)
    name = options.server or (names[0] if len(names) == 1 else None)
    if name in config.errors and ask is not None:
        config = _load(options, ask, name)
    if name in config.errors:
        raise UsageError(str(config.errors[name]))
    if name is not None and name not in config.servers:
        raise no_server(options.config, name, [*config.servers, *config.errors])
    if name is None:
        example = f"; or give it as the target, {options.config}:{names[0]}" if names else ""
        raise UsageError(f"{options.config}: choose a server with --server: {', '.join(names) or 'the file has none'}"
                         f"{example}")
    server = config.servers[name]
    server.warnings[:0] = config.warnings
    return server


def load_servers(options: argparse.Namespace) -> Config:
    """Return all servers of the file of the options.

    :raises UsageError: the file cannot be read.
    """
    return _load(options, None, None)


def _load(options: argparse.Namespace, ask: Optional[Callable[[ConfigInput], str]], name: Optional[str]) -> Config:
    try:
        source = {"mcpServers": servers_of(options.config)} if options.config in HOSTS else options.config
        return load_config(source, ask=ask, names=None if name is None else [name])
    except TransportError as error:
        raise UsageError(str(error)) from error
