"""Where files are, their modes, and which files and folders a store refuses at every use.

Locks between processes and threads: processes that die, files that are removed, and systems without locks.
"""

import contextlib
import errno
import os
import stat
import subprocess
import threading

import pytest

from mcplite.auth.login import file_store
from mcplite.auth.login.file_store import FileLocks, FileStore, data_folder, digest, make_folder
from tests.support.keeping import LIMIT, NEW, OLD, GaveUp, child, entries, every_use, give_up, never, patient, refused
from tests.support.systems import needs_links, posix_only, windows_only


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# --- where they are -------------------------------------------------------------------------------


@pytest.mark.parametrize("platform, environ, expected", [
    ("linux", {"XDG_DATA_HOME": "/data"}, "/data/mcplite"),
    ("linux", {"XDG_DATA_HOME": "relative"}, "/home/me/.local/share/mcplite"),
    ("linux", {}, "/home/me/.local/share/mcplite"),
    ("darwin", {"XDG_DATA_HOME": "/data"}, "/home/me/Library/Application Support/mcplite"),
    ("win32", {"APPDATA": "/roaming"}, "/roaming/mcplite"),
])
def test_each_platform_has_its_place(platform, environ, expected, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USERPROFILE", "/home/me")
    # Windows joins with its own separator, whatever the platform that is asked for.
    assert data_folder(platform, environ).replace(os.sep, "/") == expected


def test_without_a_home_folder_the_error_says_what_to_set(monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert "MCPLITE_CREDENTIALS" in refused(lambda: data_folder("linux", {}))


# --- whom they are for ----------------------------------------------------------------------------


@posix_only
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277, 0o777])
def test_everything_is_for_its_owner_alone_whatever_the_umask(tmp_path, umask):
    path = tmp_path / "one" / "two" / "credentials.json"
    store, before = FileStore(path), os.umask(umask)
    try:
        store.save("a", OLD)
        with store.lock("a", never):
            modes = {name: mode_of(os.path.join(folder, name)) for folder, folders, files in os.walk(tmp_path)
                     for name in folders + files}
            store.save("a", NEW)
    finally:
        os.umask(before)
    assert modes == {"one": 0o700, "two": 0o700, "credentials.json": 0o600, "credentials.json.locks": 0o700,
                     digest("a"): 0o600}
    assert store.load("a") == NEW and mode_of(path) == 0o600


@posix_only
@pytest.mark.parametrize("mode", [0o644, 0o660, 0o640, 0o620, 0o604, 0o602, 0o777])
def test_a_file_that_others_can_use_is_refused(path, mode):
    store = FileStore(path)
    store.save("a", OLD)
    path.chmod(mode)
    for use in every_use(store):
        text = refused(use)
        assert f"chmod 600 {path}" in text and f"{mode:o}" in text
    assert mode_of(path) == mode
    path.chmod(0o600)
    assert store.load("a") == OLD


@posix_only
@pytest.mark.parametrize("mode", [0o770, 0o777, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_can_change_is_refused(path, mode):
    store = FileStore(path)
    store.save("a", OLD)
    path.parent.chmod(mode)
    for use in every_use(store):
        text = refused(use)
        assert f"chmod go-w {path.parent}" in text and f"{mode:o}" in text
    assert mode_of(path.parent) == mode
    path.parent.chmod(0o700)
    assert store.load("a") == OLD


@posix_only
@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711])
def test_a_folder_that_others_can_only_read_is_accepted(tmp_path, monkeypatch, mode):
    tmp_path.chmod(mode)
    monkeypatch.chdir(tmp_path)
    store = FileStore("credentials.json")
    for use in every_use(store):
        use()
    with store.lock("a", never):
        store.save("a", OLD)
    assert store.load("a") == OLD and mode_of(tmp_path) == mode
    assert {name: mode_of(tmp_path / name) for name in entries(tmp_path)} == {
        "credentials.json": 0o600, "credentials.json.locks": 0o700}


@posix_only
@pytest.mark.parametrize("what, mode", [("file", 0o644), ("folder", 0o777)])
def test_the_command_in_an_error_can_be_run_as_it_is(tmp_path, what, mode):
    path = tmp_path / "it's; a $(folder)" / "credentials.json"
    store = FileStore(path)
    store.save("a", OLD)
    (path if what == "file" else path.parent).chmod(mode)
    command = refused(lambda: store.load("a")).partition("run: ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    assert store.load("a") == OLD


@needs_links
def test_a_symbolic_link_to_a_file_is_refused(path, tmp_path):
    target = tmp_path / "target.json"
    FileStore(tmp_path / "target.json").save("a", OLD)
    content = target.read_bytes()
    path.parent.mkdir(0o700)
    path.symlink_to(target)
    for use in every_use(FileStore(path)):
        assert f"{path} is a symbolic link" in refused(use)
    assert target.read_bytes() == content and path.is_symlink()


@needs_links
def test_a_link_that_appears_after_the_check_is_not_followed(path, tmp_path, monkeypatch):
    FileStore(tmp_path / "target.json").save("a", OLD)
    path.parent.mkdir(0o700)
    path.symlink_to(tmp_path / "target.json")
    monkeypatch.setattr(os.path, "islink", lambda path: False)
    assert f"cannot read {path}" in refused(lambda: FileStore(path).load("a"))


@needs_links
def test_a_symbolic_link_to_a_folder_is_refused(path, tmp_path):
    (tmp_path / "real").mkdir(0o700)
    path.parent.symlink_to(tmp_path / "real")
    for use in every_use(FileStore(path)):
        assert f"{path.parent} is a symbolic link" in refused(use)
    assert entries(tmp_path / "real") == []


@posix_only
def test_files_of_another_user_are_refused(path, monkeypatch):
    store = FileStore(path)
    store.save("a", OLD)
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    for use in every_use(store):
        assert refused(use).startswith(f"{path.parent} belongs to the user with the id {us}")
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda name: os.stat_result(
        [value + 1 if number == 4 else value for number, value in enumerate(real(name))]))
    assert refused(store.keys).startswith(f"{path} belongs to the user with the id {us}")


def test_a_folder_is_refused_as_a_file(path):
    make_folder(str(path))
    assert str(path) in refused(lambda: FileStore(path).load("a"))


@posix_only
def test_a_pipe_is_refused_as_a_file(path):
    make_folder(str(path.parent))
    os.mkfifo(path, 0o600)
    assert f"{path} is not a file" in refused(lambda: FileStore(path).save("a", OLD))


def test_a_file_in_the_place_of_the_folder_is_refused(path):
    path.parent.write_text("a file")
    for use in every_use(FileStore(path)):
        assert f"{path.parent} is not a folder" in refused(use)


def test_a_file_in_the_place_of_a_folder_above_is_refused(tmp_path):
    (tmp_path / "file").write_text("a file")
    store = FileStore(tmp_path / "file" / "folder" / "credentials.json")
    reading_and_writing, writing = every_use(store), lambda: store.lock("a", never).__enter__()
    # Windows does not tell a file in the way from a folder that is missing, where nothing is read.
    for use in [*(reading_and_writing if os.name == "posix" else reading_and_writing[1:2]), writing]:
        text = refused(use)
        assert str(tmp_path / "file") in text and ("Not a directory" if os.name == "posix" else "is not a folder") in text


# --- files that are open elsewhere ----------------------------------------------------------------


@windows_only
def test_a_file_that_another_has_open_for_a_moment_is_replaced(path):
    store = FileStore(path)
    store.save("a", OLD)
    elsewhere = os.open(path, os.O_RDONLY)
    closing = threading.Timer(0.2, os.close, [elsewhere])
    closing.start()
    store.save("a", NEW)
    closing.join()
    assert store.load("a") == NEW and entries(path.parent) == ["credentials.json"]


@windows_only
def test_a_file_that_another_keeps_open_is_an_error_and_stays(path, monkeypatch):
    monkeypatch.setattr(file_store, "_OPEN_SECONDS", 0.1)
    store = FileStore(path)
    store.save("a", OLD)
    elsewhere = os.open(path, os.O_RDONLY)
    try:
        assert refused(lambda: store.save("a", NEW)).startswith(f"cannot write {path}: ")
    finally:
        os.close(elsewhere)
    assert store.load("a") == OLD and entries(path.parent) == ["credentials.json"]


PRELUDE = """
import os, sys
from mcplite.auth.login.file_store import FileLocks

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
    real, kept = file_store._lock, contextlib.ExitStack()

    def lock(descriptor):
        # Between opening the file and locking it, all changes.
        monkeypatch.setattr(file_store, "_lock", real)
        holding.__exit__(None, None, None)
        kept.enter_context(third.hold("lock", never))
        return real(descriptor)

    monkeypatch.setattr(file_store, "_lock", lock)

    def wait():
        waiting.append(os.stat(tmp_path / "lock").st_ino)
        kept.close()

    with other.hold("lock", wait):
        assert len(waiting) == 1
        with pytest.raises(GaveUp):
            third.hold("lock", give_up).__enter__()
    assert entries(tmp_path) == []


def test_a_folder_without_locks_is_an_error_that_names_it(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(file_store, "_lock", fail)
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
    real = file_store._lock
    monkeypatch.setattr(file_store, "_lock", lambda descriptor: real(descriptor + 1000))
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
