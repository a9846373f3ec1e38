"""An instrumented client and an instrumented server over each transport and revision, and what both have recorded."""

import contextlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in the extra stack")

from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

import mcplite  # noqa: E402
from mcplite.contrib import otel  # noqa: E402
from mcplite.revisions import REVISIONS  # noqa: E402
from tests.support import connecting
from tests.support.processes import serving  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
LIMIT = 60
NAMES = [revision.name for revision in REVISIONS]
OLDEST, *STREAMABLE = NAMES
TRANSPORTS = [(name, revision) for name, revisions in (
    ("memory", NAMES), ("stdio", NAMES), ("http", STREAMABLE), ("sse", [OLDEST]), ("waitress", STREAMABLE))
    for revision in revisions]


#: The transports whose server is a process of its own, which writes its spans to a file and has no metrics here.
PROCESSES = ("stdio", "waitress")


class Recorded:
    """What one side has recorded.

    :param file: the spans of a server in another process, one JSON object on each line.
    """

    def __init__(self, file=None):
        self._file = file
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    @property
    def providers(self):
        return {"tracer_provider": self.tracers, "meter_provider": self.meters}

    @property
    def spans(self):
        """All spans that have ended, as dicts."""
        texts = [span.to_json() for span in self._exporter.get_finished_spans()]
        if self._file is not None and self._file.exists():
            texts += self._file.read_text("utf-8").splitlines()
        return [json.loads(text) for text in texts]

    def span(self, name):
        """Return the only span of this name."""
        found = [span for span in self.spans if span["name"] == name]
        assert len(found) == 1, [span["name"] for span in self.spans]
        return found[0]

    def points(self, metric):
        """Return the data points of a metric."""
        data = self._reader.get_metrics_data()
        return [] if data is None else [
            point for resource in data.resource_metrics for scope in resource.scope_metrics
            for found in scope.metrics if found.name == metric for point in found.data.data_points]

    def wait_for_points(self, metric):
        """Return the data points of a metric that is recorded at the end of a session, on another thread."""
        deadline = time.monotonic() + LIMIT
        while True:
            points = self.points(metric)
            if points or time.monotonic() > deadline:
                return points
            time.sleep(0.02)


def load_server():
    spec = importlib.util.spec_from_file_location("traced_server", HERE / "traced_server.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make()


class Pair:
    """An instrumented server behind one transport, for one instrumented client of one revision."""

    def __init__(self, transport, revision, target, server, client, options):
        self.transport, self.revision = transport, revision
        self.target, self.options = target, options
        #: Whether the server is a process of its own, whose metrics are not seen here.
        self.is_apart = transport in PROCESSES
        #: What each side has recorded.
        self.server, self.client = server, client

    def connect(self, content=False, **options):
        """Return an instrumented client, not open yet."""
        client = connecting.connect(self.target, **{"revision": self.revision, "timeout": LIMIT, **self.options, **options})
        return otel.instrument_client(client, content=content, **self.client.providers)


@contextlib.contextmanager
def pair_over(transport, revision, folder, server=None):
    file = folder / "spans.jsonl"
    client, recorded = Recorded(), Recorded(file if transport in PROCESSES else None)
    variables = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), "SPANS": str(file)}
    with contextlib.ExitStack() as stack:
        options = {}
        if transport == "stdio":
            target = [sys.executable, str(HERE / "traced_server.py")]
            options["env"] = variables
        elif transport == "waitress":
            command = [sys.executable, "-m", "waitress", "--listen=127.0.0.1:PORT", "--threads=8",
                       "--channel-request-lookahead=1", "--call", "traced_server:application"]
            target = stack.enter_context(serving(command, HERE, **variables)) + "mcp"
        else:
            target = server or load_server()
            otel.instrument_server(target, **recorded.providers)
            stack.callback(target.close)
            if transport == "http":
                target = stack.enter_context(mcplite.serve(target)).url
            elif transport == "sse":
                running = stack.enter_context(mcplite.serve(target, legacy_sse=True))
                target = running.url.rsplit("/", 1)[0] + "/sse"
                options["type"] = "sse"
        yield Pair(transport, revision, target, recorded, client, options)


@pytest.fixture(params=TRANSPORTS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def pair(request, tmp_path):
    with pair_over(*request.param, tmp_path) as pair:
        yield pair


@pytest.fixture
def make_pair(tmp_path):
    """Return a function that makes a pair over one transport and revision, with a server of the test's own."""
    with contextlib.ExitStack() as stack:
        yield lambda transport="memory", revision=NAMES[-1], server=None: stack.enter_context(
            pair_over(transport, revision, tmp_path, server))
