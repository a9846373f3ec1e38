"""Processes that share a store, as the tests of sessions have them."""

from tests.server.state.conftest import fleet, mint, store  # noqa: F401
