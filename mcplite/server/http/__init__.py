"""The HTTP endpoint without a socket: from requests to responses and event streams.

A request passes :mod:`.access` (its host and origin, and who asks), :mod:`.routing` (what to do) and
:mod:`.access` again (the scopes); :mod:`.endpoint` goes through these steps and carries out the decision.
"""

from typing import Mapping, Optional, Sequence

from ..handling.dispatch import load_handler_calls
from ..runtime.runtime import Runtime
from ..state.response_bodies import OpenStreams
from .endpoint import Endpoint, Route

__all__ = ["make_endpoint"]


def make_endpoint(runtime: Runtime, *, path: str = "/mcp", allowed_hosts: Optional[Sequence[str]] = None,
                  allowed_origins: Sequence[str] = (), stateless: bool = False,
                  routes: Optional[Mapping[str, Route]] = None, legacy_sse: bool = False,
                  held: Optional[OpenStreams] = None) -> Endpoint:
    """Return the endpoint of a server; the other parameters are those of :class:`Endpoint`.

    :param runtime: of the server.
    :param legacy_sse: also serves the two endpoints of the oldest revision's HTTP+SSE, at ``sse`` and ``messages``
        beside the endpoint.
    :raises ValueError: an option is not valid.
    """
    load_handler_calls()
    endpoint = Endpoint(runtime, path=path, allowed_hosts=allowed_hosts, allowed_origins=allowed_origins,
                        stateless=stateless, routes=routes, held=held)
    if legacy_sse:
        from .legacy_sse import LegacySSE  # loaded only by servers that have such clients

        endpoint.add_routes(LegacySSE(endpoint).routes())
    return endpoint
