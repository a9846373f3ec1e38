import logging
import sys
import threading

import pytest

import mcplite
from mcplite.errors import ConnectionClosed
from mcplite.revisions import NEWEST
from tests.support.children import wait_until
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal


@pytest.mark.parametrize("answer", [{}, Refusal(-32601, "Method not found"), Refusal(-32603, "broken")])
def test_an_idle_server_is_pinged_again_and_again_and_an_error_shows_that_it_is_alive(answer):
    with Fake({"ping": answer}) as fake, fake.connect(ping_interval=0.02) as client:
        fake.got("ping", count=3)  # PING-04
        assert client.state == "open"


def test_silence_closes_the_connection(caplog):
    notified, errors = threading.Event(), []
    with Fake({"ping": lambda params: SILENCE, "slow": lambda params: SILENCE}) as fake:
        client = fake.connect(ping_interval=0.05, ping_timeout=0.2,
                              on_disconnect=lambda error: (errors.append(error), notified.set())).open()
        with pytest.raises(ConnectionClosed, match="did not answer a ping within 0.2 s"):
            client.request("slow")  # PING-08
        assert notified.wait(LIMIT)
        assert client.state == "closed" and client.last_error is errors[0]
        with pytest.raises(ConnectionClosed, match="ping"):
            client.ping()
        client.close()
    assert [record for record in caplog.records if "ping" in record.getMessage() and record.levelno == logging.WARNING]


@pytest.mark.slow
def test_other_traffic_replaces_pings():
    stop = threading.Event()

    def chatter():
        while not stop.wait(0.01):
            fake.tell("notifications/message", {"level": "info", "data": 1})

    with Fake() as fake, fake.connect(ping_interval=2) as client:
        talker = threading.Thread(target=chatter, daemon=True)
        talker.start()
        seen = client.counters.messages_received
        with pytest.raises(mcplite.RequestTimeout):
            fake.answers["slow"] = lambda params: SILENCE
            client.request("slow", timeout=3)
        stop.set()
        talker.join(LIMIT)
        assert client.counters.messages_received > seen
        assert "ping" not in fake.methods()  # PING-07


def test_another_cause_of_the_end_is_kept():
    notified = threading.Event()
    with Fake() as fake:
        client = fake.connect(ping_interval=0.05, on_disconnect=lambda error: notified.set()).open()
        fake.leave()
        assert notified.wait(LIMIT)
        for thread in threading.enumerate():
            if thread.name == "mcplite keep-alive":
                thread.join(LIMIT)
        assert "ping" not in str(client.last_error)
        client.close()


#: A server whose first process ends at its first ping; the others note what they are asked.
MORTAL = '''
import json, os, sys

first = not os.path.exists(sys.argv[1])
result = {"resultType": "complete", "supportedVersions": [sys.argv[2]], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}
for number, line in enumerate(sys.stdin):
    with open(sys.argv[1], "a") as file:
        file.write("" if first else json.loads(line)["method"] + "\\n")
    if first and number:
        os._exit(3)
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": result}), flush=True)
'''


def test_a_process_that_is_started_again_is_pinged_as_well(tmp_path):
    (tmp_path / "mortal.py").write_text(MORTAL)
    asked = tmp_path / "asked"
    with mcplite.connect([sys.executable, str(tmp_path / "mortal.py"), str(asked), NEWEST.name], revision=NEWEST,
                         options=mcplite.ClientOptions(ping_interval=0.02)):
        assert wait_until(lambda: asked.exists() and asked.read_text().split()[:3] == ["server/discover"] * 3)
