"""A Flask application's routes as tools: by its document, or by its annotations."""

import dataclasses
from typing import List, Optional

import pytest

flask = pytest.importorskip("flask")

import mcplite  # noqa: E402
from mcplite.contrib.flask import mount_mcp  # noqa: E402
from mcplite.errors import RegistrationError  # noqa: E402
from mcplite.openapi import from_flask, route_arguments  # noqa: E402


@dataclasses.dataclass
class Search:
    """What is searched for.

    :param words: separated by blanks.
    """

    words: str
    limit: int = 10
    tags: Optional[List[str]] = None


@dataclasses.dataclass
class Line:
    article: str
    count: int = 1


@dataclasses.dataclass
class Order:
    lines: List[Line]
    note: Optional[str] = None


def shop():
    app = flask.Flask("shop")

    @app.before_request
    def hook():
        flask.g.user = flask.request.headers.get("X-User", "a guest")

    @app.get("/search")
    @route_arguments(query=Search)
    def search():
        """Find articles.

        All words have to match.
        """
        return flask.jsonify(list(flask.request.args.lists()))

    @app.post("/orders")
    @route_arguments(json=Order)
    def order():
        return {"user": flask.g.user, **flask.request.get_json()}, 201

    @app.route("/orders/<int:number>", methods=["GET", "DELETE"])
    def one_order(number: int):
        if number > 99:
            flask.abort(404)
        return f"{flask.request.method} {number}"

    @app.get("/files/<path:name>")
    def file(name: str):
        return name

    @app.get("/kinds/<any(tea, coffee):kind>")
    def kind(kind):
        return kind

    return app


def connect(app, **options):
    return mcplite.connect(from_flask(app, **options))


def test_routes_are_tools():
    with connect(shop()) as client:
        tools = {tool.name: tool for tool in client.list_tools()}
    assert list(tools) == ["search", "order", "one_order_get", "one_order_delete", "file", "kind"]
    assert tools["search"].description == "Find articles.\n\nAll words have to match."
    assert tools["search"].annotations.read_only_hint and tools["one_order_delete"].annotations.destructive_hint
    schema = tools["search"].input_schema
    assert schema["required"] == ["words"] and schema["properties"]["limit"] == {"type": "integer", "default": 10}
    assert schema["properties"]["words"]["description"] == "separated by blanks."
    assert tools["one_order_get"].input_schema["properties"] == {"number": {"type": "integer"}}
    assert tools["kind"].input_schema["properties"]["kind"]["enum"] == ["coffee", "tea"]
    assert set(tools["order"].input_schema["properties"]) == {"lines", "note"}


def test_routes_are_called():
    with connect(shop(), headers={"X-User": "ada"}) as client:
        found = client.call_tool("search", {"words": "a b", "tags": ["x", "y"]})
        assert found.text == '[["words",["a b"]],["tags",["x","y"]]]\n'
        made = client.call_tool("order", {"lines": [{"article": "tea", "count": 2}]})
        assert made.structured_content == {"user": "ada", "lines": [{"article": "tea", "count": 2}]}
        assert client.call_tool("order", {"lines": [{"count": 2}]}).is_error
        assert client.call_tool("one_order_get", {"number": 7}).text == "GET 7"
        assert client.call_tool("one_order_get", {"number": 100}).text.startswith("404 Not Found")
        assert client.call_tool("file", {"name": "a/b.txt"}).text == "a/b.txt"
        assert client.call_tool("file", {"name": "../x"}).is_error
        assert client.call_tool("kind", {"kind": "milk"}).is_error


@pytest.mark.parametrize("include, found", [("search", ["search"]), ("GET /orders*", ["one_order_get"])])
def test_some_routes(include, found):
    with connect(shop(), include=include) as client:
        assert [tool.name for tool in client.list_tools()] == found


def test_what_an_annotation_says_of_the_answer():
    app = flask.Flask("x")

    @app.get("/line")
    def line() -> Line:
        return flask.jsonify(article="tea", count=2)

    with connect(app) as client:
        (tool,) = client.list_tools()
        assert set(tool.output_schema["properties"]) == {"article", "count"}
        assert client.call_tool("line").structured_content == {"article": "tea", "count": 2}


def test_views_of_classes_and_blueprints():
    from flask.views import MethodView

    class Notes(MethodView):
        def get(self, id: int):
            """Read a note."""
            return {"id": id}

        def put(self, id: int):
            """Write a note."""
            return {"written": id}

    blueprint = flask.Blueprint("notes", "x")
    blueprint.add_url_rule("/<int:id>", view_func=Notes.as_view("note"))
    app = flask.Flask("x")
    app.register_blueprint(blueprint, url_prefix="/notes")
    with connect(app) as client:
        assert {tool.name: tool.description for tool in client.list_tools()} == {
            "notes_note_get": "Read a note.", "notes_note_put": "Write a note."}
        assert client.call_tool("notes_note_put", {"id": 3}).structured_content == {"written": 3}


def test_a_recursive_class():
    @dataclasses.dataclass
    class Node:
        text: str
        children: "List[Node]" = dataclasses.field(default_factory=list)

    Node.__annotations__["children"] = List[Node]
    app = flask.Flask("x")

    @app.post("/nodes")
    @route_arguments(json=Node)
    def nodes():
        return flask.request.get_json()

    value = {"text": "a", "children": [{"text": "b", "children": []}]}
    with connect(app) as client:
        assert client.call_tool("nodes", value).structured_content == value
        assert client.call_tool("nodes", {"text": "a", "children": [{"no": "text"}]}).is_error


def test_a_form():
    app = flask.Flask("x")

    @app.post("/lines")
    @route_arguments(form=Line)
    def lines():
        return flask.request.form.to_dict()

    with connect(app) as client:
        assert client.call_tool("lines", {"article": "tea & more"}).structured_content == {"article": "tea & more"}


def test_a_request_has_one_body():
    with pytest.raises(RegistrationError, match="json= or form="):
        route_arguments(json=Order, form=Line)


def test_a_server_that_is_mounted_on_its_own_application():
    app = shop()
    mcp = mcplite.Server("both")
    mount_mcp(app, mcp, "/mcp")
    mcp.mount(from_flask(app), "shop")
    with mcplite.connect(mcp) as client:
        assert "shop_search" in [tool.name for tool in client.list_tools()] and len(client.list_tools()) == 6
        assert client.call_tool("shop_one_order_get", {"number": 1}).text == "GET 1"


def test_a_document_of_the_application():
    app = flask.Flask("x")
    app.add_url_rule("/openapi.json", "spec", lambda: {
        "openapi": "3.1.0", "info": {"title": "Own"}, "paths": {"/hello/{name}": {"get": {"operationId": "hello"}}}})
    app.add_url_rule("/hello/<name>", "view", lambda name: f"hello {name}")
    mcp = from_flask(app, "/openapi.json")
    assert mcp.name == "Own"
    with mcplite.connect(mcp) as client:
        assert client.call_tool("hello", {"name": "ada"}).text == "hello ada"
