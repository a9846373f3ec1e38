"""Tells the clients of a server of changes, from a process that does not serve: a Celery task, cron, ``manage.py``."""

import os
from types import TracebackType
from typing import Optional, Sequence, Type, Union

from ..backend.from_url import open_shared_backend
from ..backend.interface import Backend
from ..errors import RegistrationError
from ..protocol.meta import RESOURCE_UPDATED
from ..protocol.uris import normal_uri
from ..server.runtime.processes import read_keys
from .change_broadcast import append_news

__all__ = ["Publisher", "publisher"]


class Publisher:
    """Tells the clients of the servers on one backend of changes; made by :func:`publisher`.

    Safe to use from many threads. Each method returns once the backend has stored the change; the processes that serve pass
    it on to their clients.
    """

    def __init__(self, backend: Backend, server: Optional[str], owned: bool) -> None:
        self._backend = backend
        self._server = server
        self._owned = owned

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that follow a resource that it has changed.

        :raises BackendError: the backend failed.
        """
        append_news(self._backend, self._server, RESOURCE_UPDATED, normal_uri(uri))

    def tools_changed(self) -> None:
        """Notify all clients that the list of tools has changed.

        :raises BackendError: the backend failed.
        """
        self._list_changed("tools")

    def resources_changed(self) -> None:
        """Notify all clients that the list of resources or templates has changed; see :meth:`tools_changed`."""
        self._list_changed("resources")

    def prompts_changed(self) -> None:
        """Notify all clients that the list of prompts has changed; see :meth:`tools_changed`."""
        self._list_changed("prompts")

    def _list_changed(self, kind: str) -> None:
        append_news(self._backend, self._server, f"notifications/{kind}/list_changed", None)

    def close(self) -> None:
        """Close the backend, if it was given as a URL. Idempotent."""
        if self._owned:
            self._backend.close()

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def publisher(backend: Union[str, Backend], *, state_keys: Sequence[Union[str, bytes]] = (),
              server: Optional[str] = None) -> Publisher:
    """Return what tells the clients of a server of changes, from any process.

    :param backend: the URL of the server's backend, as in :func:`open_backend`, or a backend.
    :param state_keys: the server's keys; by default those of the variable MCPLITE_STATE_KEYS.
    :param server: the name of the server; by default all servers on this backend are told.
    :raises RegistrationError: there are no keys, the URL is of no backend, or the backend is in the memory of this process.
    :raises BackendError: the store cannot be opened.
    """
    shared = open_shared_backend(backend, read_keys(state_keys, os.environ))
    if shared is None:
        raise RegistrationError("a backend in memory has no other processes: name the one that the server uses")
    return Publisher(shared, server, owned=isinstance(backend, str))
