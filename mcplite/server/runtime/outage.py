"""Whether the backend can be reached, as all threads of one process find: one line in the log for each outage."""


from ...errors import BackendError
from ...rpc.forks import new_lock
from ...rpc.tracing import get_logger

__all__ = ["Outage"]

_log = get_logger(__name__)


class Outage:
    """The present outage of a backend, if there is one.

    Threads that use the backend again and again tell it what they find, so that an outage is one warning, however many
    threads meet it and however long it lasts.
    """

    def __init__(self) -> None:
        #: Guards the field below; held for an assignment only.
        self._lock = new_lock()
        self._present = False

    def __bool__(self) -> bool:
        return self._present

    def found(self, error: BackendError) -> None:
        """Note that an operation has failed."""
        with self._lock:
            before, self._present = self._present, True
        if not before:
            _log.warning("what this server shares with other processes is away; what needs it waits or is refused until it is"
                         " back: %s", error)

    def passed(self) -> None:
        """Note that an operation has succeeded."""
        if not self._present:
            return
        with self._lock:
            before, self._present = self._present, False
        if before:
            _log.info("what this server shares with other processes is back")
