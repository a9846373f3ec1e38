"""The rules for keys of ``_meta``."""

import re
from typing import Any, List, Mapping, Optional

from ..revisions import JUNE_2025, NOVEMBER_2025, Revision

__all__ = ["check_extension", "check_meta"]

_LABEL = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\Z")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_RESERVED = ("modelcontextprotocol", "mcp")


def check_meta(meta: Mapping[Any, Any], revision: Optional[Revision] = None, reserved: bool = False) -> None:
    """Return when every key may be used by somebody who is not the protocol's author.

    A key is a name, by default behind a prefix: labels with dots between, then a slash, such as
    ``com.example/colour``. Which prefixes are the protocol's own has changed (META-03, 2.5 item 25): in
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
