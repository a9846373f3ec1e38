"""The WSGI application, and the tables of its database, made before it serves."""

import os

from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = get_wsgi_application()


def prepare():
    from django.contrib.auth import get_user_model

    call_command("migrate", run_syncdb=True, verbosity=0)
    for name in ("ada", "eve"):
        get_user_model().objects.get_or_create(username=name)


prepare()
