"""OpenAPI documents are known by their version, and are targets of the command line, of the server's and of ``connect``."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import mcplite
from mcplite.cli.parser import parse
from mcplite.cli.target import take_file
from mcplite.client.connect import command
from mcplite.protocol.api_documents import is_api_document
from mcplite.server.program import LoadError, load


@pytest.mark.parametrize("name, text, known", [
    ("a.json", '{"info": {}, "openapi": "3.0.3"}', True), ("a.yaml", "info: {}\nopenapi: 3.1.0\n", True),
    ("a.yml", "'swagger': '2.0'\n", True), ("a.txt", '{"openapi": "3.0.3"}', False), ("a.json", None, False),
    ("a.json", '{"mcpServers": {"openapi": {"url": "https://example.com"}}}', False)])
def test_a_document_is_known_by_its_version(tmp_path, name, text, known):
    if text is not None:
        (tmp_path / name).write_text(text)
    assert is_api_document(str(tmp_path / name)) is known


class Pets(BaseHTTPRequestHandler):
    """An API that answers with the key that it was sent."""

    def do_GET(self):
        body = json.dumps({"key": self.headers["X-Key"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


DOCUMENT = {
    "openapi": "3.0.3", "info": {"title": "Pets", "version": "1"},
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "paths": {"/pets": {"get": {"operationId": "listPets", "security": [{"key": []}],
                                "responses": {"200": {"description": "", "content": {"application/json": {}}}}}}}}


def test_the_tools_of_an_api_are_served_and_the_command_line_takes_its_document(tmp_path, monkeypatch):
    path = str(tmp_path / "pet-shop.json")
    monkeypatch.setenv("PET_SHOP_KEY", "secret")
    with HTTPServer(("127.0.0.1", 0), Pets) as server:
        with open(path, "w") as file:
            json.dump({**DOCUMENT, "servers": [{"url": f"http://127.0.0.1:{server.server_port}"}]}, file)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with mcplite.connect(load(path)) as client:
                assert client.server_info.name == "Pets" and client.call_tool("listPets").data == {"key": "secret"}
        finally:
            server.shutdown()
            thread.join()
    assert command(path)[1:] == ["-m", "mcplite.server", path]
    words, options = [path], parse(["list", path], "mcplite", "1")
    take_file(words, options)
    assert words == [path] and not options.config


@pytest.mark.parametrize("name, text, search, says", [
    ("a.json", json.dumps(DOCUMENT), False, "names no server, .*: write the URL of the API into the document, as servers:"),
    ("a.json", json.dumps(DOCUMENT), True, "--search is for a configuration file"),
    ("a.yaml", "{}", False, "a.yaml is no OpenAPI document")])
def test_a_document_that_cannot_be_served(tmp_path, name, text, search, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(LoadError, match=says):
        load(str(tmp_path / name), None, search)
