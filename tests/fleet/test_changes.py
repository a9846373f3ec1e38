"""Changes that one process tells of reach the clients of all workers."""

import os
import queue
import subprocess
import sys

import pytest

import mcplite
from tests.fleet.load import REVISIONS
from tests.support.forks import POSIX_ONLY
from tests.support.processes import ROOT

pytestmark = POSIX_ONLY
LIMIT = 60
PUBLISH = """import mcplite, sys
with mcplite.publisher(sys.argv[1]) as publisher:
    publisher.resource_updated("shop://stock")
    publisher.tools_changed()
"""


@pytest.mark.parametrize("era", REVISIONS)
def test_a_process_that_does_not_serve_tells_of_changes(fleet, era):
    heard = queue.Queue()
    with mcplite.connect(fleet.url, revision=era, timeout=LIMIT) as client:
        stop = client.subscribe(heard.put, resources=["shop://stock"], tools=True)
        subprocess.run([sys.executable, "-c", PUBLISH, fleet.backend], check=True, timeout=LIMIT,
                       env={**os.environ, **fleet.variables, "PYTHONPATH": str(ROOT)})
        found = {heard.get(timeout=LIMIT), heard.get(timeout=LIMIT)}
        assert found == {mcplite.ResourceUpdated(uri="shop://stock"), mcplite.ToolsChanged()}
        stop()


@pytest.mark.parametrize("era", REVISIONS)
def test_any_worker_tells_of_changes(fleet, era):
    heard, workers = queue.Queue(), set()
    with mcplite.connect(fleet.url, revision=era, timeout=LIMIT) as client:
        stop = client.subscribe(heard.put, resources=["shop://stock"])
        for _ in range(20):
            workers.add(client.call_tool("touch", {"uri": "shop://stock"}).text)
            client.call_tool("touch", {"uri": "shop://price"})
            assert heard.get(timeout=LIMIT) == mcplite.ResourceUpdated(uri="shop://stock")
            if len(workers) > 2:
                break
        stop()
    assert len(workers) > 1 and heard.empty()
