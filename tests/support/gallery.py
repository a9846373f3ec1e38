"""A server with something of each kind, for the inspector's page: ``server()``, or run as a program on stdio."""

import base64
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Dict, List, Literal, Optional, Union

import mcplite

PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" width="320" height="180"><rect width="320" height="180" fill="#f4e9d4"/>
<circle cx="112" cy="94" r="58" fill="#0b6b4e"/><circle cx="204" cy="106" r="46" fill="#b4541f"/></svg>"""


@dataclass
class Size:
    """Width and height."""

    width: Annotated[float, "in centimetres", {"minimum": 1, "maximum": 900}]
    height: float = 50.0


@dataclass
class Painting:
    title: str
    painter: str
    year: int
    price: float
    sold: bool = False


PAINTINGS = [
    Painting("Field with crows", "Mara Okafor", 1958, 12500.0), Painting("The blue kitchen", "Jonas Weil", 1934, 990.5, True),
    Painting("Harbour at dusk", "Ida Brandt", 1921, 1840.0), Painting("Two pears", "Ida Brandt", 1919, 450.0)]
CONDITION = {
    "type": "object", "required": ["title", "condition"], "properties": {
        "title": {"type": "string", "title": "Title", "minLength": 2},
        "condition": {"type": "string", "title": "Condition", "oneOf": [
            {"const": "mint", "title": "As new"}, {"const": "worn", "title": "Worn"}]},
        "insured": {"type": "boolean", "title": "Insured", "default": True},
        "year": {"type": "integer", "title": "Year", "minimum": 1400, "maximum": 2030}}}


def server() -> mcplite.Server:
    """Return a new server."""
    mcp = mcplite.Server("gallery", title="Atelier Gallery", version="1.4.0",
                         instructions="A small gallery. Ask for paintings before you change them.\n\nSizes are in centimetres.")
    add_tools(mcp)
    add_questions(mcp)

    @mcp.resource("gallery://catalogue", mime_type="text/markdown", description="All that the gallery has")
    def catalogue() -> str:
        return "# Catalogue\n\n" + "\n".join(f"- **{one.title}**, {one.painter}, {one.year}" for one in PAINTINGS)

    @mcp.resource("gallery://painters/{name}", description="What one painter painted")
    def painter(name: str) -> str:
        return f"{name}: " + ", ".join(one.title for one in PAINTINGS if one.painter == name)

    @mcp.prompt(title="Wall text")
    def wall_text(title: str, tone: str = "sober") -> str:
        """A text for the wall beside a painting."""
        return f"Write a {tone} wall text for “{title}”."

    @mcp.completion(prompt="wall_text", argument="title")
    def titles(value: str) -> List[str]:
        return [one.title for one in PAINTINGS if value.lower() in one.title.lower()]

    return mcp


def add_tools(mcp: mcplite.Server) -> None:
    """Add tools that ask the client nothing."""

    @mcp.tool(title="Find paintings", annotations={"readOnlyHint": True})
    def find_paintings(painter: Annotated[Optional[str], "Part of the painter's name"] = None,
                       after: Annotated[int, "Year", {"minimum": 1400, "maximum": 2100}] = 1900,
                       sold: Annotated[List[Literal["sold", "unsold"]], "Leave empty for all"] = []) -> List[Painting]:
        """Lists paintings, **newest first**. See [the catalogue](https://gallery.example/catalogue)."""
        return [one for one in PAINTINGS if one.year >= after and (painter or "").lower() in one.painter.lower()
                and (not sold or ("sold" if one.sold else "unsold") in sold)]

    @mcp.tool(title="Frame a painting", annotations={"readOnlyHint": False, "idempotentHint": True})
    def frame(title: Annotated[str, "As in the catalogue"], size: Size, material: Literal["oak", "gilt", "aluminium"],
              depth: Annotated[Union[int, str, None], "Millimetres, or a word"] = None, labels: Dict[str, str] = {},
              notes: List[str] = []) -> str:
        """Orders a frame.

        - measured twice
        - delivered in `14` days
        """
        more = f"\n\nDepth {depth!r}, labels {labels}, notes {notes}" if depth or labels or notes else ""
        return (f"# Frame for {title}\n\n| part | value |\n|---|---|\n| material | {material} |\n"
                f"| size | {size.width:g} × {size.height:g} |\n\nReady in **14 days**.{more}")

    @mcp.tool(title="Restore", annotations={"readOnlyHint": False})
    def restore(title: str, ctx: mcplite.Context, steps: Annotated[int, "Layers", {"minimum": 1, "maximum": 50}] = 12,
                pause: Annotated[float, "Seconds for each"] = 0.15) -> str:
        """Cleans a painting layer by layer, and tells how far it is."""
        for step in range(steps):
            ctx.report_progress(step + 1, steps, f"layer {step + 1}")
            if step % 4 == 0:
                ctx.info(f"layer {step + 1} of {title} is clean")
                print(f"solvent {step}", file=sys.stderr, flush=True)
            time.sleep(pause)
        return f"{title} looks new."

    @mcp.tool(title="Burn the archive", annotations={"destructiveHint": True, "readOnlyHint": False})
    def burn_archive(year: int) -> str:
        """Deletes all sales of a year."""
        return f"{year} is gone."

    @mcp.tool(title="Draw")
    def draw() -> list:
        """A text, a picture and a link."""
        return ["Two pears, seen from above.", mcplite.Image(PICTURE.encode(), "image/svg+xml"),
                {"type": "resource_link", "uri": "gallery://catalogue", "name": "catalogue"}]

    @mcp.tool(title="Scan a photograph")
    def scan(photograph: Annotated[str, {"contentEncoding": "base64", "contentMediaType": "image/*"}]) -> str:
        """Counts the bytes of a file."""
        return f"{len(base64.b64decode(photograph))} bytes"

    @mcp.tool()
    def fails() -> str:
        """Fails each time."""
        raise mcplite.ToolError("The kiln is cold: light it first.")


def add_questions(mcp: mcplite.Server) -> None:
    """Add tools that ask the client."""

    @mcp.tool(title="Appraise")
    def appraise(ctx: mcplite.Context) -> str:
        """Asks for what it needs to know."""
        answer = ctx.elicit("Which painting shall be **appraised**?", CONDITION)
        return f"{answer.action}: {answer.content}"

    @mcp.tool(title="Describe")
    def describe(title: str, ctx: mcplite.Context) -> str:
        """Asks the client's model for a text."""
        answer = ctx.sample(f"Describe the painting “{title}” in one sentence.", max_tokens=200,
                            system_prompt="You write wall texts for a small museum.")
        return f"{answer.model}: {answer.text}"

    @mcp.tool(title="Print the catalogue", task="optional")
    def print_catalogue(copies: Annotated[int, {"minimum": 1}], ctx: mcplite.Context) -> str:
        """Goes on as a task, and asks in the middle."""
        if not ctx.elicit(f"Print {copies} copies?", task=True).accepted:
            return "Nothing was printed."
        return f"{copies} copies are printed."

    @mcp.tool(title="Pay")
    def pay(ctx: mcplite.Context) -> str:
        """Sends the user to a page."""
        return ctx.elicit_url("Pay for the frame", "https://pay.example/checkout?order=7").action

    @mcp.tool(title="Folders")
    def folders(ctx: mcplite.Context) -> List[str]:
        """Lists the client's roots."""
        return [root.uri for root in ctx.list_roots()]


if __name__ == "__main__":
    server().run()
