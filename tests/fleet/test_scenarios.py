"""What a fleet has to survive, each for seconds; ``make fleet`` does it for minutes."""

from pathlib import Path

import pytest

from tests.fleet import scenarios
from tests.support.fleets import running_fleet, running_store
from tests.support.forks import POSIX_ONLY

pytestmark = POSIX_ONLY
HERE = Path(__file__).resolve().parent


@pytest.fixture
def mortal(tmp_path):
    """A fleet that a test may maltreat."""
    with running_store("sqlite", tmp_path) as (backend, _):
        with running_fleet("server:application", HERE, tmp_path, backend) as fleet:
            yield fleet


def test_each_question_is_answered_and_each_effect_happens_once(fleet):
    print(scenarios.questions(fleet, 40))


def test_workers_that_are_killed_cost_their_own_calls_alone(mortal):
    print(scenarios.kills(mortal, clients=6, seconds=4, pause=2))


def test_all_workers_are_replaced_under_load(mortal):
    print(scenarios.restarts(mortal, clients=6, times=1))
