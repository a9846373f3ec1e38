"""A tool that asks in the middle: the user for consent, the client's language model for a text.

    python -m mcplite call examples/book.py book_table guests:=4
"""
from dataclasses import dataclass
from typing import Annotated, List

import mcplite

mcp = mcplite.Server("restaurant")
bookings: List[str] = []


@dataclass
class Details:
    """The form that the user fills in."""

    name: Annotated[str, "In which name?"]
    window: Annotated[bool, "A table at the window?"] = False


@dataclass
class Sure:
    ok: Annotated[bool, "Really cancel all bookings?"]


@mcp.tool()
def book_table(guests: int, ctx: mcplite.Context) -> str:
    """Book a table; the user is asked for a name first."""
    if not ctx.can_elicit:
        raise mcplite.ToolError("This tool needs a client that can ask its user.")
    reply = ctx.elicit(f"A table for {guests} is free. Book it?", Details)
    if reply.action != "accept":
        return "Nothing was booked."
    booking = f"{guests} guests, {reply.data.name}{', at the window' if reply.data.window else ''}"
    bookings.append(booking)
    return f"Booked: {booking}."


@mcp.tool()
def write_invitation(ctx: mcplite.Context) -> str:
    """Have the client's model write an invitation to the latest booking."""
    if not bookings:
        raise mcplite.ToolError("Nothing is booked yet.")
    reply = ctx.sample([mcplite.user(f"Invite my friends to dinner, in two sentences: {bookings[-1]}")], max_tokens=200)
    return reply.text


@mcp.tool(annotations={"destructiveHint": True})
def cancel_all(answer: Annotated[Sure, mcplite.Elicit("Cancel every booking?")]) -> str:
    """Cancel all bookings; the question is asked before this function runs."""
    if not answer.ok:
        return "Kept."
    bookings.clear()
    return "Cancelled."


if __name__ == "__main__":
    mcp.run()
