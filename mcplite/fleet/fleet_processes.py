"""The processes of a server that share a backend: what the core asks for the others, and how the parts of this folder meet.

    a process                   the backend that they share             another process
    Leases          --renew-->  a lease for each process     <--look--  Leases
    ProcessMessages --append->  a log for each, and for all  --wait-->  ProcessMessages --> what the kind names
    ChangeBroadcast --append->  the log of changes           --wait-->  ProcessMessages --> ChangeBroadcast --> clients
                                                             --wait-->  GET streams of sessions
    Outage          is told by all of them whether the backend works
"""

from typing import Any, Callable, Optional

from ..backend.interface import Backend
from ..errors import BackendError
from ..rpc.forks import renew
from ..server.runtime.processes import Processes
from ..server.runtime.runtime import Runtime
from .backend_health import Outage
from .change_broadcast import ChangeBroadcast, Changes
from .leases import Leases
from .process_messages import ProcessMessages

__all__ = ["FleetProcesses"]


class FleetProcesses(Processes):
    """The processes that share a backend; made with the server, before it has clients. It reads and stores nothing yet.

    :param backend: sealed.
    """

    shared = True

    def __init__(self, runtime: Runtime, backend: Backend) -> None:
        name = runtime.catalog.name
        self._backend = backend
        self._runtime = runtime
        self.outage = Outage()
        self.leases = Leases(backend, self.outage)
        self.messages = ProcessMessages(backend, self.leases, name, self.outage)
        self._change_broadcast = ChangeBroadcast(backend, self.messages, name, runtime.deliver, runtime.everything_changed)
        #: The changes that all processes tell, as GET streams of this one read them.
        self.changes = Changes(backend, name)
        self.leases.on_doubt = lambda number: self.messages.broadcast("ended?", number)
        self.messages.on("ended?", lambda number: runtime.workers.spawn(lambda: self._judge(number)))

    def _judge(self, number: int) -> None:
        """Look whether a process has ended, which another one is not sure of."""
        try:
            self.leases.judge(number)
        except BackendError as error:
            self.failed(error)

    @property
    def candidate(self) -> int:
        """The number that this process has, or will have when it first needs one."""
        return self.leases.candidate

    @property
    def number(self) -> int:
        return self.leases.number

    def alive(self, number: int) -> bool:
        return self.leases.alive(number)

    def broadcast(self, kind: str, body: Any) -> None:
        self.messages.broadcast(kind, body)

    def on(self, kind: str, receive: Callable[[Any], object]) -> None:
        self.messages.on(kind, receive)

    def publish(self, method: str, uri: Optional[str] = None) -> None:
        self._change_broadcast.publish(method, uri)

    def failed(self, error: BackendError) -> None:
        self.outage.found(error)

    def check(self) -> None:
        self.outage.check()

    def start(self) -> None:
        self.messages.start()

    def stop(self) -> None:
        self.messages.stop()
        self.leases.stop()
        self._change_broadcast.stop()

    def let_go(self) -> None:
        renew(self.outage, self.changes)
        for part in (self.leases, self.messages, self._change_broadcast):
            part.let_go()
