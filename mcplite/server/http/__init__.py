"""The HTTP endpoint without a socket, the same for http.server and WSGI."""
