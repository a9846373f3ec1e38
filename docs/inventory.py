"""Checks a built site: each public name has an entry in its index, which links from other sites use too.

    python docs/inventory.py docs/_build/html
"""

import sys
import zlib
from pathlib import Path

import mcplite
from mcplite import auth, extend, llm, middleware, openapi, skills, testing, types

#: Modules each of whose public names has an entry.
MODULES = (auth, extend, llm, middleware, openapi, skills, testing, types)


def names_in(inventory):
    """Return the Python names in an ``objects.inv``: four lines of text, then compressed lines."""
    header, _, rest = inventory.partition(b"zlib.\n")
    lines = zlib.decompress(rest).decode("utf-8").splitlines()
    return {line.split(" ", 1)[0] for line in lines if " py:" in line}


def public():
    """Return the names that the site must have."""
    return {f"mcplite.{name}" for name in mcplite.__all__} | {
        f"{module.__name__}.{name}" for module in MODULES for name in module.__all__}


def main(folder):
    found = names_in((folder / "objects.inv").read_bytes())
    # One entry serves mcplite.user and mcplite.types.user.
    last = {name.rpartition(".")[2] for name in found}
    missing = sorted(name for name in public() if name.rpartition(".")[2] not in last)
    missing += [name for name in ("mcplite.Server.tool", "mcplite.Client.call_tool") if name not in found]
    if missing:
        sys.exit(f"the reference lacks {', '.join(missing)}")
    index = (folder / "genindex.html").read_text("utf-8")
    if index.count("<li>") < len(found) // 2:
        sys.exit("the general index is empty")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
