import pytest

import mcplite
from tests.support.models import make_tools


@pytest.fixture
def client(monkeypatch):
    """A client of the tools for models; SDKs reach the scripted API without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with mcplite.connect(make_tools()) as client:
        yield client
