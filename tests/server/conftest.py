"""A raw client for servers: it writes JSON lines over a memory channel and shares no code with ours."""

import base64
import contextlib
import hashlib
import hmac
import json
import time

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


# --- tokens ---------------------------------------------------------------------------------------------------


class Mint:
    """What an authorization server signs tokens with."""

    issuer = "https://login.example/tenant"
    resource = "https://mcp.example/mcp"

    def __init__(self):
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        self.keys = {"rsa": rsa.generate_private_key(65537, 2048), "ec": ec.generate_private_key(ec.SECP256R1()),
                     "other": rsa.generate_private_key(65537, 2048)}

    def pem(self, name="rsa"):
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.keys[name].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def jwk(self, name="rsa", kid=None, **more):
        from jwt.algorithms import ECAlgorithm, RSAAlgorithm

        reader = ECAlgorithm if name == "ec" else RSAAlgorithm
        return {**json.loads(reader.to_jwk(self.keys[name].public_key())), "kid": kid or name, **more}

    def jwks(self, *names):
        return {"keys": [self.jwk(name) for name in names or ("rsa", "ec")]}

    def claims(self, **changed):
        claims = {"iss": self.issuer, "aud": self.resource, "sub": "ada", "client_id": "desk", "scope": "read",
                  "iat": int(time.time()), "exp": int(time.time()) + 300, **changed}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key="rsa", algorithm="RS256", header=None, **changed):
        """Return a token that is good, but for what is changed; None takes a claim or a part of the header out."""
        headers = {"kid": key, **(header or {})}
        return self.sign(json.dumps(self.claims(**changed)).encode(), key, algorithm, headers)

    def sign(self, body, key="rsa", algorithm="RS256", header=None):
        """Return a signed token, whatever it says."""
        import jwt

        headers = {"kid": "rsa"} if header is None else {name: value for name,
                                                         value in header.items() if value is not None}
        return jwt.PyJWS().encode(body, self.keys[key], algorithm, headers)

    def unsigned(self, header, claims, signature=b""):
        """Return a token that no library would make."""
        def encode(data):
            raw = data if isinstance(data, bytes) else json.dumps(data).encode()
            return base64.urlsafe_b64encode(raw).decode().rstrip("=")

        return ".".join(map(encode, (header, claims, signature)))

    def confused(self):
        """Return a token whose shared secret is the public key, as text."""
        pieces = self.unsigned({"alg": "HS256", "kid": "rsa", "typ": "JWT"}, self.claims()).rpartition(".")[0]
        signature = hmac.new(self.pem().encode(), pieces.encode(), hashlib.sha256).digest()
        return pieces + "." + base64.urlsafe_b64encode(signature).decode().rstrip("=")

    def wrong(self):
        """Return tokens by what is wrong with them."""
        now, good = time.time(), self.token()
        head, payload, signature = good.split(".")
        return {
            "expired": self.token(exp=int(now) - 3600), "not yet valid": self.token(nbf=int(now) + 3600),
            "issued in the future": self.token(iat=int(now) + 3600),
            "another audience": self.token(aud="https://other.example/mcp"),
            "a parent path": self.token(aud="https://mcp.example"),
            "a sibling path": self.token(aud="https://mcp.example/mcp2"),
            "no audience": self.token(aud=None), "an empty audience": self.token(aud=[]),
            "odd audiences": self.token(aud=[1]),
            "another issuer": self.token(iss="https://login.example/other"),
            "a slash more": self.token(iss=self.issuer + "/"),
            "no issuer": self.token(iss=None), "no end": self.token(exp=None), "no subject": self.token(sub=None),
            "unsigned": self.unsigned({"alg": "none"}, self.claims()),
            "a public key as secret": self.confused(), "an unknown key": self.token(header={"kid": "nobody"}),
            "a stranger's key": self.token("other", header={"kid": "rsa"}), "cut off": good[:-10],
            "another payload": f"{head}.{self.unsigned({}, self.claims(sub='eve')).split('.')[1]}.{signature}",
            "no JWT": "garbage-garbage-garbage",
        }


@pytest.fixture(scope="session")
def mint():
    return Mint()
