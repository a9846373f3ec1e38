"""Calls of a WSGI application in this process: what it sees of the caller, what it may answer, and Django REST framework."""

import json
import logging

import pytest

import mcplite
from mcplite.errors import RegistrationError
from mcplite.openapi import from_wsgi

from .conftest import document

SPEC = document({"/things/{id}": {
    "get": {"operationId": "read", "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}]},
    "post": {"operationId": "write", "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}}}},
    servers=[{"url": "https://shop.example/v1"}])


def echo(environ, start_response):
    """Answer with what an application sees."""
    found = {name: value for name, value in environ.items() if isinstance(value, str)}
    found["body"] = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode("utf-8")
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode("utf-8")]


def call(application, name="read", arguments=None, **options):
    with mcplite.connect(from_wsgi(application, SPEC, **options)) as client:
        return client.call_tool(name, {"id": "1"} if arguments is None else arguments)


def test_what_the_application_sees():
    seen = call(echo, "write", {"id": "n\u00e9 1", "body": {"a": 1}}).structured_content
    assert seen["PATH_INFO"].encode("latin-1").decode("utf-8") == "/v1/things/n\u00e9 1"
    assert (seen["REQUEST_METHOD"], seen["CONTENT_TYPE"], seen["body"]) == ("POST", "application/json", '{"a": 1}')
    assert (seen["HTTP_HOST"], seen["SERVER_PORT"], seen["wsgi.url_scheme"]) == ("localhost", "80", "http")


def test_it_is_valid_wsgi():
    from wsgiref.validate import validator

    def application(environ, start_response):
        environ["wsgi.input"].read(0)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"fine"]

    assert call(validator(application), arguments={"id": "1", "q": "a b"}).text == "fine"


def test_the_base_url_is_what_the_application_takes_for_its_own():
    seen = call(echo, base_url="https://shop.example:8443/api").structured_content
    assert (seen["HTTP_HOST"], seen["wsgi.url_scheme"], seen["PATH_INFO"]) == ("shop.example:8443", "https", "/api/things/1")


def test_headers_and_the_principal_are_as_the_program_chooses():
    mcp = from_wsgi(echo, SPEC, headers=lambda ctx: {"Authorization": ctx.http.headers["authorization"]},
                    environ=lambda ctx: {"REMOTE_USER": ctx.principal.subject})
    mcp.auth = mcplite.StaticTokens({f"a-token-that-is-of-{name}": mcplite.Principal(name) for name in ("ada", "bob")})
    with mcplite.serve(mcp) as served:
        for name in ("ada", "bob"):
            with mcplite.connect(served.url, auth=f"a-token-that-is-of-{name}") as client:
                seen = client.call_tool("read", {"id": "1"}).structured_content
                assert (seen["REMOTE_USER"], seen["HTTP_AUTHORIZATION"]) == (name, f"Bearer a-token-that-is-of-{name}")
                assert seen["REMOTE_ADDR"] == "127.0.0.1"


def test_nothing_of_the_caller_reaches_the_application_by_itself():
    mcp = from_wsgi(echo, SPEC)
    mcp.auth = mcplite.StaticTokens({"a-token-that-is-of-ada": mcplite.Principal("ada")})
    options = {"auth": "a-token-that-is-of-ada", "headers": {"X-Own": "1"}}
    with mcplite.serve(mcp) as served, mcplite.connect(served.url, **options) as client:
        seen = client.call_tool("read", {"id": "1"}).structured_content
    assert not {"REMOTE_USER", "HTTP_AUTHORIZATION", "HTTP_X_OWN"} & set(seen)


@pytest.mark.parametrize("value", ["a/b", "..", "../admin", "a\\b", "%2e%2e/x"])
def test_a_value_does_not_leave_its_segment(value):
    result = call(echo, arguments={"id": value})
    assert result.is_error and "path" in result.text


def test_an_application_that_writes_and_is_closed():
    closed = []

    class Pieces(list):
        def close(self):
            closed.append(True)

    def application(environ, start_response):
        write = start_response("201 Created", [("Content-Type", "text/plain"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        write(b"one ")
        return Pieces([b"two"])

    assert call(application).text == "one two" and closed == [True]


def failing(environ, start_response):
    raise RuntimeError("the secret of the database")


def test_an_application_that_fails(caplog):
    with caplog.at_level(logging.ERROR):
        result = call(failing)
    assert result.is_error and "RuntimeError" in result.text and "secret" not in result.text and "secret" in caplog.text


def test_an_application_that_does_not_answer():
    assert "start_response" in call(lambda environ, start_response: []).text
    for status in ("", "OK", None):
        assert "the application failed: " in call(lambda environ, start_response: start_response(status, []) or []).text


def test_a_response_without_end():
    def application(environ, start_response):
        start_response("200 OK", [])
        while True:
            yield b"x" * 1000

    assert "more than 5000 bytes" in call(application, response_bytes=5000).text


def serving_its_document(environ, start_response):
    start_response("200 OK" if environ["PATH_INFO"] == "/openapi.json" else "404 Not Found", [])
    return [json.dumps(SPEC).encode("utf-8")]


def test_a_document_that_the_application_serves():
    with mcplite.connect(from_wsgi(serving_its_document, "/openapi.json")) as client:
        assert [tool.name for tool in client.list_tools()] == ["read", "write"]
    with pytest.raises(RegistrationError, match="404"):
        from_wsgi(serving_its_document, "/no.json")


DJANGO = """
import sys
import django
from django.conf import settings

settings.configure(SECRET_KEY="x", ALLOWED_HOSTS=["localhost"], ROOT_URLCONF=__name__,
                   INSTALLED_APPS=["rest_framework"] + (["drf_spectacular"] if SPECTACULAR else []),
                   REST_FRAMEWORK={"UNAUTHENTICATED_USER": None, "DEFAULT_AUTHENTICATION_CLASSES": [],
                                   "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema" if SPECTACULAR
                                   else "rest_framework.schemas.openapi.AutoSchema"})
django.setup()
from django.core.wsgi import get_wsgi_application
from django.urls import include, path
from rest_framework import routers, serializers, viewsets
from rest_framework.response import Response

class Note(serializers.Serializer):
    id = serializers.IntegerField(read_only=True)
    text = serializers.CharField(max_length=20)

class Notes(viewsets.ViewSet):
    serializer_class = Note
    def create(self, request):
        note = Note(data=request.data)
        note.is_valid(raise_exception=True)
        return Response({"id": 1, **note.validated_data}, status=201)
    def retrieve(self, request, pk=None):
        return Response({"id": int(pk), "text": request.headers.get("X-Own", "")})

class NoteView(Notes, viewsets.GenericViewSet):
    pass

router = routers.SimpleRouter()
router.register("notes", NoteView, basename="note")
urlpatterns = [path("api/", include(router.urls))]

import mcplite
from mcplite.openapi import from_wsgi
if SPECTACULAR:
    from drf_spectacular.generators import SchemaGenerator
else:
    from rest_framework.schemas.openapi import SchemaGenerator
schema = SchemaGenerator().get_schema(request=None, public=True)
mcp = from_wsgi(get_wsgi_application(), schema, headers={"X-Own": "chosen"})
with mcplite.connect(mcp) as client:
    tools = {tool.name: tool for tool in client.list_tools()}
    create = next(name for name in tools if "create" in name)
    retrieve = next(name for name in tools if "retrieve" in name)
    assert list(tools[create].input_schema["properties"]) == ["text"], tools[create].input_schema
    assert client.call_tool(create, {"text": "hello"}).structured_content == {"id": 1, "text": "hello"}
    assert client.call_tool(create, {"text": "x" * 30}).is_error
    print(client.call_tool(retrieve, {"id": "7"}).structured_content)
"""


@pytest.mark.slow
@pytest.mark.one_python
@pytest.mark.parametrize("spectacular", [False, True])
def test_views_of_django_rest_framework(tmp_path, spectacular):
    """In a process of its own, since the settings of Django hold for a process."""
    import os
    import subprocess
    import sys

    pytest.importorskip("rest_framework")
    pytest.importorskip("drf_spectacular" if spectacular else "uritemplate")
    script = tmp_path / "site.py"
    script.write_text(f"SPECTACULAR = {spectacular}\n{DJANGO}", "utf-8")
    ran = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert ran.returncode == 0, ran.stderr.decode("utf-8")
    assert ran.stdout.decode("utf-8").strip().endswith("{'id': 7, 'text': 'chosen'}")
