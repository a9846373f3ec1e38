"""A server with skills, and a client of it in three revisions."""

import pytest

import mcplite
from tests.support.skills import write_skills


@pytest.fixture
def folder(tmp_path):
    return write_skills(tmp_path / "skills")


@pytest.fixture
def mcp(folder):
    server = mcplite.Server("travel")
    server.add_skills(folder)
    return server


@pytest.fixture(params=["2024-11-05", "2025-11-25", "2026-07-28"])
def client(request, mcp):
    with mcplite.connect(mcp, revision=request.param) as client:
        yield client
