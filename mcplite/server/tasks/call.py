"""What a call that becomes a task brings: its arguments, its client, and for how long it is kept."""

from typing import Any, Dict, Optional, Union

from ...errors import InvalidParams
from ...protocol import codec
from ...protocol.jsonio import object_of
from ..catalog.provider import ProvidedEntry
from ..catalog.registry import ToolEntry
from ..handling.request_context import RequestContext
from .record import TaskCall

__all__ = ["Entry", "call_of", "lifetime"]

#: The tool that is called.
Entry = Union[ToolEntry, ProvidedEntry]


def lifetime(context: RequestContext, most: float) -> float:
    """Return for how many seconds a task is kept: as its client asks, or as long as the server keeps any.

    :param most: as long as that.
    :raises InvalidParams: what the client asks is not valid.
    """
    wanted = object_of(context.params.get("task")) if not context.session.revision.modern else None
    ttl = wanted.get("ttl") if isinstance(wanted, dict) else None
    if wanted is not None and not isinstance(wanted, dict):
        raise InvalidParams("params.task must be an object")
    if ttl is None:
        return most
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl < 1e15:
        raise InvalidParams("params.task.ttl must be a positive number of milliseconds")
    return min(most, ttl / 1000)


def call_of(context: RequestContext, entry: Entry, arguments: Dict[str, Any], declared: Dict[str, Any]) -> TaskCall:
    """Return what is stored of a call that becomes a task.

    :param declared: the answers to the declared questions, by name.
    """
    session, principal = context.session, context.principal
    revision, info = session.revision, session.client_info
    members: Optional[Dict[str, Any]] = None
    if principal is not None:
        members = {"subject": principal.subject, "audience": list(principal.audience), "issuer": principal.issuer,
                   "client_id": principal.client_id, "scopes": sorted(principal.scopes), "expires_at": principal.expires_at,
                   "claims": {name: value for name, value in principal.claims.items() if _is_json(value)}}
    return TaskCall(
        entry.name, revision.name, arguments, declared,
        {key: value for key, value in context.meta.items() if not key.startswith("io.modelcontextprotocol/")},
        codec.encode(session.client_capabilities, revision), None if info is None else codec.encode(info, revision), members)


def _is_json(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    return value is None or isinstance(value, (str, int, float, bool))
