"""Shares: what goes at a limit, and what one sender may keep while others want some."""

import pytest

from mcplite.server.eviction import Shares, sender_at


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        self.now += 0.2  # no two events at the same time
        return self.now


def filled(most, senders, **options):
    """Return shares with items ``a1``, ``a2`` ..., named by their senders, in this order."""
    shares = Shares(most, clock=Clock(), **options)
    for name in senders:
        assert shares.add(f"{name}{shares.count(name) + 1}", name) == []
    return shares


def test_a_lone_sender_may_have_all_and_loses_its_oldest():
    shares = filled(4, "aaaa")
    assert shares.add("new", "a") == ["a1"] and shares.add("newer", "a") == ["a2"]
    assert len(shares) == 4 and "a1" not in shares and "new" in shares


def test_what_was_used_stays_longer_than_what_was_not():
    shares = filled(4, "aaaa")
    shares.use("a1")
    shares.use("a2")
    assert shares.add("n1", "a") == ["a3"] and shares.add("n2", "a") == ["a4"]


def test_a_new_item_has_time_for_its_first_use():
    shares = filled(9, "aaaaaaaa")
    for item in shares.items():
        shares.use(item)
    assert shares.add("n1", "a") == []
    assert shares.add("n2", "a") == ["a1"]  # n1 may be used in a moment
    assert shares.add("n3", "a") == ["n1"]  # more than a quarter are new now
    shares._clock.now += 60
    assert shares.add("n4", "a") == ["n2"]


def test_the_sender_with_the_most_makes_room_for_another():
    shares = filled(5, "baaaa")
    for item in ("a1", "a2", "a3", "a4"):
        shares.use(item)
    assert shares.add("c1", "c") == ["a1"]  # although b's was never used
    assert shares.add("b2", "b") == ["a2"]
    assert shares.add("a5", "a") == ["a3"]


def test_equal_senders_do_not_take_turns():
    shares = filled(4, "aabb")
    assert shares.add("a3", "a") == ["a1"] and shares.add("b3", "b") == ["b1"]


def test_of_many_senders_with_one_item_each_the_longest_idle_goes():
    shares = filled(4, "abcd")
    for item in ("a1", "c1", "b1", "d1"):
        shares.use(item)
    shares.use("a1")
    assert shares.add("e1", "e") == ["c1"]


def test_what_is_in_use_stays_where_no_other_sender_wants_it():
    shares = filled(4, "aaaa", busy=lambda item: True)
    assert shares.add("new", "a") is None and "new" not in shares and len(shares) == 4


def test_what_is_in_use_is_taken_from_a_sender_with_more_than_a_quarter():
    busy = {"a1", "a2", "a3", "a4"}
    shares = filled(4, "aaaa", busy=busy.__contains__)
    assert shares.add("b1", "b") == ["a1"]
    assert shares.add("a5", "a") is None  # not from b, who has less
    busy.remove("a3")
    assert shares.add("a5", "a") == ["a3"]


def test_four_senders_with_a_quarter_each_keep_what_they_use():
    shares = filled(8, "abcdabcd", busy=lambda item: True)
    assert shares.add("e1", "e") == ["a1"]
    shares = filled(8, "abcdefgh", busy=lambda item: True)
    assert shares.add("i1", "i") is None


def test_bytes_have_a_limit_of_their_own():
    shares = Shares(10, 100, clock=Clock())
    assert shares.add("a1", "a", 50) == [] and shares.add("a2", "a", 30) == [] and shares.add("b1", "b", 20) == []
    assert shares.add("b2", "b", 50) == ["a1"] and shares.bytes == 100
    assert shares.add("big", "b", 101) is None and shares.bytes == 100
    assert shares.resize("b1", 50) == ["b1"] and shares.bytes == 80  # the older one of the sender with the most
    assert shares.resize("gone", 5) == []


def test_an_item_that_grows_may_have_to_go_itself():
    shares = Shares(10, 100, clock=Clock())
    shares.add("a1", "a", 10)
    shares.add("b1", "b", 10)
    shares.add("a2", "a", 10)
    assert shares.resize("a2", 90) == ["a1"]
    assert shares.resize("a2", 95) == ["a2"] and shares.bytes == 10
    shares.add("a3", "a")
    assert shares.resize("a3", 1000) == ["a3"] and shares.resize("b1", 1000) == ["b1"] and shares.bytes == len(shares) == 0


def test_a_newcomer_that_finds_no_room_takes_nothing_away():
    shares = Shares(10, 100, busy=lambda item: item == "a2", clock=Clock())
    shares.add("a1", "a", 10)
    shares.add("a2", "a", 60)
    shares.add("a3", "a", 10)
    shares.use("a3")
    assert shares.add("a4", "a", 50) is None
    assert shares.bytes == 80 and shares.items() and shares.add("a5", "a", 30) == ["a1"]


def test_items_that_hold_no_bytes_do_not_go_for_bytes():
    shares = Shares(10, 100, clock=Clock())
    for item in ("a1", "a2", "a3"):
        shares.add(item, "a")
    shares.resize("a3", 60)
    assert shares.add("b1", "b", 50) == ["a3"] and len(shares) == 3


def test_removing_frees_the_share():
    shares = filled(2, "ab")
    assert shares.remove("a1") and not shares.remove("a1")
    shares.use("a1")
    assert shares.count("a") == 0 and shares.count("b") == 1 and shares.add("c1", "c") == []
    assert sorted(shares.clear()) == ["b1", "c1"] and len(shares) == 0 and shares.add("d1", "d") == []


def test_the_idle_ones_are_named_by_how_long_they_were_not_used():
    shares = filled(9, "abab", busy=lambda item: item == "b2")
    shares.use("a1")
    shares._clock.now += 20
    shares.use("a2")
    assert shares.idle(10, 100) == ["b1"] and shares.idle(10, 10) == ["a1", "b1"] and shares.idle(50, 50) == []
    assert len(shares) == 4


@pytest.mark.parametrize("address, sender", [
    ("192.0.2.1", "192.0.2.1"), ("", ""), ("unix:/run/x", "unix:/run/x"), ("::1", "::/64"),
    ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("fe80::1%eth0", "fe80::/64"), ("::ffff:192.0.2.1", "192.0.2.1"),
])
def test_the_sender_at_an_address(address, sender):
    assert sender_at(address) == sender


def test_what_lasts_goes_before_a_newcomer_is_refused():
    shares = Shares(4, busy=lambda item: item != "c1", lasting=lambda item: item in ("a2", "a3"), clock=Clock())
    for item in ("a1", "a2", "a3", "c1"):
        shares.add(item, item[0])
    assert shares.add("a4", "a") == ["a2"]  # not c's idle one, since c has less
    assert shares.add("a5", "a") == ["a3"] and shares.add("a6", "a") is None


def test_a_sender_makes_no_room_for_itself_with_what_is_about_to_be_used():
    shares = filled(4, "aaaa", busy=lambda item: item == "a4", lasting=lambda item: item == "a4",
                    due=lambda item: item in ("a1", "a3", "n1", "n2"))
    assert shares.add("n1", "a") == ["a2"]
    assert shares.add("n2", "a") == ["a4"]
    assert shares.add("n3", "a") is None and shares.make_room() is None
    assert shares.add("b1", "b") == ["a1"]


def test_what_is_about_to_be_used_makes_room_for_another_sender():
    shares = filled(4, "aaaa", busy=lambda item: item in ("a1", "a3"), due=lambda item: item in ("a2", "a4"))
    assert [shares.add(item, "b") for item in ("b1", "b2")] == [["a2"], ["a4"]]


def test_another_sender_takes_what_is_idle_before_what_is_about_to_be_used():
    shares = filled(4, "aaaa", due=lambda item: item != "a3")
    assert [shares.add(item, "b") for item in ("b1", "b2")] == [["a3"], ["a1"]]


def test_room_is_made_for_a_sender_who_is_not_known_yet():
    shares = filled(10, "abaa", busy=lambda item: item == "a1")
    assert shares.make_room() == "a2" and shares.make_room() == "a3" and shares.make_room() == "b1"
    assert shares.make_room() is None and shares.items() == ["a1"]
    assert Shares(1).make_room() is None
