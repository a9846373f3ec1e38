"""What the processes of a server with a shared backend talk to each other with, as one value for the modules that do."""

from typing import NamedTuple

from ...backend.interface import Backend
from .leases import Leases
from .letters import Letters
from .outage import Outage
from .runtime import Runtime

__all__ = ["Shared", "shared_of"]


class Shared(NamedTuple):
    """What a server with a shared backend has for talking to other processes."""

    backend: Backend
    leases: Leases
    letters: Letters
    outage: Outage


def shared_of(runtime: Runtime) -> Shared:
    """Return what a server with a shared backend has for talking to other processes."""
    fleet, leases, letters, outage = runtime.fleet, runtime.leases, runtime.letters, runtime.outage
    assert fleet is not None and fleet.backend is not None
    assert leases is not None and letters is not None and outage is not None
    return Shared(fleet.backend, leases, letters, outage)
