"""The files of a page of the documentation: its blocks of Python that have the name of a file as their caption."""

import re
import textwrap

from .processes import ROOT

FILE = re.compile(r"^\.\. code-block:: python\n   :caption: (\S+)\n\n((?:   .*\n|\n)+)", re.MULTILINE)


def files_of(page):
    """Return the files of a page: their texts by name."""
    found = FILE.findall((ROOT / "docs" / f"{page}.rst").read_text("utf-8"))
    return {name: textwrap.dedent(text) for name, text in found}


def write_files(files, folder):
    """Write files below a folder; a text is added to a file that is there already."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
