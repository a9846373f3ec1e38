"""The cache of verified tokens: how long an entry holds, and how many there are."""

import pytest

from mcplite.auth.verify.verified_tokens import VerifiedTokens
from mcplite.server.principals import Principal
from tests.support.fakes import Clock

ADA = Principal("ada")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tokens(clock):
    return VerifiedTokens(60, 2, clock)


def keep(tokens, token, principal=ADA, verified_by=None):
    digest, found = tokens.find(token, verified_by)
    assert found is None
    tokens.add(digest, principal, verified_by)


def test_a_principal_is_kept_for_its_time(tokens, clock):
    keep(tokens, "a")
    clock.now += 59
    assert tokens.find("a")[1] is ADA
    clock.now += 1
    assert tokens.find("a")[1] is None and len(tokens) == 0


def test_a_principal_is_not_kept_beyond_the_end_of_its_token(tokens, clock):
    keep(tokens, "a", Principal("ada", expires_at=clock() + 5))
    clock.now += 5
    assert tokens.find("a")[1] is None


def test_an_entry_does_not_hold_before_its_beginning(tokens, clock):
    keep(tokens, "a")
    clock.now -= 1  # the clock was set back
    assert tokens.find("a")[1] is None


def test_an_entry_holds_for_what_its_token_was_verified_by(tokens):
    old, new = object(), object()
    keep(tokens, "a", verified_by=old)
    assert tokens.find("a", old)[1] is ADA and tokens.find("a", new)[1] is None


def test_the_oldest_entry_makes_room(tokens):
    for token in "abc":
        keep(tokens, token)
    assert len(tokens) == 2 and tokens.find("a")[1] is None and tokens.find("c")[1] is ADA
