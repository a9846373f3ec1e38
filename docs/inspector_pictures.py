"""Makes the pictures of the inspector's page in _static, for inspector.rst: a real server, used in a real Chromium.

``python docs/inspector_pictures.py`` (or ``make inspector-pictures``) makes them again after the page has changed.
"""

import sys
import tempfile
from pathlib import Path
from typing import Callable, Dict, Tuple

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

from login_pictures import with_palette  # noqa: E402

from mcplite.inspector.inspector_server import InspectedTarget, Inspector  # noqa: E402
from tests.support.chromium import Chromium, Tab  # noqa: E402

#: Columns and rows of the window.
WIDTH, HEIGHT = 1240, 760


def show(tab: Tab, *route: str) -> None:
    """Go to a view, by its route."""
    tab.evaluate(f"location.hash = '#/' + {list(route)!r}.map(encodeURIComponent).join('/')")


def press(tab: Tab, selector: str) -> None:
    """Click what matches, when it has come."""
    tab.wait(lambda: tab.evaluate(f"document.querySelector({selector!r}) !== null"), selector)
    tab.click(selector)


def use(tab: Tab) -> None:
    """A tool with a form, and its result as a table."""
    show(tab, "use", "gallery", "tools", "find_paintings")
    press(tab, ".item-input .primary")
    tab.expect("Field with crows")


def answer(tab: Tab) -> None:
    """A question of the server."""
    show(tab, "use", "gallery", "tools", "appraise")
    press(tab, ".item-input .primary")
    press(tab, "dialog .members input")
    tab.type("dialog .members input", "Two pears")


def see(tab: Tab) -> None:
    """Two calls that overlap, with progress and log, and one of the messages."""
    show(tab, "use", "gallery", "tools", "restore")
    tab.expect("Cleans a painting")
    tab.type(".members input", "Two pears")
    tab.evaluate("document.querySelectorAll('.members input')[1].select()")
    tab.type(".members .field:nth-child(2) input", "5")
    press(tab, ".item-input .primary")
    tab.expect("2 of 5: layer 2")
    press(tab, ".item-input .primary")
    tab.wait(lambda: tab.evaluate("document.querySelectorAll('.history .dot.done').length") == 2, "the end of both calls")
    show(tab, "see", "gallery")
    tab.wait(lambda: tab.evaluate("document.querySelectorAll('.timeline .bar.request').length > 1"), "the calls")
    tab.evaluate("[...document.querySelectorAll('.timeline .bar.request')].find((bar) => bar.offsetWidth > 60).click()")
    tab.expect("took")


def compare(tab: Tab) -> None:
    """The server as clients of five revisions see it."""
    show(tab, "compare", "gallery")
    press(tab, ".toolbar .primary")
    tab.expect("between 5 revisions")


def connection(tab: Tab) -> None:
    """The server, and what it says of itself."""
    show(tab, "connection", "gallery")
    tab.expect("Instructions")


PICTURES: Dict[str, Tuple[str, Callable[[Tab], None]]] = {
    "inspector-use": ("light", use), "inspector-answer": ("light", answer), "inspector-see": ("dark", see),
    "inspector-compare": ("light", compare), "inspector-connection": ("light", connection)}


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as folder, Chromium(folder) as browser:
        for name, (scheme, prepare) in PICTURES.items():
            # The path as people write it in the root of the project.
            with Inspector([InspectedTarget("gallery", "tests/support/gallery.py")]) as inspector:
                tab = browser.tab(width=WIDTH, height=HEIGHT, scheme=scheme)
                tab.visit(inspector.url)
                tab.expect("Find paintings")
                prepare(tab)
                tab.evaluate("document.activeElement.blur()")
                picture = with_palette(tab.screenshot())
                (DOCS / "_static" / f"{name}.png").write_bytes(picture)
                print(f"_static/{name}.png: {len(picture)} bytes")
                tab.visit("about:blank")


if __name__ == "__main__":
    main()
