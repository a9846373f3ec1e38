"""The calling threads read: for themselves and for each other."""

import json
import os
import threading
import time

import pytest

from mcplite.errors import ConnectionClosed, TransportError
from mcplite.rpc import reading
from mcplite.rpc.channels import MemoryChannel
from mcplite.rpc.interfaces import Delivery
from mcplite.rpc.peer import Peer
from mcplite.rpc.stdio.pipes import PipeChannel
from mcplite.rpc.threads import Workers
from tests.support.conversations import Recorder, reply
from tests.support.faults import every_fault, strike
from tests.support.systems import posix_only

pytestmark = pytest.mark.bad_wire


def test_many_threads_make_many_calls(talk):
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            data = talk.raw.read(0.05)
            if data is not None:
                request = json.loads(data)
                talk.say(reply(request, request["params"]))

    server = threading.Thread(target=serve)
    server.start()
    wrong = []

    def caller(number):
        for step in range(100):
            if talk.peer.call("x", {"n": [number, step]}, timeout=20) != {"n": [number, step]}:
                wrong.append((number, step))

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(16)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    stop.set()
    server.join(20)
    assert wrong == []


@pytest.mark.parametrize("padding", [0, 6000])
def test_progress_arrives_in_order_and_before_the_result(talk, padding):
    seen = []
    id = talk.peer.new_id()
    talk.handler.on_notification = lambda message: talk.peer.progress(message.params["t"], message.params, message.size)
    outcome = talk.call("x", id=id, on_progress=lambda params: seen.append(params["n"]))
    request = talk.hear()
    for number in range(2000):
        talk.say({"jsonrpc": "2.0", "method": "p", "params": {"t": id, "n": number, "text": "x" * padding}})
    talk.say(reply(request, {}))
    assert outcome() == {}
    assert seen == list(range(2000))
    assert not talk.peer.progress(id, {}) and not talk.peer.progress("text", {})


def test_a_call_inside_of_a_step_of_another_is_refused_at_once(talk):
    """As that of a signal handler, which has interrupted the thread that reads."""
    refused = []

    def call_inside(message):
        with pytest.raises(TransportError, match="^set a flag and call afterwards.* a call to the other side"):
            talk.peer.call("inner", timeout=60)
        refused.append(threading.get_ident())

    talk.handler.on_notification = call_inside
    outcome = talk.call("x")
    request = talk.hear()
    talk.say({"jsonrpc": "2.0", "method": "p"})
    talk.say(reply(request, {"n": 1}))
    assert outcome() == {"n": 1} and len(refused) == 1
    talk.handler.on_notification = lambda message: None
    outcome = talk.call("after")
    talk.say(reply(talk.hear(), {}))
    assert outcome() == {}


@pytest.mark.parametrize("strikes", [1, 2, 3])
def test_a_message_is_not_lost_with_the_call_whose_thread_has_read_it(talk, strikes):
    """A signal handler raises just when the message of another call was read."""
    left = ["strike"] * strikes
    receive = talk.peer._reading._receive

    def interrupted(data):
        if left and threading.current_thread() is striker:
            left.pop()
            raise KeyboardInterrupt
        receive(data)

    def call():
        for _ in range(strikes):
            with pytest.raises(KeyboardInterrupt):
                talk.peer.call("struck", timeout=60)

    talk.peer._reading._receive = interrupted
    striker = threading.Thread(target=call)
    striker.start()
    talk.hear()
    outcome = talk.call("x")
    request = talk.hear()
    while request["method"] != "x":
        request = talk.hear()
    talk.say(reply(request, {"n": 2}))
    for _ in range(strikes - 1):
        talk.hear()  # each cancel notice, and the next call
        talk.hear()
        talk.say({"jsonrpc": "2.0", "method": "p"})
    striker.join(30)
    assert outcome() == {"n": 2}


def test_a_call_that_lasts_does_not_read_for_others(talk):
    readers = []
    talk.handler.on_notification = lambda message: readers.append(threading.get_ident())
    listener = threading.Thread(target=talk.peer.call, args=("listen",), kwargs={"delivery": Delivery(lasting=True)})
    listener.start()
    lasting = talk.hear()
    for number in range(20):
        outcome = talk.call("x")
        request = talk.hear()
        talk.say({"jsonrpc": "2.0", "method": "p", "params": {"n": number}})
        talk.say(reply(request, {}))
        assert outcome() == {}
    talk.say(reply(lasting, {}))
    listener.join(30)
    assert len(readers) == 20 and listener.ident not in readers


def test_the_daemon_leaves_what_follows_the_first_message_to_the_caller(talk):
    """Before a call is made the daemon waits for messages; it has read the first when the caller begins to read."""
    readers, sent = [], threading.Event()
    talk.handler.on_notification = lambda message: readers.append(threading.current_thread().name)
    write = talk.peer.channel.write

    def slow_write(data, timeout=None):
        write(data, timeout)
        sent.wait(20)  # as a thread that is kept waiting after it has sent

    for _ in range(3):
        ready = len(readers) + 1
        sent.clear()
        talk.say({"jsonrpc": "2.0", "method": "p"})
        while len(readers) < ready:
            time.sleep(0.001)  # the daemon has read it, and reads on
        talk.peer.channel.write = slow_write
        outcome = talk.call("x")
        request = talk.hear()
        talk.peer.channel.write = write
        for _ in range(5):
            talk.say({"jsonrpc": "2.0", "method": "p"})
        while len(readers) < ready + 1:
            time.sleep(0.001)
        talk.say(reply(request, {}))
        sent.set()
        assert outcome() == {}
        assert [name for name in readers[ready:] if "reader" in name] == readers[ready:ready + 1]
        del readers[:]


def test_the_daemon_reads_a_channel_that_cannot_be_interrupted():
    class Blocking(MemoryChannel):
        interruptible = False

    left, right = MemoryChannel.pair()
    blocking = Blocking(right._inbound, right._outbound, "blocking")
    workers = Workers(1, 1, "test worker")
    peer = Peer(blocking, Recorder(), workers=workers)
    peer.start()

    def serve():
        for _ in range(3):
            request = json.loads(left.read(20))
            left.write(json.dumps(reply(request, {})).encode())

    server = threading.Thread(target=serve)
    server.start()
    assert [peer.call("x", timeout=20) for _ in range(3)] == [{}] * 3
    server.join(20)
    peer.close()
    workers.stop()


@posix_only
def test_a_call_that_cannot_be_sent_notices_the_end(monkeypatch):
    """Calls that fail at once, one after another, leave the daemon no pause in which it would read."""
    monkeypatch.setattr(reading, "_PAUSE_SECONDS", 60)
    (read_end, their_output), (their_input, write_end) = os.pipe(), os.pipe()
    recorder, workers = Recorder(), Workers(1, 1, "test worker")
    peer = Peer(PipeChannel(read_end, write_end, name="them", line_limit=1000), recorder, workers=workers)
    peer.start()
    try:
        os.close(their_input)
        with pytest.raises(ConnectionClosed):
            peer.call("x", timeout=20)
        assert not peer.closed, "it may still be heard"
        os.write(their_output, b'{"jsonrpc":"2.0","method":"last"}\n')
        os.close(their_output)
        with pytest.raises(ConnectionClosed):
            peer.call("x", timeout=20)
        assert peer.closed and recorder.notes == [("last", None)]
    finally:
        peer.close()
        workers.stop()


@every_fault
def test_the_reader_goes_on_after_a_fault(talk, monkeypatch, fault):
    seen, third = [], threading.Event()

    def notice(message):
        seen.append(message.params["n"])
        if len(seen) == 3:
            third.set()

    talk.handler.on_notification = notice
    struck = strike(monkeypatch, talk.peer._reading._channel, "read", fault)
    for number in range(3):
        talk.say({"jsonrpc": "2.0", "method": "p", "params": {"n": number}})
    assert third.wait(20) and struck.wait(20) and seen == [0, 1, 2]
