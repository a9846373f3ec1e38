"""The application for INSTALLED_APPS, which has the command ``manage.py mcp``; loaded by Django."""

from django.apps import AppConfig

__all__ = ["MCPConfig"]


class MCPConfig(AppConfig):  # type: ignore[misc]
    """The application. Its label is ``mcplite``: by default it would be ``django``, the last name of the package."""

    name = __package__
    label = "mcplite"
    verbose_name = "Model Context Protocol"
