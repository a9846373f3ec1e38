import os

import pytest

import mcplite
from mcplite.contrib.celery import CeleryTasks
from mcplite.errors import RegistrationError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers that fork")


def test_the_backend_must_be_shared():
    with pytest.raises(RegistrationError, match="backend"):
        mcplite.Server("x",
                       options=mcplite.ServerOptions(tasks=CeleryTasks(None))).add_tool(lambda: None, name="t", task="optional")


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_tasks_run_in_the_workers_of_celery():
    pytest.importorskip("celery")
    pytest.importorskip("redis")
    from tests.support.queues import check_a_death, check_a_queue, working

    with working("celery", ["-m", "celery", "-A", "queue_app", "worker", "--pool=prefork", "--concurrency=1",
                            "--without-mingle", "--without-gossip", "--without-heartbeat"]) as (url, said):
        check_a_queue(url, said)
        check_a_death(url, said)
