"""The result of a soak: what has drifted, what each job has done, and what failed; as a table or as JSON."""

import json
import platform
from typing import Any, Dict, List, Tuple

from .drift import Drift, drift_of, warm_up
from .driver import Run

__all__ = ["as_json", "as_table", "drifts_of"]

#: Pairs of time and value, by the name of the figure.
Figures = Dict[str, List[Tuple[float, float]]]
#: What may rise by how much, by the end of a figure's name: share, grain and unit. The samples of a thing that is counted
#: depend on the moment by one; the rate of a log does so too, and times depend on the machine, whatever they are compared with.
ALLOWED: Dict[str, Tuple[float, float, str]] = {
    "memory": (0.02, 0.0, "MiB"),
    "malloc": (0.02, 0.0, "MiB"),
    "blocks": (0.02, 0.0, ""),
    "descriptors": (0.02, 1.0, ""),
    "threads": (0.02, 1.0, ""),
    "children": (0.02, 1.0, ""),
    "log": (0.1, 50.0, "B/s"),
}
ALLOWED_TIME = 0.5


def drifts_of(samples: Figures, seconds: float) -> List[Drift]:
    """Return the drifts of all figures over a run of so many seconds."""
    found = []
    for name in sorted(samples):
        allowed, grain, unit = ALLOWED.get(name.rpartition(": ")[2], (ALLOWED_TIME, 0.0, "x echo"))
        drift = drift_of(name, unit, samples[name], warm_up(seconds), seconds, allowed, grain)
        if drift is not None:
            found.append(drift)
    return found


def as_table(run: Run, seconds: float, drifts: List[Drift]) -> str:
    """Return the table, and the errors below it."""
    lines = [["", "first third", "last third", "", "drift", "allowed", ""]]
    for drift in drifts:
        lines.append([drift.name, f"{drift.first:.2f}", f"{drift.last:.2f}", drift.unit, f"{drift.share:+.1%}",
                      f"{drift.allowed:.0%}" + (f" or {drift.grain:g}" if drift.grain else ""),
                      "ok" if drift.flat else "RISES"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = ["  ".join(text.rjust(width) if at else text.ljust(width) for at, (text, width) in enumerate(zip(line, widths)))
             for line in lines]
    texts.insert(1, "-" * len(texts[0]))
    texts.append(f"\nMedians of the first and the last third of the time from {warm_up(seconds):.0f} s to {seconds:.0f} s.")
    steps = sum(run.steps.values())
    texts.append(f"{steps} steps of {len(run.jobs)} jobs, {sum(run.failed.values())} failed,"
                 f" {run.cpu / max(seconds, 1):.2f} cores")
    texts += [f"    {job.name}: {run.steps[job.name]} steps, {run.failed[job.name]} failed" for job in run.jobs]
    return "\n".join([*texts, *run.errors])


def as_json(run: Run, samples: Figures, seconds: float, drifts: List[Drift]) -> str:
    """Return the same as JSON, with all samples."""
    report: Dict[str, Any] = {
        "python": platform.python_version(), "seconds": round(seconds), "cores": run.cpu / max(seconds, 1),
        "drifts": [{**vars(drift), "share": drift.share, "flat": drift.flat} for drift in drifts],
        "steps": {job.name: run.steps[job.name] for job in run.jobs}, "failed": dict(run.failed), "errors": run.errors,
        "samples": {name: [[moment, round(value, 3)] for moment, value in pairs] for name, pairs in samples.items()}}
    return json.dumps(report)
