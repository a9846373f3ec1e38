"""The output: a table, or JSON."""

import json
import platform
from typing import Dict, List, Mapping, Optional

from .peers import Peer
from .slices import Figure, Measurement
from .targets import TARGETS

__all__ = ["as_json", "as_table", "missed"]


def number(value: float) -> str:
    """Return *value* with about three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(figure: Optional[Figure], failure: Optional[str]) -> str:
    if figure is None:
        return "fails" if failure else "-"
    text = number(figure.value)
    if figure.ratio is not None:
        text += f" ({number(figure.ratio)}x)"
    return text + ("~" if figure.noisy else "")


def verdicts(row: Measurement) -> str:
    """Return the row's targets with their marks."""
    texts = []
    for target in TARGETS:
        if target.key == row.key:
            met = target.met(row)
            mark = "?" if met is None else "ok" if met else "MISSED" if target.required else "not yet"
            texts.append(f"{target} {mark}")
    return ", ".join(texts)


def as_table(rows: List[Measurement], peers: Mapping[str, Peer]) -> str:
    """Return the table, and the failures below it."""
    names = list(peers)
    others = [name for name in ("floor2", "mcp") if name in peers]
    lines = [["", "", *(peers[name].name for name in names), *(f"ours : {name}" for name in others), "target"]]
    for row in rows:
        by_others = [row.ratio(name) for name in others]
        lines.append([row.title, row.unit, *(cell(row.figures.get(name), row.failures.get(name)) for name in names),
                      *("-" if ratio is None else f"{ratio:.3f}" for ratio in by_others), verdicts(row)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = ["  ".join(text.ljust(width) if at in (0, len(widths) - 1) else text.rjust(width)
                       for at, (text, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
    texts.insert(1, "-" * len(texts[0]))
    texts.append("\n(2.00x): by the floor, slice by slice in the same run.  ~: the slices differ by more than 1.6 times."
                 "\nok / MISSED: a requirement.  ok / not yet: an aim.  ?: not measured in this run.")
    for row in rows:
        # All of the text is in the JSON.
        texts += [f"\n{row.title}, {peers[name].name} failed: {text.splitlines()[0]}"
                  for name, text in row.failures.items()]
    return "\n".join(texts)


def as_json(rows: List[Measurement], peers: Mapping[str, Peer]) -> str:
    """Return everything as JSON."""
    out = []
    for row in rows:
        figures: Dict[str, object] = {
            name: {"value": figure.value, "x_floor": figure.ratio, "noisy": figure.noisy, "slices": figure.values}
            for name, figure in row.figures.items()}
        targets = [{"bound": target.bound, "to": target.to or None, "required": target.required,
                    "figure": target.figure(row), "met": target.met(row)}
                   for target in TARGETS if target.key == row.key]
        out.append({"key": row.key, "title": row.title, "unit": row.unit, "figures": figures, "failures": row.failures,
                    "targets": targets})
    return json.dumps({"python": platform.python_version(), "machine": platform.platform(),
                       "peers": {key: peer.name for key, peer in peers.items()}, "rows": out}, indent=1)


def missed(rows: List[Measurement]) -> List[str]:
    """Return the keys of the rows that miss a required target or in which mcplite failed."""
    return [row.key for row in rows if "ours" in row.failures or any(
        target.required and target.met(row) is False for target in TARGETS if target.key == row.key)]
