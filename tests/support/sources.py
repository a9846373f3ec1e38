"""The sources of the package, which are read and parsed once for all tests about them."""

import ast
import functools
import gc
from pathlib import Path

import mcplite

__all__ = ["FILES", "PACKAGE", "ROOT", "nodes", "parsed"]

PACKAGE = Path(mcplite.__file__).resolve().parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))


@functools.lru_cache(maxsize=None)
def _all_parsed():
    # A million objects that stay: collecting garbage among them would take as long as parsing does.
    gc.disable()
    try:
        return {path: ast.parse(path.read_text("utf-8")) for path in FILES}
    finally:
        gc.enable()
        gc.freeze()


@functools.lru_cache(maxsize=None)
def nodes(path):
    """Return all nodes in the syntax tree of a file of the package."""
    return list(ast.walk(parsed(path)))


def parsed(path):
    """Return the syntax tree of a file of the package."""
    return _all_parsed()[path]
