"""One tool asks twice, and does something in between: the same code for every revision and transport.

    python -m mcplite call examples/trip.py plan_trip city=Rome
"""
import os
from dataclasses import dataclass
from typing import Annotated, Dict, List

import mcplite

KEYS = os.environ.get("TRIP_KEYS", "").split()  # shared by the processes of a fleet; none for one process
mcp = mcplite.Server("trips", fleet=bool(KEYS), state_keys=KEYS)
held: List[str] = []  # trips that wait for their booking; a database in real life
booked: List[str] = []


@dataclass
class Wish:
    day: Annotated[str, "On which day?", {"format": "date"}]
    seats: Annotated[int, "How many seats?", {"minimum": 1, "maximum": 8}] = 1


@dataclass
class Sure:
    ok: Annotated[bool, "Book it?"]


def hold(trip: str) -> int:
    """Hold a trip, and return its number."""
    held.append(trip)
    return len(held)


@mcp.tool()
def plan_trip(city: str, ctx: mcplite.Context) -> str:
    """Plan a trip: the user is asked when, the seats are held, and the user is asked whether to book them."""
    if not ctx.can_elicit:
        raise mcplite.ToolError(f"This tool asks its user twice, which needs elicitation: this client, in revision"
                                f" {ctx.protocol_version}, cannot be asked. Nothing was held.")
    wish = ctx.elicit(f"When do you want to go to {city}?", Wish)
    if not wish.accepted:
        return "No trip was planned."
    trip = f"{city} on {wish.data.day} for {wish.data.seats}"
    number = ctx.once("hold", lambda: hold(trip))  # a fleet runs this function again with each answer
    sure = ctx.elicit(f"{trip} is held as number {number}. Book it?", Sure)
    if not sure.accepted or not sure.data.ok:
        return f"Number {number} is not booked."
    booked.append(trip)
    return f"Booked number {number}: {trip}."


@mcp.tool()
def trips() -> Dict[str, List[str]]:
    """Return the trips that are held and those that are booked."""
    return {"held": held, "booked": booked}


if __name__ == "__main__":
    mcp.run()
