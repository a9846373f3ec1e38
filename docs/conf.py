"""Settings of the documentation: plain reStructuredText, the default theme, no extensions."""

import re
from pathlib import Path

_version = (Path(__file__).resolve().parent.parent / "mcplite" / "version.py").read_text("utf-8")

project = "mcplite"
author = "The mcplite maintainers"
copyright = f"2026, {author}"
release = version = re.search(r'__version__ = "(.*)"', _version).group(1)
master_doc = "index"
exclude_patterns = ["_build"]
nitpicky = True
highlight_language = "text"
html_theme = "alabaster"
html_theme_options = {"description": "The Model Context Protocol for blocking Python", "fixed_sidebar": True}
html_copy_source = True
