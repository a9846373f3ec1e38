"""A WSGI application on a server of the standard library, in threads of this process."""

import contextlib
import socketserver
import threading
import wsgiref.simple_server

LIMIT = 60


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    # Its end waits for the threads, so that no socket is left.
    daemon_threads = False


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, format, *args):
        pass


@contextlib.contextmanager
def serving_wsgi(application, port=0):
    """Serve an application until the end of the block; gives the URL of ``/mcp`` on it."""
    with wsgiref.simple_server.make_server("127.0.0.1", port, application, _Server, _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join(LIMIT)
