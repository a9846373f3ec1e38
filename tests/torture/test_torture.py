"""Each call of the system fails once, in turn: nothing hangs, what can be served is, and nothing is left.

The usual run takes a sample of the calls of each scenario. ``make torture`` takes all of them, which is what a release
needs; it sets ``MCPLITE_TORTURE``.
"""

import faulthandler
import os
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import pytest

if os.name != "posix":
    pytest.skip("POSIX only", allow_module_level=True)

from tests.support.processes import serving
from tests.torture.faults import WHOLE, Faults
from tests.torture.scenarios import SCENARIOS

HERE = Path(__file__).resolve().parent
#: Calls of each scenario that the usual run fails.
SAMPLE = 6
#: Seconds for one run of a scenario, most of which take less than one.
LIMIT = 180


@pytest.fixture(scope="module")
def url():
    with serving([sys.executable, "-m", "mcplite.server", "server.py", "--http=PORT"], HERE) as found:
        yield found + "mcp"


def run(scenario, url, number):
    """Run a scenario with one fault; return the faults, and what was wrong as a text, empty if nothing was."""
    faults, failures = Faults(number), []

    def body():
        try:
            with faults.injected():
                scenario(url)
        except BaseException:
            failures.append(traceback.format_exc())

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(LIMIT)
    if thread.is_alive():
        with tempfile.TemporaryFile("w+") as stacks:
            faulthandler.dump_traceback(stacks)
            stacks.seek(0)
            return faults, "it hangs:\n" + stacks.read()
    return faults, "\n".join(failures)


def sample(places):
    """Return the numbers of some calls: at first of different places, in even steps."""
    first = {}
    for number, place in enumerate(places, 1):
        first.setdefault(place.rpartition(":")[0], number)
    chosen = sorted(first.values())
    step = max(1, len(chosen) // SAMPLE)
    return chosen[::step][:SAMPLE]


@pytest.mark.bad_wire
@pytest.mark.usefixtures("collects_new_objects_only")
@pytest.mark.timeout(0 if WHOLE else 600)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_each_call_that_fails_is_survived(scenario, url, record_property):
    scenario(url)  # what is imported and cached on first use
    counted, wrong = run(scenario, url, 0)
    assert not wrong and counted.count > 5, wrong
    numbers = range(1, counted.count + 1) if WHOLE else sample(counted.places)
    problems, struck = [], set()
    for number in numbers:
        faults, wrong = run(scenario, url, number)
        if faults.struck is not None:
            struck.add(faults.struck)
        if wrong:
            problems.append(f"=== call {number} failed, {faults.struck}:\n{wrong}")
            if "it hangs" in wrong:
                break  # its threads and patches are in the way of all others
    record_property("faults", len(numbers))
    print(f"\n{scenario.__name__}: {len(numbers)} faults at {len(struck)} places, {len(problems)} problems")
    assert not problems, f"{len(problems)} of {len(numbers)}:\n" + "\n".join(problems)
