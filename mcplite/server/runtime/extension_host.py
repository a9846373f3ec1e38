"""ServerHost: the server as its extension sees it."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from ...backend.interface import Backend
from ...rpc.extension import Extension, ListenKind
from ..catalog.registry import Service

__all__ = ["ServerHost"]


class ServerHost(Service):
    """One server, for one of its extensions: its name, its backend, its clients, and threads."""

    def __init__(self, runtime: Any, extension: Extension) -> None:
        #: The :class:`Runtime`, which is internal: it changes between versions of the package.
        self.runtime = runtime
        self._extension = extension

    @property
    def shared(self) -> bool:
        """Whether other processes of the server reach what the backend holds."""
        return bool(self.runtime.processes.shared)

    @property
    def backend(self) -> Backend:
        """The backend, with values that expire, and logs; without one that processes share, the memory of this process.

        Everything that uses the backend shares the names of keys and logs, so an extension must begin them with a name of its
        own.
        """
        found: Backend = self.runtime.processes.backend
        return found

    @property
    def name(self) -> str:
        """The server's name."""
        return str(self.runtime.catalog.name)

    @property
    def sessions(self) -> List[Any]:
        """The sessions that are open now, in this process; each has ``notify`` and ``request``."""
        return list(self.runtime.sessions)

    def publish(self, kind: ListenKind, subject: Optional[str] = None) -> None:
        """Notify the clients of this process that listen to a kind of change; never waits for a client.

        :param subject: what has changed; None for a kind without subjects.
        """
        self.runtime.subscriptions.publish(kind.notification, subject)

    def spawn(self, task: Callable[[], object]) -> None:
        """Run a function on a thread of the server."""
        self.runtime.workers.spawn(task)

    def start(self) -> None:
        self._extension.start(self)

    def stop(self) -> None:
        self._extension.stop(self)

    def let_go(self) -> None:
        self._extension.let_go(self)

    def close(self) -> None:
        """Tell the extension that the server is closed."""
        self._extension.close(self)
