"""The built documentation in Chromium, wide and narrow, light and dark: ``make docs`` builds what is opened here."""

import functools
import http.server
import threading
from pathlib import Path

import pytest

from tests.support.chromium import CHROMIUM
from tests.support.inspecting import CONTRAST

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
pytestmark = [pytest.mark.interop, pytest.mark.slow,
              pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; tests/interop/install.sh installs it"),
              pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built; make docs builds it")]

#: The first page, the tutorial, pages of instructions, and pages of the reference with long signatures and with tables.
PAGES = ["index", "tutorial", "servers", "applications", "hosts", "performance", "reference/index", "reference/server"]
#: Returns what is scrolled to the side besides code and tables, which may be: furo does not let the document itself grow.
WIDER = """(() => {
  const scrolls = (one) => one === document.documentElement || ['auto', 'scroll'].includes(getComputedStyle(one).overflowX);
  const wider = [...document.querySelectorAll('html, body *')].filter((one) =>
      one.scrollWidth > one.clientWidth + 1 && one.checkVisibility() && scrolls(one) && !one.matches('pre, .table-wrapper'));
  return wider.map((one) => `${one.tagName}.${one.className}: ${one.scrollWidth} of ${one.clientWidth}`);
})()"""
#: Returns the pictures without a text for those who do not see them, and those that have not come.
UNTOLD = """[...document.images].filter((one) => !one.alt.trim() || !one.naturalWidth).map((one) => one.outerHTML)"""


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        """Leave the output to the tests."""


@pytest.fixture(scope="module")
def address():
    """The address of the site, which a thread serves until the last test of the module has ended."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)])
def test_pages_are_legible_complete_and_as_wide_as_the_window(chromium, address, scheme, width):
    tab = chromium.tab(scheme=scheme, width=width, height=800)
    found = {}
    for name in PAGES:
        tab.visit(f"{address}{name}.html")
        for what, script in (("contrast", CONTRAST), ("width", WIDER), ("pictures", UNTOLD)):
            problems = tab.evaluate(script)
            if problems:
                found[name, what] = problems
    assert found == {}
    assert tab.refused == [] and tab.complaints == []
    assert [url for url in tab.requests if not url.startswith((address, "data:"))] == []
    tab.visit("about:blank")
