"""Many clients at once over HTTP, in one process: each sends its next call when the last one is answered.

It is the same for all servers, so it does little itself: sockets, one poll for all of them, and requests
that are made ahead but for their numbers. Every answer is compared with the right one.
"""

import json
import re
import select
import statistics
import time

from common import allow_files, answer_commands, expect
from floor_driver import META
from web_clients import SocketWeb

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_WAIT = 30
#: Request ids start so high that all have the same number of digits.
_FIRST = 1_000_000


class Caller:
    """One client: its session, and the call that it waits for."""

    def __init__(self, url, tool, arguments, stateless=False):
        self.web = SocketWeb(url)
        self.number = _FIRST
        meta = ""
        if stateless:
            self.web.stand_alone("tools/call", tool)
            meta = ',"_meta":' + json.dumps(META)
        else:
            self.web.initialize()
        body = ('{"jsonrpc":"2.0","id":%%d,"method":"tools/call","params":{"name":"%s","arguments":%s%s}}'
                % (tool, arguments, meta)).encode("ascii")
        self.adds = tool == "add"
        length = len(body % ((self.number,) * (2 if self.adds else 1)))
        self.request = self.web.top.replace(b"%d", b"%d" % length).replace(b"%b", body)
        self.answer = b""
        self.begun = 0

    def send(self):
        self.number += 1
        self.answer = b""
        data = self.request % ((self.number, self.number) if self.adds else self.number)
        self.begun = time.perf_counter_ns()
        self.web.sock.sendall(data)

    def receive(self):
        """Read what is there; return whether the answer is complete."""
        self.answer = answer = self.answer + self.web.receive()
        end = answer.find(b"\r\n\r\n")
        if end < 0:
            return False
        found = _LENGTH.search(answer, 0, end)
        if found is None:
            raise AssertionError("wanted an answer in JSON, got %.500r" % answer)
        return len(answer) == end + 4 + int(found.group(1))

    def check(self):
        text = b'"text":"%d"' % (self.number + 1) if self.adds else b'"text":"slept"'
        if self.answer[8:13] != b" 200 " or text not in self.answer or b'"id":%d' % self.number not in self.answer:
            raise AssertionError("wanted %r, got %.500r" % (text, self.answer))


def poll_of(callers, sleeps):
    """Return a function that waits, and returns the callers that have something to read."""
    poll = (getattr(select, "epoll", None) or select.poll)()
    by_number = {}
    for caller in callers:
        by_number[caller.web.sock.fileno()] = caller
        poll.register(caller.web.sock, select.POLLIN)
    timeout = _WAIT if hasattr(select, "epoll") else _WAIT * 1000

    def ready():
        events = poll.poll(timeout)
        if not events:
            raise AssertionError("no answer within %d s" % _WAIT)
        return [by_number[number] for number, _ in events]

    def ready_at_once():
        # A single caller waits for one answer at a time. If it slept, its processor would become idle, and waking up
        # takes as long as the call that is measured.
        end = time.perf_counter() + _WAIT
        while not poll.poll(0):
            if time.perf_counter() > end:
                raise AssertionError("no answer within %d s" % _WAIT)
        return callers

    return ready if len(callers) > 1 or sleeps else ready_at_once


def run(callers, seconds):
    """Let all of them call for so long; return latencies in nanoseconds, the seconds of the measurement, and all calls."""
    clock = time.perf_counter_ns
    ready = poll_of(callers, not callers[0].adds)
    start = clock() + int(seconds * 2e8)  # the first calls of a connection are no measure
    end = start + int(seconds * 1e9)
    # From the last answer before the time to the last one within it, as calls that take long end together.
    first = last = start
    taken = []
    for caller in callers:
        caller.send()
    waiting = len(callers)
    while waiting:
        for caller in ready():
            if not caller.receive():
                continue
            now = clock()
            caller.check()
            if now <= start:
                first = now
            elif now <= end:
                last = now
                taken.append(now - caller.begun)
            if now < end:
                caller.send()
            else:
                waiting -= 1
    if len(taken) < 2:
        raise AssertionError("only %d calls in %g s" % (len(taken), seconds))
    return taken, (last - first) / 1e9, sum(caller.number - _FIRST for caller in callers)


class Commands:
    """The commands of this driver; ``open`` comes first."""

    def __init__(self):
        self.url = ""
        self.webs = []
        self.streams = []

    def open(self, target):
        self.url = target
        return 0

    def warm_up(self, calls, stateless=False):
        """Call ``add`` so many times, one after the other."""
        caller = Caller(self.url, "add", '{"a":%d,"b":1}', stateless)
        try:
            self._adds(caller, calls, _WAIT)
        finally:
            caller.web.close()

    def load(self, connections, seconds, sleep=None, stateless=False):
        """Return calls per second of ``add``, or of a call that sleeps, the 99th percentile of their times, and all calls."""
        tool, arguments = ("add", '{"a":%d,"b":1}') if sleep is None else ("sleep", json.dumps({"seconds": sleep}))
        callers = []
        try:
            for _ in range(connections):
                callers.append(Caller(self.url, tool, arguments, stateless))
            taken, passed, calls = run(callers, seconds)
        finally:
            for caller in callers:
                caller.web.close()
        taken.sort()
        return {"rate": len(taken) / passed, "p99": taken[int(len(taken) * 0.99)], "calls": calls}

    def beside(self, seconds, calls):
        """Return the time of an ``add``, on an idle server and while another client's call sleeps."""
        sleeper, adder = Caller(self.url, "sleep", json.dumps({"seconds": seconds})), Caller(
            self.url, "add", '{"a":%d,"b":1}')
        try:
            self._adds(adder, calls // 4 + 1, seconds)
            quiet = self._adds(adder, calls, seconds)
            sleeper.send()
            time.sleep(0.02)
            end = time.perf_counter() + seconds - 0.04
            loud = self._adds(adder, calls, end - time.perf_counter())
            while not sleeper.receive():
                continue
            sleeper.check()
        finally:
            sleeper.web.close()
            adder.web.close()
        return {"quiet": quiet, "beside": loud}

    def _adds(self, caller, calls, seconds):
        end = time.perf_counter() + seconds
        taken = []
        while len(taken) < calls and (not taken or time.perf_counter() < end):
            caller.send()
            while not caller.receive():
                continue
            taken.append(time.perf_counter_ns() - caller.begun)
            caller.check()
        return statistics.median(taken)

    def sessions(self, count):
        """Open so many sessions, each with a stream; they stay open until ``close``."""
        while len(self.webs) < count:
            web = SocketWeb(self.url)
            self.webs.append(web)
            web.initialize()
            self.streams.append(web.listen())
        return len(self.streams)

    def follow(self, count):
        """Open so many sessions that follow one resource, each with a stream; they stay open until ``close``."""
        for _ in range(count):
            web = SocketWeb(self.url)
            web.initialize()
            web.request("resources/subscribe", {"uri": "floor://changing"})
            self.streams.append(web.listen())
            if self.webs:
                web.disconnect()
            else:
                self.webs.append(web)

    def change(self):
        """Have the resource changed, and wait until all know it; return the milliseconds for which that blocked the server."""
        blocked = json.loads(self.webs[0].call("change", {})["content"][0]["text"])
        for stream in self.streams:
            received = b""
            while b"notifications/resources/updated" not in received:
                received += stream.receive()
        return blocked

    def still_there(self):
        """Call once in the last session, and return how many streams are still open."""
        result = self.webs[-1].call("add", {"a": 1, "b": 1})
        expect("add", "2", result["content"][0]["text"])
        ended = 0
        for stream in self.streams:
            stream.sock.setblocking(False)
            try:
                ended += not stream.sock.recv(65536)
            except BlockingIOError:
                pass
        return len(self.streams) - ended

    def close(self):
        for stream in self.streams:
            stream.disconnect()
        for web in self.webs:
            web.close()


def main():
    allow_files()
    commands = Commands()
    answer_commands({name: getattr(commands, name) for name in dir(commands) if not name.startswith("_")})


if __name__ == "__main__":
    main()
