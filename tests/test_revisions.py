"""The table of revisions: its order, its look-up, and that rows agree with themselves.

``types/test_oracle.py`` compares the rows with the official schemas.
"""

import dataclasses

import pytest

from mcplite import revisions
from mcplite.revisions import LEGACY, NEWEST, NEWEST_LEGACY, REVISIONS, find_revision


def test_oldest_first():
    assert [revision.rank for revision in REVISIONS] == list(range(len(REVISIONS)))
    assert sorted(REVISIONS, key=lambda revision: revision.name) == list(REVISIONS)
    assert NEWEST is REVISIONS[-1] and NEWEST_LEGACY is LEGACY[-1]
    assert [revision for revision in REVISIONS if not revision.modern] == list(LEGACY)


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_revision_is_found_by_its_name(revision):
    assert find_revision(revision.name) is revision
    assert str(revision) == revision.name and revision.name in repr(revision)


@pytest.mark.parametrize("name", ["", "latest", "2024-11-06", None, 20241105, ["2024-11-05"], {}])
def test_an_unknown_name_finds_nothing(name):
    assert find_revision(name) is None


def test_marks_are_inclusive():
    first, second, third, *_ = REVISIONS
    assert second.has(None) and second.has(first) and second.has(second) and not second.has(third)
    assert second.has(None, second) and second.has(first, third) and not second.has(None, first)


def test_revisions_have_no_order_and_cannot_be_changed():
    with pytest.raises(TypeError):
        assert NEWEST > NEWEST_LEGACY
    with pytest.raises(dataclasses.FrozenInstanceError):
        NEWEST.batches = True


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_facts_of_one_row_agree(revision):
    assert revision.modern == (revision.version_header == "must-match-body")
    assert not (revision.modern and revision.priming_event)
    assert ("logging/setLevel" in revision.client_requests) is not revision.modern
    assert not (revision.modern and revision.server_requests) and revision.modern == bool(revision.input_requests)
    assert ("initialize" in revision.client_requests) is not revision.modern
    assert revision.elicitation_modes <= ("elicitation/create" in revision.server_requests | revision.input_requests)
    assert revision.bad_arguments in ("error", "result")


def test_every_public_row_is_in_the_table():
    rows = [value for name, value in vars(revisions).items() if isinstance(value, revisions.Revision) and name.isupper()]
    assert {id(row) for row in rows} == {id(row) for row in REVISIONS}
