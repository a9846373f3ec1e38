"""A Flask application with an MCP server beside it."""

import flask

import mcplite

mcp = mcplite.Server("shop")


@mcp.tool()
def price(article: str) -> int:
    """Return an article's price."""
    return len(article)


@mcp.tool()
def order(article: str, ctx: mcplite.Context) -> str:
    """Order an article, when the user agrees."""
    return f"{article}: {ctx.elicit(f'Order {article}?').action}"


app = flask.Flask(__name__)


@app.route("/")
def index() -> str:
    return f"tea costs {price('tea')}"


app.wsgi_app = mcplite.mount_wsgi(app.wsgi_app, {"/mcp": mcp.wsgi()})
application = app
