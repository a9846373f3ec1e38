"""A server whose tasks run in a queue of jobs: imported by the tests, and by the workers of Celery and RQ."""

import os

import mcplite

QUEUE = os.environ["MCPLITE_TEST_QUEUE"]
STORE = os.environ["MCPLITE_BACKEND"]

if QUEUE == "celery":
    import celery

    from mcplite.contrib.celery import CeleryTasks

    app = celery.Celery("queue_app", broker=STORE)
    app.conf.update(broker_connection_retry_on_startup=False, worker_hijack_root_logger=False, worker_prefetch_multiplier=1,
                    task_acks_late=True)
    runner = CeleryTasks(app)
else:
    import redis
    import rq

    from mcplite.contrib.rq import RQTasks

    queue = rq.Queue("tasks", connection=redis.Redis.from_url(STORE))
    runner = RQTasks(queue, "queue_app:mcp", job_timeout=3600)

mcp = mcplite.Server("queue", options=mcplite.ServerOptions(tasks=runner))


@mcp.tool
def here() -> int:
    return os.getpid()


@mcp.tool(task="optional")
def where() -> int:
    return os.getpid()


@mcp.tool(task="required")
def ask(ctx: mcplite.Context) -> str:
    ctx.task_status("about to ask")
    return ctx.elicit("Sure?").action


@mcp.tool(task="required")
def wait(ctx: mcplite.Context) -> None:
    ctx.task_status(str(os.getpid()))
    ctx.sleep(600)
