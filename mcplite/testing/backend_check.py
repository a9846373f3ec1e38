"""Judges a backend: every promise of the interface, checked on a real store from several threads."""

import secrets
import threading
import time
from typing import Any, Callable, Dict, List, Mapping

from ..backend.interface import Backend

__all__ = ["check_backend"]

#: Seconds after which a value or entry shall expire during a check, and the most seconds that a check waits for something.
_SHORT, _PATIENCE = 0.2, 30.0
_LONG = 300.0


def check_backend(create: Callable[[], Backend]) -> None:
    """Check that a backend keeps the promises of :class:`mcplite.extend.Backend`; takes some seconds.

    :param create: called twice; returns a new backend on the same store each time, as each of two processes would have one. If
        the ``shared`` of the first backend is false, it is called once. Keys and logs have random names, so the store need
        not be empty.
    :raises AssertionError: a promise is not kept; the message says which.
    """
    first = create()
    second = create() if first.shared else first
    try:
        for check in (_values, _lifetimes, _taking, _swapping, _logs, _bounds, _numbers_go_on, _racing_appends, _waiting,
                      _many_logs, _bytes):
            check(first, second, f"check-{secrets.token_hex(6)}")
    finally:
        first.close()
        second.close()


def _is(found: Any, expected: Any, what: str) -> None:
    assert found == expected, f"{what}: {found!r:.300}, and not {expected!r:.300}"


def _eventually(read: Callable[[], Any], expected: Any, what: str) -> None:
    """Check that *read* returns what is *expected*, within ``_PATIENCE`` seconds."""
    until = time.monotonic() + _PATIENCE
    while read() != expected and time.monotonic() < until:
        time.sleep(0.02)
    _is(read(), expected, what)


def _together(count: int, work: Callable[[int], Any]) -> List[Any]:
    """Return what *work* returns on several threads that begin at the same time."""
    results: Dict[int, Any] = {}
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait(_PATIENCE)
        try:
            results[number] = work(number)
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE)
    assert len(results) == count, f"{count - len(results)} of {count} threads hang"
    return [results[number] for number in range(count)]


def _values(one: Backend, other: Backend, name: str) -> None:
    _is(other.get(f"{name}/a"), None, "get() of a key that was never stored")
    one.put(f"{name}/a", b"1", _LONG)
    one.put(f"{name}/b", b"", _LONG)
    _is(other.get(f"{name}/a"), b"1", "get() of a value that another backend has put")
    _is(other.get(f"{name}/b"), b"", "get() of an empty value")
    other.put(f"{name}/a", b"2", _LONG)
    _is(one.get(f"{name}/a"), b"2", "get() after a second put()")


def _lifetimes(one: Backend, other: Backend, name: str) -> None:
    one.put(f"{name}/put", b"1", _SHORT)
    one.swap(f"{name}/swap", None, b"1", _SHORT)
    one.append(f"{name}/log", b"1", _SHORT, 10)
    for key in ("put", "swap"):
        _eventually(lambda: other.get(f"{name}/{key}"), None, f"get() of a value whose time is over ({key})")
    _is(other.take(f"{name}/put"), None, "take() of a value whose time is over")
    _is(other.swap(f"{name}/put", b"1", b"2", _LONG), False, "swap() of a value whose time is over")
    _is(other.swap(f"{name}/swap", None, b"2", _LONG), True, "swap() from None where a value's time is over")
    _eventually(lambda: other.since(f"{name}/log", 0), None, "since() of entries whose time is over")


def _taking(one: Backend, other: Backend, name: str) -> None:
    for turn in range(10):
        key = f"{name}/{turn}"
        one.put(key, b"once", _LONG)
        taken = _together(4, lambda number: (one, other)[number % 2].take(key))
        _is(sorted(taken, key=repr), [None, None, None, b"once"], "take() by four threads at the same time")
        _is(other.get(key), None, "get() after take()")


def _swapping(one: Backend, other: Backend, name: str) -> None:
    key = f"{name}/value"
    _is(one.swap(key, b"x", b"y", _LONG), False, "swap() of a value that is not there")
    _is(one.swap(key, None, None, _LONG), True, "swap() from None to None where there is no value")
    _is(sorted(_together(4, lambda number: (one, other)[number % 2].swap(key, None, b"%d" % number, _LONG))),
        [False, False, False, True], "swap() from None by four threads at the same time")
    _is(one.swap(key, b"another", b"5", _LONG), False, "swap() with another old value")
    old = one.get(key)

    def count(number: int) -> None:
        backend = (one, other)[number % 2]
        for _ in range(5):
            while True:
                now = backend.get(f"{name}/count") or b""
                if backend.swap(f"{name}/count", now or None, now + b"+", _LONG):
                    break

    _is(_together(4, count), [None] * 4, "swap() in a loop by four threads")
    _is(one.get(f"{name}/count"), b"+" * 20, "a value to which four threads have added by swap() five times each")
    _is(other.swap(key, old, None, _LONG), True, "swap() to None")
    _is(one.get(key), None, "get() after swap() to None")


def _logs(one: Backend, other: Backend, name: str) -> None:
    log = f"{name}/log"
    _is((other.last(log), other.since(log, 0)), (0, []), "last() and since(0) of a log that was never written")
    _is(other.since(log, 1), None, "since() of a number that was never reached")
    _is([one.append(log, b"%d" % number, _LONG, 100) for number in (1, 2)], [1, 2], "append() to a new log")
    _is(other.append(log, b"3", _LONG, 100), 3, "append() by another backend")
    _is(one.since(log, 0), [(1, b"1"), (2, b"2"), (3, b"3")], "since(0)")
    _is(other.since(log, 2), [(3, b"3")], "since() of the last but one")
    _is((other.since(log, 3), other.last(log)), ([], 3), "since() of the last, and last()")
    _is(other.since(log, 4), None, "since() of a number that was never reached")


def _bounds(one: Backend, other: Backend, name: str) -> None:
    log = f"{name}/log"
    for number in range(1, 11):
        one.append(log, b"%d" % number, _LONG, 3)
    _is(other.since(log, 7), [(8, b"8"), (9, b"9"), (10, b"10")], "since() of a log that keeps three entries")
    _is(other.since(log, 6), None, "since() of a number whose next entry is gone")


def _numbers_go_on(one: Backend, other: Backend, name: str) -> None:
    log = f"{name}/log"
    one.append(log, b"1", _SHORT, 10)
    one.append(log, b"2", _SHORT, 10)
    _eventually(lambda: other.since(log, 0), None, "since() of entries whose time is over")
    _is((other.last(log), other.since(log, 2)), (2, []), "last() and since(last) of a log whose entries have expired")
    _is(other.append(log, b"3", _LONG, 10), 3, "append() to a log whose entries have expired")
    _is((one.since(log, 2), one.since(log, 1)), ([(3, b"3")], None), "since() after that")


def _racing_appends(one: Backend, other: Backend, name: str) -> None:
    log = f"{name}/log"
    numbers = _together(4, lambda number: [(one, other)[number % 2].append(log, b"%d" % number, _LONG, 1000)
                                           for _ in range(25)])
    _is(sorted(sum(numbers, [])), list(range(1, 101)), "the numbers of 100 entries by four threads")
    _is([at for at, _ in one.since(log, 0) or []], list(range(1, 101)), "since(0) after that")


def _waiting(one: Backend, other: Backend, name: str) -> None:
    log, quiet = f"{name}/log", f"{name}/quiet"
    _is(one.wait({log: 0, quiet: 0}, 0.05), set(), "wait() for logs that do not grow")
    one.append(log, b"1", _LONG, 10)
    _is(other.wait({log: 0, quiet: 0}, _PATIENCE), {log}, "wait() for a log that has grown before")
    _is(one.wait({log: 5}, _PATIENCE), {log}, "wait() with a number that was never reached")
    for number in range(1, 6):
        timer = threading.Timer(0.05, one.append, (log, b"more", _LONG, 10))
        timer.start()
        _is(other.wait({log: number, quiet: 0}, _PATIENCE), {log}, "wait() for a log that grows meanwhile")
        timer.join()
    _is(_together(3, lambda number: other.wait({log: number}, _PATIENCE)), [{log}] * 3, "wait() on three threads")


def _many_logs(one: Backend, other: Backend, name: str) -> None:
    logs: Mapping[str, int] = {f"{name}/{number}": 0 for number in range(1200)}
    timer = threading.Timer(0.2, one.append, (f"{name}/777", b"1", _LONG, 10))
    timer.start()
    _is(other.wait(logs, _PATIENCE), {f"{name}/777"}, "wait() for 1,200 logs of which one grows")
    timer.join()


def _bytes(one: Backend, other: Backend, name: str) -> None:
    every, large = bytes(range(256)), bytes(1_000_000)
    one.put(f"{name}/every", every, _LONG)
    _is(other.get(f"{name}/every"), every, "a value of all 256 bytes")
    one.put(f"{name}/large", large, _LONG)
    _is(other.take(f"{name}/large") == large, True, "a value of a million bytes comes back")
    one.append(f"{name}/log", every, _LONG, 10)
    _is(other.since(f"{name}/log", 0), [(1, every)], "an entry of all 256 bytes")
    long = f"{name}/{'k' * (512 - len(name) - 1)}"
    one.put(long, b"1", _LONG)
    _is(other.get(long), b"1", "a key of 512 characters")
