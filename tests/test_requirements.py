"""Requirement ids such as ``TOOL-30``: each one is explained in ``docs/requirements.rst``, and no user meets one."""

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.support.sources import FILES, ROOT, nodes

pytestmark = pytest.mark.one_python

PAGE = ROOT / "docs" / "requirements.rst"
ID = re.compile(r"\b[A-Z][A-Z0-9]{1,5}-[0-9]{2,3}\b")
#: Names of algorithms and encodings, which look like ids.
OTHERS = {"AES-256", "ECMA-262", "SHA-256", "SHA-512", "UTF-16"}


@functools.lru_cache(maxsize=None)
def used():
    """Return the ids that the package and its tests name."""
    files = FILES + [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__).resolve()]
    return {found for path in files for found in ID.findall(path.read_text("utf-8"))} - OTHERS


def explained():
    """Return the ids that have a line in the docs, in the order of the page."""
    return re.findall(r"^- ``([A-Z0-9]+-[0-9]+)`` ", PAGE.read_text("utf-8"), re.MULTILINE)


def texts(tree):
    """Yield the line and the text of each string that is not a docstring, of all nodes of a tree."""
    docstrings = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
    for node in tree:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def test_each_id_has_one_line_in_the_docs():
    assert len(explained()) == len(set(explained()))


def test_every_id_in_use_is_in_the_docs():
    assert sorted(used() - set(explained())) == []


def test_the_docs_have_no_id_that_is_not_used():
    assert sorted(set(explained()) - used()) == []


def test_each_id_says_in_a_sentence_what_is_required_and_links_to_it():
    items = re.findall(r"^- .*(?:\n  .*)*", PAGE.read_text("utf-8"), re.MULTILINE)
    wrong = [item for item in items if not re.fullmatch(r"- ``[A-Z0-9]+-[0-9]+``\s[^.].+\.(?:\s+`[^`]+`_)?", item, re.DOTALL)]
    ours = [item for item in items if not item.endswith("`_")]
    assert wrong == [] and [item for item in ours if not re.match(r"- ``(AUTH|SEC|REL|NS)-", item)] == []


def test_no_text_that_a_user_can_meet_has_an_id():
    assert [(path, line, text) for path in FILES for line, text in texts(nodes(path))
            if set(ID.findall(text)) - OTHERS] == []


def test_an_id_in_a_text_would_be_found():
    tree = ast.parse('"""A docstring, TOOL-08."""\nraise ValueError(f"{name} is taken (TOOL-14)")  # TOOL-14\n')
    assert [(line, ID.findall(text)) for line, text in texts(list(ast.walk(tree))) if ID.search(text)] == [(2, ["TOOL-14"])]
