"""``python -m benchmarks.soak``: use mcplite in all ways for a time, and tell what has grown.

    --minutes M     how long; default 60. The first ten, or the first third of a shorter run, are not judged
    --report FILE   the result and all samples as JSON, at the end
    --only JOB      the jobs whose names contain this; may be repeated
    --leaks         do not judge the drift: a run of seconds says nothing about it

The exit status is 1 when an answer was wrong, a call failed or hung, a figure has risen by more than is allowed, or
something was left at the end. Ctrl-C ends the run early, and judges what there is.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from .driver import Run
from .samples import ALLOCATOR
from .table import as_json, as_table, drifts_of

#: Seconds of work before each rest, and of the rest, which is longer than an idle thread of a pool stays; in a short run a
#: share of its time.
WORK, REST = 85.0, 35.0
WORK_SHARE, REST_SHARE = 1 / 4, 1 / 10
#: Seconds that the server keeps threads and connections for clients that do not come back: in a run of seconds, and in one
#: of some minutes.
KEPT = 10.0, 20.0


def watch(run: Run, seconds: float, ended: threading.Event) -> None:
    """Let the jobs work and rest, by turns, until the time is over or *ended* is set."""
    work, rest = min(WORK, WORK_SHARE * seconds), min(REST, REST_SHARE * seconds)
    while run.elapsed < seconds and not ended.is_set():
        until = time.monotonic() + work
        while time.monotonic() < until and not ended.wait(min(5.0, work)):
            run.find_hanging()
        run.rest(rest, ended)
        print(f"{run.elapsed / 60:.0f} min: {sum(run.steps.values())} steps, {sum(run.failed.values())} failed",
              file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="mcplite in all ways at once, for hours")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long; default 60")
    parser.add_argument("--report", metavar="FILE", type=Path, help="the result and all samples as JSON")
    parser.add_argument("--only", action="append", metavar="JOB", help="the jobs whose names contain this")
    parser.add_argument("--leaks", action="store_true", help="do not judge the drift")
    options = parser.parse_args()
    if not ALLOCATOR.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.soak", *sys.argv[1:]], {**os.environ, **ALLOCATOR})
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: ended.set())
    seconds = 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), options.only or [""], KEPT[seconds > 60])
        try:
            run.start()
            watch(run, seconds, ended)
            seconds = run.elapsed
        finally:
            begun = time.monotonic()
            run.stop()
        print(f"ended in {time.monotonic() - begun:.1f} s", file=sys.stderr)
        samples = run.samples.read()
    drifts = drifts_of(samples, seconds)
    if options.report is not None:
        options.report.write_text(as_json(run, samples, seconds, drifts), "utf-8")
    print(as_table(run, seconds, drifts))
    return 1 if run.failed or not (options.leaks or all(drift.flat for drift in drifts)) else 0


if __name__ == "__main__":
    sys.exit(main())
