"""A raw client for servers: it writes JSON lines over a memory channel and shares no code with ours."""

import contextlib
import json

import pytest

from mcplite.rpc.channels import MemoryChannel
from mcplite.server import Server
from tests.support.stateless import Pipe, Web


class RawClient:
    """One conversation with a server, message by message."""

    def __init__(self, server):
        self.channel, theirs = MemoryChannel.pair()
        self.peer = server.serve_channel(theirs)
        self._id = 0
        #: Notifications and requests of the server that came while an answer was waited for.
        self.others = []

    def send(self, message):
        data = message if isinstance(message, bytes) else json.dumps(message).encode("utf-8")
        self.channel.write(data)

    def receive(self, timeout=20):
        data = self.channel.read(timeout)
        assert data is not None, "the server said nothing"
        return json.loads(data)

    def silent(self, timeout=0.1):
        """Whether nothing comes; to be asked after a message whose effect is known to be over."""
        return self.channel.read(timeout) is None

    def start(self, method, params=None, id=None):
        """Send a request and return its id."""
        if id is None:
            self._id += 1
            id = self._id
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return id

    def answer(self, id):
        """Return the answer to a request; everything else that comes is kept in ``others``."""
        for at, message in enumerate(self.others):
            if message.get("id") == id and "method" not in message:
                return self.others.pop(at)
        while True:
            message = self.receive()
            if message.get("id") == id and "method" not in message:
                return message
            self.others.append(message)

    def ask(self, method, params=None):
        """Send a request and return the whole answer."""
        return self.answer(self.start(method, params))

    def result(self, method, params=None):
        answer = self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, params=None):
        answer = self.ask(method, params)
        assert "error" in answer, answer
        return answer["error"]

    def call(self, name, arguments=None, **meta):
        params = {"name": name, "arguments": arguments or {}}
        if meta:
            params["_meta"] = meta
        return self.result("tools/call", params)

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def initialize(self, revision="2025-11-25", capabilities=None):
        result = self.result("initialize", {"protocolVersion": revision, "capabilities": capabilities or {},
                                            "clientInfo": {"name": "raw", "version": "1"}})
        self.notify("notifications/initialized")
        self.result("ping")  # from here on the server has seen it
        return result

    def request_from_server(self):
        """Return the next request that the server sends."""
        for at, message in enumerate(self.others):
            if "method" in message and "id" in message:
                return self.others.pop(at)
        while True:
            message = self.receive()
            if "method" in message and "id" in message:
                return message
            self.others.append(message)

    def respond(self, request, result):
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def close(self):
        self.channel.close()
        self.peer.wait_closed(20)
        self.peer.close()


@pytest.fixture
def connect():
    """Connect raw clients, and close them after the test; ``connect(server, revision=None)``."""
    with contextlib.ExitStack() as stack:

        def connect(server, revision="2025-11-25", capabilities=None):
            client = RawClient(server)
            stack.callback(client.close)
            if revision is not None:
                client.initialize(revision, capabilities)
            return client

        yield connect


@pytest.fixture
def server():
    return Server("test")


@pytest.fixture(params=["pipe", "web"])
def way(request, connect):
    """Make the way to a server for clients without a handshake, on a pipe and over HTTP; ``way(server).send(message)``."""
    made = []

    def make(server):
        made.append(Pipe(connect(server, revision=None)) if request.param == "pipe" else Web(server))
        return made[-1]

    yield make
    for one in made:
        if isinstance(one, Web):
            one.close()
