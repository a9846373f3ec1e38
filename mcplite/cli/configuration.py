"""A configuration file on the command line: as TARGET, as FILE:NAME, or with ``--config`` and ``--server``."""

import argparse
import os
import re
from typing import Any, Callable, Dict, List, Optional

from ..client.config import Config, load_config
from ..client.placeholders import ConfigInput
from ..errors import TransportError
from .arguments import UsageError

__all__ = ["configured_server", "server_names", "take_file"]

_FILE = re.compile(r"(?P<file>.+?\.jsonc?)(?::(?P<name>.+))?\Z")


def take_file(words: List[str], options: argparse.Namespace) -> None:
    """Move a TARGET that is a configuration file, or a server of one, from the words to the options.

    :raises UsageError: the file does not exist, or ``--server`` names another server than the target.
    """
    found = None if options.config or not words else _FILE.match(words[0])
    if found is None or "://" in words[0]:
        return
    file, name = found.group("file"), found.group("name")
    if not os.path.isfile(file):
        if " " in words[0]:
            return  # a command whose last argument is a file
        raise UsageError(f"there is no configuration file {os.path.abspath(file)}")
    if name and options.server and name != options.server:
        raise UsageError(f"{words[0]} and --server {options.server} name two servers; write one of them")
    del words[0]
    options.config, options.server = file, name or options.server


def server_names(options: argparse.Namespace) -> Dict[str, bool]:
    """Return for each server of the file whether it is in use; one that cannot be used is, one that is disabled is not.

    :raises UsageError: the file cannot be read.
    """
    config = _load(options, None, None)
    return {**{name: not server.disabled for name, server in config.servers.items()}, **dict.fromkeys(config.errors, True)}


def configured_server(options: argparse.Namespace, ask: Optional[Callable[[ConfigInput], str]]) -> Any:
    """Return the server of ``--config`` and ``--server``, or the only one; its warnings are complete.

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
    if name not in config.servers:
        example = f"; or give it as the target, {options.config}:{names[0]}" if names else ""
        raise UsageError(f"{options.config}: choose a server with --server: {', '.join(names) or 'the file has none'}"
                         f"{example}")
    server = config.servers[name]
    server.warnings[:0] = config.warnings
    return server


def _load(options: argparse.Namespace, ask: Optional[Callable[[ConfigInput], str]], name: Optional[str]) -> Config:
    try:
        return load_config(options.config, ask=ask, names=None if name is None else [name])
    except TransportError as error:
        raise UsageError(str(error)) from error
