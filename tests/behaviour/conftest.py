"""The servers of the behaviour tests: real processes, one of each kind for the whole run."""

import contextlib
import functools
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import pytest

import mcplite
from mcplite.revisions import NEWEST, NEWEST_LEGACY, REVISIONS
from tests.support import connecting
from tests.support.fleets import KINDS, running_fleet, running_store
from tests.support.processes import serving

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT = 30
NAMES = [revision.name for revision in REVISIONS]
OLDEST, *STREAMABLE = NAMES
#: Whether each revision runs on each store, as it does before a release.
EVERY_STORE = os.environ.get("MCPLITE_FLEET") == "whole"
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}


def load_server():
    """Return a new copy of the server's module, with a server of its own."""
    spec = importlib.util.spec_from_file_location("behaviour_server", HERE / "server.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


class Host:
    """A server behind one transport: ``connect`` returns a client that is not open yet."""

    def __init__(self, name, target, revisions):
        self.name, self.target, self.revisions = name, target, revisions
        #: Whether requests come through WSGI.
        self.wsgi = name in ("waitress", "gunicorn") or name.startswith("fleet")
        #: The workers, where there are several.
        self.fleet = target if name.startswith("fleet") else None

    def connect(self, **options):
        if self.name == "stdio":
            options["env"] = ENVIRONMENT
        if self.fleet is not None:
            oldest = options.get("revision") == OLDEST
            return connecting.connect(self.fleet.url.replace("/mcp", "/sse") if oldest else self.fleet.url, **options)
        return connecting.connect(self.target, **options)


@contextlib.contextmanager
def memory():
    yield load_server().mcp


def mounted(**options):
    """A server that mounts the server itself, or a client of it with these options."""

    @contextlib.contextmanager
    def make():
        server = load_server().mcp
        hub = mcplite.Server("behaviour", version="1.0", instructions="Use it for tests.", limits=server.limits,
                             extensions={"com.example/units": {"system": "metric"}})
        hub.mount(connecting.connect(server, **options) if options else server)
        yield hub

    return make


#: Where it shows that a mounted server speaks another revision than the client: what it is told, and how it refuses.
DIFFERENT = {
    "test_errors": {(name, old) for name in ("mounted-legacy", "mounted-modern") for old in NAMES[:3]},
    "test_results": {("mounted-legacy", NEWEST.name)},
    "test_a_client_that_cannot_be_asked": {("mounted-legacy", NEWEST.name)},
    "test_an_answer_that_does_not_fit_the_form": {("mounted-modern", old) for old in NAMES[:-1]},
}


@contextlib.contextmanager
def stdio():
    yield [sys.executable, str(HERE / "server.py")]


@contextlib.contextmanager
def process(*arguments, path="mcp"):
    """Run a server as ``python -m`` *arguments*; gives the URL of its endpoint."""
    with serving([sys.executable, "-m", *arguments], HERE) as url:
        yield url + path


def http():
    return process("mcplite.server", "server.py", "--http=PORT")


def sse():
    return process("mcplite.server", "server.py", "--http=PORT", "--legacy-sse", path="sse")


def waitress():
    # With the look-ahead waitress notices that a client disconnected.
    return process("waitress", "--listen=127.0.0.1:PORT", "--threads=48", "--channel-request-lookahead=1",
                   "server:application")


def gunicorn():
    return process("gunicorn", "--bind=127.0.0.1:PORT", "--worker-class=gthread", "--threads=48", "--workers=1",
                   "--graceful-timeout=5", "server:application")


@contextlib.contextmanager
def fleet(kind):
    """Four workers over a store; each request comes on a connection of its own, to any of them."""
    with tempfile.TemporaryDirectory(prefix="mcplite-fleet-") as folder, running_store(kind, folder) as (backend, _):
        with running_fleet("server:crowd", HERE, folder, backend, threads=24, spread=True, preload=True) as workers:
            yield workers


#: A process takes seconds to start under Wine, and each test of stdio starts one; what depends on the system shows in two.
STDIO_NAMES = NAMES if os.name == "posix" else [NEWEST_LEGACY.name, NEWEST.name]
HOSTS = {"memory": (memory, NAMES), "mounted": (mounted(), NAMES), "mounted-legacy": (mounted(era="legacy"), NAMES),
         "mounted-modern": (mounted(era="modern"), NAMES), "stdio": (stdio, STDIO_NAMES),
         "http": (http, STREAMABLE), "sse": (sse, [OLDEST]),
         "waitress": (waitress, STREAMABLE)}
if os.name == "posix":
    HOSTS["gunicorn"] = gunicorn, STREAMABLE
    # What depends on the store shows in one revision of each era.
    HOSTS.update({f"fleet-{kind}": (functools.partial(fleet, kind), NAMES if kind == "sqlite" or EVERY_STORE else [
        NEWEST_LEGACY.name, NEWEST.name]) for kind in KINDS})
#: A copy of the package without the rooms around the core has some of them only.
if "BEHAVIOUR_HOSTS" in os.environ:
    HOSTS = {name: HOSTS[name] for name in os.environ["BEHAVIOUR_HOSTS"].split()}
#: Servers of stores, which not every machine has, are no quick row.
MARKS = {f"fleet-{kind}": pytest.mark.slow for kind in KINDS if kind != "sqlite"}


def pytest_generate_tests(metafunc):
    """Run a test over each transport, with each revision that it supports."""
    # What users rely on holds for several workers as for one; the rest is about one process.
    fleets = metafunc.module.__name__.endswith("test_behaviour")
    hosts = {name: revisions for name, (_, revisions) in HOSTS.items() if fleets or not name.startswith("fleet")}
    if "revision" in metafunc.fixturenames:
        different = DIFFERENT.get(metafunc.function.__name__, ())
        pairs = [pytest.param(name, revision, marks=MARKS.get(name, ())) for name, revisions in hosts.items()
                 for revision in revisions if (name, revision) not in different]
        metafunc.parametrize(("host", "revision"), pairs, indirect=True)
    elif "host" in metafunc.fixturenames:
        metafunc.parametrize("host", [pytest.param(name, marks=MARKS.get(name, ())) for name in hosts], indirect=True)


@pytest.fixture(scope="session")
def host(request):
    make, revisions = HOSTS[request.param]
    with make() as target:
        yield Host(request.param, target, revisions)


@pytest.fixture(scope="session")
def revision(request):
    return request.param


@pytest.fixture
def connect(host, revision):
    """Return a client of one revision, not open yet."""
    return lambda **options: host.connect(**{"revision": revision, "timeout": LIMIT, **options})


@pytest.fixture
def client(connect):
    with connect() as client:
        yield client
