"""A server of 2024: one stream, and a place to post to."""

import threading

from .webscript import LIMIT, WebScript


class OldServer(WebScript):
    """It refuses every POST to the URL of its stream.

    :param path: of the stream.
    """

    version = "2024-11-05"
    endpoint = "/post?id=1"

    def __init__(self, path="/sse"):
        super().__init__(path=path)
        self._streams = []
        self._ready = threading.Event()

    def play(self, request, answer):
        if request.method == "GET":
            answer.events(f"event: endpoint\ndata: {self.endpoint}\n\n")
            self._streams.append(answer)
            self._ready.set()
            return answer.hold()
        if not request.path.startswith("/post"):
            return answer.status(405)
        answer.status(202, "Accepted")
        if "id" in request.message and "method" in request.message:
            self._ready.wait(LIMIT)
            result = {"protocolVersion": self.version, "capabilities": self.capabilities,
                      "serverInfo": {"name": "old", "version": "1"}} if request.does == "initialize" else {}
            self._streams[-1].more(self.result(request, result))
        return None
