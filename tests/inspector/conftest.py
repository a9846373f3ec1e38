"""An inspector, and its page as a program: what a browser would send, and the events that it would get."""

import http.client
import json
import threading
import time

import pytest
import requests

import mcplite
from mcplite import Context, Server
from mcplite.inspector.inspector_server import InspectedTarget, Inspector
from mcplite.revisions import NEWEST, NEWEST_LEGACY

#: Seconds to wait for what has to come.
PATIENCE = 30


class Page:
    """The page of an inspector: ``requests`` with its cookie, and a thread that reads the event stream."""

    def __init__(self, inspector):
        self.inspector = inspector
        self.base = f"http://127.0.0.1:{inspector.port}"
        self.http = requests.Session()
        self.http.trust_env = False
        self.entered = self.http.get(inspector.url, allow_redirects=False, timeout=PATIENCE)
        self.key = self.entered.headers["Location"].partition("#key=")[2]
        self.http.headers["Inspector-Key"] = self.key
        self.events = []
        self._changed = threading.Condition()
        self._stream = self.stream()
        self._thread = threading.Thread(target=self._read, name="page")
        self._thread.start()

    def _read(self):
        try:
            for event in events_in(self._stream):
                with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
        except OSError:
            return  # the inspector has ended

    def stream(self, query="", **headers):
        """Open an event stream, and return its response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.inspector.port, timeout=PATIENCE)
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.http.cookies)
        connection.request("GET", f"/api/events{query}", headers={"Cookie": cookies, "Inspector-Key": self.key, **headers})
        return connection.getresponse()

    def close(self):
        self._thread.join(PATIENCE)
        self._stream.close()
        self.http.close()

    def post(self, action, status=200, **body):
        """Ask for something, and return the answer, which must have a status."""
        answer = self.http.post(f"{self.base}/api/{action}", json=body, timeout=PATIENCE)
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, path, status=200):
        answer = self.http.get(self.base + path, timeout=PATIENCE)
        assert answer.status_code == status, answer.text
        return answer

    def of(self, name):
        """Return the values of all events of a name so far."""
        with self._changed:
            return [values for event, values in self.events if event == name]

    def wait(self, event, /, **members):
        """Wait for an event of a name with such members, and return its values."""
        return self.wait_for(lambda name, values: name == event
                             and all(values.get(member) == value for member, value in members.items()))

    def wait_for(self, wanted):
        """Wait for an event whose name and values are wanted, and return the values of the last one."""
        until, seen, found = time.monotonic() + PATIENCE, 0, []
        with self._changed:
            while True:
                found += [values for name, values in self.events[seen:] if wanted(name, values)]
                seen = len(self.events)  # a flood is looked at once
                if found:
                    return found[-1]
                assert self._changed.wait(until - time.monotonic()), f"it has not come: {self.events[-20:]}"

    def open(self, server="it", **more):
        self.post("open", server=server, **more)
        return self.wait("server", name=server, state="open")

    def call(self, method, params=None, server="it", **more):
        """Call, and return the last event of the call."""
        return self.ended(self.post("call", server=server, method=method, params=params, **more)["call"])

    def ended(self, number):
        """Wait until a call has ended, and return its last event."""
        return self.wait_for(lambda name, values: name == "call" and values["call"] == number and values["state"] != "running")


def events_in(response):
    """Yield the events of an event stream: the name, and the values."""
    name, data = None, []
    for line in response:
        text = line.decode("utf-8").rstrip("\n")
        if text.startswith("event: "):
            name = text[7:]
        elif text.startswith("data: "):
            data.append(text[6:])
        elif not text and data:
            yield name, json.loads("\n".join(data))
            name, data = None, []


@pytest.fixture
def inspect():
    """Return a function that starts an inspector of targets, by name, and returns its page."""
    ended = []

    def inspect(**targets):
        inspector = Inspector([one if isinstance(one, InspectedTarget) else InspectedTarget(name, one)
                               for name, one in targets.items()]).start()
        ended.append(inspector.close)
        page = Page(inspector)
        ended.insert(0, page.close)
        ended.insert(0, inspector.close)
        return page

    yield inspect
    for end in ended:
        end()


FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def make_server():
    app = Server("demo", version="1", instructions="add numbers")

    @app.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @app.tool
    def count(ctx: Context, upto: int) -> str:
        for number in range(upto):
            ctx.report_progress(number + 1, upto, "counting")
        return "done"

    @app.tool
    def ask(ctx: Context) -> str:
        answer = ctx.elicit("Your name?", FORM)
        return f"{answer.action} {answer.content}"

    @app.tool
    def sample(ctx: Context) -> str:
        return ctx.sample("a poem", max_tokens=10).content[0].text

    @app.tool
    def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in ctx.list_roots())

    @app.tool
    def wait(ctx: Context) -> str:
        ctx.token.wait(60)
        return "over"

    @app.resource("note://today")
    def today() -> str:
        return "rain"

    @app.resource("note://{day}")
    def note(day: str) -> str:
        return day

    @app.prompt
    def summary(topic: str) -> str:
        """Sum up."""
        return f"Sum up {topic}"

    return app


REVISIONS = [NEWEST_LEGACY.name, NEWEST.name]


@pytest.fixture(params=["memory", "http"])
def target(request):
    app = make_server()
    if request.param == "memory":
        yield app
        return
    with mcplite.serve(app, port=0) as served:
        yield served.url

#: A server of one revision, which has a handshake.
OLDER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"error": {"code": -32601, "message": "Method not found"}}
    if message["method"] == "initialize":
        answer = {"result": {"protocolVersion": "%s", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}}
    elif message["method"] == "ping":
        answer = {"result": {}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
""" % NEWEST_LEGACY.name
