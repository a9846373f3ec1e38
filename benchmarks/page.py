"""The tables of docs/performance.rst, from one run: ``python -m benchmarks --write``.

A row of the page shows a few measurements of :mod:`.table` side by side. The workloads are those that the rows need.
"""

import os
import platform
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from .peers import Peer
from .slices import Measurement
from .table import number

__all__ = ["EXTRAS", "PAGE", "ROWS", "WORKLOADS", "extras", "page", "table"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.rst"
MARKS = ".. measured\n\n", ".. end of what was measured\n"
EXTRA_MARKS = ".. extras\n\n", ".. end of the extras\n"
#: What ``--only`` would name.
WORKLOADS = ("import", "cold", "add", "newest", "bursts", "payload", "progress", "tools", "http-add", "http-newest",
             "http-events", "http-load", "http-payload", "stateless-ask", "backend-add")
#: The columns, by the peer's key.
PEERS = ("floor", "floor2", "before", "ours", "mcp")


class Row(NamedTuple):
    """One row: the key of a measurement, and what the page calls it."""

    key: str
    title: str


ROWS = (
    Row("add.own", "stdio, ``add``: own client and server"),
    Row("add.own.cpu", "stdio, ``add``: CPU time of both"),
    Row("add.server", "stdio, ``add``: server alone"),
    Row("add.client", "stdio, ``add``: client alone"),
    Row("newest.own", "stdio, 2026-07-28: own client and server"),
    Row("newest.server", "stdio, 2026-07-28: server alone"),
    Row("newest.client", "stdio, 2026-07-28: client alone"),
    Row("burst.few.short", "stdio, 64 calls of 10 ms at once"),
    Row("burst.many.short", "stdio, 300 calls of 10 ms at once"),
    Row("burst.few.long", "stdio, 64 calls of 50 ms at once"),
    Row("burst.many.long", "stdio, 300 calls of 50 ms at once"),
    Row("newest.own.cpu", "stdio, 2026-07-28: CPU time of both"),
    Row("http.own", "HTTP, ``add``: own client and server"),
    Row("http.own.cpu", "HTTP, ``add``: CPU time of both"),
    Row("http.server", "HTTP, ``add``: server alone"),
    Row("http.bare.cpu", "HTTP, ``add``: CPU time of the server"),
    Row("http.client", "HTTP, ``add``: client alone"),
    Row("http.newest.own", "HTTP, 2026-07-28: own client and server"),
    Row("http.newest.server", "HTTP, 2026-07-28: server alone"),
    Row("http.newest.bare.cpu", "HTTP, 2026-07-28: CPU time of the server"),
    Row("http.newest.client", "HTTP, 2026-07-28: client alone"),
    Row("http.load.many", "HTTP, ``add``, 128 connections"),
    Row("cold.server", "cold start of a server, to its first list"),
    Row("cold.client", "cold start of a client: its whole program"),
    Row("import.server", "a process that imports a server"),
    Row("memory.server", "its resident memory"),
    Row("argument.large", "stdio, argument of 10 MB"),
    Row("text.large", "stdio, result of 10 MB"),
    Row("http.argument.large", "HTTP, argument of 10 MB"),
    Row("http.memory.argument.server", "peak memory of that server"),
    Row("http.text.large", "HTTP, result of 10 MB"),
    Row("http.memory.text.server", "peak memory of that server"),
    Row("progress.own", "stdio, 10,000 progress notifications"),
    Row("http.progress", "HTTP, 10,000 progress notifications"),
    Row("register", "registering 1,000 tools"),
    Row("cold.tools", "cold start with 1,000 tools, to the list"),
)


class Extra(NamedTuple):
    """One row of the second table: what is switched on, and the keys and peers of a call without and with it."""

    title: str
    without: Tuple[str, str]
    with_it: Tuple[str, str]


EXTRAS = (
    Extra("HTTP, 2026-07-28: the call asks a question", ("http.newest.own", "ours"), ("stateless.ask", "ours")),
    Extra("HTTP, 2026-07-28: SQLite as the backend", ("backend.add.newest", "floor"), ("backend.add.newest", "ours")),
    Extra("HTTP, with a handshake: SQLite as the backend", ("backend.add.handshake", "floor"),
          ("backend.add.handshake", "ours")),
)


def table(rows: List[Measurement], peers: Mapping[str, Peer]) -> str:
    """Return the table as reStructuredText; a ratio to the floor stands behind each figure."""
    measured: Dict[str, Measurement] = {row.key: row for row in rows}
    names = [name for name in PEERS if name in peers]
    lines = [["What", "", *(_heading(name, peers[name]) for name in names)]]
    for row in ROWS:
        measurement = measured[row.key]
        lines.append([row.title, measurement.unit, *(_cell(measurement, name) for name in names)])
    where = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} processors."
    return f"{_simple(lines)}\n{where}\n\n"


def extras(rows: List[Measurement]) -> str:
    """Return the table of what costs extra as reStructuredText."""
    measured: Dict[str, Measurement] = {row.key: row for row in rows}
    lines = [["What", "", "Without", "With"]]
    for extra in EXTRAS:
        figures = [measured[key].figures.get(name) for key, name in (extra.without, extra.with_it)]
        lines.append([extra.title, measured[extra.with_it[0]].unit,
                      *("-" if figure is None else number(figure.value) for figure in figures)])
    return _simple(lines) + "\n"


def _simple(lines: Sequence[Sequence[str]]) -> str:
    """Return a simple table of reStructuredText, whose first line is the heading; the first two columns are texts."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = "  ".join("=" * max(width, 2) for width in widths)
    texts = ["  ".join(text.ljust(width) if at < 2 else text.rjust(width)
                       for at, (text, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
    return "\n".join([rule, texts[0], rule, *texts[1:], rule]) + "\n"


def _heading(name: str, peer: Peer) -> str:
    return {"floor": "Floor", "floor2": "Floor 2", "ours": "mcplite", "before": "Before"}.get(name, peer.name)


def _cell(measurement: Measurement, name: str) -> str:
    figure = measurement.figures.get(name)
    if figure is None:
        return "fails" if name in measurement.failures else "-"
    return number(figure.value) + ("" if figure.ratio is None or name == "floor" else f" ({number(figure.ratio)}x)")


def page(rows: List[Measurement], peers: Mapping[str, Peer]) -> str:
    """Return the page with its tables as they should be."""
    text = PAGE.read_text("utf-8")
    for (begin, end), content in ((MARKS, table(rows, peers)), (EXTRA_MARKS, extras(rows))):
        before, rest = text.split(begin)
        text = before + begin + content + end + rest.split(end)[1]
    return text
