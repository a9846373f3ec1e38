"""The thread that reads the GET stream goes on after any one fault."""

import threading

import pytest

from mcplite.client.http.http_endpoint import GetStream, ResumableStream
from tests.client.http.test_http_channel import LIMIT, connect, cut_once, script  # noqa: F401
from tests.support.faults import every_fault, lines, strike


@every_fault
@pytest.mark.parametrize("owner, method", [(GetStream, "_listen"), (ResumableStream, "delay")], ids=["listen", "delay"])
@pytest.mark.slow
def test_the_get_stream_is_opened_again_after_a_fault(script, monkeypatch, caplog, owner, method, fault):  # noqa: F811
    script.on_GET = cut_once
    changed = threading.Event()
    struck = strike(monkeypatch, owner, method, fault)
    with connect(script, on_tools_changed=changed.set):
        assert changed.wait(LIMIT) and struck.is_set()
    assert lines(caplog, "listener of ") == 1
