"""A Flask site with hooks, logins and a database, and two MCP servers: one on the application, one on a blueprint.

    waitress-serve flask_site:app
"""

import logging
import os
import sqlite3
import threading
from typing import Any, Dict, List

import flask
import flask_login

import mcplite
from mcplite.contrib.flask import mount_mcp

logging.basicConfig(level=logging.INFO)
app = flask.Flask("site")
app.config.update(SECRET_KEY="for a test", GREETING="hello")
logins = flask_login.LoginManager(app)
#: How often a hook has run, or a database was opened or closed.
counts: Dict[str, int] = {"before": 0, "opened": 0, "closed": 0}
lock = threading.Lock()


def count(what: str) -> None:
    with lock:
        counts[what] += 1


class User(flask_login.UserMixin):
    def __init__(self, id: str) -> None:
        self.id = id


@logins.request_loader
def load_user(request: flask.Request) -> Any:
    name = request.headers.get("X-User")
    return User(name) if name else None


@app.before_request
def begin() -> Any:
    count("before")
    flask.g.call = flask.request.headers.get("X-Call")
    if flask.request.headers.get("X-Early"):
        flask.request.get_json(silent=True)  # as logging hooks do
    if flask.request.headers.get("X-User") == "mallory":
        flask.abort(403, "mallory is not served")


@app.teardown_appcontext
def end(error: Any) -> None:
    database = flask.g.pop("database", None)
    if database is not None:
        database.close()
        count("closed")


def database() -> sqlite3.Connection:
    """Return the connection of the present context, as Flask's tutorial does; it belongs to one thread."""
    if "database" not in flask.g:
        count("opened")
        flask.g.database = sqlite3.connect(os.environ.get("DATABASE", ":memory:"))
    return flask.g.database


def where(**more: Any) -> Dict[str, Any]:
    return {"app": flask.current_app.config["GREETING"], "call": flask.g.call, "header": flask.request.headers["X-Call"],
            "url": flask.url_for("mcp"), "home": flask.url_for("home", _external=True),
            "user": flask_login.current_user.get_id(), "row": database().execute("select 1").fetchone()[0], **more}


mcp = mcplite.Server("site")


@mcp.tool()
def plain() -> Dict[str, Any]:
    return where(json=flask.request.get_json()["method"])


@mcp.tool()
def on_a_worker(ctx: mcplite.Context) -> Dict[str, Any]:
    return where(principal=ctx.principal and ctx.principal.subject, environ=ctx.http.environ["HTTP_X_CALL"])


@mcp.tool()
def streams(steps: int, ctx: mcplite.Context) -> List[Any]:
    found = []
    for step in range(steps):
        found.append(where()["call"])
        ctx.report_progress(step + 1, steps)
        ctx.sleep(0.01)
    return found


@mcp.tool()
def asks(ctx: mcplite.Context) -> Dict[str, Any]:
    before = where()
    answer = ctx.elicit("Go on?")
    return {"before": before, "action": answer.action, "after": where()}


@app.route("/")
def home() -> str:
    return "the site"


@app.route("/counts")
def show() -> Any:
    return dict(counts)


mount_mcp(app, mcp, "/mcp", principal=lambda: flask_login.current_user)

inner = mcplite.Server("inner", auth=mcplite.BearerAuth(
    mcplite.StaticTokens({"the-token-of-ada": "ada"}), resource="http://localhost/api/tools", issuer="https://idp.example"))


@inner.tool()
def who(ctx: mcplite.Context) -> str:
    return f"{ctx.principal.subject} {flask.request.blueprint} {flask.url_for('api.tools')} {flask.g.call}"


api = flask.Blueprint("api", __name__, url_prefix="/api")
mount_mcp(api, inner, "/tools")
app.register_blueprint(api)
