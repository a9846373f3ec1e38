"""ClientOptions: how a client works, whatever its transport and its handlers; checked once, when it is made.

A module of its own, so that :mod:`.client` is about the connection, and :func:`~.connect.connect` spells each option once.
"""

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from ..protocol.meta import check_extension
from ..revisions import Revision, find_revision
from ..types import Implementation
from ..types.lazy_dataclass import Record, record
from .call import check_positive
from .request_base import Middleware

__all__ = ["ClientOptions"]


@record(frozen=True)
class ClientOptions(Record):
    """The options of one client; :func:`~.connect.connect` documents them, under the same names.

    :raises ValueError: the revision is unknown, *era* contradicts it, or a number is not positive.
    """

    revision: Union[None, str, Revision] = None
    era: Optional[str] = None
    prior: Optional[Mapping[str, Any]] = None
    probe_timeout: float = 5.0
    timeout: Optional[float] = 60.0
    max_timeout: Optional[float] = 300.0
    open_timeout: float = 60.0
    client_info: Optional[Implementation] = None
    cache: bool = True
    extensions: Optional[Dict[str, Any]] = None
    result_types: Sequence[str] = ()
    trace_context: Optional[Callable[[], Mapping[str, str]]] = None
    validate: bool = True
    raise_for_error: bool = False
    middleware: Sequence[Middleware] = ()
    max_handlers: int = 16
    questions_per_minute: Optional[int] = 1000
    ping_interval: Optional[float] = None
    ping_timeout: float = 10.0
    debug: Union[None, bool, str] = None

    def __post_init__(self) -> None:
        pinned = self.pinned
        if self.era not in (None, "legacy", "modern"):
            raise ValueError(f"era is 'legacy', 'modern' or None for both, not {self.era!r}")
        if pinned is not None and self.era is not None and pinned.modern != (self.era == "modern"):
            raise ValueError(f"era={self.era!r} and revision={pinned.name!r} contradict each other")
        for extension, settings in (self.extensions or {}).items():
            check_extension(extension, settings)
        for name in ("timeout", "max_timeout", "open_timeout", "probe_timeout", "ping_interval", "ping_timeout",
                     "max_handlers", "questions_per_minute"):
            check_positive(name, getattr(self, name))

    @property
    def pinned(self) -> Optional[Revision]:
        """The only revision to accept; None for any.

        :raises ValueError: it is unknown.
        """
        if self.revision is None or isinstance(self.revision, Revision):
            return self.revision
        found = find_revision(self.revision)
        if found is None:
            raise ValueError(f"{self.revision!r} is not a protocol revision that this package supports")
        return found
