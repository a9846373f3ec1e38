"""A server whose users log in at a provider."""

import requests

import mcplite

from .authserver import REDIRECT
from .processes import free_port


class Bridge:
    """A protected server on a free port, whose users log in at *provider*."""

    def __init__(self, provider, issuer_options=(), **options):
        port = free_port()
        self.provider = provider
        self.issuer = f"http://127.0.0.1:{port}"
        self.callback = provider.redirect_uris[0] = self.issuer + "/callback"
        self.auth = mcplite.auth.Issuer(self.issuer, upstream=provider.login(**options), scopes="read", **dict(issuer_options))
        self.server = mcplite.Server("notes", auth=self.auth)
        self.server.tool()(whoami)
        self.server.tool()(ask_provider)
        self.server.tool(scopes=["admin"])(administer)
        self._serving = mcplite.serve(self.server, port=port)

    def __enter__(self):
        self.url = self._serving.__enter__().url
        return self

    def __exit__(self, *exc):
        self._serving.__exit__(*exc)

    def connect(self, person, **options):
        return mcplite.connect(self.url, auth=mcplite.OAuth(ask=person.follow, redirect_uri=REDIRECT, **options))


def whoami(ctx: mcplite.Context) -> dict:
    principal = ctx.principal
    return {"subject": principal.subject, "scopes": sorted(principal.scopes), "claims": dict(principal.claims)}


def ask_provider(provider: str, url: str, ctx: mcplite.Context) -> dict:
    token = ctx.principal.upstream_token(provider)
    response = requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    return {"status": response.status_code, "known": response.json()}


def administer() -> str:
    return "done"
