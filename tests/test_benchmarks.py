"""The benchmarks work: every workload runs with a few calls and has a figure of ours; how fast is not asked here."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 110


@pytest.fixture(autouse=True)
def checkout_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def run(*arguments):
    """Run the benchmarks without the official SDK, whose start alone takes seconds."""
    environment = {**os.environ, "MCPLITE_INTEROP": str(ROOT / "no such folder")}
    ran = subprocess.run([sys.executable, "-m", "benchmarks", "--quick", *arguments], cwd=ROOT, env=environment,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout


def test_every_workload_runs():
    report = json.loads(run("--json"))
    assert report["peers"] == {"floor": "floor", "ours": "mcplite"}
    rows = {row["key"]: row for row in report["rows"]}
    assert {"import.server", "cold.server", "cold.client", "add.own", "add.server", "add.client", "quick.own",
            "text.large", "argument.large", "progress.own", "register", "list.server"} <= set(rows)
    assert [row["failures"] for row in report["rows"] if row["failures"]] == []
    for key, row in rows.items():
        # What only /proc or getrusage can tell is not there on every system.
        assert key.startswith(("memory", "switches")) or row["figures"]["ours"]["value"] > 0, row
    targets = {row["key"] for row in report["rows"] if row["targets"]}
    assert targets == {target.key for target in import_module("benchmarks.targets").TARGETS}


def test_the_table_names_the_targets():
    table = run("--only", "quick")
    assert "a call that takes 50 ms" in table and "<= 5 " in table


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


def test_a_peer_that_fails_is_left_out_and_noted():
    slices = import_module("benchmarks.slices")
    targets = import_module("benchmarks.targets")
    row = slices.Measurement("add.own", "add", "us")

    def fail():
        raise KeyError("no")

    slices.take_turns(row, 2, {"floor": lambda: 1.0, "ours": fail}, lambda error: isinstance(error, KeyError))
    assert "ours" not in row.figures and "no" in row.failures["ours"]
    assert targets.Target("add.own", 3.5, "floor").met(row) is False
    with pytest.raises(KeyError):
        slices.take_turns(row, 1, {"mcp": fail}, lambda error: False)


@pytest.mark.parametrize("bound, to, met", [(4, "floor", True), (3, "floor", False), (100, "", True), (30, "", False),
                                            (1, "mcp", None)])
def test_targets(bound, to, met):
    targets = import_module("benchmarks.targets")
    row = figures(ours=[40, 40, 40], floor=[10, 10, 10, 10])
    assert targets.Target("add.own", bound, to).met(row) is met
    nothing = import_module("benchmarks.slices").Measurement("add.own", "", "")
    assert targets.Target("add.own", bound, to).met(nothing) is None
