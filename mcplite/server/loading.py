"""Loads the server that the command line's TARGET names: a file, a module, an object in it, or plain functions."""

import importlib
import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any, Callable, Optional

from ..errors import RegistrationError
from .app import Server

__all__ = ["LoadError", "load"]


class LoadError(ValueError):
    """The target cannot be served; the text gives the reason and what to try."""


def load(target: str, name: Optional[str] = None) -> Server:
    """Return the server that *target* names.

    ``file.py`` and ``package.module`` are searched for a :class:`Server`; with ``:name`` it is the object of that name,
    or the result of calling it. If a module has no server, its public, annotated functions become the tools of one.

    :param target: ``file.py``, ``file.py:name``, ``package.module`` or ``package.module:name``.
    :param name: of a server that is made of functions; by default the module's.
    :raises LoadError: there is no such file, module or object, or nothing in it can be served.
    """
    location, attribute = _split(target)
    module = _file(location) if location.endswith(".py") else _module(location)
    if attribute:
        return _named(module, attribute, target)
    servers = {id(value): (key, value) for key, value in vars(module).items() if isinstance(value, Server)}
    if len(servers) == 1:
        return next(iter(servers.values()))[1]
    if servers:
        names = ", ".join(f"{location}:{key}" for key, _ in servers.values())
        raise LoadError(f"{location} has several servers; name one: {names}")
    return _from_functions(module, location, name)


def _split(target: str) -> "tuple[str, str]":
    location, colon, attribute = target.rpartition(":")
    # The colon of a drive letter separates no name: C:\tools\server.py
    if not colon or "/" in attribute or "\\" in attribute:
        return target, ""
    return location, attribute


def _file(path: str) -> ModuleType:
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise LoadError(f"there is no file {full}")
    folder, base = os.path.split(full)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as ``python file.py`` does, so that its imports work
    label = base[:-3]
    if label in sys.modules:
        label = f"{label} from {full}"  # the file's name can be that of an imported module, such as types.py
    spec = importlib.util.spec_from_file_location(label, full)
    assert spec is not None and spec.loader is not None, "the name ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[label] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[label]
        raise
    return module


def _module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise LoadError(f"{name!r} is not the name of a module")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise LoadError(f"there is no module {name!r} (looked in {os.getcwd()} and on sys.path);"
                        f" for a file, give its path with .py") from error


def _named(module: ModuleType, attribute: str, target: str) -> Server:
    value = getattr(module, attribute, None)
    if callable(value) and not isinstance(value, (Server, type)) and _takes_no_arguments(value):
        value = value()
    if not isinstance(value, Server):
        there = ", ".join(key for key, item in vars(module).items() if isinstance(item, Server)) or "none"
        raise LoadError(f"{target}: {attribute!r} is not a Server; servers in {module.__name__}: {there}")
    return value


def _takes_no_arguments(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _from_functions(module: ModuleType, location: str, name: Optional[str]) -> Server:
    short = os.path.basename(location)[:-3] if location.endswith(".py") else location.rpartition(".")[2]
    server = Server(name or short, instructions=inspect.getdoc(module) if module.__doc__ else None)
    skipped = []
    for key, value in vars(module).items():
        if key.startswith("_") or not inspect.isfunction(value) or value.__module__ != module.__name__:
            continue
        if not value.__annotations__:
            skipped.append(f"  {key}: it has no annotations; annotate it, or hide it as _{key}")
            continue
        try:
            server.add_tool(value)
        except RegistrationError as error:
            skipped.append(f"  {key}: {error}")
    if not server.registry.declared("tools"):
        why = "; these functions cannot be tools:\n" + "\n".join(skipped) if skipped else ""
        raise LoadError(f"{location} has neither a Server nor a public annotated function{why}")
    for line in skipped:
        print(f"not served:{line}", file=sys.stderr)
    return server
