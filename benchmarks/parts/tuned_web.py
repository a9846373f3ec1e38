"""``http.server`` as a server over HTTP, tuned: a thread for each connection, no Nagle, one write for each answer."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from floor_server import answer, tools
from floor_web import chunk, encode, event


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers wait in the buffer for the body
    listed = tools(0)
    streaming = False

    def log_message(self, format, *arguments):
        pass

    def start(self, status, kind=None, length=0):
        self.send_response(status)
        if kind is not None:
            self.send_header("Content-Type", kind)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.send_header("Mcp-Session-Id", "tuned")
        self.end_headers()

    def send(self, message):
        if not self.streaming:
            self.start(200, "text/event-stream", None)
            self.streaming = True
        self.wfile.write(chunk(event(message)))
        self.wfile.flush()

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.start(202)
            return
        reply = answer(message, self.listed, self.send)
        if self.streaming:
            self.wfile.write(chunk(event(reply)) + b"0\r\n\r\n")
            self.streaming = False
        else:
            content = encode(reply)
            self.start(200, "application/json", len(content))
            self.wfile.write(content)

    def do_GET(self):
        self.start(200, "text/event-stream", None)
        self.wfile.flush()
        while self.rfile.read1(65536):  # nothing is ever said on it
            continue
        self.close_connection = True

    def do_DELETE(self):
        self.start(202)


class Server(ThreadingHTTPServer):
    request_queue_size = 512

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main(mode):
    with Server(("127.0.0.1", 0), Handler) as server:
        print("http://127.0.0.1:%d/mcp" % server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
