"""Tasks in four workers: many principals that see their own alone, and workers that are killed."""

from pathlib import Path

import pytest

from tests.fleet import tasks
from tests.support.fleets import running_fleet, running_store
from tests.support.forks import POSIX_ONLY

pytestmark = POSIX_ONLY
HERE = Path(__file__).resolve().parent
PRINCIPALS = 8


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """A fleet that knows principals."""
    folder = tmp_path_factory.mktemp("owned")
    with running_store("sqlite", folder) as (backend, _):
        with running_fleet("server:application", HERE, folder, backend, spread=True, preload=True, grace=3,
                           FLEET_PRINCIPALS=str(PRINCIPALS)) as fleet:
            yield fleet


def test_each_principal_has_its_own_tasks_and_all_of_them(owned):
    print(tasks.tasks(owned, PRINCIPALS, 5 * PRINCIPALS))


def test_the_tasks_of_a_killed_worker(owned):
    print(tasks.task_deaths(owned, 1))
