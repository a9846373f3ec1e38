"""Limits: positive, immutable, and given by name."""

import copy
import dataclasses

import pytest

from mcplite.server.limits import Limits


def test_every_bound_has_a_default():
    limits = Limits()
    assert all(getattr(limits, field.name) > 0 for field in dataclasses.fields(Limits))
    assert limits == Limits() and limits != Limits(running=1)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
@pytest.mark.parametrize("value", [0, -1])
def test_a_bound_must_be_positive(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be positive, not {value}$"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_only_the_message_rate_can_be_none(name):
    if name == "messages_per_second":
        assert Limits(messages_per_second=None).messages_per_second is None
    else:
        with pytest.raises(ValueError, match=f"^{name} must be positive, not None$"):
            Limits(**{name: None})


def test_a_line_may_be_longer_than_a_body_unless_a_size_is_given():
    assert (Limits().message_bytes, Limits().line_bytes, Limits().sent_bytes) == (4 << 20, 16 << 20, 16 << 20)
    assert (Limits(message_bytes=4 << 20).line_bytes, Limits(message_bytes=4 << 20).sent_bytes) == (4 << 20, 16 << 20)
    assert (Limits(message_bytes=1000).line_bytes, Limits(message_bytes=1000).sent_bytes) == (1000, 16 << 20)
    assert (Limits(message_bytes=1 << 30).line_bytes, Limits(message_bytes=1 << 30).sent_bytes) == (1 << 30, 1 << 30)


def test_a_number_of_streams_is_known_as_set_or_not():
    assert not Limits().streams_are_set and Limits(streams=256).streams_are_set and Limits() == Limits(streams=256)
    assert repr(Limits()) == repr(Limits(streams=256)) and not copy.deepcopy(Limits()).streams_are_set


def test_limits_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().running = 5


def test_limits_are_compared_hashed_and_shown_by_their_values():
    assert Limits(running=8) == Limits(running=8) != Limits(running=9)
    assert hash(Limits(running=8)) == hash(Limits(running=8)) and Limits() != "limits"
    assert repr(Limits(running=8)).startswith("Limits(message_bytes=4194304, ") and "running=8, " in repr(Limits(running=8))
    assert dataclasses.replace(Limits(running=8), queued=2) == Limits(running=8, queued=2)


MIB = 1 << 20
SHARES = ("running_bytes", "queued_bytes", "waiting_bytes", "head_bytes_at_once", "body_bytes_at_once", "session_bytes",
          "subscription_bytes", "unread_bytes", "unread_bytes_at_once", "stream_bytes", "store_bytes", "value_bytes",
          "fleet_session_bytes", "fleet_state_bytes")


@pytest.mark.parametrize("memory, expected", [
    (64 * MIB, [6, 4, 8, 0.5, 12, 5, 0.0625, 1, 8, 1, 4, 4, 16, 8]),
    (256 * MIB, [24, 16, 32, 2, 48, 20, 0.25, 4, 32, 4, 16, 16, 64, 32]),
    (2048 * MIB, [192, 128, 256, 16, 384, 160, 2, 32, 256, 32, 128, 128, 512, 256]),
])
def test_shares_of_the_memory(memory, expected):
    limits = Limits(memory_bytes=memory)
    assert [getattr(limits, name) / MIB for name in SHARES] == expected


def test_what_is_derived_from_other_limits():
    limits = Limits(waiting_calls=4, sessions=50)
    assert (limits.waiting_per_principal, limits.fleet_sessions, limits.fleet_states) == (1, 500, 64)
    assert (Limits().waiting_per_principal, Limits().fleet_sessions, Limits().fleet_states) == (32, 10_000, 4096)


@pytest.mark.parametrize("name", ["unread_bytes", "header_bytes", "waiting_per_principal"])
def test_what_is_derived_or_constant_is_no_option(name):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        Limits(**{name: 1})
