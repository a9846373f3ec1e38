import os

import pytest

import mcplite
from mcplite.contrib.rq import RQTasks
from mcplite.errors import RegistrationError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers that fork")


def test_the_backend_must_be_shared():
    with pytest.raises(RegistrationError, match="backend"):
        mcplite.Server("x", options=mcplite.ServerOptions(tasks=RQTasks(None, "a:b"))).add_tool(lambda: None, name="t",
                                                                                                task="optional")


@pytest.mark.parametrize("wrong", ["", "module", ":name", "module:"])
def test_the_place_of_the_server(wrong):
    with pytest.raises(RegistrationError, match="module:name"):
        RQTasks(None, wrong)


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_tasks_run_in_the_workers_of_rq():
    pytest.importorskip("rq")
    from tests.support.queues import check_a_death, check_a_queue, working

    with working("rq", ["-m", "rq.cli", "worker", "--url", "REDIS", "tasks"]) as (url, said):
        check_a_queue(url, said)
        check_a_death(url, said)
