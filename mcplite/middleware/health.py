"""Health and readiness over HTTP, for load balancers and orchestrators: routes beside the endpoint that need no token."""

import json
import threading
import time
from typing import Any, Callable, Dict, Optional, Tuple

from ..errors import BackendError, RemoteError
from ..rpc.tracing import get_logger
from ..server.app import Server
from ..server.handling.http_request import HTTPRequest

__all__ = ["health_routes"]

_log = get_logger(__name__)
#: Seconds for which a finding counts: any client may ask, and the store is not to be asked each time.
_KNOWN_SECONDS = 1.0
Answer = Tuple[int, str, bytes, Dict[str, str]]


def health_routes(server: Server, *, live: str = "/healthz", ready: str = "/readyz",
                  check: Optional[Callable[[], object]] = None) -> Dict[str, Callable[[HTTPRequest], Answer]]:
    """Return routes for ``routes=`` of ``serve``, ``run`` and ``wsgi``: whether the process lives, and whether it can serve.

    *live* answers 200 as long as the process answers. *ready* answers 200 if the shared backend can be reached and *check*
    does not fail. Otherwise it answers 503, and a load balancer sends clients elsewhere. Both say little, since any client may
    ask; reasons are in the log. A server that stops answers 503.

    :param server: whose backend is asked.
    :param live: the path of the first; default ``/healthz``.
    :param ready: the path of the second; default ``/readyz``.
    :param check: called at most once a second, raises or returns False if this process cannot serve at present.
    """
    #: Guards the finding, and is held while it is made: requests that come meanwhile share it.
    lock = threading.Lock()
    found: Dict[str, Any] = {"at": float("-inf"), "problem": ""}

    def is_ready(request: HTTPRequest) -> Answer:
        with lock:
            if time.monotonic() - found["at"] >= _KNOWN_SECONDS:
                found["problem"] = _problem(server, check)
                found["at"] = time.monotonic()
            return _answer("not ready: " + found["problem"] if found["problem"] else "ready", bool(found["problem"]))

    return {live: lambda request: _answer("alive", False), ready: is_ready}


def _answer(status: str, failed: bool) -> Answer:
    return 503 if failed else 200, "application/json", json.dumps({"status": status}).encode(), {"Cache-Control": "no-store"}


def _problem(server: Server, check: Optional[Callable[[], object]]) -> str:
    """Return which part cannot be used; empty for none."""
    processes = server.runtime.processes
    if processes.shared:
        try:
            processes.check()
            processes.backend.get("health/readiness")
        except BackendError as error:
            processes.failed(error)
            return "backend"
        except RemoteError:
            return "backend"
    try:
        if check is not None and check() is False:
            return "check"
    except Exception:
        _log.warning("the check of the readiness of %s failed", server.name, exc_info=True)
        return "check"
    return ""
