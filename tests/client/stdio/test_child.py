import ctypes
import os
import signal
import threading

import pytest

from mcplite.client.stdio.child import Child, describe_exit
from mcplite.errors import TransportError
from mcplite.rpc.deadline import Deadline
from mcplite.rpc.threads import wait_for_end
from tests.support import children
from tests.support.systems import posix_only, windows_only

script, wait_until = children.script, children.wait_until


def finish(child):
    """Close what a channel would close, and end the child."""
    os.close(child.stdin)
    child.end(children.LIMIT, children.LIMIT)
    os.close(child.stdout)
    os.close(child.exit_fd)


@pytest.mark.parametrize("status, words", [
    (0, "exited with status 0"), (3, "exited with status 3"), pytest.param(-9, "was killed by SIGKILL", marks=posix_only),
    (-15, "was killed by SIGTERM"), (-99, "was killed by signal 99"),
])
def test_how_a_process_ended_in_words(status, words):
    assert describe_exit(status) == words


@pytest.mark.parametrize("body, status", [
    ("sys.exit(3)", 3), pytest.param("os.kill(os.getpid(), 15)", -signal.SIGTERM, marks=posix_only)])
@pytest.mark.parametrize("waitid", [True, False])
def test_the_status_is_known_before_and_after_the_process_is_reaped(body, status, waitid, monkeypatch):
    if not waitid:
        monkeypatch.delattr(os, "waitid", raising=False)
    child = Child(script(body))
    assert wait_until(lambda: child.returncode is not None)
    assert child.returncode == child.wait_briefly() == status
    finish(child)
    assert child.returncode == status


@posix_only
def test_a_process_is_not_reaped_before_its_group_was_ended():
    child = Child(script("sys.exit(0)"))
    assert wait_until(lambda: child.returncode is not None)
    os.killpg(child.pid, 0)  # still a zombie: no other process can have the id
    finish(child)
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)


def test_a_system_that_forbids_to_watch_by_descriptor(monkeypatch):
    def forbid(pid):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", forbid, raising=False)
    child = Child(script("sys.stdin.read()"))
    finish(child)
    assert child.returncode == 0


@posix_only
def test_a_group_that_may_not_be_signalled(monkeypatch):
    child = Child(script("sys.stdin.read()"))

    def forbid(pid, number):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", forbid)
    finish(child)
    assert child.returncode == 0


def test_an_interrupt_while_a_thread_starts_closes_each_descriptor_once(monkeypatch):
    threads, real = [], threading.Thread.start

    def start(thread):
        real(thread)
        threads.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        Child(script("sleep()"))
    for thread in threads:
        assert wait_for_end(thread, Deadline(30))


# --- the job object of Windows ------------------------------------------------------------------------

#: Starts a process of its own at once, says its id, and ends as it is told.
PARENT = "say(spawn('time.sleep(600)').pid)\n"


def first_line(child):
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(child.stdout, 100)
    return int(line)


@windows_only
@pytest.mark.parametrize("after", ["sys.exit(0)", "sleep()", "sys.stdin.read()"])
def test_the_processes_of_a_child_end_with_it(after):
    child = Child(script(PARENT + after))
    grandchild = first_line(child)
    os.close(child.stdin)
    child.end(0.5, children.LIMIT)
    assert wait_until(lambda: not children.alive(grandchild)) and not children.alive(child.pid)
    os.close(child.stdout)
    os.close(child.exit_fd)


@windows_only
def test_without_a_job_object_no_child_is_started(monkeypatch):
    def assign(job, process):
        started.append(process)
        return False

    class Without:
        AssignProcessToJobObject = staticmethod(assign)

        def __getattr__(self, name):
            return getattr(real, name)

    started, real = [], ctypes.WinDLL("kernel32", use_last_error=True)
    monkeypatch.setattr(ctypes, "WinDLL", lambda name, **options: Without())
    with pytest.raises(TransportError, match="there is no job object"):
        Child(script("sleep()"))
    assert len(started) == 1
