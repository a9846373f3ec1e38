"""Checks of what a client, or a call, is given."""

from typing import Optional, Union

from ..revisions import Revision, find

__all__ = ["check_positive", "revision_of"]


def check_positive(name: str, value: Optional[float]) -> None:
    """Return when a number is None or more than nothing.

    :raises ValueError: it is not; with its name.
    """
    if value is not None and not value > 0:
        raise ValueError(f"{name} must be positive, not {value!r}")


def revision_of(wanted: Union[None, str, Revision]) -> Optional[Revision]:
    """Return the revision that is meant; None for none in particular.

    :raises ValueError: there is none of this name.
    """
    if wanted is None or isinstance(wanted, Revision):
        return wanted
    revision = find(wanted)
    if revision is None:
        raise ValueError(f"{wanted!r} is no protocol revision that this package speaks")
    return revision
