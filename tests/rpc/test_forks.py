"""What a forked process does with the objects it finds: actions, locks, descriptors, sockets, signals."""

import gc
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import mcplite
from mcplite.rpc import forks
from tests.support.forks import LIMIT, POSIX_ONLY, fork, fork_that_lives, in_fork

pytestmark = POSIX_ONLY
PACKAGE = Path(mcplite.__file__).resolve().parent


class Thing:
    def __init__(self):
        self.owners = []
        forks.on_fork(self, Thing.let_go)

    def let_go(self, owner):
        self.owners.append(owner)


def test_an_action_gets_its_object_and_the_process_forked_from():
    thing = Thing()
    assert in_fork(lambda: (thing.owners, os.getppid())) == ([os.getpid()], os.getpid())
    assert thing.owners == []


def test_in_a_fork_of_a_fork_the_action_is_called_again():
    thing = Thing()

    def forked():
        return os.getpid(), in_fork(lambda: thing.owners)

    middle, owners = in_fork(forked)
    assert owners == [os.getpid(), middle]


def test_objects_are_not_kept_alive():
    thing = Thing()
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_an_action_that_fails_does_not_keep_the_others_from_running(caplog):
    def fail(thing, owner):
        raise KeyError("this one")

    first, second = threading.Event(), Thing()
    forks.on_fork(first, fail)
    third = Thing()

    def forked():
        return second.owners, third.owners, caplog.text

    owners, others, said = in_fork(forked)
    assert owners == others == [os.getpid()]
    assert "could not be let go after a fork" in said and "this one" in said


def test_a_fork_waits_for_a_lock_that_guards_a_library():
    lock, held, inside = forks.new_awaited_lock(), threading.Event(), []

    def use():
        with lock:
            inside.append(1)
            held.set()
            time.sleep(0.3)
            inside.clear()

    thread = threading.Thread(target=use)
    thread.start()
    assert held.wait(LIMIT)
    assert in_fork(lambda: (inside, lock.acquire(blocking=False))) == ([], True)
    thread.join()
    assert lock.acquire(blocking=False), "it is given back here"


class Locked:
    def __init__(self):
        self.lock, self.nested = threading.Lock(), threading.RLock()
        self.changed, self.event, self.ended = threading.Condition(), threading.Event(), threading.Event()


@pytest.mark.parametrize("registered", [True, False])
def test_locks_that_another_thread_holds_are_free_in_a_fork(registered):
    locked, held, over = Locked(), threading.Event(), threading.Event()
    locked.event.set()
    if registered:
        forks.on_fork(locked, lambda locked, owner: None)

    def hold():
        with locked.lock, locked.nested, locked.changed:
            held.set()
            over.wait(LIMIT)

    def forked():
        if not registered:
            forks.renew(locked)
        with locked.changed:
            locked.changed.notify_all()
            woken = locked.changed.wait(0.01)
        free = [lock.acquire(blocking=False) for lock in (locked.lock, locked.nested, locked.changed)]
        return free, woken, locked.event.is_set(), locked.ended.is_set()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(LIMIT)
        assert in_fork(forked) == ([True, True, True], False, True, False)
        assert not locked.lock.acquire(blocking=False), "it is still held here"
    finally:
        over.set()
        thread.join()


#: Modules whose objects act on a fork themselves, and why no owner does it for them.
OWNERS = {
    "client/client.py": "a client; its connection, channel and subscriptions follow",
    "server/runtime/runtime.py": "a server; its connections, services and turns follow",
    "server/transports/httpd.py": "an HTTP server", "server/transports/wsgi.py": "an application that a host serves",
    "server/transports/signals.py": "signal handlers",
    "backend/memory.py": "a backend",
    "backend/log_watch.py": "a shared backend, each of which has one watch",
    "net/connection_pool.py": "connections",
}


def test_owners_act_on_forks_and_what_they_own_follows():
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if path.name != "forks.py"
             and "on_fork(" in path.read_text(encoding="utf-8")}
    assert found <= set(OWNERS), "have the owner call a method let_go() in a forked process"


# --- descriptors and sockets -----------------------------------------------------------------------------------------


def test_a_released_descriptor_ends_for_the_other_side_and_keeps_its_number():
    read, write = os.pipe()

    class Owner:
        pass

    owner = Owner()
    forks.on_fork(owner, lambda owner, pid: forks.release(write))
    with fork_that_lives():
        os.close(write)
        assert select.select([read], [], [], LIMIT)[0] and os.read(read, 1) == b""
    os.close(read)


def test_a_released_descriptor_leads_to_the_null_device():
    def forked():
        read, write = os.pipe()
        forks.release(read)
        forks.release(write)
        forks.release(None)
        forks.release(-1)
        return os.read(read, 1), os.write(write, b"x"), [os.get_inheritable(fd) for fd in (read, write)]

    assert in_fork(forked) == (b"", 1, [False, False])


def test_a_descriptor_that_was_closed_meanwhile_is_left_alone():
    def forked():
        read, write = os.pipe()
        os.close(read)
        forks.release(read)
        with pytest.raises(OSError):
            os.fstat(read)
        return True

    assert in_fork(forked)


def test_a_released_socket_says_nothing_to_the_other_side():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        forks.on_fork(ours, forks.release_socket)
        with fork_that_lives():
            theirs.settimeout(LIMIT)
            ours.sendall(b"still here")
            assert theirs.recv(100) == b"still here"
            ours.close()
            assert theirs.recv(100) == b""
    forks.release_socket(ours)  # closed: nothing to do


def test_closing_a_socket_ends_the_connection_whichever_process_has_a_copy():
    ours, theirs = socket.socketpair()
    with ours, theirs, fork_that_lives():
        forks.close_socket(ours)
        theirs.settimeout(LIMIT)
        assert theirs.recv(1) == b""
    forks.close_socket(ours)


# --- the end of a forked process, and signals ------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "status"), [(None, 1), (KeyError("x"), 1), (SystemExit(None), 0), (SystemExit(7), 7),
                                               (SystemExit("no"), 1)])
def test_the_end_of_a_forked_process(error, status, capfd):
    pid = fork()
    if pid == 0:
        logging.lastResort.setLevel(logging.ERROR)
        for handler in list(logging.root.handlers):
            logging.root.removeHandler(handler)
        forks.end_process("the handler of 'x'", error)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status
    said = capfd.readouterr().err
    assert ("the handler of 'x' has returned in process" in said) == (not isinstance(error, SystemExit))
    assert ("KeyError" in said) == isinstance(error, KeyError)


def test_a_signal_that_comes_before_the_former_handlers_are_back_is_not_lost():
    class Former:
        pass

    noted, sender, former = [], Former(), Former()
    forks.on_fork(sender, lambda sender, owner: os.kill(os.getpid(), signal.SIGTERM))
    forks.on_fork(former, lambda former, owner: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    before = signal.signal(signal.SIGTERM, lambda number, frame: noted.append(number))
    try:
        with forks.signals_held([signal.SIGTERM]):
            pid = fork()
            if pid == 0:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
        assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert noted == []


def test_a_fork_leaves_the_mask_of_its_thread_as_it_was():
    with forks.signals_held([signal.SIGTERM]):
        assert in_fork(lambda: signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])) is False
        assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            assert in_fork(lambda: signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])) is True
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- forks that a host does not tell Python of ------------------------------------------------------------------------


SILENT = """
import ctypes, os, sys
import mcplite
from mcplite.rpc import forks

class Thing:
    pass

thing, owners = Thing(), []
forks.on_fork(thing, lambda thing, owner: owners.append(owner))
server = mcplite.Server("shop", backend=f"sqlite:///{sys.argv[1]}", state_keys=["k" * 32])
application, first = server.wsgi(allowed_hosts=["shop"]), server.runtime.processes.leases.candidate
endpoint, parent = application.endpoint, os.getpid()
child = ctypes.PyDLL(None).fork()
if not child:
    before = list(owners), server.runtime.processes.leases.candidate == first
    for _ in range(2):
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "", "HTTP_HOST": "shop", "wsgi.input": None}
        b"".join(application(environ, lambda status, headers: None))
    after = owners, server.runtime.processes.leases.candidate == first, application.endpoint is endpoint
    print(before, after, ([], True), ([parent], False, False))
    sys.stdout.flush()
    os._exit(before != ([], True) or after != ([parent], False, False))
status = os.waitpid(child, 0)[1]
forks.catch_up_with_fork()
assert status == 0 and not owners and server.runtime.processes.leases.candidate == first
"""


def test_a_served_application_notices_a_fork_that_python_was_not_told_of(tmp_path):
    done = subprocess.run([sys.executable, "-c", SILENT, str(tmp_path / "shop.db")], cwd=PACKAGE.parent, timeout=LIMIT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    assert done.returncode == 0, done.stdout
