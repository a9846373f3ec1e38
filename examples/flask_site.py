"""A Flask site whose MCP tools use its configuration and its database, as its pages do.

    python flask_site.py [PORT]
    gunicorn --worker-class gthread --threads 16 flask_site:app
"""

import sqlite3
import sys

import flask

import mcplite
from mcplite.contrib.flask import mount_mcp

app = flask.Flask(__name__)
app.config["DATABASE"] = "notes.db"
mcp = mcplite.Server("notes")


def database() -> sqlite3.Connection:
    """Return the connection of the present page or tool; it is closed at its end."""
    if "database" not in flask.g:
        flask.g.database = sqlite3.connect(flask.current_app.config["DATABASE"])
        flask.g.database.execute("create table if not exists notes (text)")
    return flask.g.database


@app.teardown_appcontext
def close_database(error: object) -> None:
    if "database" in flask.g:
        flask.g.pop("database").close()


@app.route("/")
def index() -> str:
    return "\n".join(text for text, in database().execute("select text from notes"))


@mcp.tool
def add_note(text: str) -> str:
    """Add a note to the site."""
    with database() as connection:
        connection.execute("insert into notes values (?)", [text])
    return f"see {flask.url_for('index', _external=True)}"


@mcp.tool
def delete_notes(ctx: mcplite.Context) -> str:
    """Delete all notes, if the user agrees."""
    if not ctx.elicit("Delete all notes?").accepted:
        return "kept"
    with database() as connection:
        return f"{connection.execute('delete from notes').rowcount} deleted"


mount_mcp(app, mcp, "/mcp")

if __name__ == "__main__":
    app.run(port=int(sys.argv[1]) if sys.argv[1:] else 5000)
