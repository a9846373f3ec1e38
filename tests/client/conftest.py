"""An authorization server, a server that takes its tokens, and a user, for every test that logs in."""

import pytest

import mcplite
from tests.support.authserver import REDIRECT, AuthServer, Protected, User


@pytest.fixture
def auth():
    with AuthServer() as auth:
        yield auth


@pytest.fixture
def script(auth):
    with Protected(auth) as script:
        yield script


@pytest.fixture
def user():
    user = User()
    yield user
    user.may.set()


@pytest.fixture
def grant(user):
    return mcplite.OAuth(ask=user, redirect_uri=REDIRECT)


@pytest.fixture
def path(tmp_path):
    """Where a file with credentials may be made, in a folder that is not there."""
    return tmp_path / "store" / "credentials.json"
