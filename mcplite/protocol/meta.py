"""The ``_meta`` of a message: which keys are allowed, and the members with which each request names its client.

From July 2026 on every request carries what a handshake used to agree on once: the revision, the client's capabilities and
its name. A client stamps these members; a server reads them in ``server.sessions.modern``. Facts about methods that hold in
every revision stand here as well; facts that differ between revisions stand in ``revisions``.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..revisions import JUNE_2025, NOVEMBER_2025, Revision
from ..types import ClientCapabilities, Implementation, codec
from ..types.lazy_dataclass import Record, fields_of, record
from .jsonrpc import Encoded, encode_params, first_members

# The patterns are texts, which `re` compiles on their first use: most servers use none of them, and compiling them here would
# slow every import.
_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_RESERVED = ("modelcontextprotocol", "mcp")


def check_meta(meta: Mapping[Any, Any], revision: Optional[Revision] = None, reserved: bool = False) -> None:
    """Check that a user may use every key of a ``_meta``.

    A key is a name, usually behind a prefix: labels with dots between and a slash, such as ``com.example/colour``.
    The reserved prefixes changed (META-03): in June 2025 they have the label ``mcp`` or ``modelcontextprotocol`` next
    to last, such as ``mcp.dev/``; from November 2025 on they have it in the second place, such as ``dev.mcp/``.
    Before June 2025 there are no rules.

    :param meta: the ``_meta`` to send.
    :param revision: the revision whose rules count; None for the rules of all revisions, as for objects that every client can
        see.
    :param reserved: whether the protocol's own keys are allowed.
    :raises ValueError: a key breaks the rules (META-01, META-02) or is reserved; the text has the key, the rule and
        the fix.
    """
    for key in meta:
        if not isinstance(key, str):
            raise ValueError(f"the _meta key {key!r} must be a string")
        if revision is None or revision.has(JUNE_2025):
            _check_key(key, revision, reserved)


def check_extension(name: Any, settings: Any) -> None:
    """Check the name of an extension, the protocol's own included, and its settings (EXT-01, EXT-02).

    :raises ValueError: the name breaks the rules, or the settings are not an object.
    """
    if not isinstance(name, str) or "/" not in name:
        raise ValueError(f"an extension is named with a prefix, such as com.example/charts, not {name!r}")
    prefix, _, own = name.rpartition("/")
    if not all(re.fullmatch(_LABEL, label) for label in prefix.split(".")) or not re.fullmatch(_NAME, own):
        raise ValueError(f"{name!r} cannot name an extension: labels with dots between, a slash, and a name, such as"
                         " com.example/charts")
    if not isinstance(settings, dict):
        raise ValueError(f"the settings of the extension {name!r} must be an object, {{}} for none")


def _check_key(key: str, revision: Optional[Revision], reserved: bool) -> None:
    prefix, slash, name = key.rpartition("/")
    if slash:
        labels = prefix.split(".")
        for label in labels:
            if not re.fullmatch(_LABEL, label):
                raise ValueError(f"the _meta key {key!r}: in the prefix before the slash, the label {label!r} must"
                                 f" start with a letter, end with a letter or digit, and have only letters, digits"
                                 f" and '-' between; for example com.example/name")
        if not reserved and _is_reserved(labels, revision):
            raise ValueError(f"the _meta key {key!r}: prefixes with the label 'mcp' or 'modelcontextprotocol' in this"
                             f" place are reserved for the protocol; use a domain of your own in reverse, such as"
                             f" com.example/{name}")
    elif not name:
        raise ValueError("a _meta key must not be empty; for example com.example/name")
    if name and not re.fullmatch(_NAME, name):
        raise ValueError(f"the _meta key {key!r}: the name {name!r} must start and end with a letter or digit, and have"
                         f" only letters, digits, '-', '_' and '.' between")


def _is_reserved(labels: List[str], revision: Optional[Revision]) -> bool:
    labels = [label.lower() for label in labels]  # domains have no case
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
#: Characters that a server keeps of each text in a client's description of itself.
_MAX_TEXT = 256
#: Bytes of memory that a server keeps of a client's experimental capabilities, and as many of its extensions.
MAX_SETTINGS = 8192
#: By capability, its members that have a meaning; other members are not kept. A capability that is not listed here is kept up
#: to ``MAX_SETTINGS``.
_KNOWN_FLAGS = {"roots": ("listChanged",), "sampling": ("tools", "context"), "elicitation": ("form", "url")}


def bounded_info(info: Implementation) -> Implementation:
    """Return a client's description as a server keeps it: texts of at most 256 characters, and no icons.

    A longer text is cut, and a longer URL is left out.

    A client may write as much as fits in a message, and its session lasts for hours.
    """
    url = info.website_url
    return Implementation(info.name[:_MAX_TEXT], info.version[:_MAX_TEXT], _cut(info.title), _cut(info.description),
                          None if url is None or len(url) > _MAX_TEXT else url)


def _cut(text: Optional[str]) -> Optional[str]:
    return None if text is None else text[:_MAX_TEXT]


def bounded_capabilities(declared: ClientCapabilities) -> ClientCapabilities:
    """Return what a server keeps of a client's capabilities: their known members.

    Of the experimental capabilities it keeps the first members, as many as take 8 KiB of memory; so it does with extensions and
    tasks.
    """
    kept: Dict[str, Dict[str, Any]] = {}
    for field in fields_of(ClientCapabilities):
        flags: Optional[Dict[str, Any]] = getattr(declared, field.name)
        known = _KNOWN_FLAGS.get(field.name)
        if flags is not None:
            kept[field.name] = first_members(flags, MAX_SETTINGS) if known is None else {
                name: flags[name] if isinstance(flags[name], bool) else {} for name in known if name in flags}
    return ClientCapabilities(**kept)


def stamp(params: Optional[Mapping[str, Any]], fixed: Mapping[str, Any]) -> Dict[str, Any]:
    """Return params whose ``_meta`` has the envelope's members besides those of the caller.

    :param fixed: the envelope's members, see :func:`members`.
    """
    stamped = dict(params or {})
    stamped["_meta"] = {**(stamped.get("_meta") or {}), **fixed}
    return stamped


class Stamped(Encoded):
    """Params that are written with the envelope's members, as with :func:`stamp`; these are encoded once for all requests.

    :param params: without ``_meta``.
    :param fixed: the envelope's members.
    """

    __slots__ = ("_fixed",)

    def __init__(self, params: Dict[str, Any], fixed: Encoded) -> None:
        self.value = params
        self._fixed = fixed

    @property
    def text(self) -> str:
        own, end = self.unclosed
        return own[:-1] + end

    @property
    def unclosed(self) -> Tuple[str, str]:
        return encode_params(self.value), f'{"," if self.value else ""}"_meta":{self._fixed.text}}}'


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
    "traceparent": r"(?!ff)(?:00-{0}|(?!00)[0-9a-f]{{2}}-{0}(?:-[\x21-\x7e]*)?)".format(
        "(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"),
    "tracestate": r"(?=.{1,8192}\Z)(?:[ \t]*[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]+(?:,|\Z)|[ \t]*(?:,|\Z))+",
    "baggage": r"(?=.{1,8192}\Z)(?:[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*=[\x20-\x2b\x2d-\x7e]*(?:,|\Z))+",
}


def checked_trace(given: Mapping[str, str]) -> Dict[str, str]:
    """Return the members of a W3C trace context that are well-formed; the others are not sent (META-08)."""
    return {name: value for name, value in given.items()
            if name in _TRACE and isinstance(value, str) and re.fullmatch(_TRACE[name], value)}


#: Requests that may run twice without harm, so that they are sent again when it is unknown whether they ran.
REPEATABLE = frozenset({
    "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
    "completion/complete", "server/discover", "subscriptions/listen", "logging/setLevel", "resources/subscribe",
    "resources/unsubscribe", "tasks/get", "tasks/result", "tasks/list", "tasks/update",
})


@record(frozen=True)
class Change(Record):
    """A kind of list whose changes are notified.

    :param capability: the server's capability for it.
    :param filter: the member that asks for it in the filter of ``subscriptions/listen``.
    :param lists: the requests whose results the change makes stale.
    """

    capability: str
    filter: str
    lists: Tuple[str, ...]


#: The kinds of lists, by the notification that a list has changed.
LIST_CHANGES: Dict[str, Change] = {
    "notifications/tools/list_changed": Change("tools", "toolsListChanged", ("tools/list",)),
    "notifications/prompts/list_changed": Change("prompts", "promptsListChanged", ("prompts/list",)),
    "notifications/resources/list_changed": Change(
        "resources", "resourcesListChanged", ("resources/list", "resources/templates/list")),
}
#: The notification that one resource has changed, and the filter's member that lists the URIs to watch.
RESOURCE_UPDATED = "notifications/resources/updated"
RESOURCE_SUBSCRIPTIONS = "resourceSubscriptions"
