"""Many official clients behind one address lose nothing, although they have more connections than are served at once."""

import json
import subprocess
import time
from pathlib import Path

import pytest

import mcplite
from tests.support.tight import tight

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
SCRIPT = Path(__file__).resolve().parent / "official_crowd.py"
SECONDS = 180


@pytest.mark.parametrize("connections", [None, 60])
def test_four_clients_with_eighty_calls_at_once_each(installed, connections):
    python = installed.python("mcp1")
    server = mcplite.Server("crowded", limits=tight(**({"connections": connections} if connections else {})))

    @server.tool()
    def slow(seconds: float) -> str:
        time.sleep(seconds)
        return "slow"

    with mcplite.serve(server) as made:
        ran = subprocess.run([python, str(SCRIPT), made.url, "4", "80", "0.5"], stdout=subprocess.PIPE, timeout=SECONDS)
    assert ran.returncode == 0 and json.loads(ran.stdout) == {"answered": 320}
