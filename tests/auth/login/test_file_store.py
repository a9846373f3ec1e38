"""The file, what is in it, and what is left of it when processes die. Stores in general: test_base.py."""

import contextlib
import errno
import os

import pytest

from mcplite.auth.login import file_store as file_module
from mcplite.auth.login.file_store import FileStore
from mcplite.errors import AuthError
from tests.support import keeping
from tests.support.keeping import LIMIT, NEW, OLD, GaveUp, child, entries, every_use, give_up, never, patient, refused
from tests.support.systems import needs_links, posix_only

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


def test_the_path_may_be_given(path, tmp_path, monkeypatch):
    FileStore(path).save("a", OLD)
    assert FileStore(str(path)).load("a") == OLD
    monkeypatch.chdir(path.parent)
    relative = FileStore("credentials.json")
    monkeypatch.chdir(tmp_path)
    assert relative.load("a") == OLD
    assert repr(relative) == f"FileStore({str(path)!r})"


def test_a_home_folder_is_understood(path, monkeypatch):
    monkeypatch.setenv("HOME", str(path.parent.parent))
    monkeypatch.setenv("USERPROFILE", str(path.parent.parent))
    FileStore("~/store/credentials.json").save("a", OLD)
    assert FileStore(path).load("a") == OLD


def test_the_path_may_come_from_the_environment(path, monkeypatch):
    monkeypatch.setenv("MCPLITE_CREDENTIALS", str(path))
    FileStore().save("a", OLD)
    assert FileStore(path).load("a") == OLD


def test_the_path_is_that_of_the_platform_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPLITE_CREDENTIALS", "")
    monkeypatch.setattr(file_module, "data_folder", lambda: str(tmp_path / "mcplite"))
    FileStore().save("a", OLD)
    assert FileStore(tmp_path / "mcplite" / "credentials.json").load("a") == OLD


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


def test_a_process_that_is_killed_in_mid_write_leaves_the_old_content(path):
    store = FileStore(path)
    store.save("a", OLD)
    with child(PRELUDE + STOP_BEFORE_REPLACE, path) as process:
        assert process.stdout.readline() == "stopped\n"
        if os.name == "posix":
            assert store.load("a") == OLD  # reading does not wait; on Windows it does
    assert entries(path.parent) == ["credentials.json", "credentials.json.lock", "credentials.json.new"]
    assert store.load("a") == OLD
    store.save("b", NEW)
    assert store.load("a") == OLD and store.load("b") == NEW
    assert entries(path.parent) == ["credentials.json"]


def test_waiting_for_a_process_that_is_stopped_in_mid_write_ends(path, monkeypatch):
    store = FileStore(path)
    store.save("a", OLD)
    monkeypatch.setattr(file_module, "_WRITE_SECONDS", 0.05)
    with child(PRELUDE + STOP_BEFORE_REPLACE, path) as process:
        assert process.stdout.readline() == "stopped\n"
        assert f"another process has been writing {path}" in refused(lambda: store.save("a", NEW))
        if os.name == "posix":
            assert store.load("a") == OLD
    assert store.load("a") == OLD


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


def test_a_record_that_another_process_has_locked_is_waited_for(path):
    store = FileStore(path)
    with child(PRELUDE + HOLD, path) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(GaveUp):
            store.lock("a", give_up).__enter__()
        store.save("a", NEW)  # the store itself is free, and so are other records
        with store.lock("b", never):
            pass
        process.stdin.close()
        with store.lock("a", patient()):
            pass
