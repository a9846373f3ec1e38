"""An MCP server in a Django project: a view for ``urls.py``, and the command ``manage.py mcp``.

For the command, add ``"mcplite.contrib.django"`` to INSTALLED_APPS.
"""

from .views import mcp_view, request_of

__all__ = ["mcp_view", "request_of"]
