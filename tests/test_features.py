"""The page of features: each of the 48 leads to a section with prose and an example, by the rule of the SDK audit."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
TEXTS = {page.stem: page.read_text("utf-8") for page in sorted(DOCS.glob("*.rst"))}
FEATURES = re.findall(r"^(\d+) +(\S.*?) +:ref:`([a-z-]+)`$", TEXTS["features"], re.MULTILINE)
TITLE = re.compile(r"^(?P<title>\S.*)\n(?P<line>[=~-])(?P=line){2,}$", re.MULTILINE)


def section(label):
    """Return the text below the title that a label stands before; or after the label, if no title follows at once.

    It ends with the next title or the next label, whatever their level.
    """
    found = [text.partition(f"\n.. _{label}:\n")[2] or text.partition(f".. _{label}:\n")[2]
             for text in TEXTS.values() if f".. _{label}:\n" in text]
    assert len(found) == 1, f"{label} is there {len(found)} times"
    text = found[0].lstrip("\n")
    title = TITLE.match(text)
    text = text[title.end():] if title else text
    ends = [end.start() for end in (TITLE.search(text), re.search(r"^\.\. _[a-z-]+:$", text, re.MULTILINE)) if end]
    return text[:min(ends, default=len(text))]


def prose(text):
    """Return the words outside of blocks of code."""
    lines = [line for line in text.splitlines() if not line.startswith((" ", ".."))]
    return " ".join(lines).split()


def test_there_are_forty_eight():
    assert [int(number) for number, _, _ in FEATURES] == list(range(1, 49))
    assert len({name for _, name, _ in FEATURES}) == 48


@pytest.mark.parametrize("label", sorted({label for _, _, label in FEATURES}))
def test_the_section_of_a_feature_has_prose_and_an_example(label):
    text = section(label)
    assert len(prose(text)) >= 20, f"{label} is not explained"
    assert ".. code-block:: python" in text or ".. code-block:: console" in text, f"{label} has no example"


def test_an_example_without_prose_is_no_section():
    assert prose("\n.. code-block:: python\n\n   mcp.run()\n") == []


@pytest.mark.parametrize("name", [
    "page_size", "website_url", "experimental", "on_roots_changed", "validate", "questions_per_minute", "ping_timeout",
    "list_tools_page", "list_resources_page", "list_resource_templates_page", "list_prompts_page", "add_resource",
    "add_prompt", "remove_tool", "remove_resource", "remove_prompt", "structured_output", "separator", "elicitation_id",
    "on_elicitation_complete", "add_notification", "add_method", "entry",
])
def test_a_name_that_is_easily_forgotten_is_on_a_page(name):
    assert [stem for stem, text in TEXTS.items() if re.search(rf"\b{name}\b", text)] != []
