"""A client of another SDK for Python, whose user is played by the test that started it.

    python login_client.py mcp2|mcp1|fastmcp4 URL

Connects, says so, and obeys lines on stdin: "call NAME" calls a tool without arguments, "later SECONDS" sets its clock
forward. Each line on stdout is one JSON object: {"visit": URL} sends the user to a page and waits for a line, the URL to
which the browser was sent back in the end; {"open": URL} does so where the SDK listens at that URL itself; {"said": TEXT} is
what the tool said; {"error": TEXT} ends the client.
"""

import json
import sys
import time
import urllib.parse

import anyio

#: No server listens there, since the page is not fetched.
REDIRECT = "http://127.0.0.1:3/callback"


class Storage:
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def tell(**report):
    print(json.dumps(report), flush=True)


def read_line():
    return sys.stdin.readline().strip()


class Browser:
    """Both halves of a login, as the SDK asks for them."""

    async def visit(self, url):
        tell(visit=url)

    async def answer(self):
        sent_back = await anyio.to_thread.run_sync(read_line)
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(sent_back).query))


async def by_mcp2(url, use):
    from mcp import Client
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client
    from mcp.shared.auth import OAuthClientMetadata

    browser = Browser()

    async def answer():
        fields = await browser.answer()
        if "error" in fields:  # which its result has no place for
            raise PermissionError(fields["error"])
        return AuthorizationCodeResult.model_validate(fields)

    metadata = OAuthClientMetadata(redirect_uris=[REDIRECT], client_name="official")
    auth = OAuthClientProvider(url, metadata, Storage(), browser.visit, answer)
    async with create_mcp_http_client(auth=auth) as http_client:
        async with Client(streamable_http_client(url, http_client=http_client)) as client:
            await use(client)


async def by_mcp1(url, use):
    from mcp import ClientSession
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.shared.auth import OAuthClientMetadata

    browser = Browser()

    async def answer():
        fields = await browser.answer()
        if "error" in fields:
            raise PermissionError(fields["error"])
        return fields["code"], fields["state"]

    metadata = OAuthClientMetadata(redirect_uris=[REDIRECT], client_name="official")
    auth = OAuthClientProvider(url, metadata, Storage(), browser.visit, answer)
    async with streamablehttp_client(url, auth=auth) as (read, write, _), ClientSession(read, write) as client:
        await client.initialize()
        await use(client)


async def by_fastmcp4(url, use):
    import webbrowser

    from fastmcp import Client
    from fastmcp.client.auth import OAuth

    webbrowser.open = lambda url: tell(open=url)
    async with Client(url, auth=OAuth(url)) as client:
        await use(client)


async def obey(client):
    now, ahead = time.time, 0.0
    tell(said="connected")
    while True:
        verb, _, word = (await anyio.to_thread.run_sync(read_line)).partition(" ")
        if verb == "call":
            result = await client.call_tool(word, {})
            tell(said=result.content[0].text)
        elif verb == "later":
            ahead += float(word)
            time.time = lambda: now() + ahead
        else:
            return


def causes(error):
    """Return the errors in a group of them, which the SDKs raise at the end of their tasks."""
    if hasattr(error, "exceptions"):
        return [cause for inner in error.exceptions for cause in causes(inner)]
    return [error]


async def main(sdk, url):
    try:
        with anyio.fail_after(150):
            await {"mcp2": by_mcp2, "mcp1": by_mcp1, "fastmcp4": by_fastmcp4}[sdk](url, obey)
    except Exception as error:
        tell(error="; ".join(f"{type(cause).__name__}: {cause}" for cause in causes(error)))
        raise


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
