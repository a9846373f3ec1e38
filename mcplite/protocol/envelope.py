"""The keys of ``_meta`` by which each message says what a handshake used to say once: read and stamped."""

import re
from typing import Any, Dict, Mapping, Optional, Sequence

from ..errors import InvalidParams, ProtocolError, UnsupportedVersion
from ..revisions import Revision, find
from ..types import ClientCapabilities, Implementation
from . import codec

__all__ = [
    "Envelope", "LOG_LEVEL", "SERVER_INFO", "SUBSCRIPTION", "VERSION", "checked_trace", "claims", "members", "read",
    "revision_of", "stamp", "unsupported",
]

_PREFIX = "io.modelcontextprotocol/"
VERSION = _PREFIX + "protocolVersion"
CAPABILITIES = _PREFIX + "clientCapabilities"
CLIENT_INFO = _PREFIX + "clientInfo"
LOG_LEVEL = _PREFIX + "logLevel"
SERVER_INFO = _PREFIX + "serverInfo"
SUBSCRIPTION = _PREFIX + "subscriptionId"


class Envelope:
    """What one request says of its sender; nothing of it holds for the next one (STAT-13).

    Capabilities and client info are decoded when somebody asks, which most handlers never do.

    :param version: as the request names it, supported or not.
    :param meta: the request's whole ``_meta``, in which the required members were found.
    """

    __slots__ = ("version", "meta", "_capabilities", "_info")

    def __init__(self, version: str, meta: Mapping[str, Any]) -> None:
        self.version = version
        self.meta = meta
        self._capabilities: Optional[ClientCapabilities] = None
        self._info: Optional[Implementation] = None

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the client can be asked for, for this request alone."""
        if self._capabilities is None:
            self._capabilities = codec.decode(ClientCapabilities, self.meta[CAPABILITIES])
        return self._capabilities

    @property
    def info(self) -> Optional[Implementation]:
        """Who the client says it is; it may keep that to itself (STAT-05)."""
        if self._info is None and CLIENT_INFO in self.meta:
            self._info = codec.decode(Implementation, self.meta[CLIENT_INFO])
        return self._info

    @property
    def log_level(self) -> Optional[str]:
        """The least urgent level of log messages that it wants; None for none at all (LOG)."""
        return self.meta.get(LOG_LEVEL)


def claims(params: Optional[Mapping[str, Any]]) -> bool:
    """Whether a request's params claim a revision of their own, which makes the request modern (ERA-18)."""
    meta = None if params is None else params.get("_meta")
    return type(meta) is dict and (VERSION in meta or CAPABILITIES in meta)


def read(params: Optional[Mapping[str, Any]]) -> Envelope:
    """Return the envelope of a request.

    :raises InvalidParams: a required member is missing, or one is not what it must be (STAT-03).
    """
    meta = None if params is None else params.get("_meta")
    if not isinstance(meta, dict):
        raise InvalidParams(f"params._meta must be an object with {VERSION!r} and {CAPABILITIES!r}")
    version = meta.get(VERSION)
    if not isinstance(version, str):
        raise InvalidParams(f"params._meta must have {VERSION!r}, a string")
    if not isinstance(meta.get(CAPABILITIES), dict):
        raise InvalidParams(f"params._meta must have {CAPABILITIES!r}, an object")
    envelope = Envelope(version, meta)
    level = meta.get(LOG_LEVEL)
    if level is not None and not isinstance(level, str):
        raise InvalidParams(f"params._meta[{LOG_LEVEL!r}] must be a string")
    try:
        if meta[CAPABILITIES]:
            envelope.capabilities
        if CLIENT_INFO in meta:
            _check_info(meta[CLIENT_INFO])
    except ProtocolError as error:
        raise InvalidParams(f"params._meta: {error}") from error
    return envelope


def _check_info(info: Any) -> None:
    if type(info) is dict and type(info.get("name")) is str and type(info.get("version")) is str and len(info) == 2:
        return  # what most clients send, without the work of decoding it
    codec.decode(Implementation, info)


def revision_of(envelope: Envelope, offered: Sequence[Revision]) -> Revision:
    """Return the modern revision that a request is served under.

    :param offered: what this server speaks, the revisions with a handshake included; the error lists them.
    :raises UnsupportedVersion: it is none of them, or one that begins with a handshake (STAT-16, ERA-23).
    """
    revision = find(envelope.version)
    if revision is None or not revision.modern or revision not in offered:
        raise unsupported(envelope.version, offered)
    return revision


def unsupported(version: Any, offered: Sequence[Revision]) -> UnsupportedVersion:
    """Return the error for a version that is not served, or not in this way; it names those that are."""
    names = [known.name for known in reversed(offered)]
    said = version if isinstance(version, str) else ""
    return UnsupportedVersion(f"Unsupported protocol version: {said[:50]!r}; this server speaks {', '.join(names)}",
                              data={"supported": names, "requested": said[:200]})


def stamp(params: Optional[Mapping[str, Any]], fixed: Mapping[str, Any]) -> Dict[str, Any]:
    """Return params whose ``_meta`` has the envelope's members; what the caller put there stays.

    :param fixed: the envelope's members, see :func:`members`.
    """
    stamped = dict(params or {})
    stamped["_meta"] = {**(stamped.get("_meta") or {}), **fixed}
    return stamped


def members(revision: Revision, capabilities: ClientCapabilities, info: Optional[Implementation],
            log_level: Optional[str] = None) -> Dict[str, Any]:
    """Return the members that every request of a client carries (STAT-01, STAT-02, STAT-24)."""
    out: Dict[str, Any] = {VERSION: revision.name, CAPABILITIES: codec.encode(capabilities, revision)}
    if info is not None:
        out[CLIENT_INFO] = codec.encode(info, revision)
    if log_level is not None:
        out[LOG_LEVEL] = log_level
    return out


_TRACE = {
    "traceparent": re.compile(r"(?!ff)(?:00-{0}|(?!00)[0-9a-f]{{2}}-{0}(?:-[\x21-\x7e]*)?)".format(
        "(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")),
    "tracestate": re.compile(r"(?=.{1,8192}\Z)(?:[ \t]*[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]+(?:,|\Z)|[ \t]*(?:,|\Z))+"),
    "baggage": re.compile(r"(?=.{1,8192}\Z)(?:[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*=[\x20-\x2b\x2d-\x7e]*(?:,|\Z))+"),
}


def checked_trace(given: Mapping[str, str]) -> Dict[str, str]:
    """Return the members of a W3C trace context that are written as one; the others are not sent (META-08)."""
    return {name: value for name, value in given.items()
            if name in _TRACE and isinstance(value, str) and _TRACE[name].fullmatch(value)}
