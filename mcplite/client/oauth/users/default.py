"""Chooses how a user is asked to log in: a browser, else the terminal, else an error."""

import os
import sys

from .agent import Nobody, UserAgent
from .browser import Browser, has_browser
from .terminal import Terminal, is_terminal

__all__ = ["default_user_agent"]


def default_user_agent() -> UserAgent:
    """Return the way of asking that fits: a browser, else the terminal, else one that says that there is neither."""
    if has_browser(os.environ, sys.platform):
        return Browser()
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        return Terminal()
    return Nobody()
