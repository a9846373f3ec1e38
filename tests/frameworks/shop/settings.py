"""The settings of a Django project with an MCP server; its database is a file of SQLite."""

import os

SECRET_KEY = "for a test"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "shop.example"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "mcplite.contrib.django",
                  "shop"]
MIDDLEWARE = [
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "shop.middleware.Hooks",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DATABASE", ":memory:"),
                         # As sites do that keep connections; a request would open a new one each time otherwise.
                         "CONN_MAX_AGE": None, "OPTIONS": {"timeout": 30}}}
LOGGING = {"version": 1, "disable_existing_loggers": False, "handlers": {"console": {"class": "logging.StreamHandler"}},
           "root": {"handlers": ["console"], "level": "INFO"}}
MCPLITE_SERVER = "shop.mcp:mcp"
