"""One run of the soak: starts the server and the jobs, samples the processes, and looks at the end for what is left.

The processes are sampled while the jobs rest. How much they hold in the middle of their work depends on how busy the machine
is, since steps that take longer overlap more; what they hold at rest does not.
"""

import collections
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Callable, Counter, Dict, List, Optional, Sequence, Tuple

import psutil

from .jobs import JOBS
from .place import MARK, ROOT, Job, Place, Step
from .proxy import CuttingProxy
from .samples import Samples, Watched, give_back, in_use

__all__ = ["Run"]

#: Seconds that one step of a job, and the end of everything, may take; far more than they need.
LIMIT = 120.0
#: Errors whose text is kept.
MOST_ERRORS = 50


class Run:
    """Starts everything with :meth:`start`; :meth:`rest` takes samples; :meth:`stop` ends it, also when the start failed.

    :param folder: for logs and samples.
    :param names: the jobs whose names contain one of these.
    :param kept: seconds that the server keeps what clients do not come back for.
    """

    def __init__(self, folder: Path, names: Sequence[str], kept: float) -> None:
        self._folder = folder
        self._kept = kept
        self.jobs = [job for job in JOBS if any(name in job.name for name in names)]
        self.samples = Samples(folder / "samples")
        #: Guards the fields below.
        self._lock = threading.Lock()
        self.steps: Counter[str] = collections.Counter()
        self.failed: Counter[str] = collections.Counter()
        self.errors: List[str] = []
        #: Guards the two fields below, and tells the jobs of the end of a rest, and the rest of the end of a step.
        self._turn = threading.Condition()
        #: When the job's step began that is not over yet.
        self._busy: Dict[str, float] = {}
        #: Whether no job may begin a step.
        self._resting = False
        self._watched: Dict[str, Watched] = {}
        #: CPU seconds of the processes at the end.
        self.cpu = 0.0
        self._stopping = threading.Event()
        self._threads: List[threading.Thread] = []
        self._begun = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begun

    # --- start ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server and the jobs."""
        self._driver_before = self._driver_holds()
        # A program that drives may have children of its own, such as the resource tracker of multiprocessing.
        self._children_before = set(psutil.Process().children())
        log = self._folder / "server.log"
        with open(log, "wb") as stderr:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.soak.server", "http", str(self._kept)], cwd=str(ROOT),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, encoding="utf-8")
        assert self._server.stdout is not None
        url = self._server.stdout.readline().strip()
        if not url:
            self._server.kill()
            raise RuntimeError(f"the server did not start:\n{log.read_text('utf-8')}")
        self._proxy = CuttingProxy(url, MARK.encode())
        self._watch("server", self._server.pid, str(log))
        self._watch("driver", os.getpid(), "")
        self._server_before = self._watched["server"].held()
        place = Place(url, self._proxy.url, self._folder, self._watch, self._note)
        self._begun = time.monotonic()
        for job in self.jobs:
            # It ends with stop(), and blocks on the server's answers and on the pause between two steps.
            thread = threading.Thread(target=self._work, args=(job, place), name=f"soak {job.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _watch(self, name: str, pid: int, log: str) -> None:
        # A job that failed opens its connection again: the new process takes the old one's place.
        with self._lock:
            self._watched[name] = Watched(name, pid, log)

    def _note(self, name: str, value: float) -> None:
        with self._lock:
            self.samples.add(name, self.elapsed, value)

    # --- the jobs ---------------------------------------------------------------------------------------------------

    def _work(self, job: Job, place: Place) -> None:
        while not self._stopping.is_set():
            self._begin(job)
            try:
                with job.open(place) as step:
                    self._repeat(job, step)
                    self._begin(job)  # the end of the block closes the job's client
            except Exception:
                self._fail(job.name, traceback.format_exc())
                self._pause(job, time.monotonic() + job.every)
        self._end(job.name)

    def _repeat(self, job: Job, step: Step) -> None:
        due = time.monotonic() + random.uniform(0, job.every)
        while not self._pause(job, due):
            self._begin(job)
            step()
            with self._lock:
                self.steps[job.name] += 1
            due = max(due + job.every, time.monotonic())

    def _begin(self, job: Job) -> None:
        with self._turn:
            self._turn.wait_for(lambda: not self._resting or self._stopping.is_set())
            self._busy[job.name] = time.monotonic()

    def _end(self, name: str) -> None:
        with self._turn:
            self._busy.pop(name, None)
            self._turn.notify_all()

    def _pause(self, job: Job, until: float) -> bool:
        self._end(job.name)
        return self._stopping.wait(max(0.0, until - time.monotonic()))

    def _fail(self, what: str, text: str) -> None:
        with self._lock:
            self.failed[what] += 1
            if len(self.errors) < MOST_ERRORS:
                self.errors.append(f"{what}, after {self.elapsed:.0f} s: {text}")

    # --- samples ----------------------------------------------------------------------------------------------------

    def rest(self, seconds: float, ended: threading.Event) -> None:
        """Let the jobs end their steps and do nothing for some seconds, take a sample of each process, and let them go on.

        :param seconds: at least as long as an idle thread of a pool stays, or a session of a client that went away; else the
            sample depends on how many of them the work before had.
        :param ended: when it is set, the rest ends early and takes no sample.
        """
        with self._turn:
            self._resting = True
        try:
            until = time.monotonic() + LIMIT
            while self._steps_left() and time.monotonic() < until and not ended.is_set():
                self.find_hanging()
                with self._turn:
                    self._turn.wait_for(lambda: not self._busy, 1.0)
            if not ended.wait(seconds):
                self._look()
        finally:
            with self._turn:
                self._resting = False
                self._turn.notify_all()

    def _steps_left(self) -> bool:
        with self._turn:
            return bool(self._busy)

    def _look(self) -> None:
        give_back()
        with self._lock:
            for watched in self._watched.values():
                with contextlib.suppress(psutil.NoSuchProcess):
                    watched.look(self.samples, self.elapsed)
            self.samples.add("driver: children", self.elapsed, len(psutil.Process().children()))
            for name, value in in_use().items():
                self.samples.add(f"driver: {name}", self.elapsed, value)

    def find_hanging(self) -> None:
        """Note the jobs whose step takes too long."""
        with self._turn:
            busy = list(self._busy.items())
        for name, since in busy:
            if time.monotonic() - since > LIMIT:
                self._end(name)
                self._fail(name, f"it hangs: a step takes more than {LIMIT:.0f} s")

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the jobs and the server, and note what is left of them as errors."""
        self._stopping.set()
        with self._turn:
            self._turn.notify_all()
        until = time.monotonic() + LIMIT
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self._fail(thread.name, "it did not end")
        if "server" in self._watched:
            with contextlib.suppress(psutil.NoSuchProcess):  # its status says why
                self.cpu = sum(self._watched[name].cpu() for name in ("server", "driver"))
                self._settle("the server", self._watched["server"].held, self._server_before)
            self._end_server()
        self._settle("the driver", self._driver_holds, self._driver_before)
        left = set(psutil.Process().children()) - self._children_before
        if left:
            self._fail("the driver", f"children are left: {left}")

    def _end_server(self) -> None:
        self._proxy.close()
        if self.steps["cut streams"] > 1 and not self._proxy.cuts:
            self._fail("cut streams", "none was cut")
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        try:
            status: Optional[int] = self._server.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._server.kill()
            status = self._server.wait()
        self._server.stdout.close()
        if status != 0:
            self._fail("the server", f"it ended with status {status}")

    def _driver_holds(self) -> Tuple[int, int]:
        return psutil.Process().num_fds(), threading.active_count()

    def _settle(self, name: str, held: Callable[[], Tuple[int, int]], before: Tuple[int, int]) -> None:
        until = time.monotonic() + LIMIT
        while any(now > then for now, then in zip(held(), before)):
            if time.monotonic() > until:
                self._fail(name, f"it holds {held()} descriptors and threads, {before} before the jobs")
                return
            time.sleep(0.2)
