"""Processes that share a store, as the tests of sessions have them."""

from tests.support.credentials import mint  # noqa: F401
from tests.support.sharing import processes, store  # noqa: F401
