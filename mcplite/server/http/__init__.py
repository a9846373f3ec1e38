"""The HTTP endpoint without a socket: who may enter, what a request is, what is answered and streamed."""

from typing import Any

from ..runtime.runtime import Runtime
from .endpoint import Exchange

__all__ = ["make_endpoint"]


def make_endpoint(runtime: Runtime, *, legacy_sse: bool = False, **options: Any) -> Exchange:
    """Return the endpoint of a server.

    :param runtime: of the server.
    :param legacy_sse: also serves the two endpoints of the oldest revision's HTTP+SSE, at ``sse`` and ``messages``
        beside the endpoint.
    :param options: those of :class:`Exchange`.
    :raises ValueError: an option is not written right.
    """
    endpoint = Exchange(runtime, **options)
    if legacy_sse:
        from .legacy_sse import LegacySSE  # for servers that have such clients

        endpoint.add_routes(LegacySSE(endpoint).routes())
    return endpoint
