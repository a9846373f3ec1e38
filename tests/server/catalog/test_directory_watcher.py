"""Directories that are watched: clients are told of each kind of change, in each revision, while there are clients."""

import os
import queue
import threading

import pytest

import mcplite
from mcplite import PromptsChanged, ResourcesChanged, ResourceUpdated
from mcplite.revisions import REVISIONS
from mcplite.server.catalog.directory import Directory, Watcher
from tests.support.faults import no_threads

LIMIT = 60
OFTEN = 0.05


@pytest.fixture
def folder(tmp_path):
    watched = tmp_path / "watched"
    (watched / "in").mkdir(parents=True)
    (watched / "a.txt").write_text("old", "utf-8")
    (watched / "in" / "b.txt").write_text("old", "utf-8")
    return watched


def put(path, text):
    """Write a file in one step, so that no look finds half of it."""
    outside = next(parent for parent in path.parents if parent.name == "watched").parent / "new"
    outside.write_text(text, "utf-8")
    os.replace(str(outside), str(path))


class Told:
    """What the clients of a watcher would be told."""

    def __init__(self):
        self.queue = queue.Queue()

    def until(self, wanted):
        """Wait for a change, and return what was told up to it."""
        seen = []
        while wanted not in seen:
            seen.append(self.queue.get(timeout=LIMIT))
        return seen

    def watch(self, folder):
        return Watcher(Directory("file:///d", str(folder), 1000), OFTEN, self.queue.put, lambda: self.queue.put("list"))


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_clients_are_told_of_changes(folder, revision):
    mcp, events = mcplite.Server("watched"), queue.Queue()
    mcp.add_directory("file:///d", str(folder), watch=OFTEN)
    with mcplite.connect(mcp, revision=revision) as client:
        stop = client.subscribe(events.put, resource_list=True, resources=["file:///d/a.txt", "file:///d/"])
        put(folder / "a.txt", "longer than before")
        event = events.get(timeout=LIMIT)
        assert isinstance(event, ResourceUpdated) and event.uri == "file:///d/a.txt"
        put(folder / "c.txt", "new")
        seen = {type(events.get(timeout=LIMIT)) for _ in range(2)}
        assert seen == {ResourceUpdated, ResourcesChanged} and PromptsChanged not in seen
        stop()


def test_files_that_change_come_and_go(folder):
    told = Told()
    watcher = told.watch(folder)
    watcher.start()
    try:
        put(folder / "in" / "b.txt", "changed")
        assert told.until("file:///d/in/b.txt") == ["file:///d/in/b.txt"]
        put(folder / "in" / "c d.txt", "new")
        assert told.until("list") == ["file:///d/in/c%20d.txt", "file:///d/", "file:///d/in/", "list"]
        os.remove(str(folder / "a.txt"))
        assert told.until("list") == ["file:///d/a.txt", "file:///d/", "list"]
    finally:
        watcher.stop()


def test_changes_while_there_was_no_client_are_told_to_the_next(folder):
    told = Told()
    watcher = told.watch(folder)
    put(folder / "a.txt", "changed before the first")
    watcher.start()
    watcher.start()  # it does so once
    assert told.until("file:///d/a.txt") == ["file:///d/a.txt"]
    watcher.stop()
    watcher.stop()


def test_a_look_that_fails_is_logged_and_another_follows(folder, monkeypatch, caplog):
    told, failed = Told(), threading.Event()
    watcher = told.watch(folder)
    real = Directory.files

    def files(self):
        if not failed.is_set():
            failed.set()
            raise MemoryError
        return real(self)

    monkeypatch.setattr(Directory, "files", files)
    watcher.start()
    try:
        assert failed.wait(LIMIT)
        put(folder / "a.txt", "changed")
        told.until("file:///d/a.txt")
    finally:
        watcher.stop()
    assert "look at file:" in caplog.text


def test_a_directory_that_is_added_later_is_watched_until_it_is_removed(folder):
    mcp, events = mcplite.Server("watched"), queue.Queue()
    with mcplite.connect(mcp, options=mcplite.ClientOptions(era="legacy")) as client:
        assert client.ping() is None
        mcp.add_directory("file:///d", str(folder), watch=OFTEN)
    mcp.add_directory("file:///e", str(folder), watch=OFTEN)
    with mcplite.connect(mcp, options=mcplite.ClientOptions(era="legacy")) as client:
        stop = client.subscribe(events.put, resources=["file:///d/a.txt"])
        put(folder / "a.txt", "changed")
        assert events.get(timeout=LIMIT).uri == "file:///d/a.txt"
        stop()
        for uri in ("file:///d", "file:///e/"):
            mcp.remove_directory(uri)
        watching = [thread for thread in threading.enumerate() if thread.name.startswith("mcplite look at ")]
        for thread in watching:
            thread.join(LIMIT)
        assert not any(thread.is_alive() for thread in watching)


def test_a_system_without_threads_is_a_warning(folder, monkeypatch, caplog):
    no_threads(monkeypatch, "mcplite look at ")
    watcher = Told().watch(folder)
    watcher.start()
    watcher.stop()
    assert "changes below file:///d/ are not told" in caplog.text


def test_a_directory_that_takes_the_place_of_another_one_ends_its_watcher(folder, monkeypatch):
    ended = []
    monkeypatch.setattr(Watcher, "stop", lambda self: ended.append(self))
    monkeypatch.setattr(Watcher, "start", lambda self: None)
    mcp = mcplite.Server("files", on_duplicate="replace")
    with mcplite.connect(mcp):
        mcp.add_directory("file:///f", str(folder), watch=OFTEN)
        first, = mcp.runtime._services.values()
        mcp.add_directory("file:///f", str(folder), watch=OFTEN)
        assert ended == [first]
