"""The inputs that fuzzing kept hold every property, on every Python."""

import pytest

from tests.fuzz.__main__ import CORPUS, read_corpus
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.slow
def test_the_kept_inputs_of_a_target(name):
    inputs = read_corpus(name)
    assert len(inputs) >= 5
    for one in [b"", b"\0", *inputs]:
        TARGETS[name](one)


def test_each_corpus_has_a_target():
    assert {file.stem for file in CORPUS.iterdir()} == set(TARGETS)
