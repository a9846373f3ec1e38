"""What an event stream begins and ends with, and how long its body lasts."""

import pytest

from mcplite.server.limits import Limits
from mcplite.server.state.response_bodies import StreamingBody, priming_event, retry_event


def test_the_first_and_the_last_event():
    assert priming_event("1.2-0", Limits()) == b"id: 1.2-0\nretry: 1000\ndata:\n\n"
    assert [retry_event(seconds) for seconds in (0.25, 3)] == [b"retry: 250\n\n", b"retry: 3000\n\n"]


def test_a_body_has_a_time_to_end_and_tells_once_that_it_has_ended():
    body, told = StreamingBody(), []
    assert body.left is None
    body.end_after(100, lambda: None)
    assert 0 < body.left <= 100
    body.ending = True
    assert body.left is None
    body.on_close = lambda: told.append(1)
    body.closed()
    body.closed()
    assert told == [1]
    for unmade in (body.stop, body.close, lambda: body.end_for_now(1.0), lambda: next(iter(body))):
        with pytest.raises(NotImplementedError):
            unmade()
