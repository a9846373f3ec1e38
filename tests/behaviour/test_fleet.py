"""Several processes behind one address: an answer may reach any of them."""

import os
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mcplite
from mcplite.revisions import REVISIONS
from tests.support.processes import serving

HERE = Path(__file__).resolve().parent
LIMIT = 60
MODERN = "2026-07-28"
LEGACY = [revision.name for revision in REVISIONS if not revision.modern and revision.name != "2024-11-05"]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="gunicorn runs on POSIX only")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("effects")


def gunicorn(folder, **environment):
    # Without keep-alive each request is a connection of its own, and the system gives it to any worker.
    return serving([sys.executable, "-m", "gunicorn", "--bind=127.0.0.1:PORT", "--worker-class=gthread", "--threads=8",
                    "--workers=4", "--keep-alive=0", "--graceful-timeout=5", "fleet_server:application"], HERE,
                   FLEET_FOLDER=str(folder), **environment)


@pytest.fixture(scope="module")
def fleet(folder):
    with gunicorn(folder, FLEET="1") as url:
        yield url + "mcp"


@pytest.fixture(scope="module")
def crowd(folder):
    """Four processes without ``fleet=True``."""
    with gunicorn(folder) as url:
        yield url + "mcp"


def answer(request):
    return {"city": "Rome", "nights": 2} if "Where" in request.message else True


@pytest.mark.slow
def test_two_hundred_questions_reach_any_worker_and_none_is_lost(fleet, folder):
    keys = [uuid.uuid4().hex for _ in range(100)]
    with mcplite.connect(fleet, elicitation_handler=answer, timeout=LIMIT) as client:
        assert client.era == "modern"
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda key: client.call_tool("book", {"key": key}).text, keys))
    assert results == ["Rome for 2, accept"] * len(keys)
    moved = 0
    for key in keys:
        lines = (folder / key).read_text().split("\n")[:-1]
        assert [line.split()[0] for line in lines].count("paid") == 1
        assert [line.split()[0] for line in lines].count("entered") == 3
        moved += len({line.split()[1] for line in lines}) > 1
    assert moved > len(keys) / 10  # by chance three requests go to one of four workers in one case of sixteen


@pytest.mark.parametrize("older", LEGACY)
def test_questions_to_a_legacy_client_of_a_fleet_fail_with_a_reason(fleet, older):
    with mcplite.connect(fleet, revision=older, elicitation_handler=answer, timeout=LIMIT) as client:
        result = client.call_tool("book", {"key": uuid.uuid4().hex})
        assert result.is_error
        assert "serve it from one process" in result.text


def test_without_fleet_the_first_question_fails_and_names_the_remedy(crowd, folder):
    key = uuid.uuid4().hex
    with mcplite.connect(crowd, elicitation_handler=answer, timeout=LIMIT) as client:
        with pytest.raises(mcplite.errors.InternalError, match=r"Server\(fleet=True, state_keys=\[\.\.\.\]\)"):
            client.call_tool("book", {"key": key})
    assert "paid" not in (folder / key).read_text()
