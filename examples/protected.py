"""A server for two users, one of whom may only read; the script is the client of both.

    python examples/protected.py

To run only the server, put tokens of your own into ANN_TOKEN and BOB_TOKEN, and then:

    python -m mcplite.server examples/protected.py --http 8000
"""
import os
import secrets
from typing import Dict

import mcplite

# Without tokens in the environment, random ones: a token in the source would be known to all its readers.
ANN = os.environ.get("ANN_TOKEN") or secrets.token_urlsafe(32)
BOB = os.environ.get("BOB_TOKEN") or secrets.token_urlsafe(32)

mcp = mcplite.Server("notes", auth=mcplite.StaticTokens({
    ANN: mcplite.Principal("ann", scopes=["notes:write"]),
    BOB: mcplite.Principal("bob"),
}))
notes: Dict[str, str] = {"milk": "two bottles"}


@mcp.tool()
def read_notes() -> Dict[str, str]:
    """Return all notes; any valid token is enough."""
    return dict(notes)


@mcp.tool(scopes=["notes:write"])
def add_note(title: str, text: str, ctx: mcplite.Context) -> str:
    """Add a note; this needs the scope."""
    notes[title] = text
    return f"{ctx.principal.subject} added {title}"


def show(url: str, token: str) -> None:
    """Call both tools with a token, and print the results."""
    try:
        with mcplite.connect(url, auth=token) as client:
            print(client.call_tool("read_notes").structured_content)
            print(client.call_tool("add_note", {"title": "bread", "text": "a loaf"}).text)
    except mcplite.errors.AuthError as error:
        print("refused:", error.error or "invalid token")


def main() -> None:
    with mcplite.serve(mcp) as server:
        for token in (ANN, BOB, "a-token-that-is-unknown"):
            show(server.url, token)


if __name__ == "__main__":
    main()
