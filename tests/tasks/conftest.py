"""What tests of tasks share with those of servers."""

from tests.server.conftest import connect  # noqa: F401 - a fixture
