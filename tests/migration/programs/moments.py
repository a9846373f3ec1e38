"""Dates, identifiers and paths."""
import datetime
import uuid
from pathlib import Path

from fastmcp import FastMCP

mcp = FastMCP("calendar")


@mcp.tool
def weekday(day: datetime.date) -> str:
    """Tell the day of the week."""
    return day.strftime("%w")


@mcp.tool
def shift(moment: datetime.datetime, hours: int) -> datetime.datetime:
    """Shift a moment by hours."""
    return moment + datetime.timedelta(hours=hours)


@mcp.tool
def version_of(identifier: uuid.UUID) -> str:
    """Tell the version of a UUID."""
    return f"version {identifier.version}"


@mcp.tool
def suffix(path: Path) -> str:
    """Tell the suffix of a file name."""
    return path.suffix


if __name__ == "__main__":
    mcp.run()
