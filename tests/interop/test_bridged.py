"""A sample of the tests behind bridges of ours; ``MCPLITE_BRIDGED=1 pytest tests/interop`` runs all of them so."""

import os
import subprocess
import sys

import pytest

from tests.interop.bridging import BRIDGED, ROOT

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400),
              pytest.mark.skipif(BRIDGED, reason="all tests are behind bridges")]
SECONDS = 360


@pytest.mark.parametrize("file, chosen", [
    ("test_official_clients.py", "mcp2-http-legacy"), ("test_tasks.py", "in_typescript and stdio"),
    pytest.param("test_official_clients.py", "node2-stdio-auto", marks=pytest.mark.further)])
def test_a_sample_behind_bridges(installed, file, chosen):
    installed.python("mcp2")  # skips if nothing is installed
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/interop/{file}", "-k", chosen]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=SECONDS,
                         env={**os.environ, "MCPLITE_BRIDGED": "1"})
    assert ran.returncode == 0, ran.stdout[-6000:]
