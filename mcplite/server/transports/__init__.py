"""Sockets and pipes: stdio, http.server, WSGI, and the signals that stop them."""
