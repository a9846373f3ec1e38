"""The simplest WSGI server: threads, and no way to detect that a client disconnected.

    python wsgiref_app.py PORT
"""

import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import flask_app


class Threaded(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments):
        """Say nothing."""


if __name__ == "__main__":
    make_server("127.0.0.1", int(sys.argv[1]), flask_app.application, Threaded, Quiet).serve_forever()
