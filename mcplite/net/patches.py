"""Whether a library has replaced parts of ``requests`` for the whole process, as tests and tracing do.

:mod:`.routes` asks when a client is opened. Nothing is imported for it: what is not loaded, was not replaced.
"""

import sys
from types import FunctionType
from typing import Any, Sequence, Tuple

__all__ = ["requests_is_patched"]

#: Module, class and methods by which a request travels.
_PARTS: Sequence[Tuple[str, str, Sequence[str]]] = (
    ("requests.sessions", "Session", ("request", "send", "get_adapter", "prepare_request")),
    ("requests.adapters", "HTTPAdapter", ("send", "build_response")),
    ("urllib3.connectionpool", "HTTPConnectionPool", ("urlopen", "_get_conn", "_new_conn")),
)


def requests_is_patched() -> bool:
    """Return whether ``requests``, or the pools of ``urllib3`` under it, have methods that are not their own."""
    package = sys.modules.get("requests")
    if package is None:
        return False
    for module_name, class_name, methods in _PARTS:
        module = sys.modules.get(module_name)
        if module is None:
            continue
        # The class that programs use, which may be replaced as a whole.
        owner: Any = getattr(package, class_name, None) or getattr(module, class_name, None)
        if not all(_is_own(getattr(owner, method, None), module) for method in methods):
            return True
    pools: Any = sys.modules.get("urllib3.connectionpool")
    return pools is not None and pools.HTTPConnectionPool.ConnectionCls.__module__ != "urllib3.connection"


def _is_own(method: Any, module: Any) -> bool:
    # A wrapper may have the name and the module of what it wraps, but not its globals.
    return type(method) is FunctionType and method.__globals__ is module.__dict__
