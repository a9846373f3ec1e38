"""A signal handler that raises, or calls, at a random moment of a short call: no later call is wrong, late or lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcplite import revisions

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="POSIX only"),
    pytest.mark.skipif(sys.version_info < (3, 10), reason="Python 3.9 runs signal handlers between any two bytecodes, also"
                                                          " between the end of a block and its release of a lock")]
HERE = Path(__file__).resolve().parent
LEGACY, MODERN = revisions.NEWEST_LEGACY.name, revisions.NEWEST.name


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("handler", ["raise", "alarm", "threads", "call"])
@pytest.mark.parametrize("transport, revision", [
    ("memory", LEGACY), ("memory", MODERN), ("stdio", LEGACY), ("stdio", MODERN), ("http", LEGACY), ("http", MODERN)])
def test_a_client_is_usable_after_interrupts_at_any_moment(dice, whole, transport, revision, handler):
    count = 700 if whole else 40
    done = subprocess.run([sys.executable, str(HERE / "interrupted.py"), transport, revision, str(count),
                           str(dice.randrange(1 << 30)), handler], stdout=subprocess.PIPE, timeout=1000)
    happened = json.loads(done.stdout)
    print(happened)
    struck = happened.pop("struck")
    assert struck >= count
    if handler == "call":
        assert happened.get("served", 0) + happened.get("refused", 0) == struck and set(happened) <= {"served", "refused"}
    else:
        assert happened == {"interrupted": struck}
