"""Several workers of gunicorn on one backend: changes reach the clients of all of them, and any of them gets an answer."""

import os
import queue
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mcplite
from tests.support.forks import POSIX_ONLY
from tests.support.processes import ROOT, serving

pytestmark = POSIX_ONLY
HERE = Path(__file__).resolve().parent
PATIENCE = 60
PUBLISH = "import mcplite; mcplite.publisher('{}').resource_updated('shop://stock')"


@pytest.fixture
def variables(tmp_path):
    return {"MCPLITE_BACKEND": f"sqlite:///{tmp_path / 'shared.db'}", "MCPLITE_STATE_KEYS": secrets.token_hex(16)}


@pytest.fixture
def url(variables):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "gunicorn", "--bind=127.0.0.1:PORT",
               "--worker-class=gthread", "--threads=8", "--workers=3", "--graceful-timeout=5", "shared_app:application"]
    with serving(command, HERE, **variables) as url:
        yield url + "mcp"


def test_a_change_in_any_worker_or_script_reaches_a_client(url, variables):
    heard = queue.Queue()
    with mcplite.connect(url, options=mcplite.ClientOptions(era="modern"), timeout=PATIENCE) as client:
        stop = client.subscribe(heard.put, resources=["shop://stock"])
        pids, end = set(), time.monotonic() + PATIENCE
        while len(pids) < 2 and time.monotonic() < end:
            with mcplite.connect(url, options=mcplite.ClientOptions(era="modern"),
                                 timeout=PATIENCE) as other:  # a connection of its own, to any worker
                pids.add(other.call_tool("restock").text)
            assert heard.get(timeout=PATIENCE) == mcplite.ResourceUpdated(uri="shop://stock")
        assert len(pids) > 1, "more than one worker has told of a change"
        subprocess.run([sys.executable, "-c", PUBLISH.format(variables["MCPLITE_BACKEND"])], check=True, timeout=PATIENCE,
                       env={**os.environ, **variables, "PYTHONPATH": str(ROOT)})
        assert heard.get(timeout=PATIENCE) == mcplite.ResourceUpdated(uri="shop://stock")
        stop()


def test_answers_reach_any_worker(url):
    def answer(request):
        return {"count": 3} if "many" in request.message else {"sure": True}

    with mcplite.connect(url, options=mcplite.ClientOptions(era="modern"), elicitation_handler=answer,
                         timeout=PATIENCE) as client:
        for number in range(12):
            assert client.call_tool("order", {"item": f"tea {number}"}).text == f"3 tea {number}, sure: True"
