"""A Django application with an MCP server beside it, in one file."""

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

import mcplite

settings.configure(DEBUG=False, ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, SECRET_KEY="for a test",
                   MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"], USE_TZ=True)

mcp = mcplite.Server("shop")


@mcp.tool()
def price(article: str) -> int:
    """Return an article's price."""
    return len(article)


@mcp.tool()
def order(article: str, ctx: mcplite.Context) -> str:
    """Order an article, when the user agrees."""
    return f"{article}: {ctx.elicit(f'Order {article}?').action}"


def index(request):
    return HttpResponse(f"tea costs {price('tea')}")


urlpatterns = [path("", index)]
application = mcplite.mount_wsgi(get_wsgi_application(), {"/mcp": mcp.wsgi()})
