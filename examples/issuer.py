"""A server that issues its own tokens: its users log in with a browser, here as demo with the password demo.

    python examples/issuer.py --port 8000
    python -m mcplite login http://127.0.0.1:8000/mcp
    python -m mcplite call http://127.0.0.1:8000/mcp hello

With --backend sqlite:///logins.db logins outlive the server. Needs mcplite[issuer].
"""
import argparse
from typing import Optional

import mcplite

DEMO = mcplite.auth.User("demo", "Demo User", "demo@notes.example")


class DemoUsers(mcplite.auth.Users):
    """The one user; a real server has PasswordFile("users.txt"), or asks a directory here."""

    def check(self, name: str, password: str) -> Optional[mcplite.auth.User]:
        return DEMO if (name, password) == ("demo", "demo") else None

    def find(self, subject: str) -> Optional[mcplite.auth.User]:
        return DEMO if subject == DEMO.subject else None


def server(url: str, backend: Optional[str]) -> mcplite.Server:
    """Return the server whose public URL is *url*."""
    mcp = mcplite.Server("issuer", auth=mcplite.auth.Issuer(
        url, users=DemoUsers(), backend=backend, scopes="notes",
        descriptions={"notes": "Read your notes", "secret": "Read your secret notes"}))

    @mcp.tool()
    def hello(ctx: mcplite.Context) -> str:
        """Greet the user; every login is enough."""
        return f"Hello {ctx.principal.claims['name']}!"

    @mcp.tool(scopes="secret")
    def secret(ctx: mcplite.Context) -> str:
        """Tell a secret; this needs a scope that the user grants at its first use."""
        return f"The secret of {ctx.principal.subject} is 42."

    return mcp


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--backend", metavar="URL", help="where logins are kept, such as sqlite:///logins.db")
    options = parser.parse_args()
    server(f"http://127.0.0.1:{options.port}", options.backend).run("http", port=options.port)
