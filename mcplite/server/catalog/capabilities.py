"""The capability flags of a server that ``Server(capabilities=)`` sets.

The catalog declares them to clients. A module of its own for the check of what the user writes.
"""

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

from ...errors import RegistrationError
from ...types.lazy_dataclass import Record, record

__all__ = ["CapabilityFlags", "read_capabilities"]

_LISTS = ("tools", "resources", "prompts")
_FLAGS: Dict[str, Tuple[str, ...]] = {
    "tools": ("listChanged",), "resources": ("listChanged", "subscribe"), "prompts": ("listChanged",), "logging": (),
    "completions": (),
}


@record(frozen=True)
class CapabilityFlags(Record):
    """The flags; the defaults are those of a server that does not set them."""

    #: The lists whose changes are told.
    list_changed: FrozenSet[str] = frozenset(_LISTS)
    #: Whether clients may subscribe to resources.
    subscribe: bool = True
    #: Whether log messages are sent.
    logging: bool = True
    #: Whether the author has declared log messages, so that some may belong to no request.
    asked_logging: bool = False
    #: Whether completion is declared; None if there are completers.
    completions: Optional[bool] = None


def read_capabilities(given: Optional[Mapping[str, Any]]) -> Tuple[CapabilityFlags, List[str]]:
    """Return the flags, and the kinds of lists that are declared even when they are empty.

    :param given: in the form of the protocol: ``{"resources": {"subscribe": False}, "logging": False}``.
    :raises RegistrationError: a capability or a flag is unknown, or has another type.
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise RegistrationError(f"capabilities must be a dict of dicts, such as {{'tools': {{'listChanged': False}}}}, not"
                                f" {given!r}")
    for name, value in given.items():
        _check(name, value)
    objects: Dict[str, Dict[str, bool]] = {name: value for name, value in given.items() if isinstance(value, dict)}
    told = frozenset(kind for kind in _LISTS if objects.get(kind, {}).get("listChanged", True))
    flags = CapabilityFlags(told, objects.get("resources", {}).get("subscribe", True), given.get("logging") is not False,
                            "logging" in given and given["logging"] is not False,
                            None if "completions" not in given else given["completions"] is not False)
    return flags, [name for name in given if name in _LISTS]


def _check(name: str, value: Any) -> None:
    known = _FLAGS.get(name)
    if known is None:
        raise RegistrationError(f"capabilities[{name!r}]: those that can be set are {', '.join(map(repr, _FLAGS))}; for others"
                                " there are extensions= and experimental=")
    if value is False and name not in _LISTS:
        return
    if not isinstance(value, dict):
        also = "; they are not declared if none is registered" if name in _LISTS else ", or False"
        raise RegistrationError(f"capabilities[{name!r}] must be a dict of flags, not {value!r}{also}")
    for flag, on in value.items():
        if flag not in known or not isinstance(on, bool):
            allowed = " or ".join(f"{one!r}: True or False" for one in known) or "it has none"
            raise RegistrationError(f"capabilities[{name!r}]: {flag!r}: {on!r} is not a flag; {allowed}")
