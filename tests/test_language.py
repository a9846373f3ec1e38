"""Plain words in what readers meet, and one meaning for a name."""

import ast
import collections
import re

import pytest

from tests.support.sources import FILES, PACKAGE, ROOT, nodes

pytestmark = pytest.mark.one_python

TEXTS = FILES + [
    page for folder in (ROOT, ROOT / "docs") for ending in ("md", "rst") for page in sorted(folder.glob(f"*.{ending}"))]

#: Words that hide who does something, and turns of phrase that a reader stops at: name the client, the caller, the thread.
UNCLEAR = re.compile(r"\b(nobody|somebody|whoever|everybody|anybody|anew|gone\s+on\s+with|to\s+be\s+had|in\s+work)\b",
                     re.IGNORECASE)
#: How many of them there may be in all; it only ever goes down.
ALLOWANCE = 10


def unclear_words():
    """Return the number of unclear words of each file that has any."""
    counted = collections.Counter()
    for path in TEXTS:
        # The map of the package repeats docstrings, which are counted where they stand.
        text = path.read_text("utf-8").partition("\n.. map of the package\n")[0]
        counted[path.relative_to(ROOT).as_posix()] = len(UNCLEAR.findall(text))
    return +counted


def test_few_sentences_hide_their_subject():
    found = unclear_words()
    assert sum(found.values()) <= ALLOWANCE, found


@pytest.mark.parametrize("text, count", [
    ("Nobody waits.", 1), ("There is none to be\n    had", 1), ("a handler in work", 1), ("how it works in working order", 0),
    ("somebody else's", 1), ("the body", 0),
])
def test_words_are_found(text, count):
    assert len(UNCLEAR.findall(text)) == count


@pytest.mark.slow
def test_a_class_name_means_one_class():
    places = collections.defaultdict(list)
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(PACKAGE).as_posix())
    twice = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    assert twice == {}
