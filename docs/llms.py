"""The documentation for language models: ``llms.txt``, which lists the pages, and ``llms-full.txt``, which is their text.

    python docs/llms.py                                         writes docs/llms.txt
    python docs/llms.py docs/_build/html docs/_build/text       writes both files of the site

The list of the repository leads to the sources of the pages, that of the site to the copies that sphinx makes of them.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
#: Pages that are one line, and show a file of the repository.
SHOWN = re.compile(r"\A```\{include\} (\S+)")


def groups():
    """Yield ``(caption, names)`` for each group of pages, in the order of the index."""
    for file in ("index.rst", "project.rst"):
        text = (DOCS / file).read_text("utf-8")
        for part in text.split(".. toctree::\n")[1:]:
            caption = re.search(r":caption: (.+)", part)
            name = caption.group(1) if caption else described(text)[0]
            yield name, re.findall(r"^   ([a-z][a-z0-9/-]*)$", part, re.MULTILINE)


def source(name):
    """Return the file of a page."""
    return next(path for path in (DOCS / f"{name}.rst", DOCS / f"{name}.md") if path.is_file())


def text_of(name):
    """Return the source of a page, or of the file that it shows."""
    path = source(name)
    text = path.read_text("utf-8")
    shown = SHOWN.match(text)
    return (path.parent / shown.group(1)).read_text("utf-8") if shown else text


def described(text):
    """Return the title and the first sentence of a page."""
    lines = [line for line in text.splitlines() if not line.startswith("..")]
    title = next(line for line in lines if line.strip()).lstrip("# ")
    paragraphs = [part for part in "\n".join(lines).split("\n\n")[1:] if not re.search("[=~-]{3}", part)]
    first = next(" ".join(part.split()) for part in paragraphs if re.match(r"\s*[A-Z`]", part))
    first = re.sub(r":doc:`([^`<]+)`", r"\1", first.replace("``", "`"))
    return title, re.split(r"(?<=[.:])\s", first)[0].rstrip(".:") + "."


def page(suffix=""):
    """Return ``llms.txt``; *suffix* comes after the names of files, for the copies of a site."""
    lines = ["# mcplite", "", "> The Model Context Protocol for ordinary blocking Python: servers and clients on plain threads,"
             " without an event loop, on `requests` and `jsonschema` alone.", ""]
    for caption, names in groups():
        lines += [f"## {caption}", ""]
        for name in names:
            title, sentence = described(text_of(name))
            path = (suffix and "_sources/") + source(name).relative_to(DOCS).as_posix() + suffix
            lines.append(f"- [{title}]({path}): {sentence}")
        lines.append("")
    return "\n".join(lines)


def full(text_folder):
    """Return the text of all pages: the reference as sphinx has made it from the docstrings, the others as they are written."""
    parts = [(DOCS.parent / "README.rst").read_text("utf-8")]
    for _, names in groups():
        for name in names:
            if name == "reference/index":
                parts += [path.read_text("utf-8") for path in sorted(Path(text_folder, "reference").glob("*.txt"))]
            else:
                parts.append(text_of(name))
    return "\n\n".join(parts)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        Path(sys.argv[1], "llms.txt").write_text(page(".txt"), "utf-8")
        Path(sys.argv[1], "llms-full.txt").write_text(full(sys.argv[2]), "utf-8")
    else:
        (DOCS / "llms.txt").write_text(page(), "utf-8")
