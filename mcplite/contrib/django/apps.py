"""The application for INSTALLED_APPS, which has the command ``manage.py mcp``; loaded by Django."""

from django.apps import AppConfig

__all__ = ["MCPConfig"]


class MCPConfig(AppConfig):  # type: ignore[misc]
    """The application, by the label ``mcplite``, since its package's last name is Django's own."""

    name = __package__
    label = "mcplite"
    verbose_name = "Model Context Protocol"
