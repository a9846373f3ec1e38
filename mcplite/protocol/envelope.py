"""The ``_meta`` of a message: which keys are allowed, and the members with which each request names its sender.

From July 2026 on every request carries what a handshake used to agree on once: the revision, the client's
capabilities and its name. A server reads these members as an :class:`Envelope`; a client stamps them.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..errors import InvalidParams, ProtocolError, UnsupportedVersion
from ..revisions import JUNE_2025, NOVEMBER_2025, Revision
from ..types import ClientCapabilities, Implementation
from . import codec

__all__ = [
    "Envelope", "LOG_LEVEL", "SERVER_INFO", "SUBSCRIPTION", "VERSION", "check_extension", "check_meta", "checked_trace",
    "claims", "members", "read", "revision_of", "stamp", "unsupported",
]

_LABEL = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\Z")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_RESERVED = ("modelcontextprotocol", "mcp")


def check_meta(meta: Mapping[Any, Any], revision: Optional[Revision] = None, reserved: bool = False) -> None:
    """Return when every key may be used by somebody who is not the protocol's author.

    A key is a name, by default behind a prefix: labels with dots between, then a slash, such as
    ``com.example/colour``. Which prefixes are the protocol's own has changed (META-03): in
    June 2025 those with the label ``mcp`` or ``modelcontextprotocol`` next to last, such as
    ``mcp.dev/``; from November 2025 on those with it in the second place, such as ``dev.mcp/``. Before
    June 2025 there are no rules.

    :param meta: what is to travel as ``_meta``.
    :param revision: whose rules count; None for all, as it must be for what every client can see.
    :param reserved: whether the protocol's own keys may be among them.
    :raises ValueError: a key breaks the rules (META-01, META-02) or is reserved; with the key, the rule
        and the fix.
    """
    for key in meta:
        if not isinstance(key, str):
            raise ValueError(f"the _meta key {key!r} must be a string")
        if revision is None or revision.has(JUNE_2025):
            _check_key(key, revision, reserved)


def check_extension(name: Any, settings: Any) -> None:
    """Return when *name* can name an extension, the protocol's own included, and *settings* are an object (EXT-01, EXT-02).

    :raises ValueError: it cannot, or they are not.
    """
    if not isinstance(name, str) or "/" not in name:
        raise ValueError(f"an extension is named with a prefix, such as com.example/charts, not {name!r}")
    prefix, _, own = name.rpartition("/")
    if not all(_LABEL.match(label) for label in prefix.split(".")) or not _NAME.match(own):
        raise ValueError(f"{name!r} cannot name an extension: labels with dots between, a slash, and a name, such as"
                         " com.example/charts")
    if not isinstance(settings, dict):
        raise ValueError(f"the settings of the extension {name!r} must be an object, {{}} for none")


def _check_key(key: str, revision: Optional[Revision], reserved: bool) -> None:
    prefix, slash, name = key.rpartition("/")
    if slash:
        labels = prefix.split(".")
        for label in labels:
            if not _LABEL.match(label):
                raise ValueError(f"the _meta key {key!r}: in the prefix before the slash, the label {label!r} must"
                                 f" start with a letter, end with a letter or digit, and have only letters, digits"
                                 f" and '-' between; for example com.example/name")
        if not reserved and _is_reserved(labels, revision):
            raise ValueError(f"the _meta key {key!r}: prefixes with the label 'mcp' or 'modelcontextprotocol' in this"
                             f" place are reserved for the protocol; use a domain of your own in reverse, such as"
                             f" com.example/{name}")
    elif not name:
        raise ValueError("a _meta key must not be empty; for example com.example/name")
    if name and not _NAME.match(name):
        raise ValueError(f"the _meta key {key!r}: the name {name!r} must start and end with a letter or digit, and have"
                         f" only letters, digits, '-', '_' and '.' between")


def _is_reserved(labels: List[str], revision: Optional[Revision]) -> bool:
    labels = [label.lower() for label in labels]  # domains are the same in any case
    if revision is None:
        return _is_reserved(labels, JUNE_2025) or _is_reserved(labels, NOVEMBER_2025)
    place = 1 if revision.has(NOVEMBER_2025) else len(labels) - 2
    return 0 <= place < len(labels) and labels[place] in _RESERVED


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

    __slots__ = ("version", "meta", "log_level", "_capabilities", "_info")

    def __init__(self, version: str, meta: Mapping[str, Any]) -> None:
        self.version = version
        self.meta = meta
        #: The least urgent level of log messages that the client wants; None for none at all.
        self.log_level: Optional[str] = meta.get(LOG_LEVEL)
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
    for revision in offered:
        if revision.name == envelope.version and revision.modern:
            return revision
    raise unsupported(envelope.version, offered)


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
    "tracestate": re.compile(
        r"(?=.{1,8192}\Z)(?:[ \t]*[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]+(?:,|\Z)|[ \t]*(?:,|\Z))+"),
    "baggage": re.compile(r"(?=.{1,8192}\Z)(?:[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*=[\x20-\x2b\x2d-\x7e]*(?:,|\Z))+"),
}


def checked_trace(given: Mapping[str, str]) -> Dict[str, str]:
    """Return the members of a W3C trace context that are written as one; the others are not sent (META-08)."""
    return {name: value for name, value in given.items()
            if name in _TRACE and isinstance(value, str) and _TRACE[name].fullmatch(value)}
