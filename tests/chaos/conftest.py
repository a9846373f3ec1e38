"""Programs of which either may be stopped and killed at any moment, and the numbers that say when.

With MCPLITE_CHAOS=whole, as ``make chaos`` sets it, the tests take as long as they need; else they take seconds.
"""

import contextlib
import os
import random
import sys
from pathlib import Path

import pytest

from tests.support.callers import Pair

HERE = Path(__file__).resolve().parent
WHOLE = os.environ.get("MCPLITE_CHAOS") == "whole"


@pytest.fixture
def pair(tmp_path):
    """``pair(server, caller, transport, revision)``: a :class:`Pair`; the programs are by default ours."""
    with contextlib.ExitStack() as stack:
        def pair(server=None, caller=None, transport="stdio", revision=""):
            made = Pair(tmp_path, server or [sys.executable, str(HERE / "server.py")],
                        caller or [sys.executable, str(HERE / "caller.py")], transport, revision)
            stack.callback(made.close)
            made.start()
            return made

        yield pair


@pytest.fixture
def dice():
    """Random numbers that a failed test can be repeated with."""
    seed = int(os.environ.get("MCPLITE_CHAOS_SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"MCPLITE_CHAOS_SEED={seed}")  # shown when the test fails
    return random.Random(seed)


@pytest.fixture(scope="session")
def whole():
    """Whether to take as long as it needs."""
    return WHOLE
