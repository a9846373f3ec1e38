"""What the processes of a server with a shared backend talk to each other with, as one value for the modules that do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...backend.interface import Backend
from .leases import Leases
from .letters import Letters
from .outage import Outage
from .processes import Processes

if TYPE_CHECKING:
    from .runtime import Runtime

__all__ = ["FleetProcesses", "Shared", "shared_of"]


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


class FleetProcesses(Processes):
    """The processes that share a backend."""

    shared = True

    def __init__(self, backend: Backend, leases: Leases, letters: Letters, outage: Outage) -> None:
        super().__init__(backend)
        self._leases = leases
        self._outage = outage
        self.alive = leases.alive  # type: ignore[method-assign]
        self.on_lost = leases.on_lost  # type: ignore[method-assign]
        self.send = letters.send  # type: ignore[method-assign]
        self.broadcast = letters.broadcast  # type: ignore[method-assign]
        self.on = letters.on  # type: ignore[method-assign]
        self.failed = outage.found  # type: ignore[method-assign]

    @property
    def candidate(self) -> int:  # type: ignore[override]
        return self._leases.candidate

    @property
    def number(self) -> int:
        return self._leases.number

    @property
    def away(self) -> bool:
        return bool(self._outage)
