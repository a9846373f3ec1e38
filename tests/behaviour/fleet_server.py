"""A server in several processes: an answer may reach another process than the one that asked.

Its effects are lines of files, which all processes see. Whether it is said to be a fleet, the environment decides.
"""

import dataclasses
import os
from pathlib import Path

import mcplite

FOLDER = Path(os.environ["FLEET_FOLDER"])
FLEET = {"fleet": True, "state_keys": ["a key of thirty-two bytes or more!"]}

mcp = mcplite.Server("fleet", **(FLEET if os.environ.get("FLEET") else {}))


@dataclasses.dataclass
class Trip:
    city: str
    nights: int = 1


def note(key: str, what: str) -> int:
    with open(FOLDER / key, "a") as file:
        file.write(f"{what} {os.getpid()}\n")
    return os.getpid()


@mcp.tool()
def book(key: str, ctx: mcplite.Context) -> str:
    """Ask, do a step that must happen once, and ask again."""
    note(key, "entered")
    where = ctx.elicit("Where to?", Trip)
    ctx.once("payment", lambda: note(key, "paid"))
    sure = ctx.elicit(f"Sure about {where.data.city}?")
    return f"{where.data.city} for {where.data.nights}, {sure.action}"


application = mcp.wsgi(path="/mcp")
