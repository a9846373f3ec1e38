"""Credentials: which are sent, where they come from, and that no tool has them as an argument."""

import logging

import pytest

from mcplite.errors import RegistrationError
from mcplite.openapi import OpenAPIProvider

from .conftest import document

SCHEMES = {
    "in_header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "in_query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "in_cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "bearer": {"type": "http", "scheme": "bearer"}, "basic": {"type": "http", "scheme": "basic"},
    "oauth": {"type": "oauth2", "flows": {}}, "openid": {"type": "openIdConnect", "openIdConnectUrl": "https://x"},
    "digest": {"type": "http", "scheme": "token"},
}


def spec(security, parameters=()):
    operation = {"operationId": "get", "security": security, "parameters": list(parameters)}
    return document({"/x": {"get": operation}}, components={"securitySchemes": SCHEMES})


@pytest.mark.parametrize("scheme, value, header, sent", [
    ("in_header", "k", "x-api-key", "k"), ("in_cookie", "k;1", "cookie", "sid=k%3B1"),
    ("bearer", "t", "authorization", "Bearer t"),
    ("basic", ("ada", "pw"), "authorization", "Basic YWRhOnB3"), ("basic", "ada:pw", "authorization", "Basic YWRhOnB3"),
    ("oauth", "t", "authorization", "Bearer t"), ("openid", lambda: "t", "authorization", "Bearer t"),
    ("digest", "t", "authorization", "Token t"),
])
def test_each_kind(connected, api, scheme, value, header, sent):
    connected(spec([{scheme: []}]), credentials={scheme: value}).call_tool("get")
    assert api.last.headers[header] == sent


def test_a_key_in_the_query(connected, api):
    connected(spec([{"in_query": []}]), credentials={"in_query": "a&b"}).call_tool("get")
    assert api.last.query == "api_key=a%26b"


@pytest.mark.parametrize("security, sent", [
    ([{"in_header": []}, {"bearer": []}], {"authorization"}),              # the first of which all are there
    ([{"in_header": [], "bearer": []}, {"bearer": []}], {"authorization"}),
    ([{"bearer": [], "basic2": []}, {}], set()),                           # none is needed
    ([], set()),
])
def test_alternatives(connected, api, security, sent):
    connected(spec(security), credentials={"bearer": "t"}).call_tool("get")
    assert {"authorization", "x-api-key"} & set(api.last.headers) == sent


def test_the_document_says_what_holds_for_all_operations(connected, api):
    paths = {"/x": {"get": {"operationId": "all"}}, "/y": {"get": {"operationId": "free", "security": []}}}
    client = connected(document(paths, security=[{"bearer": []}], components={"securitySchemes": SCHEMES}),
                       credentials={"bearer": "t"})
    client.call_tool("all")
    assert api.last.headers["authorization"] == "Bearer t"
    client.call_tool("free")
    assert "authorization" not in api.last.headers


def test_the_environment(connected, api, monkeypatch):
    monkeypatch.setenv("SHOP_IN_HEADER", "from-environment")
    monkeypatch.setenv("IN_HEADER", "of something else")
    connected(spec([{"in_header": []}]), environment_prefix="shop").call_tool("get")
    assert api.last.headers["x-api-key"] == "from-environment"


def test_the_environment_is_not_read_unless_it_is_asked_for(connected, api, monkeypatch):
    monkeypatch.setenv("SHOP_IN_HEADER", "secret")
    connected(spec([{"in_header": []}])).call_tool("get")
    assert "x-api-key" not in api.last.headers


def test_a_credential_is_no_argument(connected):
    parameters = [{"name": "x-api-key", "in": "header", "required": True, "schema": {"type": "string"}},
                  {"name": "q", "in": "query", "schema": {"type": "string"}}]
    (tool,) = connected(spec([{"in_header": []}], parameters)).list_tools()
    assert list(tool.input_schema["properties"]) == ["q"]


def test_a_refusal_says_what_is_missing(connected, api, caplog):
    api.answer = lambda request: (401, {}, b"who are you?")
    with caplog.at_level(logging.WARNING):
        client = connected(spec([{"in_header": []}]))
    assert "credentials={'in_header'" in caplog.text
    assert "no credentials for in_header: who are you?" in client.call_tool("get").text


def test_a_credential_that_cannot_be_sent_is_not_shown(connected, api):
    result = connected(spec([{"bearer": []}]), credentials={"bearer": "se\ncret"}).call_tool("get")
    assert result.is_error and "cret" not in result.text and api.requests == []


def test_a_scheme_that_the_document_does_not_have():
    with pytest.raises(RegistrationError, match="'bearr', which is no security scheme.*bearer"):
        OpenAPIProvider(spec([]), base_url="http://x", credentials={"bearr": "t"})


@pytest.mark.parametrize("value", [None, b"key", ("user",)])
def test_a_credential_of_no_kind_is_told_without_its_value(connected, value):
    with pytest.raises(RegistrationError, match="^bearer: credentials= has a .* a text, a pair"):
        OpenAPIProvider(spec([]), base_url="http://x", credentials={"bearer": value})
    result = connected(spec([{"bearer": []}]), credentials={"bearer": lambda: value}).call_tool("get")
    assert result.is_error and "a text, a pair of user name and password" in result.text and "key" not in result.text


def test_swagger(connected, api):
    definitions = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "pw": {"type": "basic"}}
    made = document({"/x": {"get": {"operationId": "get", "security": [{"key": [], "pw": []}]}}}, "2.0",
                    securityDefinitions=definitions)
    connected(made, credentials={"key": "k", "pw": ("a", "b")}).call_tool("get")
    assert api.last.headers["x-key"] == "k" and api.last.headers["authorization"].startswith("Basic ")
