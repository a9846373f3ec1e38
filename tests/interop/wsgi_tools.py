"""A WSGI application as an MCP server over HTTP: ``python wsgi_tools.py plain|flask|django``; prints its URL.

Each application answers a call with the user, a header and the host that it has seen, and with the text of the body.
"""

import dataclasses
import json
import sys
import threading

import mcplite
from mcplite.openapi import from_flask, from_wsgi, route_arguments

ADA, BOB = (f"the-token-that-is-of-{name}" for name in ("ada", "bob"))


@dataclasses.dataclass
class Note:
    text: str


def chosen(ctx):
    """What an application gets of a caller: the user by the token, and one header."""
    return {"X-Tenant": ctx.http.headers.get("x-tenant", "")}


def user(ctx):
    return {"REMOTE_USER": ctx.principal.subject}


def plain():
    text = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
    number = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}
    spec = {"openapi": "3.0.3", "info": {"title": "Notes", "version": "1"}, "servers": [{"url": "https://notes.example/v1"}],
            "paths": {"/notes/{number}": {"put": {"operationId": "write_note", "parameters": [number], "requestBody": {
                "required": True, "content": {"application/json": {"schema": text}}}}}}}

    def application(environ, start_response):
        if environ["PATH_INFO"] == "/openapi.json":
            found = spec
        else:
            body = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            found = {"user": environ.get("REMOTE_USER"), "tenant": environ.get("HTTP_X_TENANT"), "text": body["text"],
                     "host": environ["HTTP_HOST"], "number": int(environ["PATH_INFO"].rpartition("/")[2]),
                     "other": environ.get("HTTP_X_OTHER"), "token": environ.get("HTTP_AUTHORIZATION")}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(found).encode("utf-8")]

    return from_wsgi(application, "/openapi.json", headers=chosen, environ=user)


def flask():
    from flask import Flask, request

    app = Flask("notes")

    @app.put("/notes/<int:number>")
    @route_arguments(json=Note)
    def write_note(number: int):
        """Write a note."""
        return {"user": request.remote_user, "tenant": request.headers.get("X-Tenant"), "text": request.json["text"],
                "host": request.host, "number": number, "other": request.headers.get("X-Other"),
                "token": request.headers.get("Authorization")}

    return from_flask(app, headers=chosen, environ=user)


def django():
    import django
    from django.conf import settings

    settings.configure(
        SECRET_KEY="x", ALLOWED_HOSTS=["localhost"], ROOT_URLCONF="django_urls", INSTALLED_APPS=[
            "django.contrib.contenttypes", "django.contrib.auth", "rest_framework", "drf_spectacular"],
        REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"})
    django.setup()
    from django.core.wsgi import get_wsgi_application
    from django.urls import path
    from drf_spectacular.generators import SchemaGenerator
    from drf_spectacular.utils import extend_schema
    from rest_framework import serializers
    from rest_framework.response import Response
    from rest_framework.views import APIView

    class NoteSerializer(serializers.Serializer):
        number = serializers.IntegerField(read_only=True)
        text = serializers.CharField(max_length=20)

    class NoteView(APIView):
        @extend_schema(operation_id="write_note", request=NoteSerializer, responses=NoteSerializer)
        def put(self, request, number):
            note = NoteSerializer(data=request.data)
            note.is_valid(raise_exception=True)
            return Response({"user": request.META.get("REMOTE_USER"), "tenant": request.headers.get("X-Tenant"),
                             "text": note.validated_data["text"], "host": request.get_host(), "number": number,
                             "other": request.headers.get("X-Other"), "token": request.headers.get("Authorization")})

    urls = type(sys)("django_urls")
    urls.urlpatterns = [path("api/notes/<int:number>", NoteView.as_view())]
    sys.modules["django_urls"] = urls
    schema = SchemaGenerator().get_schema(request=None, public=True)
    return from_wsgi(get_wsgi_application(), schema, headers=chosen, environ=user)


def main(kind):
    mcp = {"plain": plain, "flask": flask, "django": django}[kind]()
    mcp.auth = mcplite.StaticTokens({ADA: mcplite.Principal("ada"), BOB: mcplite.Principal("bob")})
    with mcplite.serve(mcp) as served:
        print(served.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
