"""A Celery application whose tasks use clients of the module, which were opened before the workers were forked."""

import os
import sys
from pathlib import Path

import celery

import mcplite

FOLDER = Path(os.environ["QUEUE"])
app = celery.Celery("tasks", broker="filesystem://", backend=f"file://{FOLDER / 'results'}")
app.conf.update(
    broker_transport_options={"data_folder_in": str(FOLDER / "queue"), "data_folder_out": str(FOLDER / "queue"),
                              "control_folder": str(FOLDER / "control")},
    broker_connection_retry_on_startup=False, worker_hijack_root_logger=False, task_ignore_result=False)

if "worker" in sys.argv:
    far = mcplite.connect(os.environ["FAR"], timeout=60).open()
    near = mcplite.connect([sys.executable, os.environ["NEAR"]], env=dict(os.environ)).open()
    far.call_tool("echo", {"text": "before the fork"})


@app.task
def use(number):
    said = f"{os.getpid()} {number}"
    return os.getpid(), far.call_tool("echo", {"text": said}).text == said


@app.task
def use_command():
    try:
        near.call_tool("echo", {"text": "x"})
    except mcplite.errors.ConnectionClosed as error:
        return str(error)
