"""``manage.py mcp``: serves the project's MCP server on stdin and stdout, with the ORM at hand; loaded by Django."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from .....server.program import LoadError, load
from ...connections import close_around

__all__ = ["Command"]


class Command(BaseCommand):  # type: ignore[misc]
    """The command."""

    help = "Serves the project's MCP server on stdin and stdout, for a client that starts it as a process."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the server from the command line."""
        parser.add_argument("server", nargs="?", help="such as shop.mcp:mcp; by default the setting MCPLITE_SERVER")

    def handle(self, *arguments: Any, **options: Any) -> None:
        """Serve until the client leaves.

        :raises CommandError: no server is named, or the named one cannot be loaded.
        """
        target = options["server"] or getattr(settings, "MCPLITE_SERVER", None)
        if not target:
            raise CommandError("name the server: set MCPLITE_SERVER = \"shop.mcp:mcp\" in the settings, or write"
                               " manage.py mcp shop.mcp:mcp")
        try:
            mcp = load(target)
        except LoadError as error:
            raise CommandError(f"{target} cannot be served: {error}") from error
        mcp.runtime.around = close_around()
        mcp.run()
