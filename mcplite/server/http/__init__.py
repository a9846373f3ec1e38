"""The HTTP endpoint without a socket: from requests to responses and event streams.

A request passes :mod:`.origins`, :mod:`.authorization` (its token), :mod:`.decision` and :mod:`.authorization` again (its
scopes); :mod:`.endpoint` goes through these steps and carries out the decision.
"""

from typing import Any

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
    endpoint = Endpoint(runtime, **options)
    if legacy_sse:
        from .legacy_sse import LegacySSE  # loaded only by servers that have such clients

        endpoint.add_routes(LegacySSE(endpoint).routes())
    return endpoint
