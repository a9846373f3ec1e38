"""The fleets of these tests: four workers on each store; and servers of one process that share a store, as several do."""

from pathlib import Path

import pytest

from tests.support.fleets import KINDS, running_fleet, running_store
from tests.support.sharing import processes, store  # noqa: F401

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session", params=[*KINDS, pytest.param("cluster", marks=pytest.mark.one_python)])
def fleet(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    with running_store(request.param, folder) as (backend, _):
        with running_fleet("server:application", HERE, folder, backend, spread=True, preload=True) as fleet:
            yield fleet
