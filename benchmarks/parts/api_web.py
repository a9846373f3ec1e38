"""The API of the workloads with a document: ``GET /items/{id}`` answers with an item."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers wait in the buffer for the body

    def log_message(self, format, *arguments):
        pass

    def do_GET(self):
        number = self.path.partition("?")[0].rpartition("/")[2]
        content = json.dumps({"id": int(number), "name": "item " + number, "tags": ["a", "b"]}).encode("ascii")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main(mode):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print("http://127.0.0.1:%d" % server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
