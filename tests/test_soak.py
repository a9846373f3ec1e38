"""The soak works: every job runs, faults of the server are found, and a rise is told from noise; hours are ``make soak``."""

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_python  # it takes a minute

ROOT = Path(__file__).resolve().parent.parent
#: The soak waits half a minute at its end, until the idle threads of the pools have ended.
LIMIT = 115
posix_only = pytest.mark.skipif(os.name != "posix", reason="POSIX only")


@pytest.fixture(autouse=True)
def checkout_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@posix_only
@pytest.mark.slow
def test_every_job_runs_and_nothing_is_left(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "0.15", "--leaks", "--report", str(report)]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, encoding="utf-8")
    assert ran.returncode == 0, ran.stdout[-6000:]
    told = json.loads(report.read_text("utf-8"))
    slow = {job.name for job in import_module("benchmarks.soak.jobs").JOBS if job.every > 5}
    assert told["failed"] == {} and told["errors"] == []
    assert [name for name, steps in told["steps"].items() if not steps and name not in slow] == []
    watched = {name.partition(": ")[0] for name in told["samples"] if ": " in name}
    assert watched == {"server", "driver", "child, handshake", "child, sessionless"}
    assert len(told["samples"]["driver: blocks"]) == len(told["samples"]["driver: memory"])


# --- drift ----------------------------------------------------------------------------------------------------


def drift(values, allowed=0.02, grain=0.0):
    samples = [(float(moment), value) for moment, value in enumerate(values)]
    return import_module("benchmarks.soak.drift").drift_of("memory", "MiB", samples, 0.0, len(values), allowed, grain)


@pytest.mark.parametrize("growth, flat", [(0.0, True), (0.0001, True), (0.0006, False), (-0.01, True)])
def test_a_steady_rise_is_found_in_noise(growth, flat):
    noise = random.Random(1)
    assert drift([40 * (1 + growth * n / 2 + noise.uniform(-0.05, 0.05) * (n % 2)) for n in range(300)]).flat is flat


# --- what is measured -----------------------------------------------------------------------------------------


@posix_only
def test_what_is_in_use_tells_a_leak():
    in_use = import_module("benchmarks.soak.samples").in_use
    before = in_use()
    small, large = [float(n) for n in range(100_000)], [bytes(100_000) for _ in range(50)]
    during = in_use()
    assert during["blocks"] - before["blocks"] >= 90_000
    assert "malloc" not in before or during["malloc"] - before["malloc"] >= 4.5
    del small, large
    after = in_use()
    assert after["blocks"] - before["blocks"] < 10_000
    assert "malloc" not in before or after["malloc"] - before["malloc"] < 1


# --- faults ---------------------------------------------------------------------------------------------------


def run_of(monkeypatch, folder, name, step):
    """A run with one job of this name and step."""
    driver = import_module("benchmarks.soak.driver")
    place = import_module("benchmarks.soak.place")

    @contextlib.contextmanager
    def open(place):
        yield step

    monkeypatch.setattr(driver, "JOBS", (place.Job(name, 0.01, open),))
    return driver, driver.Run(folder, [""], 5.0)


@posix_only
def test_a_wrong_answer_is_an_error_and_the_job_goes_on(monkeypatch, tmp_path):
    enough, numbers = threading.Event(), iter(range(1000))

    def step():
        n = next(numbers)
        if n == 5:
            enough.set()
        if n in (1, 3):
            raise AssertionError("wanted '4', got '5'")

    _, run = run_of(monkeypatch, tmp_path, "sums", step)
    try:
        run.start()
        assert enough.wait(30)
    finally:
        run.stop()
    assert run.failed == {"sums": 2} and run.steps["sums"] >= 3 and "wanted '4', got '5'" in run.errors[0]


@posix_only
def test_a_step_that_hangs_is_an_error(monkeypatch, tmp_path):
    begun, released = threading.Event(), threading.Event()

    def step():
        begun.set()
        released.wait(30)

    driver, run = run_of(monkeypatch, tmp_path, "sums", step)
    monkeypatch.setattr(driver, "LIMIT", 0.0)
    try:
        run.start()
        assert begun.wait(30)
        run.find_hanging()
    finally:
        monkeypatch.undo()
        released.set()
        run.stop()
    assert run.failed == {"sums": 1} and "hangs" in run.errors[0]
