"""Sockets and pipes: stdio, our own HTTP server, WSGI, and stop signals."""
