"""Protected servers: ``mcp`` for the server of the package, and three in ``application`` for WSGI servers.

There they are below ``/mcp``, deeper below ``/deep/mcp``, and below ``/front`` behind something that knows its users by
itself: those in USERS, with their passwords. Tokens are principals in base64, behind ``test.``, or what the
authorization server ISSUER knows. All that is logged, on any level, is in the file LOG.
"""

import base64
import json
import logging
import os
from typing import Any, Callable, Dict, Iterable, Optional

import mcplite

ISSUER = os.environ["ISSUER"]
USERS: Dict[str, str] = json.loads(os.environ["USERS"])


def verifier(issuer: str) -> Callable[[str], Optional[mcplite.Principal]]:
    known = mcplite.auth.Introspection(issuer + "/introspect", client_id="mcp", client_secret="the-secret-of-mcp",
                                  cache_seconds=0)

    def verify(text: str) -> Optional[mcplite.Principal]:
        if not text.startswith("test."):
            return known(text)
        return mcplite.Principal(**json.loads(base64.urlsafe_b64decode(text[5:] + "===")))

    return verify


def make(name: str, auth: Optional[mcplite.BearerAuth] = None) -> mcplite.Server:
    server = mcplite.Server(name, auth=auth)

    @server.tool()
    def who(ctx: mcplite.Context) -> str:
        principal = ctx.principal
        return "nobody" if principal is None else " ".join([principal.subject, *sorted(principal.scopes)])

    @server.tool(scopes=["write", "files"])
    def write() -> str:
        return "written"

    @server.tool()
    def ask(ctx: mcplite.Context) -> str:
        principal = ctx.principal
        return f"{principal.subject if principal else 'nobody'}: {ctx.elicit('Well?').action}"

    return server


class Front:
    """Authenticates users by their passwords, and refuses all others."""

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        self._inner = inner

    def __call__(self, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        scheme, _, text = environ.pop("HTTP_AUTHORIZATION", "").partition(" ")
        name, _, password = base64.b64decode(text).decode().partition(":") if scheme == "Basic" else ("", "", "")
        if not name or USERS.get(name) != password:
            start_response("401 Unauthorized", [("WWW-Authenticate", "Basic"), ("Content-Length", "0")])
            return []
        return self._inner({**environ, "REMOTE_USER": name}, start_response)


def others(environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("299 Others", [("Content-Length", "0")])
    return []


logging.getLogger().addHandler(logging.FileHandler(os.environ["LOG"]))
logging.getLogger().setLevel(logging.DEBUG)
mcp = make("protected", mcplite.BearerAuth(verifier(ISSUER), issuer=ISSUER))
application = mcplite.mount_wsgi(others, {
    "/mcp": mcp.wsgi(),
    "/deep": make("deep", mcplite.BearerAuth(verifier(ISSUER), issuer=ISSUER)).wsgi(path="/mcp"),
    "/front": Front(make("front").wsgi())})
