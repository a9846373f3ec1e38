"""Clients and servers from flat keywords, for tests that take them as parameters: each goes where the front door has it."""

import inspect

import mcplite


def _split(callee, bag, given):
    known = inspect.signature(callee).parameters
    rest = {name: given.pop(name) for name in list(given) if name not in known}
    return {**given, "options": bag(**rest)} if rest else given


def connect(target, **given):
    """Return ``mcplite.connect(target, ...)``."""
    return mcplite.connect(target, **_split(mcplite.connect, mcplite.ClientOptions, given))


def connect_all(config, **given):
    """Return ``mcplite.connect_all(config, ...)``."""
    return mcplite.connect_all(config, **_split(mcplite.connect_all, mcplite.ClientOptions, given))


def new_server(name, **given):
    """Return ``mcplite.Server(name, ...)``."""
    return mcplite.Server(name, **_split(mcplite.Server, mcplite.ServerOptions, given))
