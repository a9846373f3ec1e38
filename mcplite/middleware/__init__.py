"""Ready middleware for servers: limits, caches, logs, audit and filters; also JSON logs, health routes and the server's card.

Each is a callable ``(ctx, proceed)`` for ``Server(middleware=[...])``, the first of which is outermost, and is short enough
to be copied and changed. They use what a handler has, ``ctx.store`` first of all, so that with ``backend=`` they hold for all
processes of a server. Each name is loaded with its first use::

    Server("shop", middleware=[LogRequests(), AuditLog("audit.jsonl"), LimitRate(60), CacheResults(300), LimitResults()])
              |                      |                 |                  |                |
    request --'--- is logged --------'--- is noted ----'--- may be refused '- is known? ---'---> handler
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from .call_limits import FilterTools as FilterTools, LimitRate as LimitRate, LimitResults as LimitResults
    from .call_results import CacheResults as CacheResults, RepeatCalls as RepeatCalls
    from .health import health_routes as health_routes
    from .request_logs import (
        AuditLog as AuditLog,
        JSONFormatter as JSONFormatter,
        LogRequests as LogRequests,
        ServerTiming as ServerTiming,
    )
    from .server_card import card_routes as card_routes

__all__ = [
    "AuditLog", "CacheResults", "FilterTools", "JSONFormatter", "LimitRate", "LimitResults", "LogRequests", "RepeatCalls",
    "ServerTiming", "card_routes", "health_routes",
]

#: By module, relative to this folder: the names that it defines.
_HOMES = {
    ".call_limits": ("FilterTools", "LimitRate", "LimitResults"),
    ".call_results": ("CacheResults", "RepeatCalls"),
    ".health": ("health_routes",),
    ".request_logs": ("AuditLog", "JSONFormatter", "LogRequests", "ServerTiming"),
    ".server_card": ("card_routes",),
}


def __getattr__(name: str) -> Any:
    """Load *name* on its first use (PEP 562)."""
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module, __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return list(__all__)
