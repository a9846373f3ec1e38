"""The official SDK as a client that obtains its token; prints what it saw as one JSON object.

    python official_oauth_client.py URL auto|legacy|REVISION [STEP ...]

Runs in an environment with ``mcp`` 2. A user who logs in and consents to everything is played over plain HTTP. With
CLIENT_SECRET in the environment, and CLIENT_ID and ISSUER, there is no user, and the credentials are the client's own.

A STEP is the name of a tool that takes no argument and gives text; after each one the number of tokens that the SDK
has had so far, and the scopes of the last one, are noted. "expire" waits for the end of the last token, and "leave"
begins a new session.
"""

import html
import json
import os
import re
import sys
import time
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urljoin, urlsplit

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientMetadata

#: No server listens there, since the page is not fetched.
REDIRECT = "http://127.0.0.1:3/callback"


class Storage:
    def __init__(self):
        self.tokens = []
        self.ends = 0.0
        self.client = None

    async def get_tokens(self):
        return self.tokens[-1] if self.tokens else None

    async def set_tokens(self, tokens):
        self.tokens.append(tokens)
        self.ends = time.time() + tokens.expires_in

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class User:
    """Sits at a browser without scripts."""

    def __init__(self, browser):
        self._browser = browser
        self._answer = {}
        self.pages = []

    async def visit(self, url):
        response = await self._browser.get(url)
        for _ in range(20):
            if response.is_redirect:
                url = urljoin(str(response.url), response.headers["location"])
                if url.startswith(REDIRECT):
                    self._answer = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
                    return
                response = await self._browser.get(url)
                continue
            assert response.status_code == 200, response.text
            action = html.unescape(re.search(r'<form[^>]* action="([^"]+)"', response.text).group(1))
            prompt = re.search(r'name="prompt" value="(\w+)"', response.text).group(1)
            self.pages.append(prompt)
            form = {"prompt": prompt, "login": "ada", "password": "any password does"}
            response = await self._browser.post(urljoin(str(response.url), action), data=form)
        raise AssertionError(f"no end of pages: {self.pages}")

    async def answer(self):
        return AuthorizationCodeResult.model_validate(self._answer)


def authorization(url, storage, user):
    if "CLIENT_SECRET" in os.environ:
        return ClientCredentialsOAuthProvider(
            url, storage, os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"], scope=os.environ.get("SCOPE"),
            issuer=os.environ["ISSUER"])
    metadata = OAuthClientMetadata(redirect_uris=[REDIRECT], client_name="official")
    return OAuthClientProvider(url, metadata, storage, user.visit, user.answer)


@asynccontextmanager
async def connected(url, mode, auth):
    async with create_mcp_http_client(auth=auth) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode, log_level="error") as client:
            yield client


async def attempt(client, name):
    try:
        result = await client.call_tool(name, {})
    except MCPError as error:
        return {"error": type(error).__name__, "code": error.error.code, "message": error.error.message}
    if result.is_error:
        return {"error": "result", "message": result.content[0].text}
    return result.content[0].text


async def main(url, mode, *steps):
    report = {"steps": []}
    storage = Storage()
    steps = list(steps)
    async with httpx2.AsyncClient(trust_env=False) as browser:
        user = User(browser)
        while True:
            with anyio.fail_after(60):
                async with connected(url, mode, authorization(url, storage, user)) as client:
                    report["revision"] = client.protocol_version
                    report["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
                    while steps and steps[0] != "leave":
                        name = steps.pop(0)
                        if name == "expire":
                            await anyio.sleep(max(0.0, storage.ends - time.time()) + 0.1)
                            continue
                        said = await attempt(client, name)
                        report["steps"].append({"tool": name, "said": said, "tokens": len(storage.tokens),
                                                "scope": storage.tokens[-1].scope})
            if not steps:
                break
            steps.pop(0)
        report["pages"] = user.pages
    if storage.client is not None:
        report["client"] = storage.client.model_dump(mode="json", exclude={"client_secret"}, exclude_unset=True)
    print(json.dumps(report))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
