"""Locks between processes and threads: processes that die, files that are removed, and systems without locks."""

import contextlib
import errno
import os
import threading

import pytest

from mcplite.auth.login import locks as locks_module
from mcplite.auth.login.file_store import FileStore
from mcplite.auth.login.locks import FileLocks
from tests.support.keeping import LIMIT, OLD, GaveUp, child, entries, give_up, never, patient, refused
from tests.support.systems import open_descriptors, posix_only, windows_only

PRELUDE = """
import os, sys
from mcplite.auth.login.locks import FileLocks

locks = FileLocks(sys.argv[1])

def say(word):
    print(word, flush=True)
"""
HOLD = """
with locks.hold("a", lambda: None):
    say("held")
    sys.stdin.read()
"""


# --- processes ------------------------------------------------------------------------------------


def test_a_process_that_is_killed_releases_its_lock(tmp_path):
    locks = FileLocks(str(tmp_path))
    with child(PRELUDE + HOLD, tmp_path) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(GaveUp):
            locks.hold("a", give_up).__enter__()
        process.kill()
        with locks.hold("a", patient()):
            pass
    with locks.hold("a", never):
        pass


@posix_only
def test_a_child_that_was_forked_while_a_lock_was_held_does_not_hold_it(tmp_path):
    locks = FileLocks(str(tmp_path))
    with child(PRELUDE + """
with locks.hold("a", lambda: None):
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
say("let go")
os.wait()
""", tmp_path) as process:
        assert process.stdout.readline() == "let go\n"
        with locks.hold("a", never):
            pass
        process.stdin.close()
        assert process.wait(LIMIT) == 0


# --- files ----------------------------------------------------------------------------------------


def test_a_lock_on_a_removed_file_does_not_count(tmp_path, monkeypatch):
    """The waiting thread has opened the file that the holder removes; a third one has locked the new file."""
    one, other, third = (FileLocks(str(tmp_path)) for _ in range(3))
    holding, waiting = one.hold("lock", never), []
    holding.__enter__()
    real, kept = locks_module._lock, contextlib.ExitStack()

    def lock(descriptor):
        # Between opening the file and locking it, all changes.
        monkeypatch.setattr(locks_module, "_lock", real)
        holding.__exit__(None, None, None)
        kept.enter_context(third.hold("lock", never))
        return real(descriptor)

    monkeypatch.setattr(locks_module, "_lock", lock)

    def wait():
        waiting.append(os.stat(tmp_path / "lock").st_ino)
        kept.close()

    with other.hold("lock", wait):
        assert len(waiting) == 1
        with pytest.raises(GaveUp):
            third.hold("lock", give_up).__enter__()
    assert entries(tmp_path) == []


def test_a_thread_that_gives_up_waiting_leaves_no_file_open(tmp_path, monkeypatch):
    monkeypatch.setattr(locks_module, "_LONGEST_PAUSE_SECONDS", 0.002)
    one, other = FileLocks(str(tmp_path)), FileLocks(str(tmp_path))
    asked = []

    def wait():
        asked.append(threading.current_thread())
        if len(asked) == 10:
            raise GaveUp

    with one.hold("lock", never):
        before = open_descriptors()
        with pytest.raises(GaveUp):
            other.hold("lock", wait).__enter__()
        assert open_descriptors() == before


def test_a_folder_without_locks_is_an_error_that_names_it(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks_module, "_lock", fail)
    assert refused(lambda: FileLocks(str(tmp_path)).hold("a", never).__enter__()) == (
        f"cannot lock {tmp_path / 'a'}: No locks available")


@posix_only
def test_a_folder_of_locks_that_others_can_write_into_is_refused(tmp_path):
    tmp_path.chmod(0o770)
    assert "chmod go-w" in refused(lambda: FileLocks(str(tmp_path)).hold("a", never).__enter__())
    tmp_path.chmod(0o700)
    assert entries(tmp_path) == [] and str(tmp_path) in repr(FileLocks(str(tmp_path)))


# --- Windows --------------------------------------------------------------------------------------


@windows_only
def test_a_lock_that_fails_on_windows_is_an_error(path, monkeypatch):
    real = locks_module._lock
    monkeypatch.setattr(locks_module, "_lock", lambda descriptor: real(descriptor + 1000))
    assert "Bad file descriptor" in refused(lambda: FileStore(path).save("a", OLD))


@windows_only
def test_a_lock_whose_file_another_program_has_for_itself_is_waited_for(tmp_path):
    import _winapi

    path = str(tmp_path / "a")
    handles = [_winapi.CreateFile(path, _winapi.GENERIC_READ, 0, 0, 2, 0, 0)]  # shared with none; CREATE_ALWAYS

    def wait():
        if handles:
            _winapi.CloseHandle(handles.pop())

    with FileLocks(str(tmp_path)).hold("a", wait):
        assert handles == []
