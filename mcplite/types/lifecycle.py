"""The two sides, their names and capabilities; progress and log messages."""

from typing import Any, Dict, List, Optional

from ..revisions import JULY_2026, JUNE_2025, MARCH_2025, NOVEMBER_2025, Revision
from .codec import Icon, Model, Titled
from .lazy_dataclass import record, wire

Flags = Optional[Dict[str, Any]]


def _finish_capabilities(revision: Revision, state: Dict[str, Any], out: Dict[str, Any]) -> None:
    # The members of a capability depend on the revision too, not only its presence (LIFE-24).
    modes = out.get("elicitation")
    if modes is not None and not revision.elicitation_modes:
        if modes and "form" not in modes:
            del out["elicitation"]  # an empty capability means forms, which this client cannot show
        else:
            out["elicitation"] = {}
    if "sampling" in out and not revision.sampling_tools:
        out["sampling"] = {}
    if "roots" in out and revision.modern:
        out["roots"] = {}


@record
class Implementation(Titled, Model):
    """The name and version of a program."""

    name: str
    version: str
    title: Optional[str] = wire(since=JUNE_2025)
    description: Optional[str] = wire(since=NOVEMBER_2025)
    website_url: Optional[str] = wire(since=NOVEMBER_2025)
    icons: Optional[List[Icon]] = wire(since=NOVEMBER_2025)


@record
class ClientCapabilities(Model):
    """The capabilities of a client; each is an object, or None if it is absent."""

    _finish = staticmethod(_finish_capabilities)
    experimental: Flags = None
    roots: Flags = None
    sampling: Flags = None
    elicitation: Flags = wire(since=JUNE_2025)
    tasks: Flags = wire(since=NOVEMBER_2025, until=NOVEMBER_2025)
    #: In the schema from July 2026 on; extensions are negotiated in each revision (SEP-2133).
    extensions: Flags = None


@record
class ServerCapabilities(Model):
    """The capabilities of a server; each is an object, or None if it is absent."""

    experimental: Flags = None
    logging: Flags = None
    completions: Flags = wire(since=MARCH_2025)
    prompts: Flags = None
    resources: Flags = None
    tools: Flags = None
    tasks: Flags = wire(since=NOVEMBER_2025, until=NOVEMBER_2025)
    #: As in :class:`ClientCapabilities`.
    extensions: Flags = None


def server_info(given: Any) -> Dict[str, Any]:
    """Return a server's ``serverInfo`` with a name and a version that can be read: a wrong type must not end a connection.

    The two are for people and logs. A name or a version of a wrong type becomes empty; a version that is a number becomes its
    text.
    """
    members: Dict[str, Any] = given if type(given) is dict else {}
    name, version = members.get("name"), members.get("version")
    return {**members, "name": name if type(name) is str else "",
            "version": str(version) if type(version) in (str, int, float) else ""}


def _adapt_initialize(wire: Dict[str, Any]) -> Dict[str, Any]:
    return {**wire, "serverInfo": server_info(wire.get("serverInfo"))}


@record
class InitializeResult(Model):
    """A server's half of the handshake."""

    _adapt = staticmethod(_adapt_initialize)
    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class DiscoverResult(Model):
    """A server's description of itself, for clients without a handshake (DISC-03)."""

    supported_versions: List[str]
    capabilities: ServerCapabilities
    instructions: Optional[str] = None
    result_type: Optional[str] = wire(since=JULY_2026)
    ttl_ms: Optional[int] = wire(since=JULY_2026)
    cache_scope: Optional[str] = wire(since=JULY_2026)
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class Progress(Model):
    """The progress of a request: ``progress`` rises, up to ``total`` if that is known."""

    progress: float
    total: Optional[float] = None
    message: Optional[str] = wire(since=MARCH_2025)

    def __init__(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        # Written out: an instance is made for each notification, and the constructor of Record takes four times as long.
        self.progress = progress
        self.total = total
        self.message = message


@record
class LogMessage(Model):
    """A log message of a server: one of eight syslog levels, and any JSON value."""

    level: str
    data: Any
    logger: Optional[str] = None
