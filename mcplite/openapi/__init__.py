"""Servers made of APIs: from an OpenAPI document, from a Flask application, from any WSGI application with a document.

:mod:`.provider` offers the operations to the server, and :mod:`.operations` reads them from the document. A call goes through
:mod:`.request_building` and :mod:`.security` to :mod:`.http_calls` or :mod:`.wsgi_calls`, and back through :mod:`.responses`.
"""

from .flask_routes import from_flask, route_arguments
from .operations import APIOperation
from .provider import OpenAPIProvider, from_openapi, from_wsgi

__all__ = ["OpenAPIProvider", "APIOperation", "from_flask", "from_openapi", "from_wsgi", "route_arguments"]
