"""A server made of plain messages, so that a client is tested against the protocol and not against our server."""

import contextlib
import itertools
import json
import threading

import mcplite
from mcplite.rpc.channels import MemoryChannel
from tests.support import connecting

#: For waits that end by an event; long enough for a busy machine.
LIMIT = 30
#: For a request that gets no response.
SILENCE = object()
NEWEST = "2025-11-25"
ALL = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True},
       "prompts": {"listChanged": True}, "completions": {}, "logging": {}}


def start(target, *arguments, **options):
    """Run a function on a thread; return the thread and the list that gets the result or the exception."""
    outcome = []

    def body():
        try:
            outcome.append(target(*arguments, **options))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread, outcome


def limited(limit):
    """Return the keywords of a call with this limit, its error, what that says, and the token that ends the call."""
    if limit == "cancel":
        token = mcplite.CancelToken()
        return {"cancel": token}, mcplite.Cancelled, "enough", token
    end = " in all" if limit == "max_timeout" else ""
    return {limit: 0.3}, mcplite.RequestTimeout, rf"within 0\.3 s{end} \({limit}\)", None


class Clock:
    """A clock that stands until its time is set."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, code, message="no", data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Fake:
    """Answers requests from a table, and keeps everything that the client sent.

    :param answers: results by method; a function of the params is called on a thread of its own, and may
        raise a Refusal or return SILENCE.
    :param version: what the handshake answers with; by default what was asked for.
    """

    def __init__(self, answers=None, *, version=None, capabilities=None, handshake=None):
        self.answers = {"ping": {}, "logging/setLevel": {}, "resources/subscribe": {}, "resources/unsubscribe": {},
                        "initialize": handshake if handshake is not None else self._handshake, **(answers or {})}
        self.version = version
        self.capabilities = ALL if capabilities is None else capabilities
        self.sent = []
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        self.channel, self._end = MemoryChannel.pair(("the client", "the fake server"))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.leave()
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()

    def connect(self, **options):
        """Return a client of this server, not open yet, in the legacy era."""
        era = None if options.get("revision") else "legacy"
        return connecting.connect(self.channel, **{"timeout": LIMIT, "era": era, **options})

    def leave(self):
        """End the connection from the server's side."""
        self._end.close()

    # --- sending ---------------------------------------------------------------------------------

    def raw(self, data):
        self._end.write(data, LIMIT)

    def send(self, message):
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def tell(self, method, params=None):
        self.send({"method": method, **({} if params is None else {"params": params})})

    def ask(self, method, params=None, id=None):
        """Send a request and return its id at once."""
        id = f"s{next(self._ids)}" if id is None else id
        self.send({"id": id, "method": method, **({} if params is None else {"params": params})})
        return id

    def answer_of(self, id):
        """Return the client's answer to a request, as a whole message."""
        return self.wait(lambda message: "method" not in message and message.get("id") == id)

    def asked(self, method, params=None):
        """Send a request and return the client's answer."""
        return self.answer_of(self.ask(method, params))

    # --- receiving --------------------------------------------------------------------------------

    def wait(self, test, count=1):
        """Return the message number *count* of the client that passes a test; wait for it."""
        found = []

        def look():
            found[:] = [message for message in self.sent if test(message)]
            return len(found) >= count

        with self._changed:
            assert self._changed.wait_for(look, LIMIT), f"nothing of the kind among {self.sent}"
            return found[count - 1]

    def got(self, method, count=1):
        """Return the message number *count* with this method; wait for it."""
        return self.wait(lambda message: message.get("method") == method, count)

    def methods(self):
        """Return the methods of all messages so far."""
        with self._changed:
            return [message["method"] for message in self.sent if "method" in message]

    def all_methods(self):
        """Return the methods of everything that the client sent before it closed the connection."""
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "the client has not closed the connection"
        return self.methods()

    # --- the thread -------------------------------------------------------------------------------

    def _serve(self):
        while True:
            try:
                data = self._end.read(None)
            except mcplite.errors.ConnectionClosed:
                return
            if data is None:
                continue
            parsed = json.loads(data)
            for message in parsed if isinstance(parsed, list) else [parsed]:
                with self._changed:
                    self.sent.append(message)
                    self._changed.notify_all()
                if "method" in message and "id" in message:
                    self._react(message)

    def _react(self, message):
        answer = self.answers.get(message["method"], Refusal(-32601, "Method not found"))
        if callable(answer):
            threading.Thread(target=self._respond, args=(message, answer), daemon=True).start()
        else:
            self._respond(message, lambda params: answer)

    def _respond(self, message, answer):
        with contextlib.suppress(mcplite.errors.ConnectionClosed):  # the client has left meanwhile
            try:
                result = answer(message.get("params"))
            except Refusal as refusal:
                result = refusal
            if result is not SILENCE:
                outcome = {"error": result.error} if isinstance(result, Refusal) else {"result": result}
                self.send({"id": message["id"], **outcome})

    def _handshake(self, params):
        return {"protocolVersion": self.version or params["protocolVersion"], "capabilities": self.capabilities,
                "serverInfo": {"name": "fake", "version": "1"}, "instructions": "Be kind."}
