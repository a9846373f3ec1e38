"""The file, what is in it, whom it is for, and what is left of it when processes die. Stores in general: test_stores.py."""

import contextlib
import errno
import os
import stat
import subprocess
import threading

import pytest

from mcplite.auth.login import file_store as file_module
from mcplite.auth.login.file_store import FileLocks, FileStore, data_folder, digest, make_folder
from mcplite.errors import AuthError
from tests.support import keeping
from tests.support.keeping import LIMIT, NEW, OLD, GaveUp, child, entries, every_use, give_up, never, patient, refused
from tests.support.systems import needs_links, posix_only, windows_only

PRELUDE = """
import os, sys, threading
from mcplite.auth.login.file_store import FileStore

store = FileStore(sys.argv[1])

def say(word):
    print(word, flush=True)
"""
HOLD = """
with store.lock("a", lambda: None):
    say("held")
    sys.stdin.read()
"""
STOP_BEFORE_REPLACE = """
def stopped(source, target):
    say("stopped")
    sys.stdin.read()

os.replace = stopped
store.save("a", {"refresh_token": "never"})
"""
COUNT = """
def count():
    for _ in range(5):
        with store.lock("a", lambda: None):
            store.save("a", {"n": (store.load("a") or {"n": 0})["n"] + 1})
        name = f"{os.getpid()} {threading.get_ident()}"
        store.save(name, {"n": (store.load(name) or {"n": 0})["n"] + 1})

say("ready")
sys.stdin.readline()
threads = [threading.Thread(target=count) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


# --- where the file is ----------------------------------------------------------------------------


def test_the_path_is_given_or_of_the_environment_or_of_the_platform(path, tmp_path, monkeypatch):
    FileStore(path).save("a", OLD)
    assert FileStore(str(path)).load("a") == OLD
    monkeypatch.chdir(path.parent)
    relative = FileStore("credentials.json")
    monkeypatch.chdir(tmp_path)
    assert relative.load("a") == OLD
    assert repr(relative) == f"FileStore({str(path)!r})"
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(path.parent.parent))
    assert FileStore("~/store/credentials.json").load("a") == OLD
    monkeypatch.setenv("MCPLITE_CREDENTIALS", str(path))
    assert FileStore().load("a") == OLD
    monkeypatch.setenv("MCPLITE_CREDENTIALS", "")
    monkeypatch.setattr(file_module, "data_folder", lambda: str(tmp_path / "mcplite"))
    FileStore().save("a", NEW)
    assert FileStore(tmp_path / "mcplite" / "credentials.json").load("a") == NEW


# --- whom it is for -------------------------------------------------------------------------------


@posix_only
def test_the_file_is_never_open_to_others_while_it_is_written(path, monkeypatch):
    opened, real = [], os.open

    def open_(name, flags, mode=0o777, **options):
        if flags & os.O_CREAT:
            opened.append((os.path.basename(name), bool(flags & os.O_EXCL), bool(flags & os.O_NOFOLLOW), mode))
        return real(name, flags, mode, **options)

    monkeypatch.setattr(os, "open", open_)
    FileStore(path).save("a", OLD)
    assert opened == [("credentials.json.lock", False, True, 0o600), ("credentials.json.new", True, True, 0o600)]


@needs_links
@pytest.mark.parametrize("name", ["credentials.json.new", "credentials.json.lock"])
def test_a_link_in_the_place_of_a_file_beside_it_is_not_followed(path, tmp_path, name):
    target = tmp_path / "target"
    target.write_text("precious")
    path.parent.mkdir(0o700)
    (path.parent / name).symlink_to(target)
    with contextlib.suppress(AuthError):
        FileStore(path).save("a", OLD)
    assert target.read_text() == "precious"


# --- what is in it --------------------------------------------------------------------------------


def test_reading_makes_nothing(path, tmp_path):
    store = FileStore(path)
    assert store.load("a") is None and store.keys() == []
    store.delete("a")
    assert entries(tmp_path) == []


@posix_only
def test_a_file_can_be_read_where_nothing_can_be_written(path):
    FileStore(path).save("a", OLD)
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        assert FileStore(path).load("a") == OLD
    finally:
        path.parent.chmod(0o700)


def test_nothing_but_the_file_is_left(path):
    store = FileStore(path)
    store.save("a", OLD)
    with store.lock("a", never):
        store.save("b", NEW)
    assert entries(path.parent) == ["credentials.json", "credentials.json.locks"]
    assert entries(path.parent / "credentials.json.locks") == []


@pytest.mark.parametrize("content", [
    b"", b"{", b'{"version": 1, "records": {"a": {"token": "s3cret"}', b"[]", b"null", b'"s3cret"', b"\xff\xfes3cret",
    b"{}", b'{"version": 1}', b'{"version": 2, "records": {"a": {"token": "s3cret"}}}',
    b'{"version": 1, "records": ["s3cret"]}', b'{"version": 1, "records": {"a": "s3cret"}}', b"[" * 100_000,
], ids=lambda content: repr(content[:40]))
def test_a_damaged_file_is_named_and_left_as_it_is(path, content):
    keeping.make_own_file(path)
    path.write_bytes(content)
    for use in every_use(FileStore(path)):
        text = refused(use)
        assert str(path) in text and "left as it is" in text
    assert path.read_bytes() == content
    assert entries(path.parent) == ["credentials.json"]


def test_an_edited_file_is_read(path):
    keeping.make_own_file(path)
    path.write_text('{\n  "version": 1,\n  "records": {\n    "ü": {"token": "ñ"}\n  }\n}\n', "utf-8")
    assert FileStore(path).load("ü") == {"token": "ñ"}


# --- writing --------------------------------------------------------------------------------------


def test_a_saved_record_is_on_the_disk(path, monkeypatch):
    done, fsync, replace = [], os.fsync, os.replace
    store = FileStore(path)
    store.save("a", OLD)

    def flushed(descriptor):
        found = os.fstat(descriptor)
        if os.path.samestat(found, os.stat(path.parent)):
            done.append("folder")
        else:
            assert os.path.samestat(found, os.stat(f"{path}.new"))
            done.append(f"{found.st_size} bytes of the new file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    store.save("a", {})
    # Windows has no flush of a folder.
    assert done == [f"{path.stat().st_size} bytes of the new file", "replace"] + ["folder"] * (os.name == "posix")


@pytest.mark.parametrize("function", ["fsync", "replace", pytest.param("fchmod", marks=posix_only)])
def test_a_failed_write_is_an_error_and_leaves_the_old_content(path, monkeypatch, function):
    store = FileStore(path)
    store.save("a", OLD)

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        for use in (lambda: store.save("a", NEW), lambda: store.delete("a")):
            text = refused(use)
            assert text.startswith("cannot ") and str(path) in text and text.endswith(": No space left on device")
    assert store.load("a") == OLD
    assert "credentials.json.new" not in entries(path.parent)
    store.save("a", NEW)
    assert store.load("a") == NEW and entries(path.parent) == ["credentials.json"]


def test_a_process_that_is_stopped_and_killed_in_mid_write_leaves_the_old_content(path, monkeypatch):
    store = FileStore(path)
    store.save("a", OLD)
    with child(PRELUDE + STOP_BEFORE_REPLACE, path) as process:
        assert process.stdout.readline() == "stopped\n"
        if os.name == "posix":
            assert store.load("a") == OLD  # reading does not wait; on Windows it does
        with monkeypatch.context() as patch:
            patch.setattr(file_module, "_WRITE_SECONDS", 0.05)
            assert f"another process has been writing {path}" in refused(lambda: store.save("a", NEW))
    assert entries(path.parent) == ["credentials.json", "credentials.json.lock", "credentials.json.new"]
    assert store.load("a") == OLD
    store.save("b", NEW)
    assert store.load("a") == OLD and store.load("b") == NEW
    assert entries(path.parent) == ["credentials.json"]


# --- holding --------------------------------------------------------------------------------------


def test_processes_and_threads_that_lock_in_turn_lose_no_change(path):
    with child(PRELUDE + COUNT, path) as one, child(PRELUDE + COUNT, path) as other:
        for process in (one, other):
            assert process.stdout.readline() == "ready\n"
        for process in (one, other):
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait(LIMIT) for process in (one, other)] == [0, 0]
    store = FileStore(path)
    assert store.load("a") == {"n": 20}
    # And what each thread wrote without holding anything is there as well.
    assert [store.load(key) for key in store.keys() if key != "a"] == [{"n": 5}] * 4


def test_a_record_that_another_process_has_locked_is_waited_for_until_it_is_killed(path):
    store = FileStore(path)
    with child(PRELUDE + HOLD, path) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(GaveUp):
            store.lock("a", give_up).__enter__()
        store.save("a", NEW)  # the store itself is free, and so are other records
        with store.lock("b", never):
            pass
        process.kill()
        with store.lock("a", patient()):
            pass


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


@pytest.mark.parametrize("make", [os.mkdir, pytest.param(lambda path: os.mkfifo(path, 0o600), marks=posix_only)])
def test_a_folder_or_a_pipe_is_refused_as_a_file(path, make):
    make_folder(str(path.parent))
    make(path)
    assert str(path) in refused(lambda: FileStore(path).load("a"))
    assert str(path) in refused(lambda: FileStore(path).save("a", OLD))


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
    monkeypatch.setattr(file_module, "_OPEN_SECONDS", 0.1)
    store = FileStore(path)
    store.save("a", OLD)
    elsewhere = os.open(path, os.O_RDONLY)
    try:
        assert refused(lambda: store.save("a", NEW)).startswith(f"cannot write {path}: ")
    finally:
        os.close(elsewhere)
    assert store.load("a") == OLD and entries(path.parent) == ["credentials.json"]


# --- processes ------------------------------------------------------------------------------------


@posix_only
def test_a_child_that_was_forked_while_a_lock_was_held_does_not_hold_it(path):
    store = FileStore(path)
    with child(PRELUDE + """
with store.lock("a", lambda: None):
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
say("let go")
os.wait()
""", path) as process:
        assert process.stdout.readline() == "let go\n"
        with store.lock("a", never):
            pass
        process.stdin.close()
        assert process.wait(LIMIT) == 0


# --- files ----------------------------------------------------------------------------------------


def test_a_lock_on_a_removed_file_does_not_count(tmp_path, monkeypatch):
    """The waiting thread has opened the file that the holder removes; a third one has locked the new file."""
    one, other, third = (FileLocks(str(tmp_path)) for _ in range(3))
    holding, waiting = one.hold("lock", never), []
    holding.__enter__()
    real, kept = file_module._lock, contextlib.ExitStack()

    def lock(descriptor):
        # Between opening the file and locking it, all changes.
        monkeypatch.setattr(file_module, "_lock", real)
        holding.__exit__(None, None, None)
        kept.enter_context(third.hold("lock", never))
        return real(descriptor)

    monkeypatch.setattr(file_module, "_lock", lock)

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

    monkeypatch.setattr(file_module, "_lock", fail)
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
    real = file_module._lock
    monkeypatch.setattr(file_module, "_lock", lambda descriptor: real(descriptor + 1000))
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
