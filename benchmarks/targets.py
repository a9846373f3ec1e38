"""What is asked of the figures.

A target is required, or an aim that is reported beside the others. Bounds are ratios to the floor or to
the official SDK in the same run, except where people or machines feel the absolute figure.
"""

from dataclasses import dataclass
from typing import Optional

from .slices import Measurement

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """At most *bound*: of the value itself, or of its ratio to the "floor" or to "mcp"."""

    key: str
    bound: float
    to: str = ""
    required: bool = True

    def figure(self, row: Measurement) -> Optional[float]:
        """Return what is compared with the bound; None when it was not measured."""
        if self.to:
            return row.ratio(self.to)
        ours = row.figures.get("ours")
        return None if ours is None else ours.value

    def met(self, row: Measurement) -> Optional[bool]:
        """Whether the row meets it; None when it was not measured."""
        if "ours" in row.failures:
            return False
        figure = self.figure(row)
        return None if figure is None else figure <= self.bound

    def __str__(self) -> str:
        return f"<= {self.bound:.3g}{' x ' + self.to if self.to else ''}"


TARGETS = (
    Target("import.package", 4, "floor"),
    Target("import.server", 0.06, "mcp", required=False),
    Target("import.client", 0.06, "mcp", required=False),
    Target("memory.package", 16),
    Target("memory.server", 20),
    Target("memory.client", 20),
    Target("cold.server", 0.12, "mcp"),
    Target("cold.server", 2.5, "floor", required=False),
    Target("cold.client", 0.12, "mcp"),
    Target("cold.client", 1.5, "floor", required=False),
    Target("memory.started", 20),
    Target("add.own", 0.1, "mcp"),
    Target("add.own", 3.5, "floor"),
    Target("add.own", 2.5, "floor", required=False),
    Target("add.server", 1.6, "floor", required=False),
    Target("switches.server", 1.5, required=False),
    Target("add.client", 1.9, "floor", required=False),
    Target("quick.own", 5),
    Target("text.small", 1.6, "floor", required=False),
    Target("text.large", 1.6, "floor", required=False),
    Target("growth.text", 1.3, required=False),
    Target("argument.small", 1.6, "floor", required=False),
    Target("argument.large", 1.6, "floor", required=False),
    Target("growth.argument", 1.3, required=False),
    Target("memory.large.server", 100, required=False),
    Target("memory.large.client", 80, required=False),
    Target("progress.own", 1 / 15, "mcp", required=False),
    Target("progress.own", 1.6, "floor", required=False),
    Target("register", 0.06, "mcp"),
    Target("list.server", 1.3, "floor", required=False),
)
