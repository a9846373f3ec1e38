"""SIGSTOP and SIGKILL for either side at random moments: each call is answered rightly or fails, and nothing is done twice."""

import os
import signal
import sys
from pathlib import Path

import pytest

from mcplite import revisions

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX only")
HERE = Path(__file__).resolve().parent
LEGACY, MODERN = revisions.NEWEST_LEGACY.name, revisions.NEWEST.name
#: What a call may end with when a process is stopped or killed.
ERRORS = {"ConnectionClosed", "TransportError", "RequestTimeout", "HTTPStatusError", "SessionLost"}


def strike_often(pair, dice, rounds):
    """Strike so many times; return all calls."""
    for _ in range(rounds):
        side = dice.choice(["server", "caller"])
        number = dice.choice([signal.SIGSTOP, signal.SIGKILL])
        assert pair.caller.goes_on(dice.randrange(1, 12))
        pair.strike(side, number, dice.uniform(0.02, 0.4))
    return pair.judge()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("transport, revision", [
    ("stdio", LEGACY), ("stdio", MODERN), ("http", "2025-03-26"), ("http", LEGACY), ("http", MODERN)])
def test_our_client_and_our_server(pair, dice, whole, transport, revision):
    calls = strike_often(pair(transport=transport, revision=revision), dice, 60 if whole else 4)
    assert {call["error"] for call in calls if "error" in call} <= ERRORS
    failed = sum("error" in call for call in calls)
    print(f"{len(calls)} calls, {failed} failed, longest {max(call['took'] for call in calls):.1f} s")


@pytest.fixture
def official():
    """``official(generation)``: the Python of an environment that tests/interop/install.sh has made."""
    home = Path(os.environ.get("MCPLITE_INTEROP") or HERE.parent.parent / ".interop")

    def official(generation):
        if not (home / generation / "installed").is_file():
            pytest.skip(f"{home / generation} is not there; tests/interop/install.sh makes it")
        return str(home / generation / "bin" / "python")

    return official


@pytest.mark.interop
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("generation", [pytest.param("mcp1", marks=pytest.mark.further), "mcp2"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_our_client_and_their_server(pair, dice, whole, official, transport, generation):
    server = [official(generation), str(HERE / "official_server.py")]
    calls = strike_often(pair(server=server, transport=transport), dice, 20 if whole else 2)
    assert {call["error"] for call in calls if "error" in call} <= ERRORS


@pytest.mark.interop
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("generation", [pytest.param("mcp1", marks=pytest.mark.further), "mcp2"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_their_client_and_our_server(pair, dice, whole, official, transport, generation):
    caller = [official(generation), str(HERE / "official_caller.py")]
    server = [sys.executable, str(HERE / "server.py")]
    strike_often(pair(server=server, caller=caller, transport=transport), dice, 20 if whole else 2)
