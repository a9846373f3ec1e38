"""The same server as a WSGI application, for gunicorn."""

import ours_web

application = ours_web.mcp.wsgi(path="/mcp")
