"""The provider of an API's operations: the seam between a document and a server that offers them as tools and resources.

Until the tool of an operation is listed or called, only its name is read, so that a document of a thousand operations costs a
start little more than reading its file.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Mapping, Optional, Union
from urllib.parse import urljoin, urlsplit

from .. import types
from ..errors import InternalError, InvalidParams, RegistrationError, ResourceNotFound, ToolError
from ..protocol.error_text import Option, OptionText, quoted
from ..protocol.uris import candidates, normal_uri
from ..protocol.uritemplate import Template
from ..revisions import Revision
from ..rpc.tracing import get_logger
from ..server.app import Server
from ..server.catalog.entries import tool_entry
from ..server.catalog.registry import ProvidedEntry, Provider, Service, ToolEntry
from ..server.functions.function import compile_function
from ..server.functions.results import resource_result
from ..server.handling.context import Context, RequestContext
from ..server.handling.handler_calls import bind_and_call
from ..types import codec
from .document import MOST_BYTES, Document
from .http_calls import APICalls, Headers, HTTPCalls, fetch, is_same_origin
from .operations import APIOperation, Include, operations_of, selection, server_url
from .request_building import build_request
from .responses import APIResponse, accepted, output_of, successes
from .security import APICredentials, Credential
from .wsgi_calls import WSGICalls

if TYPE_CHECKING:
    import os

    import requests

    from .wsgi_calls import Application, Environ

    Spec = Union[Mapping[str, Any], str, os.PathLike[str]]

__all__ = ["OpenAPIProvider", "from_openapi", "from_wsgi"]

_log = get_logger(__name__)
_OUTPUTS = ("lenient", "strict", "none")


class OpenAPIProvider(Provider, Service):
    """The operations of an API as tools, and if asked as resources, for :meth:`Server.mount`.

    :param spec: the OpenAPI document (3.0, 3.1, or Swagger 2): a dict, the path of a file, or a URL; JSON, or YAML with PyYAML.
    :param base_url: which the paths follow; by default the first server of the document. Requests go to its origin only.
    :param session: a ``requests.Session`` that sends each request, with its authentication, proxies and certificates.
    :param include: which operations: patterns, or a function that returns whether an :class:`APIOperation` is included. A
        pattern is an operationId (``list*``), a path with or without a method (``GET /pets*``), or a tag (``tag:pets``); by
        default all.
    :param resources: which of the included GET operations are resources and templates, too: True for all, or as *include*.
    :param credentials: by the name of the security scheme: a key or token, a pair of user name and password, or a function that
        returns one for each request.
    :param environment_prefix: reads the other credentials from the environment: with ``"PETSTORE"`` the credential of the
        scheme ``api_key`` from ``PETSTORE_API_KEY``.
    :param headers: of each request, or a function of the context of a call that returns them.
    :param output_schemas: "lenient" lists the document's schemas of responses without what most APIs do not keep to (required
        members, no null, lists of values), "strict" as they are, "none" lists none. A response that does not fit is an error,
        which has the response.
    :param timeout: seconds for one request.
    :param response_bytes: bytes of one response, at most.
    :param application: a WSGI application that is called in place of a server.
    :param environ: returns variables of the environment for a call of the application, such as ``REMOTE_USER``.
    :raises RegistrationError: the document cannot be loaded, or an option cannot be used.
    """

    def __init__(self, spec: "Spec", *, base_url: Optional[str] = None, session: "Optional[requests.Session]" = None,
                 include: Include = None, resources: Union[bool, Include] = False,
                 credentials: Optional[Mapping[str, Credential]] = None, environment_prefix: Optional[str] = None,
                 headers: Headers = None, output_schemas: str = "lenient", timeout: float = 30.0,
                 response_bytes: int = 10_000_000, application: "Optional[Application]" = None,
                 environ: "Optional[Environ]" = None) -> None:
        if output_schemas not in _OUTPUTS:
            raise RegistrationError(f"output_schemas is one of {', '.join(map(repr, _OUTPUTS))}, not {output_schemas!r}")
        if not isinstance(timeout, (int, float)) or not timeout > 0:
            raise RegistrationError(f"timeout= must be a positive number of seconds, not {quoted(timeout)}")
        if not isinstance(response_bytes, int) or response_bytes <= 0:
            raise RegistrationError(f"response_bytes= must be a positive number of bytes, not {quoted(response_bytes)}")
        if not (headers is None or callable(headers) or isinstance(headers, Mapping)):
            raise RegistrationError(f"headers= is a dict, or a function that returns one, not {quoted(headers)}")
        if application is not None and session is not None:
            raise RegistrationError("session= sends over HTTP, and application= is called in this process: give one of them")
        self._output_schemas = output_schemas
        self._in_process = application is not None
        if application is not None:
            calls: APICalls = WSGICalls(application, base_url or "http://localhost", headers, environ, response_bytes)
            self.document = Document(self._in_application(spec, calls) if isinstance(spec, str) and spec.startswith("/")
                                     and not _is_file(spec) else spec)
            self._own_url = server_of(self.document)
            calls.base_url = (base_url or "http://localhost" + urlsplit(self._own_url).path).rstrip("/")
        else:
            self.document = Document(spec, lambda url: fetch(url, session, MOST_BYTES))
            self._own_url = server_of(self.document)
            url = self._own_url if base_url is None else base_url
            if not _is_server(url):
                raise RegistrationError(OptionText(f"{self.document.name} names no server, or none with a host ({url!r}): ",
                                                   Option("base_url", "give base_url=")))
            calls = HTTPCalls(url, session, headers, timeout, response_bytes)
        self._calls = calls
        self._credentials = APICredentials(self.document, credentials or {}, environment_prefix)
        self._has_own_authentication = session is not None or headers is not None or environ is not None
        #: The operations that are offered, in the order of the document.
        self.operations: List[APIOperation] = []
        self._bases: Dict[str, Optional[str]] = {}
        for operation in operations_of(self.document, include):
            if self._reach(operation):
                operation.filled_in = self._credentials.parameters(operation)
                self.operations.append(operation)
        if not self.operations:
            _log.warning("%s offers no operation of %s%s", self.name, self.document.name,
                         "" if include is None else f": include={quoted(include)} chooses none that can be reached")
        self._resources = selection(None if resources is True else (lambda operation: False) if resources is False
                                    else resources)
        self._warn()

    @staticmethod
    def _in_application(path: str, calls: APICalls) -> Any:
        """Return the document that an application serves at a path."""
        from .document import parse
        from .request_building import APIRequest

        response = calls.send(APIRequest("GET", path), None)
        if response.status != 200:
            raise RegistrationError(f"the application has no OpenAPI document at {path}: it answered {response.status_line}")
        return parse(response.body, path)

    def _reach(self, operation: APIOperation) -> bool:
        """Whether an operation is on the origin of the base URL; note the base URL of an operation with servers of its own.

        A server on the origin of the document's own server counts as a server on the origin of the base URL: the base URL may
        be on another origin, as for a test.
        """
        servers = operation.servers()
        if not servers or self._in_process:
            return True
        base = self._calls.base_url
        for url in servers:
            try:
                parts = urlsplit(url)
            except ValueError:
                continue
            if url.rstrip("/") == self._own_url.rstrip("/"):
                return True
            if not parts.netloc or is_same_origin(url, self._own_url):
                path = url if not parts.netloc else parts.path
                self._bases[f"{operation.method} {operation.path}"] = urljoin(base + "/", path or "/")
                return True
            if is_same_origin(url, base):
                self._bases[f"{operation.method} {operation.path}"] = url
                return True
        _log.warning("%s %s is left out: its server is on another origin, %s", operation.method, operation.path,
                     quoted(servers[0]))
        return False

    def _warn(self) -> None:
        if self._has_own_authentication:
            return
        missing = [name for operation in self.operations for name in self._credentials.missing(operation)]
        if missing:
            _log.warning("%d operations of %s need credentials that are not there: %s",
                         sum(1 for one in self.operations if self._credentials.missing(one)), self.name,
                         self._credentials.how_to_give(missing[0]))

    @property
    def name(self) -> str:
        """What it is, for errors."""
        info = self.document.root.get("info")
        title = info.get("title") if isinstance(info, dict) else None
        return f"the API {title!r}" if isinstance(title, str) and title else "the API"

    # --- what it offers ---------------------------------------------------------------------------------

    def entries(self) -> Dict[str, Dict[str, ProvidedEntry]]:
        found: Dict[str, Dict[str, ProvidedEntry]] = {"tools": {}, "resources": {}, "templates": {}}
        for operation in self.operations:
            tool = ProvidedEntry(self, _Tool(self, operation))
            tool.kind, tool.name = "tools", operation.name
            found["tools"][operation.name] = tool
            if operation.method == "GET" and self._resources(operation):
                self._add_resource(operation, found)
        return {kind: entries for kind, entries in found.items() if entries}

    def _add_resource(self, operation: APIOperation, found: Dict[str, Dict[str, ProvidedEntry]]) -> None:
        resource = _Resource.of(operation, self._calls.base_url)
        if resource is None:
            _log.warning("%s %s is no resource: it needs arguments that a URI cannot have", operation.method, operation.path)
            return
        kind = "templates" if resource.pattern is not None else "resources"
        entry = ProvidedEntry(self, resource, mime_type=resource.mime_type, pattern=resource.pattern)
        entry.kind, entry.name = kind, resource.uri
        found[kind].setdefault(resource.uri, entry)

    def listed(self, entry: ProvidedEntry, revision: Revision) -> Any:
        own = entry.own
        return own.entry.listed(revision) if isinstance(own, _Tool) else own.definition

    def find(self, kind: str, name: str, granted: Optional[FrozenSet[str]] = None) -> Optional[ProvidedEntry]:
        return None

    # --- its calls --------------------------------------------------------------------------------------

    def run(self, entry: ProvidedEntry, context: RequestContext) -> Any:
        own = entry.own
        if context.method == "tools/call":
            return bind_and_call(context, own.entry)
        if context.method != "resources/read":
            return {"completion": {"values": [], "hasMore": False}}
        uri = context.params.get("uri")
        if not isinstance(uri, str):
            raise InvalidParams("params.uri must be a string")
        values = own.values(uri)
        if values is None:
            raise _missing(uri, context)
        try:
            response = self.call(own.operation, values, context)
        except ToolError as error:
            raise InternalError(error.message) from error
        if response.status in (404, 410):
            raise _missing(uri, context)
        if response.status >= 300:
            raise InternalError(self._error(own.operation, response).message)
        value: Any = response.text if response.is_json or response.is_text else response.body
        result = resource_result(value, uri, response.content_type or None)
        hint = context.session.runtime.catalog.hint_for(None)
        result.ttl_ms, result.cache_scope = hint.milliseconds, hint.scope
        return codec.encode(result, context.session.revision)

    def call(self, operation: APIOperation, arguments: Mapping[str, Any], context: Optional[Context]) -> APIResponse:
        """Send the request of one call, and return its response, whatever its status.

        :param arguments: by name, checked against the operation's schema.
        :raises ToolError: a value cannot be sent, or there is no response.
        :raises Cancelled: the call was cancelled.
        """
        request = build_request(operation, arguments, self._in_process)
        request.headers.setdefault("Accept", accepted(operation))
        self._credentials.apply(operation, request)
        return self._calls.send(request, context, self._bases.get(f"{operation.method} {operation.path}"))

    def tool_result(self, operation: APIOperation, output: Any, arguments: Mapping[str, Any], context: Context) -> Any:
        """Return the result of one call of a tool.

        :raises ToolError: the API has answered with an error, or cannot be called.
        """
        response = self.call(operation, arguments, context)
        if response.status >= 400:
            raise self._error(operation, response)
        return output.result(response)

    def _error(self, operation: APIOperation, response: APIResponse) -> ToolError:
        hint = ""
        if response.status in (401, 403) and not self._has_own_authentication:
            missing = self._credentials.missing(operation)
            if missing:
                hint = f"the server has no credentials for {' or '.join(missing)}"
        return response.error(hint)

    # --- its life ---------------------------------------------------------------------------------------

    def start(self) -> None:
        pass  # connections are opened by requests

    def stop(self) -> None:
        self._calls.close()


def _missing(uri: str, context: RequestContext) -> ResourceNotFound:
    return ResourceNotFound(f"Resource not found: {uri[:200]}", code=context.session.revision.not_found, data={"uri": uri})


def _is_file(path: str) -> bool:
    import os

    return os.path.isfile(path)


def _is_server(url: Any) -> bool:
    """Whether a URL names a server; a URL whose host has a variable without a value does not."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and "{" not in parts.netloc


def server_of(document: Document) -> str:
    """Return the URL of a document's first server, absolute where the document's own URL allows it; empty without one."""
    root = document.root
    if document.version == "2":
        host, schemes = root.get("host"), root.get("schemes")
        scheme = "https" if not isinstance(schemes, list) or "https" in schemes or not schemes else str(schemes[0])
        path = str(root.get("basePath") or "/")
        url = f"{scheme}://{host}{path}" if isinstance(host, str) and host else path
    else:
        servers = root.get("servers")
        url = server_url(servers[0]) if isinstance(servers, list) and servers else "/"
    if document.is_remote:
        with contextlib.suppress(ValueError):  # it is no URL, which is said where one is needed
            return urljoin(document.location, url)
    return "https:" + url if url.startswith("//") else url


class _Tool:
    """The tool of one operation, made on first use; if two threads need it first, both make an equal one."""

    def __init__(self, provider: OpenAPIProvider, operation: APIOperation) -> None:
        self._provider = provider
        self.operation = operation
        self._entry: Optional[ToolEntry] = None

    @property
    def entry(self) -> ToolEntry:
        """The entry that lists the tool and checks its arguments."""
        if self._entry is None:
            self._entry = self._make()
        return self._entry

    def _make(self) -> ToolEntry:
        provider, operation = self._provider, self.operation
        output = output_of(operation, provider._output_schemas)

        def call(*, mcplite_context: Context, **arguments: Any) -> Any:
            return provider.tool_result(operation, output, arguments, mcplite_context)

        schema = operation.shape.input_schema
        function = compile_function(call, name=operation.name, description=operation.description, input_schema=schema,
                                    structured_output=False)
        meta = operation.changes.get("meta")
        tool = types.Tool(name=operation.name, input_schema=schema, description=operation.description, title=operation.title,
                          annotations=operation.annotations or None,  # type: ignore[arg-type]
                          output_schema=output.schema, meta=meta if isinstance(meta, dict) else None)
        return tool_entry(function, tool, None, ())


class _Resource:
    """A GET operation as a resource, or as a template of resources.

    :param uri: of the resource, or the text of the template.
    :param names: by variable of the template: the argument.
    """

    def __init__(self, operation: APIOperation, uri: str, pattern: Optional[Template], names: Mapping[str, str]) -> None:
        self.operation = operation
        self.uri = uri
        self.pattern = pattern
        self._names = names
        contents = [node.get("content") for _, node, _ in successes(operation)]
        kinds = [kind for content in contents if isinstance(content, dict) for kind in content]
        self.mime_type = kinds[0].partition(";")[0].strip() if kinds else None
        details: Dict[str, Any] = dict(name=operation.name, title=operation.title, description=operation.description,
                                       mime_type=self.mime_type)
        self.definition: Any = types.Resource(uri=uri, **details) if pattern is None else types.ResourceTemplate(
            uri_template=uri, **details)

    @classmethod
    def of(cls, operation: APIOperation, base_url: str) -> "Optional[_Resource]":
        """Return the resource of an operation; None if it needs an argument outside of the path and the query."""
        names: Dict[str, str] = {}
        variables: Dict[str, str] = {}
        query = []
        for argument in operation.shape.parameters:
            variable = re.sub(r"\W", "_", argument.wire, flags=re.ASCII)
            if argument.location in ("header", "cookie") or argument.fixed or variable in names:
                if argument.required:
                    return None
                continue
            names[variable] = argument.name
            if argument.location == "path":
                variables[argument.wire] = "{+" + variable + "}" if argument.multi_segment else "{" + variable + "}"
            else:
                query.append(variable)
        path = re.sub(r"\{([^{}]*)\}", lambda found: variables.get(found.group(1), "{_}"), operation.path)
        text = base_url + path + ("{?" + ",".join(query) + "}" if query and "?" not in path else "")
        if not names:
            return cls(operation, normal_uri(text), None, {})
        try:
            pattern = Template(text)
        except ValueError:
            return None
        return cls(operation, pattern.text, pattern, names)

    def values(self, uri: str) -> Optional[Dict[str, Any]]:
        """Return the arguments that a URI stands for; None if the template does not match it."""
        if self.pattern is None:
            return {}
        for form in candidates(uri):
            found = self.pattern.match_exactly(form)
            if found is not None:
                return {self._names[name]: value for name, value in found.items() if value is not None}
        return None


# --- the servers ---------------------------------------------------------------------------------------------


def served(provider: OpenAPIProvider, name: Optional[str]) -> Server:
    """Return a server that offers what a provider has.

    :param name: by default the title of the document.
    """
    info = provider.document.root.get("info")
    given: Mapping[str, Any] = info if isinstance(info, dict) else {}
    title = given.get("title") if isinstance(given.get("title"), str) else None
    version = given.get("version") if isinstance(given.get("version"), str) else None
    server = Server(name or title or "api", title=title, version=version or None)
    server.runtime.offer(provider)
    return server


def from_openapi(spec: "Spec", *, base_url: Optional[str] = None, session: "Optional[requests.Session]" = None,
                 include: Include = None, name: Optional[str] = None, resources: Union[bool, Include] = False,
                 credentials: Optional[Mapping[str, Credential]] = None, environment_prefix: Optional[str] = None,
                 headers: Headers = None, output_schemas: str = "lenient", timeout: float = 30.0,
                 response_bytes: int = 10_000_000) -> Server:
    """Return a server whose tools are the operations of an OpenAPI document.

    The parameters are explained at :class:`OpenAPIProvider`. For a server with options of its own, or with other tools, mount
    a provider: ``mcp.mount(OpenAPIProvider(...), "petstore")``.

    :param spec: the document, its file, or its URL.
    :param base_url: which the paths follow; by default the first server of the document.
    :param session: sends each request.
    :param include: which operations; by default all.
    :param name: of the server; by default the title of the document.
    :param resources: which GET operations are resources, too.
    :param credentials: by the name of the security scheme.
    :param environment_prefix: of the variables of the environment that have the other credentials.
    :param headers: of each request, or a function of the context of a call that returns them.
    :param output_schemas: "lenient", "strict" or "none".
    :param timeout: seconds for one request.
    :param response_bytes: bytes of one response, at most.
    :raises RegistrationError: the document cannot be loaded, or an option cannot be used.
    """
    return served(OpenAPIProvider(spec, base_url=base_url, session=session, include=include, resources=resources,
                                  credentials=credentials, environment_prefix=environment_prefix, headers=headers,
                                  output_schemas=output_schemas, timeout=timeout, response_bytes=response_bytes), name)


def from_wsgi(application: "Application", spec: "Spec", *, base_url: Optional[str] = None, include: Include = None,
              name: Optional[str] = None, resources: Union[bool, Include] = False,
              credentials: Optional[Mapping[str, Credential]] = None, environment_prefix: Optional[str] = None,
              headers: Headers = None, environ: "Optional[Environ]" = None, output_schemas: str = "lenient",
              response_bytes: int = 10_000_000) -> Server:
    """Return a server whose tools call a WSGI application in this process, by its OpenAPI document.

    The parameters are explained at :class:`OpenAPIProvider`.

    :param application: a WSGI callable: ``app.wsgi_app`` of Flask, ``get_wsgi_application()`` of Django.
    :param spec: the document, its file, or the path at which the application serves it, such as ``/openapi.json``.
    :param base_url: what the application takes for its own URL; by default ``http://localhost`` with the path of the
        document's first server.
    :param include: which operations; by default all.
    :param name: of the server; by default the title of the document.
    :param resources: which GET operations are resources, too.
    :param credentials: by the name of the security scheme.
    :param environment_prefix: of the variables of the environment that have the other credentials.
    :param headers: of each request, or a function of the context of a call that returns them.
    :param environ: returns variables of the environment for the context of a call, such as
        ``{"REMOTE_USER": ctx.principal.subject}``; the application trusts them.
    :param output_schemas: "lenient", "strict" or "none".
    :param response_bytes: bytes of one response, at most.
    :raises RegistrationError: the document cannot be loaded, or an option cannot be used.
    """
    return served(OpenAPIProvider(spec, base_url=base_url, include=include, resources=resources, credentials=credentials,
                                  environment_prefix=environment_prefix, headers=headers, output_schemas=output_schemas,
                                  response_bytes=response_bytes, application=application, environ=environ), name)
