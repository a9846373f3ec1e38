"""Decides what becomes of an entry whose name is registered already: an error, or the new one takes its place.

The registry asks it. A module of its own for the rule of interactive sessions, where a notebook's cell is run again.
"""

from __future__ import annotations

import sys
from typing import Any

from ...errors import RegistrationError
from ...rpc.tracing import get_logger

__all__ = ["POLICIES", "check_duplicate"]

_log = get_logger(__name__)
#: The values of ``Server(on_duplicate=)``.
POLICIES = ("error", "replace", "warn")


def check_duplicate(policy: str, what: str, old: Any, new: Any) -> None:
    """Return if *new* takes the place of *old*, with a warning if the policy says so.

    In an interactive session, such as a notebook, a function of the session takes the place of an earlier definition of
    itself (one of the same qualified name) whatever the policy, so that a cell can be run again.

    :param what: the entry, for messages, such as ``tool 'add'``.
    :param old: the function that is registered.
    :param new: the function that shall be registered.
    :raises RegistrationError: the policy is "error".
    """
    if policy == "replace" or _defined_again(old, new):
        return
    if policy == "warn":
        _log.warning("%s is registered again; the new one takes the place of the old one", what)
        return
    raise RegistrationError(f"{what} is registered already; remove it first, choose another name, or make the server with"
                            " on_duplicate='replace'")


def _defined_again(old: Any, new: Any) -> bool:
    if not hasattr(sys, "ps1"):  # the prompt, which the interpreter and IPython set in interactive sessions only
        return False
    homes = [(getattr(function, "__module__", None), getattr(function, "__qualname__", None)) for function in (old, new)]
    return homes[0] == homes[1] and homes[0][0] == "__main__" and homes[0][1] is not None
