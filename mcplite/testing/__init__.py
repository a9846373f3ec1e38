"""Tools for the tests of servers and clients: a transport that records, and a check of handlers in a fleet.

A server is tested without a process by connecting to the object itself, in any revision::

    with mcplite.connect(mcp, revision=...) as client: ...
"""

from .memory import record
from .recording import Recorded, Recording
from .replay import Replayed, replay

__all__ = ["Recorded", "Recording", "Replayed", "record", "replay"]
