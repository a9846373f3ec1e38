"""What a hostile server costs the memory of its client, measured from outside; each of these took up to 1,700 MiB."""

import os

import pytest

from tests.support.flood import measured

pytestmark = [pytest.mark.one_python, pytest.mark.skipif(os.name != "posix", reason="POSIX only")]
#: Megabytes are sent for a few seconds each: less would prove nothing about memory.
#: What docs/security.rst promises.
MOST_MIB = 150


@pytest.mark.parametrize("kind, outcome", [
    ("pages", "tools of more than 41943040 bytes; take single pages with list_tools_page()"),
    ("cursors", "a cursor of more than 1048576 characters"),
    ("elements", "more than 500000 keys and items in one message"),
    ("schema", "more than 500000 keys and items in one message"),
    ("progress", "done"), ("logs", "done"), ("events", "done"), ("small", "done"),
    ("questions", "done"), ("identities", "done"), ("result", "done"), ("text", "done"),
    ("names", "done"),
])
@pytest.mark.slow
def test_a_flood_takes_bounded_memory_and_large_results_arrive(kind, outcome):
    report = measured(kind)
    assert outcome in report["outcome"]
    assert report["peak"] <= MOST_MIB
