"""The log of changes, as the streams of one process read it: once for all of them."""

from mcplite.backend.memory import MemoryBackend
from mcplite.fleet.fleet_processes import Changes, append_change


class Counting(MemoryBackend):
    reads = 0

    def since(self, log, number):
        self.reads += 1
        return super().since(log, number)


def told(backend, *uris, server="shop"):
    for uri in uris:
        append_change(backend, server, "changed", uri)


def test_what_one_stream_has_read_the_others_need_not_read():
    backend = Counting()
    changes = Changes(backend, "shop")
    told(backend, "a", "b", "c")
    for number, uris in ((0, ["a", "b", "c"]), (1, ["b", "c"]), (2, ["c"])):
        found, last, missing = changes.since(number)
        assert ([change.uri for change in found], last, missing) == (uris, 3, False)
    assert backend.reads == 1 and changes.last() == 3
    told(backend, "d")
    assert [change.uri for change in changes.since(3)[0]] == ["d"]
    assert [change.uri for change in changes.since(2)[0]] == ["c", "d"] and backend.reads == 2
    assert changes.since(4) == ([], 4, False)


def test_changes_of_another_server_have_no_method():
    backend = MemoryBackend()
    told(backend, "a", server="other")
    told(backend, "b", server=None)
    assert [change.method for change in Changes(backend, "shop").since(0)[0]] == ["", "changed"]


def test_changes_that_are_gone_are_missing():
    changes = Changes(MemoryBackend(), "shop")
    assert changes.since(7) == ([], 0, True)
