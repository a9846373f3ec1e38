"""A server that accepts tokens of ISSUER; the first line says where it is, and it ends with its stdin.

From the environment: ISSUER; VERIFIER, "jwt" or "introspection", for which CLIENT_ID and CLIENT_SECRET are its own.
Everything that it logs is on stderr, at DEBUG.
"""

import logging
import os
import sys

import mcplite
from mcplite.server.transports.httpd import HTTPServer
from tests.support.processes import free_port

ISSUER = os.environ["ISSUER"]


def verifier():
    if os.environ.get("VERIFIER", "jwt") == "jwt":
        return mcplite.auth.JWTVerifier(issuer=ISSUER)
    return mcplite.auth.Introspection(f"{ISSUER}/token/introspection", issuer=ISSUER, client_id=os.environ["CLIENT_ID"],
                                 client_secret=os.environ["CLIENT_SECRET"], cache_seconds=0)


def main():
    logging.basicConfig(level=logging.DEBUG)
    port = free_port()
    auth = mcplite.BearerAuth(verifier(), issuer=ISSUER, resource=f"http://127.0.0.1:{port}/mcp", scopes=["mcp:read"])
    server = mcplite.Server("protected", auth=auth)

    @server.tool()
    def read() -> str:
        return "read"

    @server.tool()
    def grow(name: str) -> str:
        server.add_tool(lambda: name, name=name)
        return "grown"

    @server.tool(scopes=["mcp:write"])
    def write() -> str:
        return "written"

    @server.tool()
    def whoami(ctx: mcplite.Context) -> str:
        principal = ctx.principal
        return f"{principal.subject} with {' '.join(sorted(principal.scopes))}"

    with HTTPServer(server.runtime, port=port) as running:
        print(running.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
