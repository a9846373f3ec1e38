"""The interface of a backend: values with a lifetime, logs whose entries are numbered, and the URL that names a store.

The server keeps in a backend what its processes share: sessions, states of unfinished calls, events of streams. A user can
implement the interface for another store; ``mcplite.testing.check_backend`` judges it. Errors and logs show a URL without
its password.
"""

from typing import List, Mapping, Optional, Set, Tuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ["Backend", "Entry", "NUMBERS_SECONDS", "take_option", "without_password"]

#: One entry of a log: its number and its bytes.
Entry = Tuple[int, bytes]
#: Seconds for which a log goes on counting after its last entry has expired.
NUMBERS_SECONDS = 3600.0


class Backend:
    """Keeps bytes for all processes of a server; the base of all backends.

    All methods block, and are called from any thread. Each raises :class:`BackendError` if the store cannot be reached, is
    full, or refuses the operation; then nothing has changed, or the operation took place and its answer was lost.

    A key or the name of a log is a text of at most 512 visible ASCII characters. The part before the first slash names a
    group: a store that is spread over several machines keeps a group on one of them.

    Times are seconds. When its time is over, a value or an entry is gone for every method, even if the store removes it only
    later.
    """

    #: Whether several processes can use the same data. Data that other programs can reach is sealed.
    shared = True

    # --- values -------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, seconds: float) -> None:
        """Store a value for some seconds, in the place of an older one."""
        raise NotImplementedError

    def get(self, key: str) -> Optional[bytes]:
        """Return a value; None if there is none."""
        raise NotImplementedError

    def take(self, key: str) -> Optional[bytes]:
        """Return a value and remove it, in one step: of several callers one gets it. None if there is none."""
        raise NotImplementedError

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        """Replace a value if it is still *old*, in one step; return whether it was.

        :param old: None if there must be no value.
        :param new: None removes the value.
        """
        raise NotImplementedError

    # --- logs ---------------------------------------------------------------------------------------

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        """Append an entry to a log, in one step, and return its number.

        The first entry has number 1, each further one the next number. The numbers go on for at least an hour after the
        last entry has expired.

        :param seconds: how long this entry is kept.
        :param keep: how many entries the log has at most; the oldest ones are dropped.
        """
        raise NotImplementedError

    def since(self, log: str, number: int) -> Optional[List[Entry]]:
        """Return the entries after a number, in order; None if some of them are gone, or if *number* was never reached.

        A log without entries has reached number 0.
        """
        raise NotImplementedError

    def last(self, log: str) -> int:
        """Return the number of the last entry, whether or not it is kept; 0 if there was none."""
        raise NotImplementedError

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        """Wait until one of several logs has another last number than the caller knows, and return those logs.

        While the store cannot be reached, nothing is reported; what was appended meanwhile is reported once it is back.

        :param logs: the number that the caller knows, by the name of the log.
        :param timeout: seconds after which an empty set is returned.
        """
        raise NotImplementedError

    def forget(self, log: str) -> None:
        """Drop a log whose name is not used again.

        The server calls it if no other process can follow the log. The backend in memory drops the log at once. By default this
        method does nothing, and the entries expire.
        """

    # --- life ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close connections and end threads; the stored data stays. Idempotent. The backend cannot be used afterwards."""


def take_option(url: str, name: str, default: str) -> Tuple[str, str]:
    """Return a URL without one option of its query, and the value of this option."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    value = dict(options).get(name, default)
    rest = urlencode([(key, text) for key, text in options if key != name])
    return urlunsplit(parts._replace(query=rest)), value


def without_password(url: str) -> str:
    """Return a URL as errors and logs show it: without user, password and options.

    If a character of the password, such as ``#``, has ended the host too early, the rest is not shown either.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition(":")[0] + "://..."
    if parts.netloc and "@" in parts.path + parts.query + parts.fragment:
        return parts.scheme + "://..."
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
