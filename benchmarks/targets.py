"""The targets for the figures.

A target is required, or an aim that is only reported. Bounds are ratios to the floor or to the official
SDK in the same run, except where the absolute figure matters.
"""

from dataclasses import dataclass
from typing import Optional

from .slices import Measurement

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """At most *bound*, or at least: of the value itself, or of its ratio to another peer such as "floor" or "mcp"."""

    key: str
    bound: float
    to: str = ""
    required: bool = True
    #: Whether more is better.
    least: bool = False

    def figure(self, row: Measurement) -> Optional[float]:
        """Return the figure to compare with the bound; None if it was not measured."""
        if self.to:
            return row.ratio(self.to)
        ours = row.figures.get("ours")
        return None if ours is None else ours.value

    def met(self, row: Measurement) -> Optional[bool]:
        """Whether the row meets the target; None if it was not measured."""
        if "ours" in row.failures:
            return False
        figure = self.figure(row)
        if figure is None:
            return None
        return figure >= self.bound if self.least else figure <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.least else '<='} {self.bound:.3g}{' x ' + self.to if self.to else ''}"


TARGETS = (
    Target("frameworks.users.12", 4, "floor", required=False),
    Target("frameworks.call.50", 2, "floor", required=False),
    Target("import.package", 4, "floor"),
    Target("import.server", 0.06, "mcp", required=False),
    Target("import.server", 4.5, "floor", required=False),
    Target("import.client", 0.06, "mcp", required=False),
    Target("memory.package", 16),
    Target("memory.server", 20),
    Target("memory.client", 20),
    Target("cold.server", 0.12, "mcp"),
    Target("cold.server", 2.4, "floor", required=False),
    Target("cold.client", 0.12, "mcp"),
    Target("cold.client", 1.5, "floor", required=False),
    Target("memory.started", 20),
    Target("add.own", 0.1, "mcp"),
    Target("add.own", 3.5, "floor"),
    Target("switches.server", 1.5, required=False),
    *(Target(f"{key}.cpu", bound, "floor2", required=False) for key, bound in (
        ("add.own", 3.5), ("add.server", 2), ("add.client", 2), ("newest.own", 3.2),
        ("http.own", 3.5), ("http.bare", 1.8), ("http.client", 2.1),
        ("http.newest.own", 3.4), ("http.newest.bare", 1.8), ("http.newest.client", 2.1))),
    Target("quick.own", 5),
    *(Target(f"burst.{key}", 0.6, "mcp") for key in ("few.short", "many.short", "few.long")),
    Target("burst.many.long", 0.75, "mcp"),
    Target("text.small", 1.6, "floor", required=False),
    Target("text.large", 1.6, "floor", required=False),
    Target("growth.text", 1.3, required=False),
    Target("argument.small", 1.6, "floor", required=False),
    Target("argument.large", 1.1, "floor", required=False),
    Target("growth.argument", 1.3, required=False),
    Target("memory.large.server", 100, required=False),
    Target("memory.large.client", 80, required=False),
    Target("progress.own", 1 / 15, "mcp", required=False),
    Target("progress.own", 1.5, "floor", required=False),
    Target("register", 0.06, "mcp"),
    Target("register", 0.015, "mcp", required=False),
    Target("cold.tools", 2, "floor", required=False),
    Target("list.server", 1.3, "floor", required=False),
    Target("http.own", 0.25, "mcp"),
    Target("http.own", 0.2, "mcp", required=False),
    Target("http.own", 3.5, "floor"),
    Target("http.server", 1.7, "floor"),
    Target("http.server", 1, "tuned", required=False),
    Target("http.events", 1.7, "floor", required=False),
    Target("http.progress", 1 / 15, "mcp", required=False),
    Target("http.progress", 1.6, "floor", required=False),
    *(Target(f"http.load.{size}", 6, "mcp", least=True) for size in ("one", "few", "some", "many")),
    *(Target(f"http.load.{size}", 8, "mcp", required=False, least=True) for size in ("one", "few", "some", "many")),
    *(Target(f"http.load.{size}", 1.5, "tuned", required=False, least=True) for size in ("one", "few", "some", "many")),
    Target("http.load.many", 2.2, "tuned", required=False, least=True),
    Target("http.load.many", 11, "mcp", required=False, least=True),
    Target("http.late.many", 0.35, "mcp", required=False),
    Target("stateless.own", 1.2, "floor"),
    Target("stateless.own", 1, "floor", required=False),
    Target("stateless.own", 0.25, "mcp"),
    Target("stateless.ask", 1.2, "floor"),
    Target("stateless.ask", 1, "floor", required=False),
    *(Target(f"stateless.load.{size}", 0.8, "floor", least=True) for size in ("one", "few", "some", "many")),
    *(Target(f"stateless.load.{size}", 1, "floor", required=False, least=True) for size in ("one", "few", "some", "many")),
    *(Target(f"stateless.load.{size}", 6, "mcp", required=False, least=True) for size in ("one", "few", "some", "many")),
    Target("http.sleep", 95, least=True),
    Target("http.beside", 1.3, required=False),
    Target("http.text.small", 1.6, "floor", required=False),
    Target("http.text.large", 0.9, "floor", required=False),
    Target("http.growth.text", 1.3, required=False),
    Target("http.argument.small", 1.6, "floor", required=False),
    Target("http.argument.large", 1.4, "floor", required=False),
    Target("http.growth.argument", 1.3, required=False),
    Target("http.stream.small", 2, "floor", required=False),
    Target("http.stream.large", 2, "floor", required=False),
    Target("http.growth.stream", 1.3, required=False),
    Target("http.memory.text.server", 80, required=False),
    Target("http.memory.text.client", 80, required=False),
    Target("http.memory.argument.server", 80, required=False),
    Target("http.memory.argument.client", 80, required=False),
    Target("http.memory.stream.server", 100, required=False),
    Target("http.memory.stream.client", 80, required=False),
    Target("http.sessions.memory", 50),
    Target("http.sessions.memory", 45, required=False),
    Target("http.sessions.each", 75, required=False),
    Target("http.sessions.threads", 5, required=False),
    Target("http.sessions.idle", 0.1, required=False),
    Target("http.changes", 40, required=False),
    Target("http.changes.blocked", 5, required=False),
    Target("hosts.wsgi", 3.5, "floor", required=False),
    Target("hosts.first", 250, required=False),
    Target("hosts.signed", 1.4, "floor", required=False),
    Target("hosts.agent", 0.25, "mcp", required=False),
    Target("openapi.start", 2000, required=False),
    Target("openapi.call", 1, "floor", required=False),
    Target("backend.add.newest", 1.15, "floor"),
    Target("backend.add.less", 1.15, required=False),
)
