"""For tests of authorization: an authorization server, a browser and a protected server, each in a process.

Whatever a test does: no token, code, verifier or secret that went through the authorization server may be found in
what our side said, be it in logs at DEBUG or on stdout and stderr of a process.
"""

import concurrent.futures
import contextlib
import io
import itertools
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.chromium import CHROMIUM, Chromium

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
#: Seconds; a loaded machine starts node and Chromium slowly.
LIMIT = 60


class Running:
    """A process whose first line on stdout says where it is; what it writes is kept apart.

    :param ours: whether it is our code that runs in it, so that it may tell no secret.
    """

    def __init__(self, command, ours, **variables):
        self.ours = ours
        self.name = Path(command[1]).name
        self._said = {"stdout": [], "stderr": []}
        self._open = set(self._said)
        #: Guards the two above, and tells of new lines.
        self._written = threading.Condition()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        encoding="utf-8", errors="replace", env={**os.environ, **variables})
        # They end with the process, and read on so that it never waits for its output to be read.
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._said]
        for reader in self._readers:
            reader.start()

    def _read(self, name):
        for line in getattr(self.process, name):
            with self._written:
                self._said[name].append(line)
                self._written.notify_all()
        with self._written:
            self._open.discard(name)
            self._written.notify_all()

    def line(self, number):
        """Wait for a line of stdout, and return it."""
        with self._written:
            self._written.wait_for(lambda: len(self._said["stdout"]) > number or "stdout" not in self._open, LIMIT)
            assert len(self._said["stdout"]) > number, f"{self.name} said no such line:\n{self.told()}"
            return self._said["stdout"][number].strip()

    @property
    def url(self):
        """Where it is, once it is there."""
        return self.line(0)

    def told(self):
        """Return all that it has written."""
        return "".join(self._said["stdout"]) + "".join(self._said["stderr"])

    def stdout(self):
        """Return what it has written to stdout."""
        return "".join(self._said["stdout"])

    def tell(self, line):
        """Write a line to its stdin."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def catch_up(self, line):
        """Write a line to its stdin and wait until its stdout has repeated it, behind all that was written before."""
        if self.process.stdin.closed or self.process.poll() is not None:
            return
        self.tell(line)
        with self._written:
            assert self._written.wait_for(lambda: any(line in said for said in self._said["stdout"])
                                          or "stdout" not in self._open, LIMIT), f"{self.name} did not repeat {line!r}"

    def leave(self):
        """Close its stdin, at whose end all of them end by then; return the exit status."""
        self.process.stdin.close()
        status = self.process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)
        return status

    def end(self):
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):  # what was never read by the one that has gone
                stream.close()


class Visitor:
    """A client of another SDK in a process, and the person who uses it.

    :param process: of login_client.py or login_client.mjs.
    :param person: a :class:`~tests.support.issuers.Person`.
    """

    def __init__(self, process, person):
        self.process, self.person = process, person
        self._read = 0

    def outcome(self):
        """Visit the pages that the client opens until it says what came of it; return that."""
        while True:
            report = json.loads(self.process.line(self._read))
            self._read += 1
            if "open" in report:
                self.person(report["open"])
                continue
            if "visit" not in report:
                return report
            sent_back = self.person.follow(report["visit"])
            assert isinstance(sent_back, str), sent_back.text
            self.process.tell(sent_back)

    def call(self, tool):
        self.process.tell(f"call {tool}")
        return self.outcome()


class AuthorizationServer:
    """oidc-provider, and what has happened at it.

    :param asker: the client that may ask it about tokens.
    """

    def __init__(self, process, secrets, asker):
        self.process = process
        self._secrets = secrets
        self.asker = asker
        self.issuer = process.url
        self._marks = itertools.count()

    def events(self, event, **facts):
        """Return what has happened of one kind, with these facts."""
        # The server writes an event before it responds, but the thread that reads its stdout may be later than the client.
        self.process.catch_up(f"mark {next(self._marks)}!")
        lines = [json.loads(line) for line in self.process.told().splitlines() if line.startswith("{")]
        return [said for said in lines if said["event"] == event
                and all(said.get(name) == value for name, value in facts.items())]

    def secrets(self):
        """Return all secrets in pieces, so that half of a token is found as well."""
        pieces = set()
        for secret in self._secrets.read_text("utf-8").splitlines() if self._secrets.exists() else ():
            # The first part of a signed token only says how it is signed.
            for part in secret.split(".")[1:] if secret.count(".") == 2 else [secret]:
                pieces |= {part[:16], part[-16:]}
        return {piece for piece in pieces if len(piece) >= 8}


class User:
    """Sits at a Chromium: does in it what the test says whenever a page is opened, and is remembered as logged in there.

    :param chromium: a browser, which may have other users: each has cookies of its own.
    """

    #: An authorization server with more pages than this before it sends back the user goes round in circles.
    PAGES = 8

    def __init__(self, chromium):
        self._chromium = chromium
        self._cookies = chromium.context()
        self._visits = []
        self._visiting = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="visit")
        #: What to do on the page that asks for consent: "allow" or "decline".
        self.answer = "allow"

    def open(self, url):
        """Open a page, as a system's browser is told to; does not wait."""
        self._visits.append(self._visiting.submit(self._walk, url, self.answer))
        return True

    def pages(self):
        """Wait for the visits to end; return the last page of each since the last call, and what was done before it."""
        visits, self._visits = self._visits, []
        return [visit.result(2 * LIMIT) for visit in visits]

    def leave(self):
        """End the visits that nobody has asked about, too."""
        self._visiting.shutdown()

    def _walk(self, start, answer):
        tab, did = self._chromium.tab(context=self._cookies), []
        tab.visit(start)
        for _ in range(self.PAGES):
            here = urllib.parse.urlsplit(tab.url)
            if here.netloc != urllib.parse.urlsplit(start).netloc:
                return {"url": f"{here.scheme}://{here.netloc}{here.path}", "title": tab.evaluate("document.title"),
                        "text": tab.text, "scripts": tab.evaluate("document.scripts.length"), "did": did}
            if tab.evaluate("document.querySelector('input[name=login]') !== null"):
                did.append("login")
                tab.type("input[name=login]", "ada")
                tab.type("input[name=password]", "any password does")
                tab.follow("button[type=submit]")
            else:
                did.append(answer)
                tab.follow("a[href$='/abort']" if answer == "decline" else "button[type=submit]")
        raise AssertionError(f"still at the authorization server after {self.PAGES} pages: {tab.text[:500]}")


@pytest.fixture
def node(installed):
    """``node(script, *arguments)``: the command of a script of ours that needs a recent node."""

    def command(script, *arguments):
        _, *rest = installed.script(script, *arguments, environment="authorization")
        return [processes.recent_node(installed.home), *rest]

    return command


@pytest.fixture
def running():
    """``running(command, ours=True, **variables)``: a :class:`Running` process, ended with the test."""
    started = []

    def run(command, ours=True, **variables):
        started.append(Running(command, ours, **variables))
        return started[-1]

    run.started = started
    yield run
    for process in reversed(started):
        process.end()
        print(f"--- {process.name}:\n{process.told()[-12_000:]}")  # shown when the test fails


@pytest.fixture
def log(caplog):
    """All that is logged in this process until the end of the test, at DEBUG."""
    caplog.set_level(logging.DEBUG)
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    yield written
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def authorization_server(node, running, tmp_path, log, capfd):
    """``authorization_server(clients=[], **settings)``: an :class:`AuthorizationServer`.

    Its script says what settings it has, and what a client is.
    """
    made = []

    def make(clients=(), **settings):
        told = tmp_path / f"secrets-{len(made)}"
        asker = {"client_id": "the server", "client_secret": secrets.token_urlsafe(32), "redirect_uris": [],
                 "response_types": [], "grant_types": ["client_credentials"],
                 "token_endpoint_auth_method": settings.get("METHODS", "client_secret_basic")}
        process = running(node("authorization_server.mjs"), ours=False, SECRETS=str(told),
                          CLIENTS=json.dumps([*clients, asker]), **settings)
        made.append(AuthorizationServer(process, told, asker))
        return made[-1]

    yield make
    out, err = capfd.readouterr()
    said = [("the log", log.getvalue()), ("stdout", out), ("stderr", err)]
    said += [(process.name, process.told()) for process in running.started if process.ours]
    sys.stdout.write(out)
    sys.stderr.write(err)
    pieces = set().union(*(server.secrets() for server in made))
    assert pieces or not any(server.events("token", status=200) for server in made)
    told = [f"{name}: {line[:300]}" for name, text in said for line in text.splitlines()
            if any(piece in line for piece in pieces)]
    assert not told, told


@pytest.fixture
def protected(running):
    """``protected(at, asks=False)``: our server, which wants tokens of that one; a :class:`Running`.

    It verifies them itself, or introspects each, which opaque tokens need.
    """

    def start(at, asks=False):
        return running([sys.executable, str(HERE / "protected.py")], PYTHONPATH=str(ROOT), ISSUER=at.issuer,
                       VERIFIER="introspection" if asks else "jwt", CLIENT_ID=at.asker["client_id"],
                       CLIENT_SECRET=at.asker["client_secret"])

    return start


@pytest.fixture
def visiting(running):
    """``visiting(server, store, threads)``: our client in a process, which is ready to begin; see visitor.py."""

    def start(server, store, threads):
        command = [sys.executable, str(HERE / "visitor.py"), server.url, str(store), "whoami", str(threads)]
        process = running(command, PYTHONPATH=str(ROOT))
        assert process.line(0) == "ready"
        return process

    return start


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """A :class:`Chromium` whose pages get nothing from elsewhere."""
    if CHROMIUM is None:
        pytest.skip("no Chromium; tests/interop/install.sh installs it")
    nowhere = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
    with Chromium(tmp_path_factory.mktemp("profile"), nowhere) as chromium:
        yield chromium


@pytest.fixture
def user(chromium):
    """A :class:`User`, whom the browser remembers as logged in until the test ends."""
    user = User(chromium)
    yield user
    user.leave()
    user.pages()


@pytest.fixture
def visitor(running, installed):
    """``visitor(sdk, url, person)``: a :class:`Visitor`."""

    def start(sdk, url, person):
        if sdk.startswith("typescript"):
            command = installed.script("authorization/login_client.mjs", sdk[-1], url)
        else:
            command = [installed.python(sdk), str(HERE / "login_client.py"), sdk, url]
        return Visitor(running(command, ours=False, PYTHONWARNINGS="ignore", PYTHONPATH="", NO_PROXY="127.0.0.1,localhost"),
                       person)

    return start


@pytest.fixture(scope="session")
def example():
    """The URL of examples/issuer.py in a process of its own."""
    with processes.serving([sys.executable, "issuer.py", "--port", "PORT"], ROOT / "examples") as url:
        yield url + "mcp"
