"""A WSGI application with a client and a server at the top of the module, for hosts that load it before they fork."""

import os

import mcplite

mcp = mcplite.Server("prefork")


@mcp.tool()
def whoami(ctx: mcplite.Context) -> int:
    return os.getpid()


far = mcplite.connect(os.environ["FAR"], timeout=60).open()
far.call_tool("echo", {"text": "before the fork"})


def page(environ, start_response):
    """Call the other server by the client of the module; the path is what to say."""
    said = f"{os.getpid()} {environ['PATH_INFO']}"
    text = far.call_tool("echo", {"text": said}).text
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{'right' if text == said else 'wrong'} {os.getpid()}".encode()]


application = mcplite.mount_wsgi(page, {"/mcp": mcp.wsgi()})
