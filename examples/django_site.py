"""A Django site in one file, whose MCP tools know its users; a project has settings, urls and models of its own.

    python django_site.py runserver
    python django_site.py mcp                    on stdin and stdout
    gunicorn --worker-class gthread --threads 16 django_site:application
"""

import os
import sys

import django
from django.conf import settings

import mcplite

settings.configure(
    SECRET_KEY=os.environ.get("SECRET_KEY", "change me"), ALLOWED_HOSTS=["127.0.0.1", "localhost"], ROOT_URLCONF=__name__,
    USE_TZ=True, DEFAULT_AUTO_FIELD="django.db.models.AutoField", MCPLITE_SERVER=f"{__name__}:mcp",
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "mcplite.contrib.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("DATABASE", "site.db")}})
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command, execute_from_command_line  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from mcplite.contrib.django import mcp_view  # noqa: E402

mcp = mcplite.Server("users")


@mcp.tool
def count_users() -> int:
    """How many users the site has."""
    return User.objects.count()


@mcp.tool
def add_user(name: str, ctx: mcplite.Context) -> str:
    """Add a user, if the person at the client agrees."""
    if not ctx.elicit(f"Add {name}?").accepted:
        return "not added"
    return f"{name} is number {User.objects.create_user(name).pk}"


urlpatterns = [path("", lambda request: HttpResponse(f"{User.objects.count()} users")), path("mcp", mcp_view(mcp))]
call_command("migrate", verbosity=0)
application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
