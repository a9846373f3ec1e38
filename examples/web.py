"""A web application with an MCP server beside it: Flask answers people, the tools answer models.

    pip install flask waitress
    waitress-serve --threads 16 --listen 127.0.0.1:8000 web:app

The page is at http://127.0.0.1:8000/, the MCP server at http://127.0.0.1:8000/mcp.
"""

import threading
from typing import Dict

import flask
from markupsafe import escape

import mcplite

mcp = mcplite.Server("guestbook", instructions="Reads and signs the guest book.")
app = flask.Flask(__name__)

#: Guarded by the lock: pages and tools run on many threads.
entries: Dict[str, str] = {}
lock = threading.Lock()


@app.route("/")
def index() -> str:
    with lock:
        return "".join(f"<p>{escape(name)}: {escape(text)}</p>" for name, text in entries.items())


@mcp.tool()
def sign(name: str, text: str) -> int:
    """Sign the guest book; returns the number of entries."""
    with lock:
        entries[name] = text
        return len(entries)


@mcp.tool()
def read() -> Dict[str, str]:
    """Return all entries, by name."""
    with lock:
        return dict(entries)


app.wsgi_app = mcplite.mount_wsgi(app.wsgi_app, {"/mcp": mcp.wsgi()})
