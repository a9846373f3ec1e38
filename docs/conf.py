"""Settings of the documentation: the theme furo, pages in reStructuredText, and the reference made from the docstrings.

Names in docstrings are short, such as ``Icon`` for ``mcplite.types.Icon``: :func:`short_name` finds what they mean.
"""

import builtins
import importlib
import importlib.util
import re
import sys
from pathlib import Path

from sphinx.addnodes import pending_xref
from sphinx.util.nodes import find_pending_xref_condition, make_refnode

_root = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_root), str(_root / "docs")]  # the reference is that of this checkout, not of an installed copy
option_tables = importlib.import_module("option_tables")

project = "mcplite"
author = "The mcplite maintainers"
copyright = f"2026, {author}"
release = version = re.search(r'__version__ = "(.*)"', (_root / "mcplite" / "version.py").read_text("utf-8")).group(1)
extensions = ["sphinx.ext.autodoc", "myst_parser", "sphinx_design"]
master_doc = "index"
exclude_patterns = ["_build"]
highlight_language = "text"
nitpicky = True
# CHANGELOG.md and its like link to files of the repository, and are pages of the site, too.
suppress_warnings = ["myst.xref_missing"]
# Integrations are documented without the libraries that they are for.
autodoc_mock_imports = [name for name in ("django", "flask", "opentelemetry") if importlib.util.find_spec(name) is None]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": "BaseException, dict, object, tuple"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = "mcplite"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "../mcplite/inspector/page/icon.svg"
html_copy_source = True
html_theme_options = {"navigation_with_keys": True}

#: The id of a requirement, such as TOOL-30.
_ID = r"[A-Z][A-Z0-9]{1,5}-[0-9]{2,3}"


def short_name(app, env, node, contnode):
    """Resolve a name of a docstring by its last part, if exactly one documented object has it.

    Docstrings and annotations also name what has no entry: internal classes, types of Python and of other libraries. They
    are shown without a link. Pages may name only what exists.
    """
    if node.get("refdomain") != "py":
        return None
    plain = contnode if node.get("refdoc", "").startswith("reference/") else None
    domain, last = env.get_domain("py"), node["reftarget"].rpartition(".")[2]
    canonical = {name for name, entry in domain.objects.items() if name.rpartition(".")[2] == last and not entry.aliased}
    public = [name for name in canonical if name.count(".") == 1] or sorted(canonical)
    if len(public) != 1:
        return plain
    entry = domain.objects[public[0]]
    return make_refnode(app.builder, node.get("refdoc", env.docname), entry.docname, entry.node_id, contnode, public[0])


def adapted(app, what, name, obj, options, lines):
    """Remove the ids of requirements, which readers of the source look up in requirements.rst; give parameters one entry each.

    The fields of options become a table.

    ``:param a, b: text`` would be a parameter b of the type "a,".
    """
    text = re.sub(rf"\s*\({_ID}(?:(?:,| and| to)\s+{_ID})*\)", "", "\n".join(lines))

    if name in option_tables.TABLED:
        lines[:] = option_tables.with_tables(text + "\n", obj).split("\n")
        return

    def one_each(found):
        return "".join(f":{found[1]} {each}:{found[3]}\n" for each in found[2].split(", "))

    fields = re.compile(r"^:(param) ((?:\w+, )+\w+):((?:.*)(?:\n[ ]+.*)*)(?:\n|\Z)", re.MULTILINE)
    lines[:] = fields.sub(one_each, text + "\n").split("\n")


def without_builtins(app, doctree):
    """Let ``bytes`` in a signature be Python's, and no link to a property of this name."""
    for node in list(doctree.findall(pending_xref)):
        if node.get("refdomain") == "py" and hasattr(builtins, node["reftarget"]):
            shown = find_pending_xref_condition(node, "resolved") or node
            node.replace_self(shown.children)


def setup(app):
    app.connect("autodoc-process-docstring", adapted)
    app.connect("doctree-read", without_builtins)
    app.connect("missing-reference", short_name)
