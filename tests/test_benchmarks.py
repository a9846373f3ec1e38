"""The benchmarks work: every workload runs with a few calls and gives a figure; the speed is not tested here."""

import json
import os
import socket
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

from mcplite import revisions

pytestmark = [pytest.mark.one_python, pytest.mark.alone]

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 110


@pytest.fixture(autouse=True)
def checkout_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def run(*arguments):
    """Run the benchmarks without the official SDK and the servers of stores, whose start alone takes seconds."""
    environment = {**os.environ, "MCPLITE_INTEROP": str(ROOT / "no such folder"), "MCPLITE_STORES": "none"}
    ran = subprocess.run([sys.executable, "-m", "benchmarks", "--quick", *arguments], cwd=ROOT, env=environment,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout


@pytest.mark.timeout(2 * SECONDS + 20)
@pytest.mark.slow
@pytest.mark.further
def test_every_workload_runs():
    # In two runs, since one would take long on a busy machine.
    main, shared = import_module("benchmarks.__main__"), import_module("benchmarks.shared").SHARED_WORKLOADS
    names = [*main.STDIO_WORKLOADS, *main.OVER_HTTP]
    rows = {}
    for part in ([name for name in names if name not in shared], list(shared)):
        report = json.loads(run("--json", *(f"--only={name}" for name in part)))
        assert report["peers"] == {"floor": "floor", "floor2": "floor2", "ours": "mcplite", "tuned": "http.server"}
        rows.update({row["key"]: row for row in report["rows"]})
    assert {"import.server", "cold.server", "cold.client", "add.own", "add.server", "add.client", "quick.own",
            "burst.few.short", "burst.many.long",
            "newest.own", "newest.server", "newest.client", "add.own.cpu", "text.large", "argument.large", "progress.own",
            "register", "cold.tools", "list.server", "http.own", "http.server", "http.newest.own", "http.newest.bare.cpu",
            "http.load.one", "http.load.many", "http.sleep", "http.progress", "http.stream.large",
            "http.argument.large", "http.sessions.memory", "http.changes", "stateless.own", "stateless.ask",
            "stateless.load.many", "backend.add.newest", "backend.add.less",
            "backend.ask.sqlite.newest", "backend.ask.sqlite.handshake",
            "backend.sessions", "fleet.load.4", "frameworks.users.12", "frameworks.call.50", "hosts.wsgi",
            "hosts.bare", "hosts.signed", "hosts.first", "hosts.agent", "openapi.start", "openapi.call"} <= set(rows)
    assert [row["failures"] for row in rows.values() if row["failures"]] == []
    unsure = ("memory", "switches", "http.memory", "http.sessions", "http.cost", "backend.add.less", "hosts.wsgi", "hosts.bare",
              "hosts.signed")
    for key, row in rows.items():
        # Figures of the system are not available everywhere, or only in hundredths of a second.
        assert key.startswith(unsure) or row["figures"]["ours"]["value"] > 0, row
    page = import_module("benchmarks.page")
    assert {row.key for row in page.ROWS} | {key for extra in page.EXTRAS for key, _ in extra[1:]} <= set(rows)
    assert set(page.WORKLOADS) <= set(names)
    targets = {row["key"] for row in rows.values() if row["targets"]}
    assert targets == {target.key for target in import_module("benchmarks.targets").TARGETS}


@pytest.mark.parametrize("backend, loss", [("memory:", "0.3"), ("sqlite:///{}/fleet.db", "0")])
@pytest.mark.slow
def test_a_simulated_fleet_loses_nothing(tmp_path, backend, loss):
    url = backend.format(tmp_path)
    ran = subprocess.run([sys.executable, "-m", "benchmarks.fleet", "--workers", "3", "--clients", "6", "--seconds", "0.5",
                          "--loss", loss, "--latency", "0.1", "--mix", "40,40,20", "--backend", url, "--json"], cwd=ROOT,
                         timeout=SECONDS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["wrong"] == [] and (loss == "0" or found["repeated"]["lost on the way"] > 0)
    assert sum(row["count"] for row in found["kinds"].values()) > 0 and found["operations"]["append"] > 0


def test_the_second_floor_writes_and_reads_as_the_json_module_does(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "parts"))
    floor2 = import_module("floor2_server")
    for value in ({}, {"a": [1, 2.5, None, True, "é\n\"\u2028"], "b": {"c": -1e30}}, {"jsonrpc": "2.0", "id": 1}):
        data = floor2.encode(value)
        assert data == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
        assert floor2.decode(data + b"\n") == value


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout")
@pytest.mark.slow
def test_an_older_commit_takes_turns_with_this_one():
    report = json.loads(run("--json", "--only", "newest", "--against", "HEAD"))
    assert report["peers"]["before"].startswith("mcplite ")
    for row in report["rows"]:
        assert row["figures"]["before"]["value"] > 0 and not row["failures"], row


#: File changes of the server for one call of a tool, in either era, and its files. The bounds only ever go down.
MOST_CHANGES = {"stdio": 32, "http": 56}
MOST_FILES = {"stdio": 14, "http": 20}


def test_the_server_goes_through_few_files_for_a_call():
    ran = subprocess.run([sys.executable, "-m", "benchmarks.journeys", "--json"], cwd=ROOT, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, timeout=SECONDS, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr[-4000:]
    journeys = json.loads(ran.stdout)
    newest = revisions.NEWEST_LEGACY.name, revisions.NEWEST.name
    assert [(journey["transport"], journey["revision"], journey["side"]) for journey in journeys] == [
        (transport, revision, side) for transport in MOST_CHANGES for revision in newest for side in ("server", "client")]
    for journey in journeys:
        assert journey["calls"] > journey["changes"] >= journey["files"] > 1, journey
        assert journey["side"] == "client" or journey["changes"] <= MOST_CHANGES[journey["transport"]], journey
        assert journey["side"] == "client" or journey["files"] <= MOST_FILES[journey["transport"]], journey


def figures(ours, floor):
    slices = import_module("benchmarks.slices")
    row = slices.Measurement("add.own", "add", "us")
    times = iter(ours)
    floors = iter(floor)
    slices.take_turns(row, len(ours), {"floor": lambda: next(floors), "ours": lambda: next(times)}, lambda error: False)
    return row


def test_a_ratio_is_taken_to_the_floor_before_and_after():
    row = figures(ours=[20, 40, 90], floor=[10, 10, 10, 30])
    assert row.figures["ours"].values == [20, 40, 90]
    assert row.figures["ours"].ratios == [2, 4, 4.5]
    assert row.ratio("floor") == 4
    assert row.figures["ours"].noisy and not figures([20, 21], [10, 10, 10]).figures["ours"].noisy


def test_the_page_gets_the_figures_of_a_run(monkeypatch, tmp_path):
    page, peers = import_module("benchmarks.page"), import_module("benchmarks.peers")
    slices = import_module("benchmarks.slices")
    text = page.PAGE.read_text("utf-8")
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.rst")
    page.PAGE.write_text(text, "utf-8")
    keys = dict.fromkeys([*(row.key for row in page.ROWS), *(key for extra in page.EXTRAS for key, _ in extra[1:])])
    rows = [slices.Measurement(key, key, "us", {"floor": slices.Figure([100.0]), "ours": slices.Figure([150.0], [1.5])})
            for key in keys]
    rows[0].failures["mcp"] = "it left"
    found = {name: peers.Peer(title, name, sys.executable) for name, title in (
        ("floor", "floor"), ("ours", "mcplite"), ("mcp", "mcp 2.3.0"), ("tuned", "http.server"))}
    written = page.page(rows, found)
    assert [line for line in written.splitlines() if line.startswith("stdio, ``add``: own")][0].split()[-4:] == [
        "100", "150", "(1.50x)", "fails"]
    assert written.count("(1.50x)") == len(page.ROWS) and "http.server" not in written
    assert "Python" in written and written.startswith(text[:text.index(page.MARKS[0])])
    page.PAGE.write_text(written, "utf-8")
    assert page.page(rows, found) == written  # the marks are still there


@pytest.fixture
def floor_over_http(monkeypatch):
    """The floor's server, on a thread; gives its URL and its module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "parts"))
    floor = import_module("floor_web")
    listener = socket.create_server(("127.0.0.1", 0))
    serving = []

    def accept():
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            serving.append(threading.Thread(target=floor.serve, args=(sock, floor.tools(0)), daemon=True))
            serving[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", floor
    listener.shutdown(socket.SHUT_RDWR)
    accepting.join(10)
    listener.close()
    for thread in serving:
        thread.join(10)
        assert not thread.is_alive()


def test_many_clients_count_only_right_answers(floor_over_http, monkeypatch):
    url, _ = floor_over_http
    commands = import_module("load_driver").Commands()
    commands.open(url)
    assert commands.load(connections=3, seconds=0.05)["rate"] > 0
    server = import_module("floor_server")
    right = server.call
    monkeypatch.setattr(server, "call", lambda params, send: {**right(params, send), "content": []})
    with pytest.raises(AssertionError, match="wanted b'\"text\":"):
        commands.load(connections=3, seconds=0.05)


@pytest.mark.parametrize("bound, to, met", [(4, "floor", True), (3, "floor", False), (100, "", True), (30, "", False),
                                            (1, "mcp", None)])
def test_targets(bound, to, met):
    targets = import_module("benchmarks.targets")
    row = figures(ours=[40, 40, 40], floor=[10, 10, 10, 10])
    assert targets.Target("add.own", bound, to).met(row) is met
    nothing = import_module("benchmarks.slices").Measurement("add.own", "", "")
    assert targets.Target("add.own", bound, to).met(nothing) is None
