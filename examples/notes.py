"""Notes as resources: read them, list them, and get a notification when one changes.

    python -m mcplite read examples/notes.py note://shopping
"""
import threading
from typing import Dict, List

import mcplite

mcp = mcplite.Server("notes", instructions="Each note is a resource, note://TITLE; note://all lists them.")
notes: Dict[str, str] = {"shopping": "milk, bread"}
lock = threading.Lock()  # handlers run on several threads


@mcp.resource("note://all", mime_type="application/json")
def titles() -> List[str]:
    """The titles of all notes."""
    with lock:
        return sorted(notes)


@mcp.resource("note://{title}", mime_type="text/plain")
def note(title: str) -> str:
    """One note."""
    with lock:
        if title not in notes:
            raise mcplite.errors.ResourceNotFound(f"There is no note {title!r}", data={"uri": f"note://{title}"})
        return notes[title]


@mcp.completion(resource="note://{title}", argument="title")
def complete_title(value: str) -> List[str]:
    return [title for title in titles() if title.startswith(value)]


@mcp.tool()
def write_note(title: str, text: str) -> str:
    """Write a note, or replace one."""
    with lock:
        is_new = title not in notes
        notes[title] = text
    mcp.resource_updated(f"note://{title}")  # outside the lock: this writes to clients
    if is_new:
        mcp.resource_updated("note://all")
    return "written"


@mcp.prompt()
def summarize(title: str) -> list:
    """Ask for a summary of a note."""
    return [mcplite.user(f"Summarize this note in one sentence:\n\n{note(title)}")]


if __name__ == "__main__":
    mcp.run()
