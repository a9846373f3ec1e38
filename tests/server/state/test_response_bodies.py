"""The open event streams: which one makes room, and when its client is asked to come back."""

import pytest

from mcplite.server.state.response_bodies import OpenStreams, StreamingBody


class Body(StreamingBody):
    def __init__(self, name=None, ends_session=False, must_stay=False):
        self.name, self.ends_session, self.must_stay = name, ends_session, must_stay
        self.ended = None

    def stop(self):
        self.ended = "stopped"

    def end_for_now(self, seconds):
        self.ended = seconds


def ended(streams, *bodies):
    """Add bodies of one client, and return how each has ended."""
    for body in bodies:
        streams.add(body, "192.0.2.1")
    return [body.ended for body in bodies]


def test_the_oldest_ends_and_without_turns_at_once():
    assert ended(OpenStreams(2), *map(Body, "abc")) == ["stopped", None, None]


@pytest.mark.parametrize(("bodies", "found"), [
    ([Body("a"), Body("b"), Body("c")], [1 / 6, None, None]),
    ([Body("a", ends_session=True), Body("b"), Body("c")], [None, 1 / 6, None]),
    ([Body("a", ends_session=True), Body("b", ends_session=True), Body("c")], ["stopped", None, None]),
    ([Body("a", must_stay=True), Body("b"), Body("c")], [None, 1 / 6, None]),
    ([Body("a", must_stay=True), Body("b", must_stay=True), Body("c")], [None, None, 1 / 6]),
    ([Body("a", must_stay=True), Body("b", must_stay=True), Body("c", must_stay=True)], [None, None, None]),
    ([Body("a", must_stay=True), Body("b", must_stay=True), Body("c", ends_session=True)], [None, None, "stopped"]),
    ([Body(), Body(), Body(), Body()], [1 / 6, 2 / 6, None, None])])
def test_what_can_come_back_makes_room_first(bodies, found):
    assert ended(OpenStreams(2, in_turns=True), *bodies) == found


def test_a_body_that_must_stay_does_so_for_another_client_as_well():
    streams, stays = OpenStreams(2, in_turns=True), [Body(must_stay=True), Body(must_stay=True)]
    ended(streams, *stays)
    streams.add(Body("other"), "192.0.2.2")
    assert [body.ended for body in stays] == [None, None]


def test_a_client_that_is_back_or_gone_waits_no_longer():
    streams = OpenStreams(1, in_turns=True)
    assert [round(6 * streams.leave(name)) for name in ("a", "b", ("b", "1"), "a")] == [1, 2, 3, 3]
    streams.add(Body("a"), "192.0.2.1")
    assert round(6 * streams.leave("c")) == 3
    streams.forget("b")
    assert round(6 * streams.leave("d")) == 2


def test_a_forked_process_has_none():
    streams = OpenStreams(1)
    ended(streams, Body("a"))
    streams.let_go()
    assert len(streams) == 0
