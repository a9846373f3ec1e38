"""The texts about the status of a task are stored at a bounded rate."""

import threading

import pytest

from mcplite.server.tasks.run import _StatusWriter


def test_a_text_is_stored_once_the_system_has_a_thread(monkeypatch):
    stored, last = [], threading.Event()
    writer = _StatusWriter(lambda text: stored.append(text) or (text == "last" and last.set()))
    writer.write("first")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Timer, "start", lambda timer: (_ for _ in ()).throw(RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError):
            writer.write("second")
    writer.write("last")
    assert last.wait(60) and stored == ["first", "last"]
