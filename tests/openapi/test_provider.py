"""The provider as a part of a server: mounted beside others, and its GET operations as resources."""

import contextlib
import logging

import pytest

import mcplite
from mcplite.errors import RegistrationError, RemoteError
from mcplite.openapi import OpenAPIProvider, from_openapi

from .conftest import document

ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
PETS = document({
    "/pets": {"get": {"operationId": "listPets",
                      "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer"}}]},
              "post": {"operationId": "addPet", "requestBody": {"required": True, "content": {"application/json": {
                  "schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}}}}},
    "/pets/{id}": {"get": {"operationId": "getPet", "summary": "One pet", "parameters": [ID]}},
    "/health": {"get": {"operationId": "health"}},
    "/secret": {"get": {"operationId": "secret",
                        "parameters": [{"name": "X-Key", "in": "header", "required": True, "schema": {"type": "string"}}]}},
})


@pytest.fixture
def mounted(api):
    mcp = mcplite.Server("hub")

    @mcp.tool
    def own() -> str:
        return "own"

    mcp.mount(OpenAPIProvider(PETS, base_url=api.url, resources="/pets*"), "shop")
    with mcplite.connect(mcp) as client:
        yield client


def test_an_api_is_a_part_of_a_server(mounted, api):
    assert [tool.name for tool in mounted.list_tools()] == [
        "own", "shop_listPets", "shop_addPet", "shop_getPet", "shop_health", "shop_secret"]
    assert mounted.call_tool("own").text == "own"
    assert mounted.call_tool("shop_getPet", {"id": "7"}).structured_content == {"ok": True} and api.last.path == "/pets/7"
    assert mounted.call_tool("shop_addPet", {}).is_error


def test_resources_of_a_part(mounted, api):
    assert [one.uri_template for one in mounted.list_resource_templates()] == [
        api.url + "/pets{?limit}", api.url + "/pets/{id}"]
    assert mounted.read_resource(api.url + "/pets/7").contents[0].text == '{"ok": true}'


def test_two_apis_of_one_server(api):
    mcp = mcplite.Server("hub")
    mcp.mount(OpenAPIProvider(PETS, base_url=api.url), "one")
    mcp.mount(OpenAPIProvider(PETS, base_url=api.url + "/v2"), "two")
    with pytest.raises(RegistrationError, match="prefix='two'"):
        mcp.mount(OpenAPIProvider(PETS, base_url=api.url), "two")
    with mcplite.connect(mcp) as client:
        client.call_tool("two_health")
        assert api.last.path == "/v2/health" and len(client.list_tools()) == 10


def test_names_that_are_taken(api):
    mcp = mcplite.Server("hub")
    mcp.add_tool(lambda: None, name="health")
    with pytest.raises(RegistrationError, match="'health'"):
        mcp.mount(OpenAPIProvider(PETS, base_url=api.url))
    assert list(mcp.registry.all("tools")) == ["health"]


def test_a_tool_can_be_added_beside_the_operations(api):
    mcp = from_openapi(PETS, base_url=api.url, include="health")

    @mcp.tool
    def more() -> str:
        return "more"

    mcp.mount(from_openapi(PETS, base_url=api.url), "again")
    with mcplite.connect(mcp) as client:
        assert [tool.name for tool in client.list_tools()][:2] == ["more", "health"] and len(client.list_tools()) == 7


@pytest.fixture
def reader(connected):
    return connected(PETS, resources=True)


def test_what_cannot_be_a_resource(connected, caplog):
    with caplog.at_level(logging.WARNING):
        connected(PETS, resources=True)
    assert "/secret is no resource" in caplog.text


def test_resources(reader, api):
    assert [one.uri for one in reader.list_resources()] == [api.url + "/health"]
    template = reader.list_resource_templates()[1]
    assert (template.uri_template, template.name, template.title) == (api.url + "/pets/{id}", "getPet", "One pet")


@pytest.mark.parametrize("uri, target", [
    ("/health", "/health"), ("/pets/a%20b", "/pets/a%20b"), ("/pets", "/pets"), ("/pets?limit=3", "/pets?limit=3")])
def test_reading(reader, api, uri, target):
    contents = reader.read_resource(api.url + uri).contents[0]
    assert (contents.text, contents.mime_type, contents.uri) == ('{"ok": true}', "application/json", api.url + uri)
    assert api.last.target == target


def test_reading_bytes(reader, api):
    api.answer = lambda request: (200, {"Content-Type": "image/png"}, b"\x00\xff")
    contents = reader.read_resource(api.url + "/pets/7").contents[0]
    assert contents.blob == "AP8=" and contents.mime_type == "image/png"


@pytest.mark.parametrize("status, error", [(404, "not found"), (500, "500 Internal Server Error: broken")])
def test_reading_what_cannot_be_read(reader, api, status, error):
    api.answer = lambda request: (status, {"Content-Type": "text/plain"}, b"broken")
    with pytest.raises(RemoteError, match=error) as raised:
        reader.read_resource(api.url + "/pets/7")
    assert isinstance(raised.value, mcplite.errors.ResourceNotFound) == (status == 404)


@pytest.mark.parametrize("uri", ["/pets/..%2Fsecret", "/pets/%252e%252e"])
def test_a_uri_does_not_leave_its_template(reader, api, uri):
    with pytest.raises(RemoteError):
        reader.read_resource(api.url + uri)
    assert api.requests == []


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_every_revision(api, revision):
    with mcplite.connect(from_openapi(PETS, base_url=api.url), revision=revision) as client:
        assert len(client.list_tools()) == 5
        assert client.call_tool("health").text == '{"ok": true}'


def test_connections_are_closed_with_the_server(api):
    mcp = from_openapi(PETS, base_url=api.url)
    for _ in range(2):  # the second client opens them again
        with contextlib.closing(mcplite.connect(mcp).open()) as client:
            assert client.call_tool("health").structured_content == {"ok": True}
    mcp.close()


def test_a_resource_of_a_server_that_is_not_there(api):
    api.close()
    with mcplite.connect(from_openapi(PETS, base_url=api.url, resources=True)) as client:
        with pytest.raises(RemoteError, match="cannot reach"):
            client.read_resource(api.url + "/health")
    api.__init__()


def test_the_server_is_named_by_the_document(api):
    assert from_openapi(PETS, base_url=api.url).name == "Shop"
    assert from_openapi(PETS, base_url=api.url, name="mine").info.version == "1.0"
