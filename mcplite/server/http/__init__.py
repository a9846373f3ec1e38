"""The HTTP endpoint without a socket: from requests to responses and event streams.

A request passes :mod:`.access` (its host and origin, and who asks), :mod:`.routing` (what to do) and
:mod:`.access` again (the scopes); :mod:`.endpoint` goes through these steps and carries out the decision.
"""

from typing import Any

from ..handling.dispatch import load_handler_calls
from ..runtime.runtime import Runtime
from .endpoint import Endpoint

__all__ = ["make_endpoint"]


def make_endpoint(runtime: Runtime, *, legacy_sse: bool = False, **options: Any) -> Endpoint:
    """Return the endpoint of a server.

    :param runtime: of the server.
    :param legacy_sse: also serves the two endpoints of the oldest revision's HTTP+SSE, at ``sse`` and ``messages``
        beside the endpoint.
    :param options: those of :class:`Endpoint`.
    :raises ValueError: an option is not valid.
    """
    load_handler_calls()
    endpoint = Endpoint(runtime, **options)
    if legacy_sse:
        from .legacy_sse import LegacySSE  # loaded only by servers that have such clients

        endpoint.add_routes(LegacySSE(endpoint).routes())
    return endpoint
