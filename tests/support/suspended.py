"""Suspended calls without a server, to seal and open the logs of their handlers."""

import time
from types import SimpleNamespace

from mcplite.fleet.fleet_processes import FleetProcesses
from mcplite.fleet.remote_answers import SharedCalls
from mcplite.protocol.opaque import ReplayLog
from mcplite.server.handling.suspended_calls import SealedCalls
from mcplite.server.runtime.processes import Fleet
from tests.support.tight import tight


def make_calls(keys, backend=None, clock=time.time, **limits):
    """Return the suspended calls of a fleet; without a backend their logs travel. A log is valid for a minute."""
    runtime = SimpleNamespace(fleet=Fleet(list(keys), backend), catalog=SimpleNamespace(name="shop"), deliver=None,
                              everything_changed=None, limits=tight(**{"waiting_seconds": 60, **limits}))
    if backend is None:
        return SealedCalls(runtime, clock)
    runtime.processes = FleetProcesses(runtime, backend)
    return SharedCalls(runtime, clock)


def journal(characters=0):
    """Return a log with a result of so many characters."""
    made = ReplayLog()
    made.once_results = {"a": "x" * characters}
    return made
