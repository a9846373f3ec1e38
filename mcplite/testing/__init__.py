"""Tools for the tests of servers and clients: a transport that records, a check of handlers in a fleet, and one of backends.

A server is tested without a process by connecting to the object itself, in any revision:
``with mcplite.connect(mcp, revision=...) as client: ...``
"""

from .backend_check import check_backend
from .fleet_check import Replayed, replay
from .recording import Recorded, Recording, record

__all__ = ["Recorded", "Recording", "Replayed", "check_backend", "record", "replay"]
