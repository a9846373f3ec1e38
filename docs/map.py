"""Writes the map of the package into a page of its own: one line for each folder and module.

``python docs/map.py`` (or ``make map``) takes the first line of each docstring. It makes ``llms.txt``, too. Tests compare both.
"""

import ast
import re
import runpy
import textwrap
from pathlib import Path
from typing import Iterator

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "mcplite"
PAGE = DOCS / "map.rst"
MARKS = ".. map of the package\n\n", ".. end of the map\n"


def purpose(path: Path) -> str:
    """Return the first paragraph of a module's docstring, as reStructuredText that links to nothing."""
    text = path.read_text("utf-8")
    end = text.find('"""', 4) + 3  # parsing the rest of each module would take a second
    first = " ".join((ast.get_docstring(ast.parse(text[:end])) or "").split("\n\n")[0].split())
    first = re.sub(r":[a-z]+:`~?([^`]+)`", r"``\1``", first)
    # Every second part is a literal; in the others some characters would mean something.
    parts = first.split("``")
    parts[::2] = [re.sub(r"([*|]|_\b|(?<= )[-+](?= ))", r"\\\1", part) for part in parts[::2]]
    return "``".join(parts)


def wrapped(text: str, indent: str) -> Iterator[str]:
    """Yield the lines of *text*; those after the first have this indentation."""
    yield from textwrap.wrap(text, 118, initial_indent="    ", subsequent_indent=indent, break_on_hyphens=False)


def folder(path: Path) -> Iterator[str]:
    """Yield the lines about a folder and, after it, about the folders in it."""
    yield f"``{path.relative_to(PACKAGE.parent).as_posix()}/``"
    yield from wrapped(purpose(path / "__init__.py"), "    ")
    yield ""
    for module in sorted(path.glob("*.py")):
        if module.name != "__init__.py":
            yield from wrapped(f"- ``{module.stem}``: {purpose(module)}", "      ")
    yield ""
    for inner in sorted(path.glob("*/__init__.py")):
        yield from folder(inner.parent)


def page() -> str:
    """Return the whole page with a new map."""
    before, rest = PAGE.read_text("utf-8").split(MARKS[0])
    return before + MARKS[0] + "\n".join(folder(PACKAGE)) + "\n" + MARKS[1] + rest.split(MARKS[1])[1]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    runpy.run_path(str(Path(__file__).with_name("llms.py")), run_name="__main__")  # what else is made from other files
