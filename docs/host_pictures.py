"""Makes the drawings of host applications in _static/hosts: calls the tools of two pages, and draws conversations around them.

``python docs/host_pictures.py`` (or ``make host-pictures``) makes them again after the pages have changed, on POSIX.
"""

import concurrent.futures
import functools
import html
import json
import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

from terminal_pictures import prepare  # noqa: E402

import mcplite  # noqa: E402

FOLDER = DOCS / "_static" / "hosts"
#: Pixels: of a window and of its parts.
WIDTH, TITLE, MARGIN, LINE = 720, 34, 20, 20
#: Characters that fit on 100 pixels at a size of 14.
FIT = 13.5
STYLE = """text{font:14px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1c2733}
.m{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12px}
.n{fill:#59636e;font-size:13px}.l{font-weight:600}.i{fill:#fff}
.u{fill:#e3ecf7}.c{fill:#f5f7f9;stroke:#8a929c}.w{fill:#fff;stroke:#8a929c}.t{fill:#e8ebef}.b{fill:#2f5f9e}"""


class Drawing(NamedTuple):
    """One window: what its user says, the call, and what the model says.

    :param beside: lines of the user's work, which stand left of the conversation, or none.
    :param asks: whether the application asks its user before the call.
    :param layers: whether the map of hosts.rst is below these lines.
    """

    title: str
    server: str
    said: str
    tool: str
    arguments: Dict[str, Any]
    answer: str
    beside: List[str]
    asks: bool
    layers: bool = False


DRAWINGS: Dict[str, Drawing] = {
    "chat": Drawing("A chat application", "notes", "What tea do I have?", "search", {"word": "tea"},
                    "You have two bags of green tea.", [], asks=False),
    "editor": Drawing("An editor", "notes", "Note that the trip needs a seat reservation.", "add_note",
                      {"title": "reservation", "text": "Reserve a seat"}, "I have noted it under “reservation”.",
                      ["trip.py", "", "from rail import Night", "", "trip = Night(", '    to="Rome",', "    seats=1,", ")",
                       "trip.buy()"], asks=True),
    "modeller": Drawing("A modeller", "modeller", "Put a lamp beside the cube.", "add_object", {"name": "lamp"},
                        "The scene has a lamp now: two objects.", ["Scene", "", "  cube", "  lamp"], asks=False),
    "map": Drawing("A map", "maps", "Which stop is nearest to the museum?", "nearest",
                   {"layer": "stops", "x": 210, "y": 540}, "Old Bridge is the nearest stop, some 220 metres from the museum.",
                   ["Layers", "", "  museums  \u25a0", "  stops    \u25cf"], asks=False, layers=True),
}


class Canvas:
    """The parts of a window, from top to bottom."""

    def __init__(self, left: int) -> None:
        self.parts: List[str] = []
        self.left, self.y = left, TITLE + MARGIN

    def text(self, x: int, y: int, text: str, kind: str = "") -> None:
        style = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x}" y="{y}"{style} xml:space="preserve">{html.escape(text)}</text>')

    def box(self, x: int, y: int, width: int, height: int, kind: str) -> None:
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" class="{kind}"/>')

    def say(self, text: str, user: bool) -> None:
        """Draw what the user or the model says."""
        lines = textwrap.wrap(text, int((WIDTH - self.left - 4 * MARGIN) * FIT / 100))
        if user:
            self.box(self.left + 2 * MARGIN, self.y, WIDTH - self.left - 3 * MARGIN, len(lines) * LINE + 16, "u")
        for number, line in enumerate(lines):
            self.text(self.left + (3 if user else 1) * MARGIN, self.y + 22 + number * LINE, line)
        self.y += len(lines) * LINE + 16 + 14

    def call(self, drawing: Drawing, result: str) -> None:
        """Draw the call of a tool, with its result below, and the buttons of a question before."""
        width, rows = WIDTH - self.left - 2 * MARGIN, [json.dumps(drawing.arguments), result]
        fit = (width - 2 * MARGIN) // 8
        lines = [textwrap.wrap(row, fit) for row in rows]
        height = 3 * LINE + (sum(map(len, lines)) * 18) + (62 if drawing.asks else 24)
        self.box(self.left + MARGIN, self.y, width, height, "c")
        x, y = self.left + 2 * MARGIN, self.y + 24
        self.text(x, y, f"{drawing.server}: {drawing.tool}", "l")
        y += LINE
        for number, block in enumerate(lines):
            if number and drawing.asks:
                for place, (word, kind, ink) in enumerate((("Allow", "b", "i"), ("Refuse", "w", ""))):
                    self.box(x + 90 * place, y - 8, 80, 26, kind)
                    self.text(x + 90 * place + 18, y + 10, word, ink)
                y += 40
            self.text(x, y, "result" if number else "arguments", "n")
            for line in block:
                y += 18
                self.text(x, y, line, "m")
            y += LINE
        self.y += height + 14


def ask_notes(drawing: Drawing) -> str:
    """Call the tutorial's server in a folder of its own; return the text of the result."""
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
        with mcplite.connect([sys.executable, "notes.py"], cwd=name, env=environment) as client:
            return client.call_tool(drawing.tool, drawing.arguments).text


@functools.lru_cache(None)
def hosts() -> Dict[str, Any]:
    """Run the examples of hosts.rst once, with this thread as the application's main thread; return their names."""
    page, names = (DOCS / "hosts.rst").read_text("utf-8"), {"__name__": "hosts"}
    for block in re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", page, re.MULTILINE):
        exec(textwrap.dedent(block), names)
    return names


def ask_host(drawing: Drawing) -> str:
    """Call the tool of a server of hosts.rst while this thread is the application's main thread."""
    names = hosts()
    server = next(value for value in names.values() if isinstance(value, mcplite.Server) and value.name == drawing.server)
    with mcplite.connect(server) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        result = pool.submit(client.call_tool, drawing.tool, drawing.arguments)
        while not result.done():
            names["main"].drain()
        return result.result().text


ASK: Dict[str, Callable[[Drawing], str]] = {"notes": ask_notes, "modeller": ask_host, "maps": ask_host}


def map_parts(canvas: Canvas, top: int, found: str) -> int:
    """Draw the features of hosts.rst, and a line between the place and the one that was found; return where the map ends."""
    layers: Dict[str, Dict[str, Tuple[int, int]]] = hosts()["LAYERS"]
    width, height = canvas.left - 2 * MARGIN, 170
    at = {name: (MARGIN + 8 + x * width // 900, top + height - 12 - y * height // 900)
          for features in layers.values() for name, (x, y) in features.items()}
    canvas.box(MARGIN, top, width, height, "c")
    (x, y), (to_x, to_y) = at["Museum"], at[found]
    canvas.parts.append(f'<path d="M{x} {y}L{to_x} {to_y}" stroke="#2f5f9e" stroke-width="2" stroke-dasharray="4 3"/>')
    for name, (x, y) in at.items():
        canvas.parts.append(f'<rect x="{x - 6}" y="{y - 6}" width="12" height="12"/>' if name in layers["museums"] else
                            f'<circle cx="{x}" cy="{y}" r="6" class="b"/>')
        canvas.text(x + 11, y + 5, name, "n")
    return top + height + MARGIN


def drawn(drawing: Drawing, result: str) -> str:
    """Return the SVG of a window in which the tool has given this result."""
    left = 250 if drawing.beside else 0
    canvas = Canvas(left)
    canvas.say(drawing.said, user=True)
    canvas.call(drawing, result)
    canvas.say(drawing.answer, user=False)
    height = canvas.y
    for number, line in enumerate(drawing.beside):
        canvas.text(MARGIN, TITLE + 30 + number * LINE, line, "m")
    beside = ""
    if drawing.layers:
        beside = f" The map beside shows {', '.join(name for layer in hosts()['LAYERS'].values() for name in layer)}."
        height = max(height, map_parts(canvas, TITLE + 30 + len(drawing.beside) * LINE, json.loads(result)["name"]))
    allowed = " The application asks whether it may call it: Allow or Refuse." if drawing.asks else ""
    told = (f"The user says: {drawing.said} The model calls the tool {drawing.tool} of the server {drawing.server} with"
            f" {json.dumps(drawing.arguments)}.{allowed} The result is: {result}. The model says: {drawing.answer}{beside}")
    edge = [f'<path d="M{left} {TITLE}V{height}" stroke="#8a929c"/>'] if left else []
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
        ' aria-labelledby="t d">', f'<title id="t">{html.escape(drawing.title)}</title>',
        f'<desc id="d">{html.escape(told)}</desc>', f"<style>\n{STYLE}\n</style>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="w"/>',
        f'<path d="M1 {TITLE}V9a8 8 0 0 1 8-8H{WIDTH - 9}a8 8 0 0 1 8 8V{TITLE}z" class="t"/>', *edge,
        f'<text x="{MARGIN}" y="22" class="l">{html.escape(drawing.title)}</text>', *canvas.parts, "</svg>", ""])


def made() -> Iterator[Tuple[str, str]]:
    """Yield the name and the SVG of each drawing."""
    for name, drawing in DRAWINGS.items():
        yield name, drawn(drawing, ASK[drawing.server](drawing))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in made():
        (FOLDER / f"{name}.svg").write_text(text, "utf-8")
        print(name, file=sys.stderr)
