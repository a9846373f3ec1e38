"""A server with the official SDK's authorization server, which gives tokens for it to each user who comes.

    python python_server.py official|fastmcp PORT SCOPES [id:secret:METHOD ...]

Runs in an environment with ``mcp`` 1 or 2 ("official"), or with ``fastmcp`` 4, which builds on it. SCOPES are those that
a registration gets without asking, separated by commas, or "none"; "read" and "write" may be registered. The others
are clients that are registered by hand. The first line says where it is; it ends with its stdin, and knows no client
that registered when it is started again.
"""

import os
import secrets
import socket
import sys
import threading
import time
from importlib.metadata import version

import uvicorn
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

REDIRECT = "http://127.0.0.1:8765/callback"


class Provider:
    """What the SDK leaves to its users: clients, codes and tokens, in memory."""

    def __init__(self):
        self.clients, self.codes, self.refresh, self.access = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code, client_id=client.client_id, expires_at=time.time() + 60, scopes=params.scopes or [],
            **params.model_dump(include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly", "resource"}))
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    def _give(self, client, scopes, resource):
        token, refresh = secrets.token_hex(16), secrets.token_hex(16)
        self.access[token] = AccessToken(token=token, client_id=client.client_id, scopes=scopes, resource=resource)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=token, refresh_token=refresh, expires_in=3600, scope=" ".join(scopes))

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self._give(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh[refresh_token.token]
        return self._give(client, scopes, refresh_token.resource)

    async def load_access_token(self, token):
        return self.access.get(token)

    async def revoke_token(self, token):
        for known in (self.refresh, self.access):
            for name in [name for name, other in known.items() if other.client_id == token.client_id]:
                del known[name]


def clients(words):
    for word in words:
        client_id, secret, method = word.split(":")
        yield OAuthClientInformationFull(client_id=client_id, client_secret=secret, token_endpoint_auth_method=method,
                                         redirect_uris=[REDIRECT], scope="read write")


def official(base, registration, known):
    if version("mcp").startswith("1."):
        from mcp.server.fastmcp import FastMCP as MCPServer

        more = {}
    else:
        from mcp.server.mcpserver import MCPServer

        more = {"validate_token_resource": True}
    provider = Provider()
    provider.clients.update({client.client_id: client for client in known})
    server = MCPServer("protected", auth_server_provider=provider, auth=AuthSettings(
        issuer_url=base, resource_server_url=f"{base}/mcp", required_scopes=["read"], **more,
        client_registration_options=registration, revocation_options=RevocationOptions(enabled=True)))
    return server, server.streamable_http_app


def fastmcp(base, registration, known):
    from fastmcp import FastMCP
    from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider

    provider = InMemoryOAuthProvider(base_url=base, client_registration_options=registration, required_scopes=["read"],
                                     revocation_options=RevocationOptions(enabled=True))
    provider.clients.update({client.client_id: client for client in known})
    server = FastMCP("protected", auth=provider)
    return server, server.http_app


def main(kind, port, scopes, *words):
    listener = socket.create_server(("127.0.0.1", int(port)))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    registration = ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"],
                                             default_scopes=None if scopes == "none" else scopes.split(","))
    server, make = {"official": official, "fastmcp": fastmcp}[kind](base, registration, clients(words))
    server.tool()(whoami)
    print(f"{base}/mcp", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    uvicorn.Server(uvicorn.Config(make(), log_level="error")).run(sockets=[listener])


def whoami() -> str:
    """Say what the token is for."""
    from mcp.server.auth.middleware.auth_context import get_access_token

    return " ".join(sorted(get_access_token().scopes))


if __name__ == "__main__":
    main(*sys.argv[1:])
