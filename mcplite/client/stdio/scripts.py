"""How a Python file is run as a server: by which Python, and as it is or by the server's command line.

Its syntax tells whether it starts a server when it is run, without running it; any other file is loaded by the server's command
line, which serves what it finds there. Inside of an application ``sys.executable`` may be the application.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import threading
from typing import Dict, Iterator, List, Union

from ...errors import TransportError

__all__ = ["interpreter", "starts_server"]

#: Names of interpreters: python3.11, pypy3, mayapy, hython and so on; not blender, qgis-bin, houdini or a frozen program.
_INTERPRETER = re.compile(r"py|hython")


def interpreter() -> str:
    """Return the path of a Python interpreter like the one that runs this program.

    It is ``sys.executable``. Where that is an application which embeds Python (QGIS, Houdini, Maya), it is the
    interpreter that the application has brought with it: starting the application again would open another window.

    :raises TransportError: there is none, as in a frozen program.
    """
    executable = sys.executable or ""
    name = os.path.basename(executable).lower()
    if not getattr(sys, "frozen", False):
        if _INTERPRETER.search(name):
            return executable
        for path in _beside(sys.prefix) + _beside(sys.base_prefix):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    where = f"this program is {executable}" if executable else "Python does not know which program it runs in"
    raise TransportError(f"no Python interpreter to run the server with: {where}, and there is none in {sys.prefix}; give"
                         " the whole command, as in connect(['/path/to/python', 'server.py'])")


def _beside(prefix: str) -> List[str]:
    """Return where an installation has its interpreter, the most exact name first."""
    if os.name == "nt":
        return [os.path.join(prefix, "python.exe"), os.path.join(prefix, "Scripts", "python.exe")]
    exact = "python{}.{}".format(*sys.version_info)
    return [os.path.join(prefix, "bin", name) for name in (exact, "python3", "python")]


#: Modules whose ``run()`` starts no server itself, but may be given a function that does.
_RUNNERS = ("asyncio", "anyio", "trio", "subprocess", "sys", "os")
_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
#: Guards the parser of Python 3.11, which counts the depth of all threads in one place, and raises SystemError when two parse
#: at once; held for one file.
_parsing = threading.Lock()


def starts_server(source: bytes) -> bool:
    """Return whether running a file would serve MCP.

    It would if the code that runs, at the top level or in the main part, calls something like ``mcp.run()``,
    ``run_stdio(server)`` or ``server.serve()``, reads ``sys.stdin``, or calls, without arguments, an imported function with the
    name ``main``, ``cli``, ``app`` or ``server``: that is the main part of a package. The functions of the file that are called
    there are looked into as well.

    :param source: the file, which may begin with a byte order mark or declare an encoding. One with errors counts as a script,
        so that Python itself reports them.
    """
    try:
        with _parsing:
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    functions: Dict[str, _Function] = {
        one.name: one for one in tree.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
    imported = {alias.asname or alias.name for one in tree.body if isinstance(one, ast.ImportFrom) for alias in one.names}
    waiting: List[ast.AST] = [tree]
    while waiting:
        top = waiting.pop()
        for node in _run_nodes(top):
            if isinstance(node, ast.Attribute) and node.attr == "stdin":
                return True
            if not isinstance(node, ast.Call):
                continue
            if _serves(node, imported if top is tree else set()):
                return True
            # The function that is called, and those that are called for asyncio.run(main()) or given to anyio.run(main).
            for name in (node.func, *(node.args if _is_runner(node.func) else ())):
                if isinstance(name, ast.Name) and name.id in functions:
                    waiting.append(functions.pop(name.id))
    return False


def _serves(call: ast.Call, imported: "set[str]") -> bool:
    if isinstance(call.func, ast.Name):
        name = call.func.id
        return _is_serving(name) or (name in imported and name in ("main", "cli", "app", "server") and not call.args)
    return (isinstance(call.func, ast.Attribute) and _is_serving(call.func.attr) and not _is_runner(call.func))


def _is_serving(name: str) -> bool:
    return name in ("run", "serve") or name.startswith(("run_", "serve_")) or "stdio" in name


def _is_runner(function: ast.expr) -> bool:
    return (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
            and function.value.id in _RUNNERS)


def _run_nodes(top: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a file or of a function that run with it: not the bodies of what it defines."""
    waiting = list(ast.iter_child_nodes(top))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
