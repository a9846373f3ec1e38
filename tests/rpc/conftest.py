"""A peer with a raw other end, for the tests of the engine."""

import pytest

from tests.support.conversations import Conversation


@pytest.fixture
def make():
    made = []

    def make(**options):
        made.append(Conversation(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def talk(make):
    return make()
