"""Chooses the user agent for this machine: a browser, else the terminal, else an error.

A module of its own, so that an agent given with ``ask=`` does not import the others.
"""

import os
import sys

from ...rpc.stdio.terminals import is_terminal
from .browser import Browser, has_browser
from .terminal import Terminal
from .user_agent import NoUserAgent, UserAgent

__all__ = ["default_user_agent"]


def default_user_agent() -> UserAgent:
    """Return a browser, else the terminal, else an agent that raises because there is neither."""
    if has_browser(os.environ, sys.platform):
        return Browser()
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        return Terminal()
    return NoUserAgent()
